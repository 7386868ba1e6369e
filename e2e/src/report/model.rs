// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a report is made of.
use std::time::Duration;

use super::timeline::Timeline;

/// One run of the suite.
#[derive(Clone, Debug)]
pub struct Run {
    pub stage: Stage,
    /// When it began, as `2026-01-31T12:00:00Z`.
    pub begun: String,
    pub took: Duration,
    /// In the order in which they ran.
    pub cases: Vec<Case>,
}

/// On what the scenarios played.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    pub images: Vec<Image>,
    /// The cluster's version: `v1.34.4`.
    pub kubernetes: String,
    /// Of all random numbers of the run.
    pub seed: u64,
    /// Of the tree that was tried, with a mark if it had changes.
    pub commit: String,
    /// What repeats the run.
    pub command: String,
    /// Of the machine: cores, memory, kernel, cgroup version, engine.
    pub host: Vec<Fact>,
}

/// One line about the machine.
#[derive(Clone, Debug)]
pub struct Fact {
    pub name: String,
    pub value: String,
}

/// One image that was used.
#[derive(Clone, Debug)]
pub struct Image {
    /// What it is there for: `wrapper`, `sidecar`, `druid`, `node`.
    pub role: String,
    /// The name by which it is known to the cluster.
    pub reference: String,
    /// `sha256:…`
    pub digest: String,
    pub origin: Origin,
}

/// Where an image came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was in the local engine.
    Engine,
    Pulled,
    /// From sources, the real thing.
    Built,
    /// A stand-in of ours.
    Double,
}

/// One scenario.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub outcome: Outcome,
    /// When it began, as in [`Run`].
    pub begun: String,
    pub took: Duration,
    /// Why it failed, or what it waited for when it hung: with all causes, in as many lines as it takes.
    pub message: Option<String>,
    /// Folder of everything that was kept, as a path below the report's own folder if it lies there.
    pub evidence: Option<String>,
    /// What was done and seen, in order.
    pub notes: Vec<Note>,
    /// The ends of the logs that matter; all of them lie with the evidence.
    pub logs: Vec<Tail>,
    pub timeline: Timeline,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    /// It was selected and could not run here, and why: `needs the real sidecar`.
    Skipped(String),
    /// It did not end within its time.
    Hung,
}

/// Something that was done or seen, since the scenario began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub at: Duration,
    pub text: String,
}

/// The end of a log.
#[derive(Clone, Debug)]
pub struct Tail {
    /// `etcd-0/etcd`
    pub name: String,
    pub lines: Vec<String>,
}

impl Outcome {
    /// One word for tables.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped(_) => "skipped",
            Self::Hung => "hung",
        }
    }
}

impl Origin {
    /// One word for tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Pulled => "pulled",
            Self::Built => "built",
            Self::Double => "double",
        }
    }
}

impl Case {
    /// The first thing a reader should know besides the outcome: one line.
    pub fn gist(&self) -> String {
        match (&self.outcome, &self.message, &self.timeline.traffic) {
            (Outcome::Skipped(why), ..) => why.clone(),
            (_, Some(message), _) => message.lines().next().unwrap_or_default().to_owned(),
            (_, None, Some(traffic)) => traffic.gist(),
            (_, None, None) => String::new(),
        }
    }
}
