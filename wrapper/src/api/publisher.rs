// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The one writer of positions: watches the stages' views, lets the index grow whenever something changed that a
//! reader would want to be woken for, and makes the events. Never speaks to a stage, and no probe waits for it.
//!
//! A watch channel keeps the newest value only, and phases can change faster than this task is run. So the supervisor's
//! views come one by one, in order, beside its watch channel; each is looked at together with the member's view as it
//! was, and only the newest with the newest.
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::{self, error::TryRecvError};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tracing::warn;

use crate::member::readiness::{self, MAX_AGE};
use crate::member::view::MemberView;
use crate::member::volume::Volume;
use crate::metrics::Metrics;
use crate::supervise::view::CoreView;
use crate::tls::TlsView;

use super::events::Topic;
use super::events::frame::{Frame, event};
use super::events::ring::Ring;
use super::snapshot::{self, Marks, Now, compose};
use super::{Views, warnings, wire};

/// Readiness goes stale by time alone, so the views are looked at this often even when nothing was sent.
const TICK: Duration = Duration::from_secs(1);

/// What the publisher knows beyond the views.
#[derive(Debug)]
pub struct Published {
    /// Positions and times that the views themselves do not hold.
    pub marks: Marks,
    /// The index at which leadership changed last; a long-poll on it waits for this one.
    pub leader_index: u64,
    /// The events up to `marks.index`.
    pub ring: Ring,
    /// The views that `marks.index` stands for: what was looked at, and not what is newest.
    core: Arc<CoreView>,
    member: Arc<MemberView>,
}

impl Published {
    /// The status at this position; the events after it are what changed since.
    pub fn status(&self, tls: &TlsView, now: Now) -> wire::Status {
        compose(&self.core, &self.member, tls, &self.marks, now)
    }
}

/// The task that publishes.
#[derive(Debug)]
pub struct Publisher {
    views: Views,
    metrics: Metrics,
    volume: watch::Receiver<Option<Volume>>,
    /// Every view of the supervisor in order; None: its watch channel has to do.
    steps: Option<broadcast::Receiver<Arc<CoreView>>>,
    shape: wire::Status,
    core: Arc<CoreView>,
    member: Arc<MemberView>,
    sender: watch::Sender<Published>,
}

impl Publisher {
    /// Publishes index 1 at once, so that a reader always finds a position.
    pub fn new(
        mut views: Views,
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
        let core = Arc::new(views.core.borrow_and_update().clone());
        let member = Arc::clone(&views.member.borrow_and_update());
        let shape = shape(compose(&core, &member, &views.tls.borrow(), &marks, now));
        let ring = Ring::new(marks.index);
        let published =
            Published { marks, leader_index: 1, ring, core: Arc::clone(&core), member: Arc::clone(&member) };
        let (sender, receiver) = watch::channel(published);
        (Self { views, metrics, volume, steps: None, shape, core, member, sender }, receiver)
    }

    /// Sees every view that the supervisor sends to `steps`, and not only the newest.
    #[must_use]
    pub fn with_steps(self, steps: broadcast::Receiver<Arc<CoreView>>) -> Self {
        Self { steps: Some(steps), ..self }
    }

