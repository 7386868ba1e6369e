// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A release from its plan to a consumer's view, on this machine alone: a scratch remote, a real registry with TLS and
//! login, real signatures with a local key, and a double of GitHub's API. The verbs run as processes of their own, as a
//! maintainer runs them, and are killed after every step. Reaches nothing that others see.

mod consumer;
mod play;
mod registry;
mod stage;
mod wire;

use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use self::play::Play;
use self::stage::Stage;

/// What is rehearsed with.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    /// The clone whose commit is rehearsed.
    pub(crate) root: &'a Path,
    /// An empty or absent folder for everything.
    pub(crate) folder: &'a Path,
    /// The folder that cargo builds in, for the real image.
    pub(crate) target: &'a Path,
    /// A small image in the place of the real one.
    pub(crate) planted: bool,
}

/// Says what happens, with the time since the rehearsal began.
#[derive(Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn say(&self, what: &str) {
        println!("[{:>6.1} s] {what}", self.0.elapsed().as_secs_f64());
    }
}

/// Rehearses a minor and a patch release, and looks at both as a consumer.
///
/// # Errors
/// Anything that does not happen as it must, by name.
pub(crate) fn run(options: &Options<'_>) -> Result<()> {
    let clock = Clock(Instant::now());
    let stage = Stage::set(options, &clock)?;
    let play = Play { stage: &stage, clock: &clock };
    play.minor()?;
    consumer::look(&stage, "v0.1.0", &clock)?;
    play.patch()?;
    consumer::look(&stage, "v0.1.1", &clock)?;
    clock.say("the rehearsal passed");
    for line in stage.standing_in() {
        println!("  {line}");
    }
    Ok(())
}
