// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The facts that the state is made of. Values only; who changes them when stands beside this file.
use std::sync::Arc;
use std::time::Duration;

use super::gate::{Facts, Need};
use super::{Dialogue, Exit, Plan, RequestId, Rules};
use crate::config::EtcdConfig;
use crate::supervise::command::{Command, Guard, HoldRequest, Shutdown, Validation};
use crate::supervise::view::{self, OperationKind, OperationPhase, OverrideMode};

/// What does not change in a process's life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// A sidecar is asked and serves the configuration; without one it is read from `--etcd-config-file`.
    pub sidecar: bool,
    /// `--hold`.
    pub hold: bool,
    /// `--on-etcd-exit=restart`.
    pub restart_on_exit: bool,
    /// `--clean-marker-on-stop`.
    pub marker_on_stop: bool,
    pub grace: Duration,
    /// None: without limit.
    pub ready_timeout: Option<Duration>,
    pub rules: Rules,
}

impl Plan {
    pub fn is_posted(&self) -> bool {
        self.source == view::ConfigSource::Posted
    }

    /// The facts of a configuration.
    pub fn of(config: &EtcdConfig, source: view::ConfigSource) -> Self {
        Self {
            digest: Arc::from(config.digest.as_str()),
            data_dir: Arc::from(config.data_dir.as_path()),
            fsync: !config.unsafe_no_fsync,
            force_new_cluster: config.force_new_cluster,
            source,
        }
    }
}

/// What was found on disk at process start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// The marker said that the last end was clean.
    pub clean_marker: bool,
    pub hold: Option<HoldFile>,
}

/// The hold file's content as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HoldFile {
    /// None: made by hand, anybody may release it.
    pub owner: Option<Arc<str>>,
    pub reason: Arc<str>,
}

/// The clean-end marker as this process knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Marker {
    /// Still on disk as it was found.
    Found { clean: bool },
    /// Removed for good; `was_clean` decides the first mode.
    Consumed { was_clean: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Held by flag or file, the marker not yet consumed: `held` is entered when it is.
    Begin,
    Held,
    Initializing(Dialogue, Launch),
    Configuring(Launch),
    Starting,
    Running,
    Stopping,
    Stopped,
    Backoff,
    Exiting,
}

impl Phase {
    pub fn name(&self) -> view::Phase {
        match self {
            Self::Held => view::Phase::Held,
            Self::Begin | Self::Initializing(..) => view::Phase::Initializing,
            Self::Configuring(_) => view::Phase::Configuring,
            Self::Starting => view::Phase::Starting,
            Self::Running => view::Phase::Running,
            Self::Stopping => view::Phase::Stopping,
            Self::Stopped => view::Phase::Stopped,
            Self::Backoff => view::Phase::Backoff,
            Self::Exiting => view::Phase::Exiting,
        }
    }
}

/// The way to a child: what is known already of what a spawn needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Launch {
    /// None: to be fetched (sidecar) or read (file).
    pub plan: Option<Plan>,
    /// A final status of this bootstrap precedes, or rule 12 lets it through: no last check.
    pub vouched: bool,
    pub prepared: bool,
    pub locked: bool,
    pub checked: bool,
    pub force: bool,
    /// Begun by a `start` out of `held`, `stopped` or `backoff`: a failure leads back there instead of out.
    pub from_rest: bool,
    /// A body that a call after a given-up one brought: counts when it comes twice in a row.
    pub seen_once: Option<Arc<str>>,
    pub retries: u8,
}

impl Launch {
    pub(super) fn fetch() -> Self {
        Self {
            plan: None,
            vouched: false,
            prepared: false,
            locked: false,
            checked: false,
            force: false,
            from_rest: false,
            seen_once: None,
            retries: 0,
        }
    }

    pub(super) fn with(plan: Plan) -> Self {
        Self { plan: Some(plan), ..Self::fetch() }
    }
}

/// The one living child.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Child {
    pub plan: Plan,
    pub ready_seen: bool,
    pub confirmed: bool,
    pub ending: Option<Ending>,
    /// A `/v1` verb began to end it, or a stop was accepted: no marker, whatever follows (safety.md 10).
    pub no_marker: bool,
}

/// Who wants the child gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asker {
    Verb,
    Shutdown,
    /// Ready timeout, or a panic: an end of our own making.
    Ourselves,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndingStage {
    Transferring,
    Guarding,
    Terminating,
    Quitting,
    Killing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ending {
    pub stage: EndingStage,
    pub asker: Asker,
    pub terms: Terms,
    /// READY had been seen when the end was asked for.
    pub after_ready: bool,
}

/// Options of stop and restart (api.md §2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    pub grace: Duration,
    pub transfer: bool,
    pub guard: Guard,
    pub force: bool,
}

/// The living operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    pub id: u64,
    pub phase: OperationPhase,
    pub work: Work,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    Start(StartTerms),
    Stop { terms: Terms, held: bool },
    Restart { terms: Terms, next: NextGeneration },
    Transfer,
}

impl Op {
    pub fn kind(&self) -> OperationKind {
        match self.work {
            Work::Start(_) => OperationKind::Start,
            Work::Stop { .. } => OperationKind::Stop,
            Work::Restart { .. } => OperationKind::Restart,
            Work::Transfer => OperationKind::TransferLeadership,
        }
    }
}

/// Two starts join only when these are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StartTerms {
    /// None: from the sidecar or the file.
    pub digest: Option<Arc<str>>,
    pub validation: Validation,
    pub hold: Option<HoldRequest>,
}

/// What a restart brings up again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NextGeneration {
    /// Some once fetched, read or kept.
    pub plan: Option<Plan>,
    pub validation: Validation,
    /// Ask the sidecar (or read the file) although the running one was posted.
    pub refetch: bool,
    pub seen_once: Option<Arc<str>>,
}

/// A readiness override that stands; its ttl is [`Timer::Override`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Override {
    pub mode: OverrideMode,
    pub owner: Arc<str>,
    pub reason: Arc<str>,
    pub durable: bool,
    pub ttl: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    pub file: Option<HoldFile>,
    /// Released: the file goes once `running` without a durable override (safety.md 15).
    pub marked: bool,
}

/// How the process is going to end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExitPlan {
    pub why: Why,
    /// A second signal came.
    pub forced: bool,
    pub signals: u8,
    /// The marker was written, or need not be.
    pub marker_settled: bool,
    /// Decided once the child is gone.
    pub exit: Option<Exit>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    Requested(Shutdown),
    Fault(Exit),
}

/// The command being admitted; others wait until it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gate {
    pub request: RequestId,
    pub command: Command,
    pub need: Need,
    pub facts: Facts,
}
