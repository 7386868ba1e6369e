// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What went on during a scenario, along its time. All times count from its beginning.
use std::time::Duration;

use crate::history::{Judgement, Verdict};

#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// In the order in which they were first seen.
    pub members: Vec<MemberLine>,
    pub leaders: Vec<LeaderChange>,
    pub faults: Vec<Fault>,
    pub traffic: Option<Traffic>,
}

/// How one member fared.
#[derive(Clone, Debug)]
pub struct MemberLine {
    pub name: String,
    pub phases: Vec<PhaseChange>,
}

/// From when on a member was what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseChange {
    pub at: Duration,
    /// The wrapper's word for it, or `gone` while nobody answers.
    pub phase: String,
    pub ready: bool,
}

/// From when on a member led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderChange {
    pub at: Duration,
    /// None: nobody, as far as could be seen.
    pub member: Option<String>,
    pub term: u64,
}

/// Something that was broken on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub from: Duration,
    /// The same as `from`: it took no time, as a kill does. None: it lasted to the end.
    pub to: Option<Duration>,
    pub label: String,
}

/// What clients saw.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Some of the calls; see [`super::sample`].
    pub points: Vec<Point>,
    /// How many there were.
    pub calls: usize,
    pub judgement: Judgement,
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub at: Duration,
    pub took: Duration,
    pub outcome: PointOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointOutcome {
    Read,
    Write,
    Refused,
    Unknown,
}

impl Traffic {
    /// What came of it, in a few words.
    pub(super) fn gist(&self) -> String {
        let verdict = match self.judgement.verdict {
            Verdict::Linearizable => "linearizable",
            Verdict::Violated(_) => "NOT linearizable",
            Verdict::Undecided(_) => "history undecided",
        };
        let pause = self.judgement.longest_pause.map_or_else(String::new, |(from, to)| {
            let pause = Duration::from_micros(to.saturating_sub(from));
            format!(", longest without a write {:.2} s", pause.as_secs_f64())
        });
        format!("{verdict}: {} calls{pause}", self.calls)
    }
}

impl Timeline {
    /// When the last thing in it happened.
    pub fn end(&self) -> Duration {
        let phases = self.members.iter().flat_map(|member| &member.phases).map(|phase| phase.at);
        let leaders = self.leaders.iter().map(|leader| leader.at);
        let faults = self.faults.iter().map(|fault| fault.to.unwrap_or(fault.from));
        let points =
            self.traffic.iter().flat_map(|traffic| &traffic.points).map(|point| point.at + point.took);
        phases.chain(leaders).chain(faults).chain(points).max().unwrap_or_default()
    }
}
