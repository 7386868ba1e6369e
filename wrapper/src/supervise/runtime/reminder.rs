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
        let waits = matches!(phase, Phase::Initializing | Phase::Configuring | Phase::Starting | Phase::Held);
        if !waits || now - self.said < EVERY {
            return;
        }
        self.said = now;
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
}
