// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a page is made of: the results, and of each scenario's evidence as much as a page can bear. Times count from the
//! scenario's beginning.
use std::time::Duration;

use crate::history::{Judgement, Verdict as History};
use crate::outcome::{Outcome, Results, Verdict};

/// A run with its cases in the order of the results.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) results: Results,
    pub(super) cases: Vec<Case>,
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) outcome: Outcome,
    pub(super) rows: Rows,
    pub(super) traffic: Option<Traffic>,
    /// What was done and seen, in order.
    pub(super) notes: Vec<Note>,
    /// The ends of the logs, of cases that went wrong.
    pub(super) logs: Vec<Tail>,
}

/// The rows of the figure.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    /// In the order of their names.
    pub(super) members: Vec<MemberRow>,
    pub(super) leaders: Vec<Lead>,
    pub(super) faults: Vec<Fault>,
}

#[derive(Clone, Debug)]
pub(super) struct MemberRow {
    pub(super) name: String,
    pub(super) changes: Vec<Change>,
}

/// From when on a member was what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) at: Duration,
    /// The wrapper's word for it, or `gone` while it cannot be asked.
    pub(super) phase: String,
    pub(super) ready: bool,
}

/// From when on a member led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lead {
    pub(super) at: Duration,
    /// None: nobody said of itself that it leads.
    pub(super) member: Option<String>,
    pub(super) term: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) from: Duration,
    /// None: it was over at once, as a kill is.
    pub(super) to: Option<Duration>,
    pub(super) label: String,
}

/// What clients saw.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    pub(super) points: Vec<Point>,
    /// How many calls there were.
    pub(super) calls: usize,
    pub(super) judgement: Judgement,
    /// The longest time without an acknowledged write.
    pub(super) pause: Option<(Duration, Duration)>,
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) at: Duration,
    pub(super) took: Duration,
    pub(super) outcome: PointOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PointOutcome {
    Read,
    Write,
    Refused,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) at: Duration,
    pub(super) text: String,
}

/// The end of a log.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    pub(super) name: String,
    pub(super) lines: Vec<String>,
}

impl Traffic {
    /// The verdict in a word or two.
    pub(super) fn verdict(&self) -> &'static str {
        match self.judgement.verdict {
            History::Linearizable => "linearizable",
            History::Violated(_) => "NOT linearizable",
            History::Undecided(_) => "history undecided",
        }
    }
}

impl Case {
    /// When the last thing in the figure happened.
    pub(super) fn end(&self) -> Duration {
        let changes = self.rows.members.iter().flat_map(|member| &member.changes).map(|change| change.at);
        let leads = self.rows.leaders.iter().map(|lead| lead.at);
        let faults = self.rows.faults.iter().map(|fault| fault.to.unwrap_or(fault.from));
        let points =
            self.traffic.iter().flat_map(|traffic| &traffic.points).map(|point| point.at + point.took);
        changes.chain(leads).chain(faults).chain(points).max().unwrap_or_default()
    }

    pub(super) fn took(&self) -> Duration {
        Duration::from_millis(self.outcome.took)
    }

    /// Somebody should look at it.
    pub(super) fn is_bad(&self) -> bool {
        matches!(self.outcome.verdict, Verdict::Failed | Verdict::Hung)
    }
}

/// One word for tables, which also is the class of its colour.
pub(super) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
        Verdict::Hung => "hung",
        Verdict::Missing => "missing",
        Verdict::Interrupted => "interrupted",
    }
}

/// The first thing a reader should know besides the verdict: one line, and maybe none.
pub(super) fn gist(outcome: &Outcome) -> String {
    if let Some(reason) = &outcome.reason {
        return reason.lines().next().unwrap_or_default().to_owned();
    }
    let measured = outcome.measured.iter().map(|(what, value)| format!("{what}: {value}"));
    measured.collect::<Vec<_>>().join("; ")
}
