// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The next development versions: a commit on each branch of the remote that still says the version of this release. Made
//! beside the work tree, on whatever the branch has come to meanwhile.

use anyhow::{Context, Result};

use super::super::component::MAIN;
use super::super::git::Swap;
use super::super::manifest;
use super::super::policy::Line;
use super::super::version::Version;
use super::{Cut, State};

/// A branch that has to be moved on.
struct Behind {
    name: String,
    tip: String,
    next: Version,
}

pub(super) fn look(cut: &Cut) -> Result<State> {
    // Before the commit is out there is nothing to look at.
    let out = cut.git.remote_tag(&cut.remote, &cut.tag())?.is_some();
    let behind = if out { behind(cut)? } else { Vec::new() };
    let wish = |next: Version, name: &str| format!("{next} on {}", name.trim_start_matches("refs/heads/"));
    Ok(if !out {
        let all: Vec<String> = wanted(cut).iter().map(|(name, next)| wish(*next, name)).collect();
        State::Todo(format!("push {}", all.join(", ")))
    } else if behind.is_empty() {
        State::Done("the branches work on the next versions".into())
    } else {
        let all: Vec<String> = behind.iter().map(|one| wish(one.next, &one.name)).collect();
        State::Todo(format!("push {}", all.join(", ")))
    })
}

pub(super) fn act(cut: &Cut) -> Result<()> {
    let mut swaps = Vec::new();
    for Behind { name, tip, next } in behind(cut)? {
        let files = manifest::with_version(next, |path| cut.git.file(&tip, path))?;
        let commit = cut.git.graft(&tip, &files, &format!("release: work on {next}"))?;
        swaps.push(Swap { name, from: Some(tip), to: Some(commit) });
    }
    cut.git.swap(&cut.remote, &swaps).context(
        "the remote refused, and took nothing. If a branch is protected: set its next version by a pull request",
    )
}

fn wanted(cut: &Cut) -> Vec<(String, Version)> {
    let mut all = vec![(format!("refs/heads/{}", cut.branch()), cut.version.next_patch())];
    if cut.line == Line::Main {
        all.push((format!("refs/heads/{MAIN}"), cut.version.next_minor()));
    }
    all
}

fn behind(cut: &Cut) -> Result<Vec<Behind>> {
    let mut all = Vec::new();
    for (name, next) in wanted(cut) {
        let tip = cut.git.fetch(&cut.remote, &name)?;
        let tip = tip.with_context(|| format!("{} has no {name}", cut.remote))?;
        // Somebody may have set another one by hand: whatever is newer than the release is a next version.
        if manifest::of(&cut.git.file(&tip, manifest::FILES[0])?)? <= cut.version {
            all.push(Behind { name, tip, next });
        }
    }
    Ok(all)
}
