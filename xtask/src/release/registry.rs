// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The registry as a cut needs it, by the pinned `oras`: pushes by digest, which gives nothing a name, and a tag that is
//! given later. Whoever logged in with `docker login` is logged in here; no password passes through this module.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::image::{Digest, Layout};
use crate::sh::Step;

/// A repository of a registry.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    /// Without a tag.
    pub(crate) repository: String,
    oras: PathBuf,
    env: Vec<(String, OsString)>,
}

impl Registry {
    /// `oras` is the program; `env` is set for it on top of what we have.
    pub(crate) fn new(repository: &str, oras: PathBuf, env: Vec<(String, OsString)>) -> Self {
        Self { repository: repository.to_owned(), oras, env }
    }

    fn oras(&self) -> Step {
        self.env.iter().fold(Step::new(&self.oras), |step, (name, value)| step.env(name, value))
    }

    /// The reference of something by digest.
    pub(crate) fn by_digest(&self, digest: &Digest) -> String {
        format!("{}@{digest}", self.repository)
    }

    /// What a tag names; none where there is no such tag.
    pub(crate) fn tagged(&self, tag: &str) -> Result<Option<Digest>> {
        self.resolve(&format!("{}:{tag}", self.repository))
    }

    /// Whether something is there.
    pub(crate) fn has(&self, digest: &Digest) -> Result<bool> {
        Ok(self.resolve(&self.by_digest(digest))?.is_some())
    }

    fn resolve(&self, reference: &str) -> Result<Option<Digest>> {
        match self.oras().args(["resolve", reference]).read() {
            Ok(said) => Digest::parse(said.trim()).map(Some),
            // What it says of a tag, a manifest and a whole repository that are not there.
            Err(error) if format!("{error:#}").trim_end().ends_with(": not found") => Ok(None),
            Err(error) => Err(error).with_context(|| {
                let host = self.repository.split('/').next().unwrap_or_default();
                format!("look for {reference} in its registry; look at the network, and log in: docker login {host}")
            }),
        }
    }

    /// Pushes the image of a layout and all that is attached to it, by digest. What is there already is not sent again.
    pub(crate) fn push(&self, layout: &Layout) -> Result<()> {
        // Each by itself: what is attached to the image of one architecture is not found from the index.
        for one in layout.list()?.manifests {
            let to = self.by_digest(&one.digest);
            self.oras()
                .args(["cp", "--no-tty", "--from-oci-layout"])
                .arg(format!("{}@{}", layout.path.display(), one.digest))
                .arg(&to)
                .watch(&format!("pushing {to}"))
                .with_context(|| format!("push {to}"))?;
            if !self.has(&one.digest)? {
                bail!("{to} was pushed, and the registry has not got it");
            }
        }
        Ok(())
    }

    /// Gives a name to what is there.
    pub(crate) fn tag(&self, digest: &Digest, tag: &str) -> Result<()> {
        let what = || format!("tag {} as {tag}", self.by_digest(digest));
        self.oras().args(["tag", &self.by_digest(digest), tag]).read().map(drop).with_context(what)
    }

    /// Fetches an image of all architectures into a new layout.
    pub(crate) fn pull(&self, digest: &Digest, to: &Path) -> Result<Layout> {
        let reference = self.by_digest(digest);
        self.oras()
            .args(["cp", "--no-tty", "--to-oci-layout", &reference])
            .arg(format!("{}:pulled", to.display()))
            .read()
            .with_context(|| format!("pull {reference}"))?;
        Layout::open(to)
    }
}
