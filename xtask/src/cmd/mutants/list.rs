// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `hack/mutants.toml`: the mutants that no test needs to notice, each with its reason, held against what cargo-mutants
//! lists and against what a run showed.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

const PAGE: &str = "hack/mutants.toml";

/// The page.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Explained {
    #[serde(default)]
    survivor: Vec<Survivor>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Survivor {
    /// As `cargo xtask mutants --list` has it, without line and column: `FILE: what is done`.
    mutant: String,
    why: String,
}

/// What became of the mutants of a run.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    caught: BTreeSet<String>,
    missed: BTreeSet<String>,
    timeout: BTreeSet<String>,
    unviable: BTreeSet<String>,
}

/// The name of a mutant, which stays when lines move: `FILE: what is done` out of `FILE:LINE:COLUMN: what is done`.
pub(super) fn name(line: &str) -> String {
    let mut parts = line.splitn(4, ':');
    let (file, number, column, what) = (parts.next(), parts.next(), parts.next(), parts.next());
    match (file, number, column, what) {
        (Some(file), Some(_), Some(_), Some(what)) => format!("{file}:{what}"),
        _ => line.to_owned(),
    }
}

impl Explained {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let path = root.join(PAGE);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("parse {}", path.display()))
    }

    pub(super) fn len(&self) -> usize {
        self.survivor.len()
    }

    /// Explanations that are about no mutant, come twice, or explain nothing.
    pub(super) fn stale(&self, all: &[String]) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let mut wrong = Vec::new();
        for Survivor { mutant, why } in &self.survivor {
            if !all.contains(mutant) {
                wrong.push(format!("{PAGE}: there is no mutant `{mutant}`: take it out"));
            }
            if !seen.insert(mutant) {
                wrong.push(format!("{PAGE}: `{mutant}` comes twice"));
            }
            if why.trim().is_empty() {
                wrong.push(format!("{PAGE}: `{mutant}` says no why"));
            }
        }
        wrong
    }

    /// Mutants that went unnoticed without an explanation, and explanations of some that were noticed. Two mutants may
    /// have one name; one of them unnoticed is enough to keep its explanation.
    pub(super) fn judge(&self, outcomes: &Outcomes) -> Vec<String> {
        let explained = |mutant: &str| self.survivor.iter().any(|survivor| survivor.mutant == mutant);
        let missed = outcomes.missed.iter().filter(|mutant| !explained(mutant));
        let mut wrong: Vec<String> = missed
            .map(|mutant| {
                format!("no test notices: {mutant}\n  test it, or say in {PAGE} why nobody needs to notice")
            })
            .collect();
        for Survivor { mutant, .. } in &self.survivor {
            if outcomes.caught.contains(mutant) && !outcomes.missed.contains(mutant) {
                wrong.push(format!("{PAGE}: a test notices `{mutant}`: take it out"));
            }
        }
        wrong
    }
}

impl Outcomes {
    /// Reads what cargo-mutants left in its folder.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let names = |file: &str| -> Result<BTreeSet<String>> {
            let path = folder.join(file);
            let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            Ok(text.lines().map(name).collect())
        };
        Ok(Self {
            caught: names("caught.txt")?,
            missed: names("missed.txt")?,
            timeout: names("timeout.txt")?,
            unviable: names("unviable.txt")?,
        })
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { caught, missed, timeout, unviable } = self;
        write!(
            out,
            "noticed {}, unnoticed {}, ran too long (noticed that way) {}, not to be compiled {}",
            caught.len(),
            missed.len(),
            timeout.len(),
            unviable.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(mutants: &[(&str, &str)]) -> Explained {
        let survivor =
            mutants.iter().map(|(mutant, why)| Survivor { mutant: (*mutant).into(), why: (*why).into() });
        Explained { survivor: survivor.collect() }
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_name_stays_when_lines_move() {
        let line = "wrapper/src/api/auth.rs:40:5: replace allowed -> Option<a::B> with None";
        assert_eq!(name(line), "wrapper/src/api/auth.rs: replace allowed -> Option<a::B> with None");
        assert_eq!(name("odd"), "odd");
    }

    #[test]
    fn stale_double_and_empty_explanations_are_told() {
        let list = explained(&[("a", "x"), ("a", "x"), ("gone", "x"), ("b", " ")]);
        let wrong = list.stale(&["a".into(), "b".into()]);
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong[0].contains("`a` comes twice") && wrong[1].contains("no mutant `gone`"), "{wrong:?}");
    }

    #[test]
    fn what_goes_unnoticed_needs_an_explanation_and_what_does_not_needs_none() {
        let list =
            explained(&[("known", "x"), ("noticed", "x"), ("one of two", "x"), ("of another shard", "x")]);
        let outcomes = Outcomes {
            caught: set(&["noticed", "one of two", "c"]),
            missed: set(&["known", "one of two", "new"]),
            ..Outcomes::default()
        };
        let wrong = list.judge(&outcomes);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(
            wrong[0].starts_with("no test notices: new") && wrong[1].contains("a test notices `noticed`")
        );
    }

    #[test]
    fn the_list_of_this_clone_can_be_read_and_every_survivor_says_why() {
        let list = Explained::read(&crate::repo::root()).unwrap();
        assert!(list.survivor.iter().all(|survivor| survivor.why.len() > 20), "{list:?}");
    }
}
