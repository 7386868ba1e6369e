// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The names of the supervisor's states and the value it publishes. Written by the supervisor task alone,
//! read by everybody through a watch channel; holds no behaviour.
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::config::EtcdConfig;

/// What the wrapper has been asked to do with etcd. `Exit` absorbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Intent {
    Down,
    Up,
    Exit,
}

/// Name of the state machine's phase (api.md §8), without the data a phase carries inside the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Held,
    Initializing,
    Configuring,
    Starting,
    Running,
    Stopping,
    Stopped,
    Backoff,
    Exiting,
}

impl Phase {
    /// Every phase, in the order of a member's life; metrics show one series for each.
    pub const ALL: [Self; 9] = [
        Self::Held,
        Self::Initializing,
        Self::Configuring,
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Backoff,
        Self::Exiting,
    ];

    /// The word on the wire, in logs and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Initializing => "initializing",
            Self::Configuring => "configuring",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Backoff => "backoff",
            Self::Exiting => "exiting",
        }
    }
}

impl Intent {
    /// The word on the wire and in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
            Self::Exit => "exit",
        }
    }
}

/// Where a generation's configuration came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfigSource {
    Sidecar,
    File,
    Posted,
}

/// Validation the sidecar is asked for before a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    Sanity,
    Full,
}

impl Mode {
    /// The value of the sidecar's `mode` parameter.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sanity => "sanity",
            Self::Full => "full",
        }
    }
}

/// A word of the sidecar's `/initialization/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SidecarWord {
    New,
    Progress,
    Successful,
    Failed,
}

impl SidecarWord {
    /// The sidecar's own spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "New",
            Self::Progress => "Progress",
            Self::Successful => "Successful",
            Self::Failed => "Failed",
        }
    }
}

/// How a child process ended, as `waitid` told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitStatus {
    Exited(i32),
    Signaled(i32),
}

/// The generation that is alive now.
#[derive(Clone, Debug)]
pub struct ChildView {
    pub generation: u64,
    pub pid: u32,
    pub started_at: SystemTime,
    /// When the READY datagram of this very pid had come and the member had confirmed it.
    pub ready_since: Option<SystemTime>,
    pub config: Arc<EtcdConfig>,
    pub source: ConfigSource,
}

/// The etcd that is alive, for the stages that talk to it; None without one.
#[derive(Clone, Debug)]
pub struct Alive {
    pub generation: u64,
    pub pid: u32,
    pub config: Arc<EtcdConfig>,
    /// Its client port comes from the config itself, not from `--etcd-client-port`.
    pub posted: bool,
    /// The READY datagram has come: linearizable reads make sense from now on.
    pub ready_seen: bool,
}

/// How the last generation ended.
#[derive(Clone, Debug)]
pub struct LastExit {
    pub generation: u64,
    pub status: ExitStatus,
    /// Somebody had asked for this end (signal, `/stop`, a `/v1` verb).
    pub requested: bool,
    /// Clean by etcd.md 2: READY seen, asked, ended by that signal or with 0, within the grace time, no SIGKILL.
    pub clean: bool,
    pub at: SystemTime,
    /// Why: `shutdown`, `stop`, `restart`, `crash`, `ready_timeout`, ...
    pub cause: &'static str,
}

/// Progress of the conversation with the sidecar.
#[derive(Clone, Debug)]
pub struct BootstrapView {
    pub state: BootstrapState,
    /// The mode last asked for.
    pub validation: Option<Mode>,
    /// `start` calls sent by this bootstrap.
    pub rounds: u32,
    pub word: Option<SidecarWord>,
    pub since: SystemTime,
    pub last_error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootstrapState {
    Idle,
    Initializing,
    Configuring,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverrideMode {
    Ready,
    Unready,
}

/// A readiness override that stands (api.md §2 readiness, safety.md 14).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideView {
    pub mode: OverrideMode,
    pub owner: String,
    pub reason: String,
    /// None: without end (`ttl: "none"`), or durable.
    pub expires_at: Option<SystemTime>,
    pub durable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    Start,
    Stop,
    Restart,
    TransferLeadership,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationStatus {
    Pending,
    Running,
    Succeeded,
    Failed,
    Superseded,
}

impl OperationKind {
    /// The word on the wire and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::TransferLeadership => "transfer-leadership",
        }
    }
}

impl OperationStatus {
    /// The word on the wire and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationPhase {
    WaitingTurn,
    WaitingSidecar,
    Fetching,
    Validating,
    Draining,
    Transferring,
    Stopping,
    Starting,
    Done,
}

/// One mutating operation, living or finished.
#[derive(Clone, Debug)]
pub struct OperationView {
    /// `op-<n>` on the wire.
    pub id: u64,
    pub kind: OperationKind,
    pub status: OperationStatus,
    pub phase: OperationPhase,
    pub changed: bool,
    pub started_at: SystemTime,
    pub finished_at: Option<SystemTime>,
    /// The generation that a start or restart brought up.
    pub generation: Option<u64>,
    /// Set when `status` is `Failed`.
    pub problem: Option<super::command::Refusal>,
    pub last_error: Option<String>,
}

/// A condition that deserves a human's eye, raised by the supervisor (the member and TLS stages raise their own).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Stable snake case, e.g. `sidecar_busy`, `lock_held`.
    pub code: &'static str,
    pub since: SystemTime,
    pub detail: String,
}

/// Everything the supervisor tells the world; replaced whole at every transition.
#[derive(Clone, Debug)]
pub struct CoreView {
    /// Random per process: the `epoch` of positions on the wire. The index beside it is the API publisher's, since
    /// it has to grow for changes of the member and TLS stages too.
    pub epoch: String,
    pub started_at: SystemTime,
    pub intent: Intent,
    pub phase: Phase,
    pub phase_since: SystemTime,
    /// A stop has begun: readiness is gone from here on, before SIGTERM is sent.
    pub draining: bool,
    pub hold_reason: Option<String>,
    /// Number of successful spawns so far.
    pub generation: u64,
    pub etcd_version: Option<String>,
    pub child: Option<ChildView>,
    pub last_exit: Option<LastExit>,
    pub bootstrap: BootstrapView,
    pub override_: Option<OverrideView>,
    /// The last operations, oldest first, finished or not; at most one of them is alive.
    pub operations: Arc<VecDeque<OperationView>>,
    /// etcd was ready once in this process's life.
    pub ready_once: bool,
    pub warnings: Vec<Warning>,
    pub data_dir: Option<PathBuf>,
    /// When the supervisor's loop last turned; `/livez` looks at nothing else.
    pub ticked: Instant,
}

impl CoreView {
    /// The newest operation, finished or not.
    pub fn operation(&self) -> Option<&OperationView> {
        self.operations.back()
    }

    /// The operation `op-<id>`, as long as it is remembered.
    pub fn operation_by_id(&self, id: u64) -> Option<&OperationView> {
        self.operations.iter().find(|operation| operation.id == id)
    }
}
