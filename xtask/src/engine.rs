// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The container engine of this machine, spoken to by its command line. It uses an engine that runs; bringing one up
//! is [`bring`]'s business, on demand only.

pub(crate) mod bring;

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::machine;
use crate::sh::Step;

/// What mends a missing engine.
pub(crate) const MEND: &str = "cargo xtask setup --engine";

/// A running engine.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    /// Its version, as it says itself.
    pub(crate) version: String,
}

/// An image that the engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// `sha256:…` of what it was pulled as, else of the image itself.
    pub(crate) digest: String,
}

impl Engine {
    /// The engine that answers, or why there is none and the command that mends it.
    pub(crate) fn running() -> Result<Self> {
        if machine::on_path("docker").is_none() {
            bail!("no `docker` on PATH; it comes with: {MEND}");
        }
        let said = docker(["info", "--format", "{{.ServerVersion}}"])
            .read()
            .with_context(|| format!("no container engine answers; start it, or run: {MEND}"))?;
        let version = said.trim();
        // With no daemon some clients print an empty line and end well.
        if version.is_empty() {
            bail!("no container engine answers; start it, or run: {MEND}");
        }
        Ok(Self { version: version.to_owned() })
    }

    /// The image called `reference`, if the engine has it.
    pub(crate) fn image(&self, reference: &str) -> Result<Option<Held>> {
        #[derive(Deserialize)]
        struct Inspected {
            #[serde(rename = "Id")]
            id: String,
            #[serde(rename = "RepoDigests")]
            digests: Option<Vec<String>>,
        }
        let listed = docker(["image", "ls", "--quiet", "--no-trunc", reference]).read()?;
        if listed.trim().is_empty() {
            return Ok(None);
        }
        let said = docker(["image", "inspect", reference]).read()?;
        let found: Vec<Inspected> =
            serde_json::from_str(&said).context("read what `docker image inspect` said")?;
        let Some(image) = found.into_iter().next() else { return Ok(None) };
        let pulled = image.digests.unwrap_or_default().into_iter().next();
        let digest = pulled.and_then(|name| name.split_once('@').map(|(_, digest)| digest.to_owned()));
        Ok(Some(Held { digest: digest.unwrap_or(image.id) }))
    }

    /// Pulls `reference`; the error is the registry's, or the network's.
    pub(crate) fn pull(&self, reference: &str) -> Result<()> {
        docker(["pull", "--quiet", reference]).read().map(drop)
    }

    /// Takes in an archive.
    pub(crate) fn load(&self, archive: &Path) -> Result<()> {
        docker(["load", "--quiet", "--input"]).arg(archive).read().map(drop)
    }

    /// Runs a program in a running container and returns what it printed.
    pub(crate) fn exec(&self, container: &str, command: &[&str]) -> Result<String> {
        docker(["exec", container]).args(command).read()
    }

    /// Gives a program in a running container a text to read, and says so.
    pub(crate) fn feed(&self, container: &str, command: &[&str], input: &Path) -> Result<()> {
        let file = std::fs::File::open(input).with_context(|| format!("open {}", input.display()))?;
        docker(["exec", "--interactive", container]).args(command).feed(Stdio::from(file))
    }

    /// The state of a container (`running`, `paused`, `exited`), if there is one of this name.
    pub(crate) fn container(&self, name: &str) -> Result<Option<String>> {
        let filter = format!("name=^/?{name}$");
        let said = docker(["ps", "--all", "--filter", &filter, "--format", "{{.State}}"]).read()?;
        Ok(said.lines().next().map(str::to_owned))
    }
}

/// A call of the engine's command line.
pub(crate) fn docker<const N: usize>(args: [&str; N]) -> Step {
    Step::new("docker").args(args).mend(MEND)
}
