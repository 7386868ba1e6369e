// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! From what was noticed to the rows of the figure, and to lines of text. A member stands in a row by what its wrapper
//! says; one that says nothing, as the Go image, by what the kubelet says of its main container.
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::model::{Change, Fault, Lead, MemberRow, Note, Rows};
use crate::member::ETCD;
use crate::timeline::{Entry, What};

/// Entries of one row; whoever flaps a thousand times has told enough.
const MOST: usize = 1_000;

/// What one member said last.
#[derive(Debug, Default)]
struct Member {
    phase: Option<String>,
    ready: bool,
    changes: Vec<Change>,
}

/// `started`: milliseconds since 1970.
pub(super) fn rows(entries: &[Entry], started: u64) -> Rows {
    let speaking: BTreeSet<&str> = entries.iter().filter_map(|entry| speaker(&entry.what)).collect();
    let mut members: BTreeMap<&str, Member> = BTreeMap::new();
    let mut leading: BTreeMap<&str, u64> = BTreeMap::new();
    let mut rows = Rows::default();
    // Of the faults, in the order of the rows.
    let mut numbers: Vec<u32> = Vec::new();
    for entry in entries {
        let at = since(entry.at, started);
        match &entry.what {
            What::Phase { pod, phase, .. } => {
                let is_gone = phase == "gone";
                let member = members.entry(pod).or_default();
                member.ready &= !is_gone;
                member.turn(at, phase);
                if is_gone {
                    leading.remove(pod.as_str());
                }
            }
            What::Readiness { pod, ready, .. } => members.entry(pod).or_default().be(at, *ready),
            What::Leader { pod, leads: true, term, .. } => {
                leading.insert(pod, term.unwrap_or_default());
            }
            What::Leader { pod, leads: false, .. } => {
                leading.remove(pod.as_str());
            }
            What::Container { pod, container, state, .. }
                if is_main(container) && !speaking.contains(&**pod) =>
            {
                members.entry(pod).or_default().turn(at, of_kubelet(state));
            }
            What::Pod { pod, state } if !speaking.contains(&**pod) => {
                if let Some(member) = members.get_mut(&**pod) {
                    member.be(at, state == "ready");
                }
            }
            What::FaultBegan { fault, name, subjects } => {
                numbers.push(*fault);
                let subjects = subjects.join(", ");
                let label = if subjects.is_empty() { name.clone() } else { format!("{name}: {subjects}") };
                rows.faults.push(Fault { from: at, to: None, label });
            }
            What::FaultEnded { fault } => {
                if let Some(place) = numbers.iter().position(|number| number == fault) {
                    rows.faults[place].to = Some(at);
                }
            }
            What::Container { .. } | What::Pod { .. } | What::Step { .. } => {}
        }
        lead(&mut rows.leaders, at, &leading);
    }
    rows.members = members
        .into_iter()
        .map(|(name, member)| MemberRow { name: name.to_owned(), changes: member.changes })
        .collect();
    rows
}

/// Of several that say so, the one of the newest term leads.
fn lead(leaders: &mut Vec<Lead>, at: Duration, leading: &BTreeMap<&str, u64>) {
    let newest = leading.iter().max_by_key(|(_, term)| **term);
    let member = newest.map(|(pod, _)| (*pod).to_owned());
    let known = leaders.last();
    if member.is_none() && known.is_none() {
        return;
    }
    let term = newest.map_or_else(|| known.map_or(0, |lead| lead.term), |(_, term)| *term);
    if known.is_none_or(|lead| lead.member != member || lead.term != term) && leaders.len() < MOST {
        leaders.push(Lead { at, member, term });
    }
}

impl Member {
    fn turn(&mut self, at: Duration, phase: &str) {
        self.phase = Some(phase.to_owned());
        self.note(at);
    }

    fn be(&mut self, at: Duration, ready: bool) {
        self.ready = ready;
        self.note(at);
    }

    fn note(&mut self, at: Duration) {
        let phase = self.phase.clone().unwrap_or_else(|| "unknown".into());
        let change = Change { at, phase, ready: self.ready };
        let count = self.changes.len();
        match self.changes.last_mut() {
            Some(last) if last.phase == change.phase && last.ready == change.ready => {}
            // Phase and readiness of one message are one change.
            Some(last) if last.at == at => *last = change,
            _ if count < MOST => self.changes.push(change),
            _ => {}
        }
    }
}

fn speaker(what: &What) -> Option<&str> {
    match what {
        What::Phase { pod, .. } | What::Readiness { pod, .. } => Some(pod),
        _ => None,
    }
}

fn is_main(container: &str) -> bool {
    container == ETCD
}

fn of_kubelet(state: &str) -> &str {
    if state == "running" { "running" } else { "gone" }
}

/// A line for each entry.
pub(super) fn notes(entries: &[Entry], started: u64) -> Vec<Note> {
    entries.iter().map(|entry| Note { at: since(entry.at, started), text: told(&entry.what) }).collect()
}

