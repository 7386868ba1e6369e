// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a release asks of git: a clone's state, and objects and refs that are made without touching the work tree. Every
//! write to a remote is a compare-and-swap. Knows nothing of versions and branches' meaning.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::sh::Step;

/// A clone.
#[derive(Clone)]
pub(crate) struct Git {
    dir: PathBuf,
    /// Set for every run: settings that must not stand on a command line.
    env: Vec<(String, String)>,
}

impl std::fmt::Debug for Git {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The settings may hold a token.
        out.debug_struct("Git").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// One ref of a remote that is to be changed, and only if it is what we think.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Swap {
    /// Full name, `refs/heads/main`.
    pub(crate) name: String,
    /// What it has to be now; none: it must not be there.
    pub(crate) from: Option<String>,
    /// What it shall be; none: gone.
    pub(crate) to: Option<String>,
}

impl Git {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), env: Vec::new() }
    }

    /// The same with settings of git's own that stand in no file and on no command line, such as a token's header.
    pub(crate) fn with(mut self, settings: &[(&str, String)]) -> Self {
        self.env.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string()));
        for (number, (name, value)) in settings.iter().enumerate() {
            self.env.push((format!("GIT_CONFIG_KEY_{number}"), (*name).to_owned()));
            self.env.push((format!("GIT_CONFIG_VALUE_{number}"), value.clone()));
        }
        self
    }

    fn step(&self) -> Step {
        // No question may wait for an answer that nobody gives.
        let step = Step::new("git").arg("-C").arg(&self.dir).mend("apt-get install -y git");
        self.env
            .iter()
            .fold(step.env("GIT_TERMINAL_PROMPT", "0"), |step, (name, value)| step.env(name, value))
    }

    /// Runs git and returns what it said, without blanks at the ends.
    pub(crate) fn ask<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Result<String> {
        Ok(self.step().args(args).read()?.trim().to_owned())
    }

    /// The commit that is checked out.
    pub(crate) fn head(&self) -> Result<String> {
        self.commit("HEAD")
    }

    /// The commit that `what` means.
    pub(crate) fn commit(&self, what: &str) -> Result<String> {
        self.ask(["rev-parse", "--verify", "--quiet", &format!("{what}^{{commit}}")])
            .with_context(|| format!("find the commit {what}"))
    }

    /// The branch that is checked out.
    pub(crate) fn branch(&self) -> Result<String> {
        self.ask(["symbolic-ref", "--quiet", "--short", "HEAD"])
            .context("no branch is checked out; check one out: git switch BRANCH")
    }

    /// Changed and unknown files, as `git status --porcelain` lists them.
    pub(crate) fn changes(&self) -> Result<Vec<String>> {
        Ok(self.step().args(["status", "--porcelain"]).read()?.lines().map(str::to_owned).collect())
    }

    /// All tags of this clone.
    pub(crate) fn tags(&self) -> Result<Vec<String>> {
        Ok(self.ask(["tag", "--list"])?.lines().map(str::to_owned).collect())
    }

    /// Whether `old` is `new` or an ancestor of it.
    pub(crate) fn is_ancestor(&self, old: &str, new: &str) -> Result<bool> {
        let count = self.ask(["rev-list", "--count", old, &format!("^{new}")]);
        Ok(count.with_context(|| format!("compare {old} and {new}"))? == "0")
    }

    /// Seconds since 1970 at which a commit was made.
    pub(crate) fn time(&self, commit: &str) -> Result<u64> {
        let text = self.ask(["log", "-1", "--format=%ct", commit])?;
        text.parse().with_context(|| format!("the time {text:?} of {commit}"))
    }

    /// A file of a commit.
    pub(crate) fn file(&self, commit: &str, path: &str) -> Result<String> {
        self.step().args(["show", &format!("{commit}:{path}")]).read()
    }

    /// Stages these files and commits them.
    pub(crate) fn record(&self, paths: &[&str], message: &str) -> Result<()> {
        self.ask(["add", "--"].into_iter().chain(paths.iter().copied()))?;
        self.ask(["commit", "--quiet", "--message", message])?;
        Ok(())
    }

    /// A commit on `parent` that differs from it in these files, made beside the work tree. Returns its name.
    pub(crate) fn graft(&self, parent: &str, files: &[(&str, String)], message: &str) -> Result<String> {
        let work = tempfile::tempdir().context("make a folder for an index")?;
        let index = work.path().join("index");
        let with = |args: &[&str]| -> Result<String> {
            Ok(self.step().args(args).env("GIT_INDEX_FILE", &index).read()?.trim().to_owned())
        };
        with(&["read-tree", parent])?;
        for (path, text) in files {
            let file = work.path().join("file");
            std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
            let file = file.to_str().context("a temporary folder has an odd name")?;
            let blob = with(&["hash-object", "-w", "--no-filters", file])?;
            with(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{path}")])?;
        }
        let tree = with(&["write-tree"])?;
        with(&["commit-tree", &tree, "-p", parent, "-m", message])
    }

    /// A commit of nothing, with a message: what a ref can point to that is no branch.
    pub(crate) fn note(&self, message: &str) -> Result<String> {
        let tree = self.ask(["mktree"])?;
        self.ask(["commit-tree", &tree, "-m", message])
    }

    /// An annotated tag of this clone on `commit`; the one that is there, if it is on that commit.
    pub(crate) fn tag(&self, name: &str, commit: &str, message: &str) -> Result<String> {
        let full = format!("refs/tags/{name}");
        if self.ask(["for-each-ref", "--format=%(objecttype)", &full])?.is_empty() {
            self.ask(["tag", "--annotate", "--message", message, name, commit])?;
        }
        let (kind, is) = (self.ask(["cat-file", "-t", &full])?, self.commit(&full)?);
        if kind != "tag" {
            bail!("tag {name} of this clone is not annotated; remove it: git tag -d {name}");
        }
        if is != commit {
            bail!(
                "tag {name} of this clone is on {is}, not on {commit}; remove it if it is wrong: git tag -d {name}"
            );
        }
        self.ask(["rev-parse", &full])
    }

    /// Object that a ref of the remote names, if it has the ref.
    pub(crate) fn remote(&self, remote: &str, name: &str) -> Result<Option<String>> {
        let said = self.ask(["ls-remote", remote, name]).with_context(|| reach(remote))?;
        let found = said.lines().filter_map(|line| line.split_once('\t')).find(|(_, full)| *full == name);
        Ok(found.map(|(object, _)| object.to_owned()))
    }

    /// The commit that a tag of the remote is on, annotated or not.
    pub(crate) fn remote_tag(&self, remote: &str, tag: &str) -> Result<Option<String>> {
        let (plain, peeled) = (format!("refs/tags/{tag}"), format!("refs/tags/{tag}^{{}}"));
        let said = self.ask(["ls-remote", remote, &plain, &peeled]).with_context(|| reach(remote))?;
        let of = |name: &str| {
            said.lines().filter_map(|line| line.split_once('\t')).find(|(_, full)| *full == name)
        };
        Ok(of(&peeled).or_else(|| of(&plain)).map(|(object, _)| object.to_owned()))
    }

    /// All tags of the remote.
    pub(crate) fn remote_tags(&self, remote: &str) -> Result<Vec<String>> {
        let said = self.ask(["ls-remote", "--tags", "--refs", remote]).with_context(|| reach(remote))?;
        let names = said.lines().filter_map(|line| line.split_once("\trefs/tags/"));
        Ok(names.map(|(_, name)| name.to_owned()).collect())
    }

    /// Brings the object that a ref of the remote names into this clone, without a name here.
    pub(crate) fn fetch(&self, remote: &str, name: &str) -> Result<Option<String>> {
        let Some(object) = self.remote(remote, name)? else { return Ok(None) };
        self.ask(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", remote, name])
            .with_context(|| format!("fetch {name} from {remote}"))?;
        self.ask(["cat-file", "-e", &object])
            .with_context(|| format!("{name} of {remote} changed while it was fetched; run it again"))?;
        Ok(Some(object))
    }

    /// Changes refs of the remote: all of them, or none.
    ///
    /// # Errors
    /// The remote cannot be reached, refuses, or one of the refs is not what it was.
    pub(crate) fn swap(&self, remote: &str, swaps: &[Swap]) -> Result<()> {
        let mut step = self.step().args(["push", "--porcelain", "--atomic", "--no-verify"]);
        for swap in swaps {
            let from = swap.from.as_deref().unwrap_or("");
            step = step.arg(format!("--force-with-lease={}:{from}", swap.name));
        }
        step = step.arg(remote);
        for swap in swaps {
            step = step.arg(format!("{}:{}", swap.to.as_deref().unwrap_or(""), swap.name));
        }
        let names: Vec<&str> = swaps.iter().map(|swap| swap.name.as_str()).collect();
        step.read().map(drop).with_context(|| format!("push {} to {remote}", names.join(", ")))
    }
}

fn reach(remote: &str) -> String {
    format!("reach the remote {remote}; look with: git ls-remote {remote}")
}
