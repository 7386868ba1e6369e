// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The command line of the program: what `cargo xtask e2e` passes on, and what a person types against a stage that stands.
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, ValueEnum};

use crate::outcome::Verdict;

/// Runs the end-to-end scenarios on a stage that stands.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "e2e",
    after_help = "Example:\n  e2e --stage target/e2e/stage.json --filter kill --keep on-failure\n\n\
        Exit codes: 0 all that was selected passed; 1 a failure; 2 usage; 3 what could run passed, and something selected \
        could not; 4 nothing ran, or the cluster is not fit; 130 interrupted"
)]
pub struct Args {
    /// The stage file that `cargo xtask e2e` wrote
    #[arg(long, value_name = "FILE")]
    pub stage: PathBuf,
    /// Only the short set
    #[arg(long)]
    pub smoke: bool,
    /// Only those that are made to fail: a run of them in which one passes shows a fault of this program
    #[arg(long, conflicts_with = "smoke")]
    pub planted: bool,
    /// Only scenarios whose name contains this; may be repeated: any of them
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
    /// Only this part of them, chosen by their names
    #[arg(long, value_name = "PART/PARTS")]
    pub shard: Option<Shard>,
    /// Where random choices begin, instead of the stage's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// What becomes of a scenario's namespace
    #[arg(long, value_enum, default_value_t = Keep::Never)]
    pub keep: Keep,
    /// Show what would run, and what cannot
    #[arg(long)]
    pub list: bool,
    /// How many at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = jobs)]
    pub jobs: usize,
}

/// Which namespaces stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Keep {
    /// Whatever comes of it.
    Never,
    /// Whatever comes of it.
    Always,
    /// To look at.
    OnFailure,
}

/// One of several parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub part: u64,
    /// Into how many parts the table is cut.
    pub parts: u64,
}

impl Args {
    /// Reads the process's command line.
    ///
    /// # Errors
    /// It cannot be meant; or it asks for help.
    pub fn from_command_line() -> Result<Self, clap::Error> {
        Self::try_parse()
    }

    /// The selection as it was given.
    pub fn selection(&self) -> String {
        let mut words = Vec::new();
        if self.smoke {
            words.push("--smoke".to_owned());
        }
        if self.planted {
            words.push("--planted".to_owned());
        }
        words.extend(self.filter.iter().map(|filter| format!("--filter {filter}")));
        words.extend(self.shard.map(|shard| format!("--shard {}/{}", shard.part, shard.parts)));
        words.join(" ")
    }
}

impl Keep {
    /// Whether the namespace of a scenario that ended so stays.
    pub fn keeps(self, verdict: Verdict) -> bool {
        match verdict {
            Verdict::Passed => self == Self::Always,
            Verdict::Failed | Verdict::Hung => self != Self::Never,
            Verdict::Missing | Verdict::Interrupted => false,
        }
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers =
            text.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
        match numbers {
            Some((part, parts)) if part >= 1 && part <= parts => Ok(Self { part, parts }),
            _ => Err("a part and the number of parts, such as 1/2".into()),
        }
    }
}

fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(jobs @ 1..=32) => Ok(jobs),
        _ => Err("1 to 32".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_a_part_of_parts() {
        assert_eq!("2/3".parse(), Ok(Shard { part: 2, parts: 3 }));
        for wrong in ["", "2", "0/2", "3/2", "1/0", "a/b"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_a_stage_is_needed() {
        let args = Args::try_parse_from(["e2e", "--stage", "s", "--filter", "a", "--filter", "b", "--smoke"]);
        assert_eq!(args.unwrap().selection(), "--smoke --filter a --filter b");
        assert!(Args::try_parse_from(["e2e"]).is_err());
        assert!(Args::try_parse_from(["e2e", "--stage", "s", "--jobs", "0"]).is_err());
    }

    #[test]
    fn nothing_stays_unless_it_is_asked_for() {
        assert!(!Keep::Never.keeps(Verdict::Failed) && !Keep::Never.keeps(Verdict::Passed));
        assert!(Keep::OnFailure.keeps(Verdict::Hung) && !Keep::OnFailure.keeps(Verdict::Passed));
        assert!(Keep::Always.keeps(Verdict::Passed) && !Keep::Always.keeps(Verdict::Interrupted));
    }
}
