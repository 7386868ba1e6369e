// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The one task that asks the local etcd. Owns the connection, the pace and the published view. Every question is a
//! flight of its own with its own limit: one that hangs (a frozen etcd) delays no other, and a new generation drops
//! them all.
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::client::Client;
use super::fold::{Answer, Fold, Moment, is_same_news};
use super::readiness::MAX_AGE;
use super::schedule::{Kind, Schedule};
use super::scraper::Scraper;
use super::view::{MemberView, Target};

/// Answered out of etcd's memory: later than this is no answer. With the pace of 250 ms it takes two failed polls, 2 s,
/// until leadership is given up.
const LOCAL_LIMIT: Duration = Duration::from_secs(1);
/// Longer than an election. A read starts at most 2 s after the last one that succeeded, so a frozen etcd is known after
/// 7 s.
const READ_LIMIT: Duration = Duration::from_secs(5);
/// With more between two reads, one that takes its time would come too late: what the last one said has grown too old.
pub const LONGEST_READINESS_INTERVAL: Duration = MAX_AGE.saturating_sub(READ_LIMIT);
/// Pause after a read that failed, counted from its start: recovery is to be seen soon.
const RETRY: Duration = Duration::from_millis(250);
/// Gathering the page costs etcd milliseconds of work, so it is read less often than Status.
const GAUGES_INTERVAL: Duration = Duration::from_secs(1);
/// Every so many pages the alarms are asked for too: etcd logs each such question while an alarm is raised.
const PAGES_PER_ALARMS: u32 = 30;
/// MemberList, and whether auth still hides Status.
const SLOW_INTERVAL: Duration = Duration::from_secs(10);

/// The pace.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `--status-interval`.
    pub status_interval: Duration,
    /// `--readiness-interval`.
    pub readiness_interval: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { status_interval: Duration::from_millis(250), readiness_interval: Duration::from_secs(2) }
    }
}

/// A question under way; brings its answer, and the scraper back if it took it.
type Flight = Pin<Box<dyn Future<Output = Landing> + Send>>;

struct Landing {
    kind: Kind,
    answer: Answer,
    scraper: Option<Scraper>,
}

/// Asks the etcd that `targets` names and publishes what it tells in `out`, until the other end of `targets` is gone.
/// The view of a generation is empty until its READY was seen, and emptied when it ends.
pub async fn run(
    mut targets: watch::Receiver<Option<Target>>,
    settings: Settings,
    out: watch::Sender<Arc<MemberView>>,
) {
    let mut prober = Prober { settings, out, current: None };
    let target = targets.borrow_and_update().clone();
    prober.aim(target);
    loop {
        tokio::select! {
            changed = targets.changed() => {
                if changed.is_err() {
                    prober.aim(None);
                    return;
                }
                let target = targets.borrow_and_update().clone();
                prober.aim(target);
            }
            () = prober.turn() => {}
        }
    }
}

struct Prober {
    settings: Settings,
    out: watch::Sender<Arc<MemberView>>,
    current: Option<Generation>,
}

struct Generation {
    target: Target,
    fold: Fold,
    schedule: Schedule,
    flights: FuturesUnordered<Flight>,
    scraper: Option<Scraper>,
    pages: u32,
}

impl Prober {
    /// Takes a new target: another generation begins from nothing; within one only READY and the dial may change.
    fn aim(&mut self, target: Option<Target>) {
        let Some(target) = target else {
            self.current = None;
            return self.publish();
        };
        let settings = self.settings;
        match &mut self.current {
            Some(current) if current.target.generation == target.generation => {
                current.update(target, settings);
            }
            current => current.insert(Generation::new(&target)).update(target, settings),
        }
        self.publish();
    }

    /// Waits for the next answer or due time and deals with it. Nothing is lost when it is dropped while waiting.
    async fn turn(&mut self) {
        let Some(current) = &mut self.current else { return std::future::pending().await };
        let due = current.schedule.next();
        tokio::select! {
            Some(landing) = current.flights.next() => {
                current.land(landing, self.settings);
                self.publish();
            }
            () = async { sleep_until(due.expect("guarded")).await }, if due.is_some() => current.launch(),
            else => std::future::pending().await,
        }
    }

    fn publish(&self) {
        let new = self.current.as_ref().map(|current| current.fold.view.clone()).unwrap_or_default();
        self.out.send_if_modified(|view| {
            let woken = !is_same_news(view, &new);
            if woken {
                log_changes(view, &new);
            }
            *view = Arc::new(new);
            woken
        });
    }
}

impl Generation {
    fn new(target: &Target) -> Self {
        Self {
            target: Target { ready_seen: false, ..target.clone() },
            fold: Fold::new(target.generation, target.config.quota_backend_bytes),
            schedule: Schedule::default(),
            flights: FuturesUnordered::new(),
            scraper: None,
            pages: 0,
        }
    }

