// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Says once a minute what a bootstrap waits for (A2). Silent in phases that wait for nothing.
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use crate::supervise::publish::Chronicle;
use crate::supervise::view::Phase;

const EVERY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Reminder {
    since: Instant,
    said: Instant,
}

impl Reminder {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, said: now }
    }

    /// Another phase; returns how long the one before took.
    pub(super) fn changed(&mut self, now: Instant) -> Duration {
        self.said = now;
        now - std::mem::replace(&mut self.since, now)
    }

    /// Called every second or so.
    pub(super) fn remind(&mut self, phase: Phase, chronicle: &Chronicle, now: Instant) {
        if !self.is_due(phase, now) {
            return;
        }
        warn!(
            phase = phase.as_str(),
            waiting = ?Duration::from_secs((now - self.since).as_secs()),
            sidecar = chronicle.word.map(crate::supervise::view::SidecarWord::as_str),
            rounds = chronicle.rounds,
            last_error = chronicle.last_error.as_deref(),
            lock = chronicle.lock_note.as_deref(),
            "still waiting",
        );
    }

    fn is_due(&mut self, phase: Phase, now: Instant) -> bool {
        let waits = matches!(phase, Phase::Initializing | Phase::Configuring | Phase::Starting | Phase::Held);
        let due = waits && now - self.said >= EVERY;
        if due {
            self.said = now;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reminders within `seconds` of a phase, the loop turning once a second.
    fn count(phase: Phase, seconds: u64) -> usize {
        let began = Instant::now();
        let mut reminder = Reminder::new(began);
        reminder.changed(began);
        (0..=seconds).filter(|second| reminder.is_due(phase, began + Duration::from_secs(*second))).count()
    }

    #[test]
    fn a2_ten_minutes_of_waiting_give_a_reminder_a_minute() {
        assert_eq!(count(Phase::Initializing, 59), 0);
        assert_eq!(count(Phase::Initializing, 600), 10);
        assert_eq!(count(Phase::Configuring, 600), 10);
        assert_eq!(count(Phase::Running, 600), 0);
    }

    #[test]
    fn a2_every_new_phase_begins_its_minute_anew() {
        let began = Instant::now();
        let mut reminder = Reminder::new(began);
        let at = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(reminder.changed(at(50)), Duration::from_secs(50));
        assert!(!reminder.is_due(Phase::Configuring, at(100)));
        assert!(reminder.is_due(Phase::Configuring, at(110)));
    }
}
