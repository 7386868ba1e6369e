// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The lock on the remote: a ref that is made only where there is none, and names who holds it. It outlives the process on
//! purpose; the same clone, or the same run of hosted CI, goes on under it.

use anyhow::{Context, Result, bail};

use super::super::git::Swap;
use super::{Cut, State};

/// Outside branches and tags: nobody fetches it, and no rule about branches is in its way.
const REF: &str = "refs/release/lock";

/// Whose the lock is.
enum Held {
    Free,
    Ours(String),
    Other { object: String, says: String },
}

pub(super) fn look(cut: &Cut) -> Result<State> {
    Ok(match held(cut)? {
        Held::Free => State::Todo(format!("lock {} at {}", cut.tag(), cut.remote)),
        Held::Ours(_) => State::Done("the lock is ours".into()),
        Held::Other { object, .. } if taken_over(cut, &object) => {
            State::Todo(format!("take the lock {} over", short(&object)))
        }
        Held::Other { object, says } => bail!(
            "another cut holds the lock of {}: {}; wait for it. If it is dead and cannot be continued where it ran: {} --take-over {}",
            cut.remote,
            says.split_whitespace().collect::<Vec<_>>().join(" "),
            super::CONTINUE,
            short(&object)
        ),
    })
}

pub(super) fn act(cut: &Cut) -> Result<()> {
    let from = match held(cut)? {
        Held::Free => None,
        Held::Ours(_) => return Ok(()),
        Held::Other { object, .. } => Some(object),
    };
    let note = cut.git.note(&format!("release {}\n\n{}", cut.tag(), owner(cut)))?;
    let swap = Swap { name: REF.into(), from, to: Some(note) };
    cut.git.swap(&cut.remote, &[swap]).context("lock the release; another cut may have been quicker")
}

pub(super) fn look_away(cut: &Cut) -> Result<State> {
    Ok(match held(cut)? {
        Held::Free => State::Done("the lock is given back".into()),
        Held::Ours(_) => State::Todo("give the lock back".into()),
        // Found and told by the first step.
        Held::Other { .. } => State::Todo("give the lock back, once it is ours".into()),
    })
}

pub(super) fn release(cut: &Cut) -> Result<()> {
    match held(cut)? {
        Held::Free => Ok(()),
        Held::Ours(object) => {
            cut.git.swap(&cut.remote, &[Swap { name: REF.into(), from: Some(object), to: None }])
        }
        Held::Other { says, .. } => bail!("the lock was taken over while this cut ran: {says}"),
    }
}

fn held(cut: &Cut) -> Result<Held> {
    let Some(object) = cut.git.fetch(&cut.remote, REF)? else { return Ok(Held::Free) };
    let says = cut.git.ask(["log", "-1", "--format=%B%ncreated: %cI by %cn", &object])?;
    let ours = says.lines().any(|line| line == owner(cut));
    Ok(if ours { Held::Ours(object) } else { Held::Other { object, says } })
}

fn owner(cut: &Cut) -> String {
    format!("owner: {}", cut.owner)
}

fn taken_over(cut: &Cut, object: &str) -> bool {
    cut.take_over.as_deref().is_some_and(|wish| wish.len() >= 12 && object.starts_with(wish))
}

fn short(object: &str) -> &str {
    &object[..object.len().min(12)]
}
