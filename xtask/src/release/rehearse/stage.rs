// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Everything that a rehearsal stands on: the scratch remote and clone, the registry behind its wire, the double of
//! GitHub, the key, and how a verb is started on them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::registry::Registry;
use super::wire::Wire;
use super::{Clock, Options};
use crate::release::component::{self, Component, MAIN};
use crate::release::double::Double;
use crate::release::git::Git;
use crate::release::{changelog, manifest};
use crate::sh::Step;
use crate::tools::Tool;

const TOKEN: &str = "rehearsal-token";

/// The stage.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) folder: PathBuf,
    /// The maintainer's clone.
    pub(super) clone: PathBuf,
    pub(super) target: PathBuf,
    pub(super) planted: bool,
    pub(super) github: Double,
    pub(super) wire: Wire,
    pub(super) cosign: PathBuf,
    pub(super) oras: PathBuf,
    key: PathBuf,
    login: PathBuf,
    registry: Registry,
}

impl Stage {
    pub(super) fn set(options: &Options<'_>, clock: &Clock) -> Result<Self> {
        let Options { root, folder, target, planted } = *options;
        std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        let (oras, cosign) = (Tool::Oras.ensure()?, Tool::Cosign.ensure()?);
        let registry = Registry::start(&folder.join("registry"))?;
        let wire = Wire::to(registry.port)?;
        let host = format!("127.0.0.1:{}", wire.port);
        let login = registry.login(&host)?;
        clock.say(&format!("a registry with TLS and login runs at {host}"));
        let clone = folder.join("clone");
        let component = scratch(root, folder, &clone, &host)?;
        clock.say(&format!("a scratch remote and a clone of {} are made", Git::new(root).head()?));
        let github = Double::start(component.slug()?, TOKEN)?;
        clock.say(&format!("a double of GitHub's API answers at {}", github.url()));
        let stage = Self {
            folder: folder.to_owned(),
            clone,
            target: target.to_owned(),
            planted,
            github,
            wire,
            cosign,
            oras,
            key: folder.join("key/cosign.key"),
            login,
            registry,
        };
        stage.make_key("key")?;
        clock.say("cosign made a key; signatures go to no public log");
        Ok(stage)
    }

    /// A pair of keys in a folder of its own; gives the public one.
    pub(super) fn make_key(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        let public = folder.join("cosign.pub");
        if !public.is_file() {
            std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
            self.with_env(Step::new(&self.cosign)).arg("generate-key-pair").dir(&folder).read()?;
        }
        Ok(public)
    }

    pub(super) fn git(&self) -> Git {
        Git::new(&self.clone)
    }

    pub(super) fn component(&self) -> Result<Component> {
        Component::read(&self.clone)
    }

    /// The verb `release` as a process of its own, in the clone.
    pub(super) fn release(&self, words: &[&str]) -> Result<Step> {
        self.verb(&[&["release"], words].concat())
    }

    /// A verb as a process of its own, in the clone.
    pub(super) fn verb(&self, words: &[&str]) -> Result<Step> {
        let own = std::env::current_exe().context("find this program")?;
        let step = Step::new(own)
            .args(words)
            .dir(&self.clone)
            // How a verb knows where the clone is.
            .env("CARGO_MANIFEST_DIR", self.clone.join("xtask"))
            .env("CARGO_TARGET_DIR", &self.target)
            .env("GITHUB_API_URL", self.github.url())
            .env("GITHUB_TOKEN", TOKEN)
            // Nobody's run of hosted CI, even when this one is.
            .env("GITHUB_RUN_ID", "")
            .env("GITHUB_WORKFLOW_REF", "")
            .env("GITHUB_ACTOR", "")
            .env("REGISTRY_PASSWORD", "");
        Ok(self.with_env(step))
    }

