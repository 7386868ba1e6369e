// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The one writer of positions: watches the stages' views, and lets the index grow whenever something changed that a
//! reader would want to be woken for. Never speaks to a stage, and no probe waits for it.
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tracing::warn;

use crate::metrics::Metrics;

use crate::member::readiness::{self, MAX_AGE};
use crate::member::volume::Volume;

use super::snapshot::{Marks, Now, compose};
use super::{Views, warnings, wire};

/// Readiness goes stale by time alone, so the views are looked at this often even when nothing was sent.
const TICK: Duration = Duration::from_secs(1);

/// What the publisher knows beyond the views.
#[derive(Clone, Debug)]
pub struct Published {
    pub marks: Marks,
    /// The index at which leadership changed last; a long-poll on it waits for this one.
    pub leader_index: u64,
}

/// The task that publishes.
#[derive(Debug)]
pub struct Publisher {
    views: Views,
    metrics: Metrics,
    volume: watch::Receiver<Option<Volume>>,
    shape: wire::Status,
    sender: watch::Sender<Published>,
}

impl Publisher {
    /// Publishes index 1 at once, so that a reader always finds a position.
    pub fn new(
        views: Views,
        metrics: Metrics,
        volume: watch::Receiver<Option<Volume>>,
    ) -> (Self, watch::Receiver<Published>) {
        let now = Now::read();
        let marks = Marks {
            index: 1,
            ready: false,
            ready_since: now.wall,
            leader_since: now.wall,
            warnings: Vec::new(),
            volume: None,
        };
        let shape = shape(views.status(&marks, now));
        let (sender, receiver) = watch::channel(Published { marks, leader_index: 1 });
        (Self { views, metrics, volume, shape, sender }, receiver)
    }

    /// Runs until the supervisor's view ends.
    pub async fn run(mut self) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut member_lives, mut tls_lives) = (true, true);
        loop {
            tokio::select! {
                changed = self.views.core.changed() => if changed.is_err() { return },
                changed = self.views.member.changed(), if member_lives => member_lives = changed.is_ok(),
                changed = self.views.tls.changed(), if tls_lives => tls_lives = changed.is_ok(),
                _ = tick.tick() => {}
            }
            self.publish(Now::read());
        }
    }

    /// One look at the views.
    fn publish(&mut self, now: Now) {
        let mut next = self.sender.borrow().clone();
        {
            let (core, member, tls) =
                (self.views.core.borrow(), self.views.member.borrow(), self.views.tls.borrow());
            self.metrics.observe(&core, &member);
            let ready = readiness::evaluate(&core, &member, now.instant, MAX_AGE).ready;
            if ready != next.marks.ready {
                next.marks.ready = ready;
                next.marks.ready_since = now.wall;
            }
            let volume = *self.volume.borrow();
            next.marks.volume = volume;
            let before: Vec<_> = next.marks.warnings.iter().map(|warning| warning.code).collect();
            next.marks.warnings =
                warnings::current(&core, &member, &tls, volume, &next.marks.warnings, now.wall);
            for warning in next.marks.warnings.iter().filter(|warning| !before.contains(&warning.code)) {
                warn!(code = warning.code, "{}", warning.detail);
            }
        }
        let mut seen = shape(self.views.status(&next.marks, now));
        if seen.leader != self.shape.leader {
            next.marks.leader_since = now.wall;
            seen.leader.since = wire::time(now.wall);
            next.leader_index = next.marks.index + 1;
        }
        if seen != self.shape {
            next.marks.index += 1;
            self.shape = seen;
            self.sender.send_replace(next);
        } else {
            // No news that anybody waits for.
            self.sender.send_if_modified(|published| {
                published.marks.volume = next.marks.volume;
                false
            });
        }
    }
}

/// A status without what changes all the time: two equal shapes are no news.
fn shape(mut status: wire::Status) -> wire::Status {
    status.index = 0;
    status.time = String::new();
    status.volume = None;
    status.etcd.db = None;
    status.leader.index = 0;
    status.leader.age = None;
    for check in &mut status.readiness.checks {
        check.at = None;
        check.detail = None;
    }
    for warning in &mut status.warnings {
        warning.detail = String::new();
    }
    status
}

impl Views {
    /// The status document of this moment.
    pub fn status(&self, marks: &Marks, now: Now) -> wire::Status {
        compose(&self.core.borrow(), &self.member.borrow(), &self.tls.borrow(), marks, now)
    }
}
