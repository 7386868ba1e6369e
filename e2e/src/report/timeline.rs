// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What went on during a scenario, along its time. All times count from its beginning.
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::millis;
use crate::history::{Judgement, Verdict};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// In the order in which they were first seen.
    pub members: Vec<MemberLine>,
    pub leaders: Vec<LeaderChange>,
    pub faults: Vec<Fault>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
}

/// How one member fared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberLine {
    pub name: String,
    pub phases: Vec<PhaseChange>,
}

/// From when on a member was what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseChange {
    #[serde(with = "millis")]
    pub at: Duration,
    /// The wrapper's word for it, or `gone` while nobody answers.
    pub phase: String,
    pub ready: bool,
}

/// From when on a member led.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderChange {
    #[serde(with = "millis")]
    pub at: Duration,
    /// None: nobody, as far as could be seen.
    pub member: Option<String>,
    pub term: u64,
}

/// Something that was broken on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    #[serde(with = "millis")]
    pub from: Duration,
    /// The same as `from`: it took no time, as a kill does. None: it lasted to the end.
    #[serde(with = "millis::option")]
    pub to: Option<Duration>,
    pub label: String,
}

/// What clients saw.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Traffic {
    /// Some of the calls; see [`super::sample`].
    pub points: Vec<Point>,
    /// How many there were.
    pub calls: usize,
    pub judgement: Judgement,
}

/// One call. In files it is `[at, took, outcome]`, since there are thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Listed", into = "Listed")]
pub struct Point {
    pub at: Duration,
    pub took: Duration,
    pub outcome: PointOutcome,
}

#[derive(Serialize, Deserialize)]
struct Listed(#[serde(with = "millis")] Duration, #[serde(with = "millis")] Duration, PointOutcome);

impl From<Listed> for Point {
    fn from(Listed(at, took, outcome): Listed) -> Self {
        Self { at, took, outcome }
    }
}

impl From<Point> for Listed {
    fn from(Point { at, took, outcome }: Point) -> Self {
        Self(at, took, outcome)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
