// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The verdict on a history. Good only when something was acknowledged, everything was recorded, every key was read at
//! the end, and each key could have been one register: then no acknowledged write is lost either, for the last read
//! would have had to see it. Whatever cannot be said is `Undecided`, never good and never bad.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::register::Register;
use super::search::{Budget, Exhausted, search};
use super::{End, History, Op, explain, revisions};

/// Steps of the search for a whole history: minutes at worst, where tens of thousands of calls usually take as many steps.
const STEPS: u64 = 5_000_000;

/// Why a key cannot have been a register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The one that is no register.
    pub key: String,
    /// One sentence.
    pub what: String,
    /// The calls that it takes, as lines of a table.
    pub table: String,
}

/// Whether the history can have happened on one linearizable store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every key was one register, and holds what was last acknowledged.
    Linearizable,
    /// It cannot have happened so; one for each key at fault.
    Violated(Vec<Violation>),
    /// Nothing can be said, and why.
    Undecided(Vec<String>),
}

/// A verdict with what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The worst of all keys.
    pub verdict: Verdict,
    /// How many were judged.
    pub keys: usize,
    /// Answered calls that wrote something.
    pub writes: usize,
    /// Answered calls that wrote nothing.
    pub reads: usize,
    /// Calls that surely did nothing.
    pub failed: usize,
    /// Calls that may have done something.
    pub unknown: usize,
    /// The longest time without an acknowledged write: microseconds since the run began, from and to.
    pub longest_pause: Option<(u64, u64)>,
    /// Steps that the search took.
    pub steps: u64,
}

/// Judges a history.
pub fn judge(history: &History) -> Judgement {
    judge_within(history, STEPS)
}

/// As [`judge`], giving up after `steps` steps of the search.
pub fn judge_within(history: &History, steps: u64) -> Judgement {
    let mut by_key: BTreeMap<&str, Vec<&Op>> = BTreeMap::new();
    for op in &history.ops {
        by_key.entry(&op.key).or_default().push(op);
    }
    let mut open = Vec::new();
    let mut violations = revisions::check(history);
    let mut budget = Budget(steps);
    for (key, ops) in &by_key {
        let register = Register::new(ops);
        match search(&register, &mut budget) {
            Ok(None) => {}
            Ok(Some(stuck)) => violations.push(explain::explain(key, ops, &register, &stuck)),
            Err(Exhausted) => open.push(format!("key {key}: no order found within {steps} steps")),
        }
    }
    open.extend(gaps(history, &by_key));
    let verdict = if history.end == End::Cut {
        // A value that nobody wrote may be that of a call which is not in here.
        let broken = violations.iter().map(|violation| format!("key {}: {}", violation.key, violation.what));
        Verdict::Undecided(open.into_iter().chain(broken).collect())
    } else if !violations.is_empty() {
        Verdict::Violated(violations)
    } else if !open.is_empty() {
        Verdict::Undecided(open)
    } else {
        Verdict::Linearizable
    };
    let answers = history.answered().count();
    let writes = history.answered().filter(|(_, answer)| answer.written.is_some()).count();
    let unknown =
        history.ops.iter().filter(|op| matches!(op.outcome, super::Outcome::Unknown { .. })).count();
    Judgement {
        verdict,
        keys: by_key.len(),
        writes,
        reads: answers - writes,
        failed: history.ops.len() - answers - unknown,
        unknown,
        longest_pause: history.longest_pause(),
        steps: steps - budget.0,
    }
}

/// What a history lacks to be found good.
fn gaps(history: &History, by_key: &BTreeMap<&str, Vec<&Op>>) -> Vec<String> {
    let mut gaps = Vec::new();
    if history.end == End::Cut {
        gaps.push("the history was cut: there may have been calls that are not in it".to_owned());
    }
    let is_write = |op: &&Op| op.answer().is_some_and(|answer| answer.written.is_some());
    if !history.ops.iter().any(|op| is_write(&op)) {
        gaps.push("no write was acknowledged: there is nothing to lose".to_owned());
    }
    let unread: BTreeSet<&str> = by_key
        .iter()
        .filter(|(_, ops)| !ops.iter().any(|op| op.last && op.answer().is_some()))
        .map(|(key, _)| *key)
        .collect();
    if !unread.is_empty() {
        let keys = unread.into_iter().collect::<Vec<_>>().join(", ");
        gaps.push(format!("not read at the end: {keys}; whether their writes are still there is not known"));
    }
    gaps
}

impl Judgement {
    /// The verdict and what it rests on, in one line.
    pub fn summary(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Linearizable => "history: linearizable, all acknowledged writes are there",
            Verdict::Violated(_) => "history: NOT linearizable",
            Verdict::Undecided(_) => "history: undecided",
        };
        let Self { keys, writes, reads, failed, unknown, .. } = self;
        format!(
            "{verdict}; {keys} keys, {writes} writes, {reads} reads, {failed} refused, {unknown} without an answer"
        )
    }

    /// For scenarios: nothing but a good history passes.
    ///
    /// # Errors
    /// The whole text, with the tables.
    pub fn require(&self) -> anyhow::Result<()> {
        match self.verdict {
            Verdict::Linearizable => Ok(()),
            Verdict::Violated(_) | Verdict::Undecided(_) => Err(anyhow::anyhow!("{self}")),
        }
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        match &self.verdict {
            Verdict::Linearizable => Ok(()),
            Verdict::Violated(violations) => violations
                .iter()
                .try_for_each(|Violation { key, what, table }| write!(f, "\nkey {key}: {what}\n{table}")),
            Verdict::Undecided(reasons) => reasons.iter().try_for_each(|reason| write!(f, "\n{reason}")),
        }
    }
}
