// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The tiers that need a container engine, in their short forms: the storm of faults in containers, and the smoke in a
//! cluster.

use std::path::Path;
use std::time::Instant;

use super::Row;
use crate::cmd::e2e;
use crate::engine::{self, Engine};

/// Where the kernel makes loop devices. The engine runs on this machine, so its kernel is ours.
const LOOP: &str = "/dev/loop-control";

/// Such a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineTier {
    Container,
    Kind,
}

/// What became of the tier.
#[derive(Debug, PartialEq)]
pub(super) enum Short {
    /// It ran and ended with this exit code of `e2e`.
    Ran {
        code: u8,
        seconds: f64,
    },
    /// It could not be brought to running.
    Failed(String),
    /// This machine cannot run it: why, and what mends that.
    Unfit {
        why: String,
        mend: &'static str,
    },
    NotAsked,
    /// Tests of lower tiers failed, and say more.
    NotReached,
}

impl EngineTier {
    /// Runs it, if an engine is there.
    pub(super) fn run(self) -> Short {
        if let Err(error) = Engine::running() {
            let why = format!("{error:#}").lines().next().unwrap_or_default().to_owned();
            return Short::Unfit { why, mend: engine::MEND };
        }
        if self == Self::Container && !Path::new(LOOP).exists() {
            let why = format!("volumes are loop devices, and there is no {LOOP}");
            return Short::Unfit { why, mend: "modprobe loop" };
        }
        let began = Instant::now();
        let done = match self {
            Self::Container => e2e::short_storm(),
            Self::Kind => e2e::smoke(),
        };
        match done {
            Ok(code) => Short::Ran { code, seconds: began.elapsed().as_secs_f64() },
            Err(error) => Short::Failed(format!("{error:#}")),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Kind => "kind",
        }
    }

    /// What runs the tier by hand.
    fn command(self) -> &'static str {
        match self {
            Self::Container => "cargo xtask test container",
            Self::Kind => "cargo xtask test kind",
        }
    }

    pub(super) fn row(self, short: &Short) -> Row {
        let command = self.command();
        let (outcome, time, command) = match short {
            Short::Ran { code: 0, seconds } => {
                ("ran the short form, all good".into(), format!("{seconds:.1} s"), "")
            }
            Short::Ran { code, seconds } => {
                let outcome = format!("ran the short form, NOT GOOD (exit code {code})");
                (outcome, format!("{seconds:.1} s"), command)
            }
            Short::Failed(why) => {
                let first = why.lines().next().unwrap_or_default();
                (format!("NOT GOOD: {first}"), "-".into(), command)
            }
            Short::Unfit { why, mend } => (format!("not run: {why}"), "-".into(), *mend),
            Short::NotAsked => ("not run: not asked for".into(), "-".into(), command),
            Short::NotReached => ("not run: a test before it failed".into(), "-".into(), command),
        };
        Row { tier: self.name(), outcome, time, command }
    }
}

impl Short {
    /// Whether the run as a whole is red because of it. `demanded` says that nobody is served by a run without it.
    pub(super) fn is_bad(&self, demanded: bool) -> bool {
        match self {
            Self::Ran { code, .. } => *code != 0,
            Self::Failed(_) => true,
            Self::Unfit { .. } => demanded,
            Self::NotAsked | Self::NotReached => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clean_pass_is_good_and_a_missing_engine_is_named() {
        assert!(!Short::Ran { code: 0, seconds: 1.0 }.is_bad(true));
        for code in [1, 3, 4, 130] {
            assert!(Short::Ran { code, seconds: 1.0 }.is_bad(false), "{code}");
        }
        let none = Short::Unfit { why: "no engine".into(), mend: engine::MEND };
        assert!(none.is_bad(true) && !none.is_bad(false));
        let row = EngineTier::Container.row(&none);
        assert_eq!((row.tier, row.command), ("container", engine::MEND));
        assert!(row.outcome.starts_with("not run: "));
    }
}
