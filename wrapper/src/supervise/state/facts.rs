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
    /// From SIGTERM to SIGQUIT.
    pub grace: Duration,
    /// None: without limit.
    pub ready_timeout: Option<Duration>,
    /// Those of safety.md; all on but in the search.
    pub rules: Rules,
}

impl Plan {
    /// An agent's, and nobody else's.
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
    /// What lay in the state directory.
    pub hold: Option<HoldFile>,
}

/// The hold file's content as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HoldFile {
    /// None: made by hand, anybody may release it.
    pub owner: Option<Arc<str>>,
    /// For people; may be empty.
    pub reason: Arc<str>,
}

/// The clean-end marker as this process knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Marker {
    /// Still on disk as it was found.
    Found {
        /// It says that the last end was clean.
        clean: bool,
    },
    /// Removed for good; `was_clean` decides the first mode.
    Consumed {
        /// It said so.
        was_clean: bool,
    },
}

/// The machine's phase with what it carries; others see [`view::Phase`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Held by flag or file, the marker not yet consumed: `held` is entered when it is.
    Begin,
    /// Nothing is started; a `start` ends it.
    Held,
    /// The sidecar is asked.
    Initializing(Dialogue, Launch),
    /// Fetch, look, write, lock.
    Configuring(Launch),
    /// Spawned, not confirmed.
    Starting,
    /// Confirmed.
    Running,
    /// A verb ends etcd.
    Stopping,
    /// Down by request.
    Stopped,
    /// The pause after a crash.
    Backoff,
    /// The process ends.
    Exiting,
}

impl Phase {
    /// Without what it carries.
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
    /// Modes are set, the file is written.
    pub prepared: bool,
    /// Both locks are ours.
    pub locked: bool,
    /// The sidecar was asked last, where it has to be.
    pub checked: bool,
    /// The caller passes the checks of safety.md.
    pub force: bool,
    /// Begun by a `start` out of `held`, `stopped` or `backoff`: a failure leads back there instead of out.
    pub from_rest: bool,
    /// A body that a call after a given-up one brought: counts when it comes twice in a row.
    pub seen_once: Option<Arc<str>>,
    /// Of a last check that said no.
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
    /// What it was started with.
    pub plan: Plan,
    /// READY came from its pid.
    pub ready_seen: bool,
    /// A read succeeded, or Status said learner.
    pub confirmed: bool,
    /// Set once its end was asked for.
    pub ending: Option<Ending>,
    /// A `/v1` verb began to end it, or a stop was accepted: no marker, whatever follows (safety.md 10).
    pub no_marker: bool,
}

/// Who wants the child gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asker {
    /// A `/v1` verb.
    Verb,
    /// A signal, `/stop`, or a fault.
    Shutdown,
    /// Ready timeout, or a panic: an end of our own making.
    Ourselves,
}

/// How far an end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndingStage {
    /// Leadership is handed over.
    Transferring,
    /// The quorum is looked at once more.
    Guarding,
    /// SIGTERM was sent.
    Terminating,
    /// SIGQUIT was sent.
    Quitting,
    /// SIGKILL was sent.
    Killing,
}

/// An end that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ending {
    /// How far it has come.
    pub stage: EndingStage,
    /// Who asked.
    pub asker: Asker,
    /// On which terms.
    pub terms: Terms,
    /// READY had been seen when the end was asked for.
    pub after_ready: bool,
}

/// Options of stop and restart (api.md §2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// From SIGTERM to SIGQUIT.
    pub grace: Duration,
    /// Hand leadership over first.
    pub transfer: bool,
    /// Of the other voters.
    pub guard: Guard,
    /// SIGKILL at once.
    pub force: bool,
}

/// The living operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// Counted from 1.
    pub id: u64,
    /// What it is at.
    pub phase: OperationPhase,
    /// What it does.
    pub work: Work,
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Up.
    Start(StartTerms),
    /// Down.
    Stop {
        /// On which terms.
        terms: Terms,
        /// The hold file was written.
        held: bool,
    },
    /// Down and up again, in place.
    Restart {
        /// On which terms etcd ends.
        terms: Terms,
        /// What comes after.
        next: NextGeneration,
    },
    /// Leadership alone.
    Transfer,
}

impl Op {
    /// As others see it.
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
    /// Before etcd is started.
    pub validation: Validation,
    /// Held by this owner from the beginning.
    pub hold: Option<HoldRequest>,
}

/// What a restart brings up again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NextGeneration {
    /// Some once fetched, read or kept.
    pub plan: Option<Plan>,
    /// Between end and start.
    pub validation: Validation,
    /// Ask the sidecar (or read the file) although the running one was posted.
    pub refetch: bool,
    /// A body that has to come once more before it counts.
    pub seen_once: Option<Arc<str>>,
}

/// A readiness override that stands; its ttl is [`Timer::Override`](super::Timer::Override).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Override {
    /// Ready or unready.
    pub mode: OverrideMode,
    /// Who alone ends it without force.
    pub owner: Arc<str>,
    /// For people; may be empty.
    pub reason: Arc<str>,
    /// It is a file, and outlives the process.
    pub durable: bool,
    /// None: no end of its own.
    pub ttl: Option<Duration>,
}

/// What is known of the hold file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// As it lies on disk.
    pub file: Option<HoldFile>,
    /// Released: the file goes once `running` without a durable override (safety.md 15).
    pub marked: bool,
}

/// How the process is going to end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExitPlan {
    /// A request or a fault.
    pub why: Why,
    /// A second signal came.
    pub forced: bool,
    /// How many have come; the second forces.
    pub signals: u8,
    /// The marker was written, or need not be.
    pub marker_settled: bool,
    /// Decided once the child is gone.
    pub exit: Option<Exit>,
}

/// What began the end of the process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Somebody asked.
    Requested(Shutdown),
    /// Nobody did.
    Fault(Exit),
}

/// The command being admitted; others wait until it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gate {
    /// Who waits for the answer.
    pub request: RequestId,
    /// What was asked.
    pub command: Command,
    /// The fact that it waits for now.
    pub need: Need,
    /// Those that are in.
    pub facts: Facts,
}