    /// A cut with the words that every cut here has.
    pub(super) fn cut(&self, words: &[&str]) -> Result<Step> {
        let key = self.key.to_str().context("the folder of the rehearsal has an odd name")?;
        self.release(&[&["cut", "--rehearsal", "--key", key], words].concat())
    }

    fn with_env(&self, step: Step) -> Step {
        self.env().into_iter().fold(step, |step, (name, value)| step.env(&name, value))
    }

    /// What programs need to trust the registry and to be let in, and the password of the key.
    pub(super) fn env(&self) -> Vec<(String, OsString)> {
        vec![
            ("DOCKER_CONFIG".into(), self.login.clone().into()),
            ("SSL_CERT_FILE".into(), self.registry.ca.clone().into()),
            ("COSIGN_PASSWORD".into(), "rehearsal".into()),
        ]
    }

    /// The same for somebody who is not logged in.
    pub(super) fn strangers_env(&self) -> Vec<(String, OsString)> {
        let mut env = self.env();
        env[0].1 = self.folder.join("nobody").into();
        env
    }

    /// What was done against something else than it will be.
    pub(super) fn standing_in(&self) -> Vec<&'static str> {
        let mut lines = vec![
            "for real: git and its pushes; the registry's protocol with TLS and login, pushes, tags and pulls by digest;",
            "          signatures, attestations and their verification; descriptor, archive and sums; kills and continuation",
            "stood in: GitHub's API by a double; the remote by a folder; the signing identity by a local key, so nothing",
            "          went to a public log; the end-to-end report and the other reports were planted",
        ];
        if self.planted {
            lines.push(
                "          the image by a planted one of a shell script; without --planted it is the real one",
            );
        }
        lines
    }
}

/// A bare remote and a clone of what is committed here, whose images go to `host`.
fn scratch(root: &Path, folder: &Path, clone: &Path, host: &str) -> Result<Component> {
    let to = clone.to_str().context("the folder of the rehearsal has an odd name")?;
    let from = root.to_str().context("the clone has an odd name")?;
    Git::new(root)
        .ask(["clone", "--quiet", "--no-tags", "--no-local", from, to])
        .context("clone what is committed here")?;
    let bare = format!("--initial-branch={MAIN}");
    Git::new(folder).ask(["init", "--quiet", "--bare", &bare, "remote.git"])?;
    let git = Git::new(clone);
    git.ask(["switch", "--quiet", "--force-create", MAIN])?;
    for (key, value) in [
        ("user.name", "Rehearsal"),
        ("user.email", "rehearsal@localhost"),
        ("commit.gpgsign", "false"),
        ("tag.gpgsign", "false"),
    ] {
        git.ask(["config", key, value])?;
    }
    git.ask(["remote", "set-url", "origin", &folder.join("remote.git").display().to_string()])?;
    let file = clone.join(component::PATH);
    let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let releases = Component::read(clone)?.repositories.releases;
    let (from, to) = (format!("releases: {releases}"), format!("releases: {host}/releases"));
    if text.matches(&from).count() != 1 {
        bail!("{}: {from} has to stand there once", component::PATH);
    }
    std::fs::write(&file, text.replace(&from, &to)).with_context(|| format!("write {}", file.display()))?;
    begin(clone)?;
    git.ask(["commit", "--quiet", "--all", "--message", "rehearsal: images go to this machine"])?;
    git.ask(["push", "--quiet", "origin", MAIN])?;
    Component::read(clone)
}

/// Sets version and changelog to where a rehearsal begins, whatever this tree has come to.
fn begin(clone: &Path) -> Result<()> {
    let version = "0.1.0-dev".parse()?;
    let mut files = manifest::with_version(version, |path| {
        let path = clone.join(path);
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    })?;
    let text = "# Changelog\n\n## [Unreleased]\n\n### Added\n- what the rehearsal's minor release brings\n";
    files.push((changelog::PATH, text.to_owned()));
    for (path, text) in files {
        let path = clone.join(path);
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