    /// Runs until the supervisor's view ends.
    pub async fn run(mut self) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut member_lives, mut tls_lives) = (true, true);
        loop {
            let mut is_core = false;
            tokio::select! {
                changed = self.views.core.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    is_core = true;
                }
                changed = self.views.member.changed(), if member_lives => member_lives = changed.is_ok(),
                changed = self.views.tls.changed(), if tls_lives => tls_lives = changed.is_ok(),
                _ = tick.tick() => {}
            }
            self.catch_up(is_core, Now::read());
        }
    }

    /// Looks at all that has come, in order.
    fn catch_up(&mut self, is_core: bool, now: Now) {
        let mut stepped = false;
        while let Some(step) = self.next_step() {
            stepped = true;
            self.core = step;
            self.look(now);
        }
        if is_core && !stepped {
            self.core = Arc::new(self.views.core.borrow().clone());
        }
        self.member = Arc::clone(&self.views.member.borrow());
        self.look(now);
    }

    fn next_step(&mut self) -> Option<Arc<CoreView>> {
        loop {
            match self.steps.as_mut()?.try_recv() {
                Ok(step) => return Some(step),
                Err(TryRecvError::Lagged(lost)) => {
                    warn!(lost, "the publisher was too slow: readers of events are told of a gap");
                    self.sender.send_modify(|published| {
                        published.marks.index += 1;
                        published.ring.forget(published.marks.index);
                    });
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }

    /// One look at one pair of views.
    fn look(&mut self, now: Now) {
        let (core, member) = (&self.core, &self.member);
        let tls = self.views.tls.borrow();
        let mut marks = self.sender.borrow().marks.clone();
        self.metrics.observe(core, member);
        let ready = readiness::evaluate(core, member, now.instant, MAX_AGE).ready;
        if ready != marks.ready {
            marks.ready = ready;
            marks.ready_since = now.wall;
        }
        marks.volume = *self.volume.borrow();
        let before: Vec<_> = marks.warnings.iter().map(|warning| warning.code).collect();
        marks.warnings = warnings::current(core, member, &tls, marks.volume, &marks.warnings, now.wall);
        for warning in marks.warnings.iter().filter(|warning| !before.contains(&warning.code)) {
            warn!(code = warning.code, "{}", warning.detail);
        }
        let mut seen = shape(compose(core, member, &tls, &marks, now));
        if seen.leader != self.shape.leader {
            marks.leader_since = now.wall;
            seen.leader.since = wire::time(now.wall);
        }
        drop(tls);
        let news = self.news(&seen, &marks, now);
        let is_same = news.is_empty() && seen == self.shape;
        self.shape = seen;
        let (core, member) = (Arc::clone(&self.core), Arc::clone(&self.member));
        self.sender.send_if_modified(|published| {
            (published.core, published.member) = (core, member);
            if is_same {
                // No news that anybody waits for.
                published.marks.volume = marks.volume;
                return false;
            }
            if news.is_empty() {
                marks.index += 1;
                published.ring.advance(marks.index);
            }
            for (topic, subject, mut event) in news {
                // An id names one event.
                marks.index += 1;
                event.index = marks.index;
                if let Some(leader) = &mut event.leader {
                    leader.index = marks.index;
                    published.leader_index = marks.index;
                }
                published.ring.append(topic, subject, marks.index, Frame::new(&event));
            }
            published.marks = marks;
            true
        });
    }

    /// What changed since the look before, as events without an index, the most urgent first.
    fn news(&self, seen: &wire::Status, marks: &Marks, now: Now) -> Vec<(Topic, u64, wire::Event)> {
        let (core, member) = (&self.core, &self.member);
        let blank = |topic: Topic| event(&core.epoch, 0, topic.as_str(), now.wall);
        let mut news = Vec::new();
        if seen.leader != self.shape.leader {
            let leader = Some(snapshot::leader(core, member, marks, now));
            news.push((Topic::Leader, 0, wire::Event { leader, ..blank(Topic::Leader) }));
        }
        let was = &self.shape;
        let stands = |status: &wire::Status| {
            (status.wrapper.phase.clone(), status.wrapper.intent.clone(), status.etcd.generation)
        };
        if stands(seen) != stands(was) {
            let (phase, intent, generation) = stands(seen);
            let event = wire::Event {
                phase: Some(phase),
                previous: Some(was.wrapper.phase.clone()),
                intent: Some(intent),
                generation: Some(generation),
                ..blank(Topic::Phase)
            };
            news.push((Topic::Phase, 0, event));
        }
        if seen.readiness != was.readiness {
            let evaluation = readiness::evaluate(core, member, now.instant, MAX_AGE);
            let readiness = Some(snapshot::readiness_document(core, &evaluation, marks, now));
            news.push((Topic::Readiness, 0, wire::Event { readiness, ..blank(Topic::Readiness) }));
        }
        let known = &self.sender.borrow().core.operations;
        if !Arc::ptr_eq(known, &core.operations) {
            for operation in core.operations.iter() {
                let document = snapshot::operation(&core.epoch, operation);
                let before = known.iter().find(|before| before.id == operation.id);
                if before.map(|before| snapshot::operation(&core.epoch, before)).as_ref() != Some(&document) {
                    let operation_ = Some(document);
                    let event = wire::Event { operation: operation_, ..blank(Topic::Operation) };
                    news.push((Topic::Operation, operation.id, event));
                }
            }
        }
        news
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

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
