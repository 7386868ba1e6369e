// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What happened in a case, in the order in which it was noticed: phases and leaders as the wrappers tell them, pods and
//! containers as the cluster tells them, faults as they begin and end, steps as the scenario names them. Whoever notices
//! something appends it; the report draws it. Nothing is judged here.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// One thing that was noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When, by this machine's clock, in milliseconds since 1970.
    pub at: u64,
    /// That happened.
    #[serde(flatten)]
    pub what: What,
}

/// What was noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum What {
    /// A wrapper's phase, as its own events tell it; `gone` when it cannot be asked any more.
    Phase {
        /// Whose wrapper.
        pod: String,
        /// As it says itself.
        phase: String,
        /// Of its etcd.
        generation: u64,
    },
    /// A wrapper's readiness, with the first failed check.
    Readiness {
        /// Whose wrapper.
        pod: String,
        /// As it says itself.
        ready: bool,
        /// The first check that fails.
        reason: Option<String>,
    },
    /// Who leads, in the eyes of one member.
    Leader {
        /// Whose wrapper.
        pod: String,
        /// As it says itself.
        leads: bool,
        /// Hex; None: nobody known.
        leader: Option<String>,
        /// None: not known.
        term: Option<u64>,
    },
    /// What the cluster says of a pod: `created`, `scheduled`, `ready`, `not ready`, `deleted`, …
    Pod {
        /// Its name.
        pod: String,
        /// In words.
        state: String,
    },
    /// A container ended, or was started once more; `restarts` is the count of the pod of the moment.
    Container {
        /// Its pod's name.
        pod: String,
        /// Its name.
        container: String,
        /// In words.
        state: String,
        /// So far.
        restarts: u32,
    },
    /// A fault began. `fault` is its number within the case.
    FaultBegan {
        /// Its number in this case.
        fault: u32,
        /// What is done.
        name: String,
        /// To whom.
        subjects: Vec<String>,
    },
    /// It was healed; a fault that is over at once has none.
    FaultEnded {
        /// Its number in this case.
        fault: u32,
    },
    /// The scenario has come to a step of its own.
    Step {
        /// In words.
        text: String,
    },
}

/// The entries of one case. A clone is the same timeline.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Timeline {
    /// Appends what is noticed now.
    pub fn add(&self, what: What) {
        self.lock().push(Entry { at: now(), what });
    }

    /// All entries so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    /// What each wrapper said of itself last, a line each: for the digest of a failure.
    pub fn last_words(&self) -> Vec<String> {
        let mut pods: BTreeMap<String, (String, String, String)> = BTreeMap::new();
        for entry in self.lock().iter() {
            match &entry.what {
                What::Phase { pod, phase, generation } => {
                    pods.entry(pod.clone()).or_default().0 = format!("{phase}, generation {generation}");
                }
                What::Readiness { pod, ready, reason } => {
                    pods.entry(pod.clone()).or_default().1 = match (ready, reason) {
                        (true, _) => "ready".into(),
                        (false, Some(reason)) => format!("not ready: {reason}"),
                        (false, None) => "not ready".into(),
                    };
                }
                What::Leader { pod, leads, leader, .. } => {
                    pods.entry(pod.clone()).or_default().2 = match (leads, leader) {
                        (true, _) => "leads".into(),
                        (false, Some(leader)) => format!("follows {leader}"),
                        (false, None) => "knows no leader".into(),
                    };
                }
                What::Pod { .. } | What::Container { .. } | What::Step { .. } => {}
                What::FaultBegan { .. } | What::FaultEnded { .. } => {}
            }
        }
        let line = |(pod, (phase, readiness, leader))| {
            let words: Vec<String> =
                [phase, readiness, leader].into_iter().filter(|word: &String| !word.is_empty()).collect();
            format!("{pod}: {}", words.join("; "))
        };
        pods.into_iter().map(line).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds since 1970 by this machine's clock.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_flat_and_read_back() {
        let entry = Entry {
            at: 5,
            what: What::FaultBegan { fault: 1, name: "kill -9 etcd".into(), subjects: vec!["tri-0".into()] },
        };
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(
            text,
            r#"{"at":5,"kind":"faultBegan","fault":1,"name":"kill -9 etcd","subjects":["tri-0"]}"#
        );
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
    }

    #[test]
    fn last_words_are_the_last() {
        let timeline = Timeline::default();
        let phase =
            |phase: &str, generation| What::Phase { pod: "a-0".into(), phase: phase.into(), generation };
        timeline.add(phase("starting", 1));
        timeline.add(What::Readiness { pod: "a-0".into(), ready: false, reason: Some("process".into()) });
        timeline.add(phase("running", 2));
        assert_eq!(timeline.last_words(), ["a-0: running, generation 2; not ready: process"]);
    }
}
