// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `/metrics`. What a view tells is rendered from the view at scrape time, so that no gauge can say another thing than
//! the status; only what happens between scrapes (requests, ends, durations) is counted here.
mod exposition;
mod process;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::member::view::MemberView;
use crate::supervise::view::{CoreView, ExitStatus, Phase};

pub use exposition::{Format, Scrape};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    code: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    kind: &'static str,
    status: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    step: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SidecarLabels {
    call: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// The counters and histograms of this process. Cheap to clone; all clones count into the same.
#[derive(Clone, Debug)]
pub struct Metrics {
    counted: Arc<Counted>,
}

#[derive(Debug)]
struct Counted {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    exits: Family<KindLabels, Counter>,
    operations: Family<OperationLabels, Histogram>,
    steps: Family<StepLabels, Histogram>,
    sidecar: Family<SidecarLabels, Counter>,
    leader_changes: Counter,
    streams: Gauge,
    dropped: Counter,
    notified: Family<OutcomeLabels, Counter>,
    seen: Mutex<Seen>,
}

/// What the views said when they were last looked at.
#[derive(Debug, Default)]
struct Seen {
    phase: Option<(Phase, SystemTime)>,
    exit: Option<(u64, SystemTime)>,
    finished: Option<u64>,
    leader: Option<u64>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("etcd_wrapper");
        let requests = Family::<RequestLabels, Counter>::default();
        registry.register("http_requests", "HTTP requests by route and status code", requests.clone());
        let exits = Family::<KindLabels, Counter>::default();
        registry.register("child_exits", "Ends of etcd by kind", exits.clone());
        let operations = Family::<OperationLabels, Histogram>::new_with_constructor(|| {
            Histogram::new([0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0])
        });
        let help = "Duration of finished operations";
        registry.register("operation_duration_seconds", help, operations.clone());
        let steps = Family::<StepLabels, Histogram>::new_with_constructor(|| {
            Histogram::new([0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0])
        });
        let help = "Time spent in the phases before etcd runs";
        registry.register("bootstrap_duration_seconds", help, steps.clone());
        let sidecar = Family::<SidecarLabels, Counter>::default();
        registry.register("sidecar_requests", "Requests to the sidecar by call and outcome", sidecar.clone());
        let leader_changes = Counter::default();
        registry.register(
            "leader_changes",
            "Changes of the leader that this member saw",
            leader_changes.clone(),
        );
        let streams = Gauge::default();
        registry.register("event_streams", "Open streams of GET /v1/events", streams.clone());
        let dropped = Counter::default();
        let help = "Events that slow readers of streams did not get";
        registry.register("events_dropped", help, dropped.clone());
        let notified = Family::<OutcomeLabels, Counter>::default();
        registry.register("notify", "Calls of --notify-url by outcome", notified.clone());
        let seen = Mutex::default();
        let counted = Counted {
            registry,
            requests,
            exits,
            operations,
            steps,
            sidecar,
            leader_changes,
            streams,
            dropped,
            notified,
            seen,
        };
        Self { counted: Arc::new(counted) }
    }

    /// An HTTP request was answered. `route` is a template, so that strangers cannot make series.
    pub fn request(&self, route: &'static str, status: StatusCode) {
        let labels = RequestLabels { route, code: u32::from(status.as_u16()) };
        self.counted.requests.get_or_create(&labels).inc();
    }

    /// A request to the sidecar ended; both words are of a closed vocabulary.
    pub fn sidecar_request(&self, call: &'static str, outcome: &'static str) {
        self.counted.sidecar.get_or_create(&SidecarLabels { call, outcome }).inc();
    }

    /// So many streams more, or less.
    pub fn streams(&self, change: i64) {
        self.counted.streams.inc_by(change);
    }

    /// A stream left out so many events.
    pub fn events_dropped(&self, events: u64) {
        self.counted.dropped.inc_by(events);
    }

    /// A call of a webhook ended; the word is of a closed vocabulary.
    pub fn notified(&self, outcome: &'static str) {
        self.counted.notified.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    #[cfg(test)]
    pub(crate) fn notified_so_far(&self, outcome: &'static str) -> u64 {
        self.counted.notified.get_or_create(&OutcomeLabels { outcome }).get()
    }

    /// Counts what changed since the last look: ends of etcd, finished operations, bootstrap steps, leader changes.
    pub fn observe(&self, core: &CoreView, member: &MemberView) {
        let mut seen = self.counted.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.observe_phase(&mut seen, core);
        self.observe_exit(&mut seen, core);
        self.observe_operation(&mut seen, core);
        let leader = member.leadership.as_ref().and_then(|leadership| leadership.leader_id);
        if let Some(leader) = leader
            && seen.leader.replace(leader).is_some_and(|before| before != leader)
        {
            self.counted.leader_changes.inc();
        }
    }

    fn observe_phase(&self, seen: &mut Seen, core: &CoreView) {
        let now = (core.phase, core.phase_since);
        let Some((before, since)) = seen.phase.replace(now).filter(|before| *before != now) else { return };
        if matches!(before, Phase::Initializing | Phase::Configuring | Phase::Starting) {
            let spent = core.phase_since.duration_since(since).unwrap_or_default();
            let labels = StepLabels { step: before.as_str() };
            self.counted.steps.get_or_create(&labels).observe(spent.as_secs_f64());
        }
    }

    fn observe_exit(&self, seen: &mut Seen, core: &CoreView) {
        let Some(exit) = &core.last_exit else { return };
        let now = (exit.generation, exit.at);
        if seen.exit.replace(now) != Some(now) {
            let kind = match exit.status {
                ExitStatus::Exited(_) => "exited",
                ExitStatus::Signaled(_) => "signaled",
            };
            self.counted.exits.get_or_create(&KindLabels { kind }).inc();
        }
    }

    fn observe_operation(&self, seen: &mut Seen, core: &CoreView) {
        let counted = seen.finished;
        // Several may have ended since the last look.
        for operation in core.operations.iter().filter(|operation| Some(operation.id) > counted) {
            let Some(finished_at) = operation.finished_at else { continue };
            seen.finished = Some(operation.id);
            let spent = finished_at.duration_since(operation.started_at).unwrap_or_default();
            let (kind, status) = (operation.kind.as_str(), operation.status.as_str());
            let labels = OperationLabels { kind, status };
            self.counted.operations.get_or_create(&labels).observe(spent.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests;
