// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The tier `kind`: the short form of `cargo xtask e2e`, where a container engine runs.

use std::time::Instant;

use super::Row;
use crate::cmd::e2e;
use crate::engine::{self, Engine};

/// What runs the tier by hand.
const COMMAND: &str = "cargo xtask test kind";

/// What became of the tier.
#[derive(Debug, PartialEq)]
pub(super) enum Smoke {
    /// It ran and ended with this exit code of `e2e`.
    Ran {
        code: u8,
        seconds: f64,
    },
    /// It could not be brought to running.
    Failed(String),
    /// This machine cannot run it.
    NoEngine(String),
    NotAsked,
    /// Tests of lower tiers failed, and say more.
    NotReached,
}

/// Runs it, if an engine is there.
pub(super) fn run() -> Smoke {
    if let Err(error) = Engine::running() {
        return Smoke::NoEngine(format!("{error:#}").lines().next().unwrap_or_default().to_owned());
    }
    let began = Instant::now();
    match e2e::smoke() {
        Ok(code) => Smoke::Ran { code, seconds: began.elapsed().as_secs_f64() },
        Err(error) => Smoke::Failed(format!("{error:#}")),
    }
}

impl Smoke {
    /// Whether the run as a whole is red because of it. `demanded` says that nobody is served by a run without it.
    pub(super) fn is_bad(&self, demanded: bool) -> bool {
        match self {
            Self::Ran { code, .. } => *code != 0,
            Self::Failed(_) => true,
            Self::NoEngine(_) => demanded,
            Self::NotAsked | Self::NotReached => false,
        }
    }

    pub(super) fn row(&self) -> Row {
        let (outcome, time, command) = match self {
            Self::Ran { code: 0, seconds } => {
                ("ran the smoke, all good".into(), format!("{seconds:.1} s"), "")
            }
            Self::Ran { code, seconds } => {
                (format!("ran the smoke, NOT GOOD (exit code {code})"), format!("{seconds:.1} s"), COMMAND)
            }
            Self::Failed(why) => {
                let first = why.lines().next().unwrap_or_default();
                (format!("NOT GOOD: {first}"), "-".into(), COMMAND)
            }
            Self::NoEngine(why) => (format!("not run: {why}"), "-".into(), engine::MEND),
            Self::NotAsked => ("not run: not asked for".into(), "-".into(), COMMAND),
            Self::NotReached => ("not run: a test before it failed".into(), "-".into(), COMMAND),
        };
        Row { tier: "kind", outcome, time, command }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clean_pass_is_good_and_a_missing_engine_is_named() {
        assert!(!Smoke::Ran { code: 0, seconds: 1.0 }.is_bad(true));
        for code in [1, 3, 4, 130] {
            assert!(Smoke::Ran { code, seconds: 1.0 }.is_bad(false), "{code}");
        }
        let none = Smoke::NoEngine("no engine".into());
        assert!(none.is_bad(true) && !none.is_bad(false));
        assert_eq!(none.row().command, engine::MEND);
        assert!(none.row().outcome.starts_with("not run: "));
    }
}
