// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Commit, branch and tag at the remote, in one push that does all or nothing. A tag that is there is never moved, and a
//! branch only forward.

use anyhow::{Context, Result, bail};

use super::super::component::MAIN;
use super::super::git::Swap;
use super::super::policy::Line;
use super::{Cut, State};

pub(super) fn look(cut: &Cut) -> Result<State> {
    let missing = missing(cut, false)?;
    if missing.is_empty() {
        return Ok(State::Done(format!("{} and tag {} are at {}", cut.branch(), cut.tag(), cut.remote)));
    }
    let names: Vec<&str> = missing.iter().map(|swap| swap.name.as_str()).collect();
    Ok(State::Todo(format!("push {} to {}", names.join(", "), cut.remote)))
}

pub(super) fn act(cut: &Cut) -> Result<()> {
    cut.git.swap(&cut.remote, &missing(cut, true)?).context(
        "the remote refused, and took nothing. If the branch is protected: bring the commit in by a pull request, without squashing it",
    )
}

/// What has to change at the remote. Only with `make` is the tag made in this clone; without, a place is held for it.
fn missing(cut: &Cut, make: bool) -> Result<Vec<Swap>> {
    let mut swaps = Vec::new();
    if cut.line == Line::Main {
        swaps.extend(forward(cut, &format!("refs/heads/{MAIN}"), false)?);
    }
    swaps.extend(forward(cut, &format!("refs/heads/{}", cut.branch()), cut.line == Line::Main)?);

    let tag = cut.tag();
    if let Ok(is) = cut.git.commit(&format!("refs/tags/{tag}"))
        && is != cut.commit
    {
        bail!(
            "tag {tag} of this clone is on {is}, and the release is {}; if it was never pushed, remove it: git tag -d {tag}",
            cut.commit
        );
    }
    match cut.git.remote_tag(&cut.remote, &tag)? {
        Some(is) if is == cut.commit => {}
        Some(is) => bail!(
            "tag {tag} of {} is on {is}, and the release is {}; a tag that is out is never moved: release the next version",
            cut.remote,
            cut.commit
        ),
        None => {
            let to = if make {
                cut.git.tag(&tag, &cut.commit, &format!("Release {tag}"))?
            } else {
                cut.commit.clone()
            };
            swaps.push(Swap { name: format!("refs/tags/{tag}"), from: None, to: Some(to) });
        }
    }
    Ok(swaps)
}

/// The change that brings the commit into a branch of the remote; none if it is there.
fn forward(cut: &Cut, name: &str, may_be_new: bool) -> Result<Option<Swap>> {
    let from = cut.git.fetch(&cut.remote, name)?;
    match &from {
        None if !may_be_new => bail!("{} has no {name}", cut.remote),
        None => {}
        Some(is) if cut.git.is_ancestor(&cut.commit, is)? => return Ok(None),
        Some(is) if cut.git.is_ancestor(is, &cut.commit)? => {}
        Some(is) if may_be_new => {
            bail!(
                "{name} of {} is there with other content: {is} does not lead to {}",
                cut.remote,
                cut.commit
            )
        }
        Some(is) => bail!(
            "{name} of {} moved on to {is}; bring the release's commit up to date, and build it anew: git pull --rebase {} {}, cargo xtask release build",
            cut.remote,
            cut.remote,
            name.trim_start_matches("refs/heads/")
        ),
    }
    Ok(Some(Swap { name: name.to_owned(), from, to: Some(cut.commit.clone()) }))
}
