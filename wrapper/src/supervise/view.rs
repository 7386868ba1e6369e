// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The names of the supervisor's states and the value it publishes. Written by the supervisor task alone,
//! read by everybody through a watch channel; holds no behaviour.
mod operation;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::config::EtcdConfig;

pub use operation::{OperationKind, OperationPhase, OperationStatus, OperationView};

/// What the wrapper has been asked to do with etcd. `Exit` absorbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Intent {
    /// No etcd.
    Down,
    /// An etcd.
    Up,
    /// The end of the process; nothing takes it back.
    Exit,
}

/// Name of the state machine's phase (api.md §8), without the data a phase carries inside the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing is started; a `start` ends it.
    Held,
    /// The sidecar validates or restores.
    Initializing,
    /// The configuration is fetched, checked, written; locks are taken.
    Configuring,
    /// etcd runs, and has not confirmed that it serves.
    Starting,
    /// It has.
    Running,
    /// A verb ends etcd.
    Stopping,
    /// Down by request; the wrapper lives.
    Stopped,
    /// The pause after a crash.
    Backoff,
    /// The process ends.
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
    /// `/config`.
    Sidecar,
    /// `--etcd-config-file`.
    File,
    /// The body of a `start`.
    Posted,
}

/// Validation the sidecar is asked for before a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A quick look.
    Sanity,
    /// The whole database; a restore if need be.
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
    /// Nothing was asked.
    New,
    /// It works on the directory.
    Progress,
    /// Told once.
    Successful,
    /// Told once.
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
    /// With this status.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

/// The generation that is alive now.
#[derive(Clone, Debug)]
pub struct ChildView {
    /// Counted from 1.
    pub generation: u64,
    /// etcd's.
    pub pid: u32,
    /// When it was spawned.
    pub started_at: SystemTime,
    /// When the READY datagram of this very pid had come and the member had confirmed it.
    pub ready_since: Option<SystemTime>,
    /// What it runs with.
    pub config: Arc<EtcdConfig>,
    /// Where that came from.
    pub source: ConfigSource,
}

/// The etcd that is alive, for the stages that talk to it; None without one.
#[derive(Clone, Debug)]
pub struct Alive {
    /// Counted from 1.
    pub generation: u64,
    /// etcd's.
    pub pid: u32,
    /// What it runs with.
    pub config: Arc<EtcdConfig>,
    /// Its client port comes from the config itself, not from `--etcd-client-port`.
    pub posted: bool,
    /// The READY datagram has come: linearizable reads make sense from now on.
    pub ready_seen: bool,
}

/// How the last generation ended.
#[derive(Clone, Debug)]
pub struct LastExit {
    /// Which.
    pub generation: u64,
    /// How it ended.
    pub status: ExitStatus,
    /// Somebody had asked for this end (signal, `/stop`, a `/v1` verb).
    pub requested: bool,
    /// Clean by etcd.md 2: READY seen, asked, ended by that signal or with 0, within the grace time, no SIGKILL.
    pub clean: bool,
    /// When it was reaped.
    pub at: SystemTime,
    /// Why: `shutdown`, `stop`, `restart`, `crash`, `ready_timeout`, ...
    pub cause: &'static str,
}

/// Progress of the conversation with the sidecar.
#[derive(Clone, Debug)]
pub struct BootstrapView {
    /// Where the conversation stands.
    pub state: BootstrapState,
    /// The mode last asked for.
    pub validation: Option<Mode>,
    /// `start` calls sent by this bootstrap.
    pub rounds: u32,
    /// The sidecar's own, when last heard.
    pub word: Option<SidecarWord>,
    /// Since when `state` is so.
    pub since: SystemTime,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// Where the way up stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootstrapState {
    /// Nothing was begun: held, stopped.
    Idle,
    /// The sidecar is asked.
    Initializing,
    /// The configuration is fetched and written.
    Configuring,
    /// etcd was started.
    Done,
}

/// What an override makes of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverrideMode {
    /// Quorum and learner do not count.
    Ready,
    /// Nothing counts.
    Unready,
}

/// A readiness override that stands (api.md §2 readiness, safety.md 14).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideView {
    /// What it makes of the member.
    pub mode: OverrideMode,
    /// Who alone ends it without force.
    pub owner: String,
    /// For people; may be empty.
    pub reason: String,
    /// None: without end (`ttl: "none"`), or durable.
    pub expires_at: Option<SystemTime>,
    /// It is a file, and outlives the process.
    pub durable: bool,
}

/// A condition that deserves a human's eye, raised by the supervisor (the member and TLS stages raise their own).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Stable snake case, e.g. `sidecar_busy`, `lock_held`.
    pub code: &'static str,
    /// Since when it stands.
    pub since: SystemTime,
    /// For people.
    pub detail: String,
}

/// Everything the supervisor tells the world; replaced whole at every transition.
#[derive(Clone, Debug)]
pub struct CoreView {
    /// Random per process: the `epoch` of positions on the wire. The index beside it is the API publisher's, since
    /// it has to grow for changes of the member and TLS stages too.
    pub epoch: String,
    /// Of this process.
    pub started_at: SystemTime,
    /// What was asked for.
    pub intent: Intent,
    /// Where it stands.
    pub phase: Phase,
    /// Since when.
    pub phase_since: SystemTime,
    /// A stop has begun: readiness is gone from here on, before SIGTERM is sent.
    pub draining: bool,
    /// Text of the hold file, where one lies.
    pub hold_reason: Option<String>,
    /// Number of successful spawns so far.
    pub generation: u64,
    /// Of the binary; None: it has not told.
    pub etcd_version: Option<String>,
    /// None: no etcd lives.
    pub child: Option<ChildView>,
    /// None: none has ended in this process.
    pub last_exit: Option<LastExit>,
    /// The conversation with the sidecar.
    pub bootstrap: BootstrapView,
    /// None: the checks alone count.
    pub override_: Option<OverrideView>,
    /// The last operations, oldest first, finished or not; at most one of them is alive.
    pub operations: Arc<VecDeque<OperationView>>,
    /// etcd was ready once in this process's life.
    pub ready_once: bool,
    /// The supervisor's own.
    pub warnings: Vec<Warning>,
    /// Of the last configuration; None: none is known.
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