    fn update(&mut self, target: Target, settings: Settings) {
        let http = |target: &Target| target.http.clone().unwrap_or_else(|| target.dial.clone());
        let moved = !self.target.dial.is_same(&target.dial) || !http(&self.target).is_same(&http(&target));
        let was_ready = std::mem::replace(&mut self.target, target).ready_seen;
        if !self.target.ready_seen {
            return;
        }
        if moved || self.fold.view.client.is_none() {
            // Flights on the old connection may end; it closes with the last of them.
            self.fold.view.client = Some(Client::new(self.target.dial.clone(), http(&self.target)));
        }
        if !was_ready {
            let now = Instant::now();
            for kind in [Kind::Linearizable, Kind::Status, Kind::Members] {
                self.schedule.ask_by(kind, now);
            }
            self.schedule.ask_by(Kind::Serializable, now + settings.readiness_interval);
        }
    }

    /// Starts whatever is due.
    fn launch(&mut self) {
        let client = self.fold.view.client.as_ref().expect("nothing is scheduled before there is a client");
        for kind in self.schedule.take_due(Instant::now()) {
            let client = client.clone();
            let flight: Flight =
                match kind {
                    Kind::Linearizable => Box::pin(async move {
                        Landing::of(kind, Answer::Linearizable(client.linearizable_read(READ_LIMIT).await))
                    }),
                    Kind::Serializable => Box::pin(async move {
                        Landing::of(kind, Answer::Serializable(client.serializable_read(LOCAL_LIMIT).await))
                    }),
                    Kind::Status => Box::pin(async move {
                        Landing::of(kind, Answer::Status(client.status(LOCAL_LIMIT).await))
                    }),
                    Kind::Members => Box::pin(async move {
                        Landing::of(kind, Answer::Members(client.members(LOCAL_LIMIT).await))
                    }),
                    Kind::Gauges => {
                        let kept = self.scraper.take().filter(|scraper| client.is_served_by(scraper));
                        let mut scraper = kept.unwrap_or_else(|| client.scraper());
                        let with_alarms = self.pages.is_multiple_of(PAGES_PER_ALARMS);
                        self.pages += 1;
                        Box::pin(async move {
                            let gauges = scraper.gauges(LOCAL_LIMIT).await;
                            let alarms = match &gauges {
                                Ok(_) if with_alarms => scraper.alarms(LOCAL_LIMIT).await.ok(),
                                _ => None,
                            };
                            Landing { kind, answer: Answer::Gauges(gauges, alarms), scraper: Some(scraper) }
                        })
                    }
                };
            self.flights.push(flight);
        }
    }

    /// Takes an answer in and decides when to ask again.
    fn land(&mut self, landing: Landing, settings: Settings) {
        let now = Instant::now();
        let before = (self.fold.view.learner, self.leader());
        self.scraper = landing.scraper.or(self.scraper.take());
        let took = self.schedule.took(landing.kind, now);
        self.fold.apply(landing.answer, Moment { now: now.into_std(), wall: SystemTime::now(), took });
        let view = &self.fold.view;
        let pace = match landing.kind {
            Kind::Linearizable if view.linearizable_read.as_ref().is_some_and(|probe| probe.ok) => {
                Some(settings.readiness_interval)
            }
            Kind::Linearizable => Some(RETRY.min(settings.readiness_interval)),
            Kind::Serializable => Some(2 * settings.readiness_interval),
            Kind::Status if view.auth_hides_status => Some(SLOW_INTERVAL),
            Kind::Status => Some(settings.status_interval),
            Kind::Gauges if view.auth_hides_status => Some(GAUGES_INTERVAL.max(settings.status_interval)),
            Kind::Gauges => None,
            Kind::Members => Some(SLOW_INTERVAL),
        };
        self.schedule.landed(landing.kind, now, pace);
        if self.fold.view.auth_hides_status {
            self.schedule.begin(Kind::Gauges, now);
        }
        if before != (self.fold.view.learner, self.leader()) {
            self.schedule.ask_by(Kind::Members, now);
        }
    }

    fn leader(&self) -> Option<(Option<u64>, Option<u64>)> {
        self.fold.view.leadership.as_ref().map(|leadership| (leadership.leader_id, leadership.term))
    }
}

/// What an operator looks for in the log afterwards. A new generation begins silently.
fn log_changes(old: &MemberView, new: &MemberView) {
    if old.generation != new.generation {
        return;
    }
    if let Some(read) = &new.linearizable_read
        && old.linearizable_read.as_ref().map(|read| read.ok) != Some(read.ok)
    {
        let (ok, detail) = (read.ok, &read.detail);
        tracing::info!(generation = new.generation, ok, detail, "linearizable read through the local member");
    }
    if let Some(now) = &new.leadership
        && old.leadership.as_ref() != Some(now)
    {
        let leader = now.leader_id.map(|id| format!("{id:x}"));
        let (leads, has_leader, term) = (now.is_leader, now.has_leader, now.term);
        tracing::info!(generation = new.generation, leads, has_leader, leader, term, "leadership");
    }
    if new.alarms.is_some_and(|alarms| alarms != old.alarms.unwrap_or_default()) {
        let alarms = new.alarms.unwrap_or_default();
        let (nospace, corrupt) = (alarms.nospace, alarms.corrupt);
        tracing::warn!(generation = new.generation, nospace, corrupt, "alarms changed");
    }
    if old.auth_hides_status != new.auth_hides_status {
        let hidden = new.auth_hides_status;
        tracing::info!(generation = new.generation, hidden, "auth hides status from the wrapper");
    }
}

impl Landing {
    fn of(kind: Kind, answer: Answer) -> Self {
        Self { kind, answer, scraper: None }
    }
}
