// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Where a scenario's watchers and faults write down what they see and do. Clones write into the same timeline. What
//! repeats is written once, and nothing grows without a limit: whoever flaps a thousand times has told enough.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::model::Note;
use super::sample::{MOST_POINTS, sample};
use super::timeline::{Fault, LeaderChange, MemberLine, PhaseChange, Timeline, Traffic};
use crate::history::{History, Judgement};

/// Entries of one row, and notes.
const MOST: usize = 1_000;

#[derive(Clone, Debug)]
pub struct Recorder {
    origin: Instant,
    inner: Arc<Mutex<Recorded>>,
}

#[derive(Debug, Default)]
struct Recorded {
    timeline: Timeline,
    notes: Vec<Note>,
}

/// A fault that lasts until this is dropped.
#[derive(Debug)]
pub struct OpenFault {
    recorder: Recorder,
    index: Option<usize>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new(Instant::now())
    }
}

impl Recorder {
    /// Times count from `origin`. Traffic of the same scenario must be given the same one.
    pub fn new(origin: Instant) -> Self {
        Self { origin, inner: Arc::default() }
    }

    /// The zero of all times.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// A member is seen in this phase now: the wrapper's word for it, or `gone` while nobody answers.
    pub fn phase(&self, member: &str, phase: &str, ready: bool) {
        let at = self.origin.elapsed();
        let mut inner = self.inner();
        let members = &mut inner.timeline.members;
        let index = members.iter().position(|line| line.name == member).unwrap_or_else(|| {
            members.push(MemberLine { name: member.to_owned(), phases: Vec::new() });
            members.len() - 1
        });
        let new = PhaseChange { at, phase: phase.to_owned(), ready };
        let is_same = |last: &PhaseChange| last.phase == new.phase && last.ready == new.ready;
        let phases = &mut members[index].phases;
        if !phases.last().is_some_and(is_same) && phases.len() < MOST {
            phases.push(new);
        }
    }

    /// This member is seen leading now; None: nobody.
    pub fn leader(&self, member: Option<&str>, term: u64) {
        let at = self.origin.elapsed();
        let leaders = &mut self.inner().timeline.leaders;
        let is_same = |last: &LeaderChange| last.member.as_deref() == member && last.term == term;
        if !leaders.last().is_some_and(is_same) && leaders.len() < MOST {
            leaders.push(LeaderChange { at, member: member.map(str::to_owned), term });
        }
    }

    /// Something is broken from now on, until the returned value is dropped. Noted, too.
    pub fn fault(&self, label: &str) -> OpenFault {
        let index = self.add_fault(label, None);
        OpenFault { recorder: self.clone(), index }
    }

    /// Something was broken in one moment, as a kill does. Noted, too.
    pub fn strike(&self, label: &str) {
        let at = self.origin.elapsed();
        self.add_fault(label, Some(at));
    }

    fn add_fault(&self, label: &str, to: Option<Duration>) -> Option<usize> {
        self.note(format!("fault: {label}"));
        let from = to.unwrap_or_else(|| self.origin.elapsed());
        let faults = &mut self.inner().timeline.faults;
        (faults.len() < MOST).then(|| {
            faults.push(Fault { from, to, label: label.to_owned() });
            faults.len() - 1
        })
    }

    /// Something else that a reader should know.
    pub fn note(&self, text: impl Into<String>) {
        let at = self.origin.elapsed();
        let notes = &mut self.inner().notes;
        match notes.len() {
            ..MOST => notes.push(Note { at, text: text.into() }),
            MOST => notes.push(Note { at, text: "further notes are left out".into() }),
            _ => {}
        }
    }

    /// What clients saw, and what that is worth. The last of several counts.
    pub fn traffic(&self, history: &History, judgement: Judgement) {
        let traffic = Traffic { points: sample(history, MOST_POINTS), calls: history.ops.len(), judgement };
        self.inner().timeline.traffic = Some(traffic);
    }

    /// What was recorded so far.
    pub fn recorded(&self) -> (Timeline, Vec<Note>) {
        let inner = self.inner();
        (inner.timeline.clone(), inner.notes.clone())
    }

    fn inner(&self) -> MutexGuard<'_, Recorded> {
        // Every entry is pushed whole, whatever panicked beside it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenFault {
    fn drop(&mut self) {
        let Some(index) = self.index else { return };
        let at = self.recorder.origin.elapsed();
        let label = {
            let fault = &mut self.recorder.inner().timeline.faults[index];
            fault.to = Some(at);
            format!("over: {}", fault.label)
        };
        self.recorder.note(label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_is_written_once() {
        let recorder = Recorder::default();
        for _ in 0..5 {
            recorder.phase("m-0", "running", true);
            recorder.leader(Some("m-0"), 2);
        }
        recorder.phase("m-0", "running", false);
        recorder.phase("m-1", "starting", false);
        recorder.leader(None, 2);
        let (timeline, _) = recorder.recorded();
        let lengths: Vec<usize> = timeline.members.iter().map(|line| line.phases.len()).collect();
        assert_eq!((lengths, timeline.leaders.len()), (vec![2, 1], 2));
    }

    #[test]
    fn a_fault_lasts_until_it_is_dropped_and_is_noted() {
        let recorder = Recorder::default();
        recorder.strike("kill etcd");
        let open = recorder.fault("partition");
        assert_eq!(recorder.recorded().0.faults[1].to, None);
        drop(open);
        let (timeline, notes) = recorder.recorded();
        let [strike, partition] = &timeline.faults[..] else { panic!("{timeline:?}") };
        assert_eq!(strike.to, Some(strike.from));
        assert!(partition.to.unwrap() >= partition.from);
        let texts: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
        assert_eq!(texts, ["fault: kill etcd", "fault: partition", "over: partition"]);
    }

    #[test]
    fn nothing_grows_without_a_limit() {
        let recorder = Recorder::default();
        for number in 0..2 * MOST {
            recorder.phase("m-0", "running", number % 2 == 0);
            recorder.note("again");
            drop(recorder.fault("again"));
        }
        let (timeline, notes) = recorder.recorded();
        assert_eq!((timeline.members[0].phases.len(), timeline.faults.len()), (MOST, MOST));
        assert_eq!((notes.len(), notes[MOST].text.as_str()), (MOST + 1, "further notes are left out"));
    }
}