fn told(what: &What) -> String {
    match what {
        What::Phase { pod, phase, generation } => format!("{pod}: {phase}, generation {generation}"),
        What::Readiness { pod, ready: true, .. } => format!("{pod}: ready"),
        What::Readiness { pod, reason, .. } => {
            format!("{pod}: not ready: {}", reason.as_deref().unwrap_or("no reason given"))
        }
        What::Leader { pod, leads: true, term, .. } => {
            format!("{pod}: leads in term {}", term.unwrap_or_default())
        }
        What::Leader { pod, leader: Some(leader), .. } => format!("{pod}: follows {leader}"),
        What::Leader { pod, .. } => format!("{pod}: knows no leader"),
        What::Pod { pod, state } => format!("pod {pod}: {state}"),
        What::Container { pod, container, state, restarts } => {
            format!("container {container} of {pod}: {state}, {restarts} restarts")
        }
        What::FaultBegan { fault, name, subjects } => {
            format!("FAULT {fault} begins: {name}: {}", subjects.join(", "))
        }
        What::FaultEnded { fault } => format!("FAULT {fault} is over"),
        What::Step { text } => text.lines().next().unwrap_or_default().to_owned(),
    }
}

pub(super) fn since(at: u64, started: u64) -> Duration {
    Duration::from_millis(at.saturating_sub(started))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(entries: &[(u64, What)]) -> Rows {
        let entries: Vec<Entry> =
            entries.iter().map(|(at, what)| Entry { at: 1_000 + at, what: what.clone() }).collect();
        rows(&entries, 1_000)
    }

    fn phase(pod: &str, phase: &str) -> What {
        What::Phase { pod: pod.into(), phase: phase.into(), generation: 1 }
    }

    fn ready(pod: &str, ready: bool) -> What {
        What::Readiness { pod: pod.into(), ready, reason: None }
    }

    fn leads(pod: &str, leads: bool, term: u64) -> What {
        What::Leader { pod: pod.into(), leads, leader: Some("1f".into()), term: Some(term) }
    }

    fn shown(row: &MemberRow) -> Vec<(u128, &str, bool)> {
        row.changes
            .iter()
            .map(|change| (change.at.as_millis(), change.phase.as_str(), change.ready))
            .collect()
    }

    #[test]
    fn phase_and_readiness_make_one_row_a_member() {
        let rows = rows_of(&[
            (5, phase("a-0", "running")),
            (5, ready("a-0", true)),
            (9, ready("a-0", false)),
            (9, phase("b-0", "starting")),
            (20, ready("a-0", true)),
            (30, phase("a-0", "gone")),
        ]);
        assert_eq!(
            shown(&rows.members[0]),
            [(5, "running", true), (9, "running", false), (20, "running", true), (30, "gone", false)]
        );
        assert_eq!(rows.members[1].name, "b-0");
    }

    #[test]
    fn the_newest_term_leads_and_who_is_gone_does_not() {
        let rows = rows_of(&[
            (1, leads("a-0", false, 2)),
            (5, leads("a-0", true, 2)),
            (10, leads("a-1", true, 3)),
            (11, leads("a-0", false, 3)),
            (20, phase("a-1", "gone")),
            (30, leads("a-0", true, 4)),
        ]);
        let led: Vec<_> = rows
            .leaders
            .iter()
            .map(|lead| (lead.at.as_millis(), lead.member.as_deref(), lead.term))
            .collect();
        assert_eq!(led, [(5, Some("a-0"), 2), (10, Some("a-1"), 3), (20, None, 3), (30, Some("a-0"), 4)]);
    }

    #[test]
    fn a_member_that_says_nothing_stands_by_the_kubelets_word() {
        let container = |state: &str| What::Container {
            pod: "go-0".into(),
            container: ETCD.into(),
            state: state.into(),
            restarts: 0,
        };
        let pod = |state: &str| What::Pod { pod: "go-0".into(), state: state.into() };
        let rows = rows_of(&[
            (1, What::Pod { pod: "toolbox".into(), state: "ready".into() }),
            (2, container("running")),
            (7, pod("ready")),
            (9, container("exit 1")),
            (9, pod("not ready")),
        ]);
        assert_eq!(rows.members.len(), 1);
        assert_eq!(
            shown(&rows.members[0]),
            [(2, "running", false), (7, "running", true), (9, "gone", false)]
        );
    }

    #[test]
    fn faults_end_by_their_number_and_some_are_over_at_once() {
        let began =
            |fault| What::FaultBegan { fault, name: format!("f{fault}"), subjects: vec!["a-0".into()] };
        let rows = rows_of(&[
            (1, began(1)),
            (2, began(2)),
            (3, began(7)),
            (9, What::FaultEnded { fault: 7 }),
            (10, What::FaultEnded { fault: 1 }),
        ]);
        let ends: Vec<_> = rows.faults.iter().map(|fault| fault.to.map(|to| to.as_millis())).collect();
        assert_eq!((ends, rows.faults[1].label.as_str()), (vec![Some(10), None, Some(9)], "f2: a-0"));
    }
}
