// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What is published of an operation. Written by the supervisor task alone; holds no behaviour.
use std::time::SystemTime;

use crate::supervise::command::Refusal;

/// The verb behind an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// `start`
    Start,
    /// `stop`
    Stop,
    /// `restart`
    Restart,
    /// `transfer-leadership`
    TransferLeadership,
}

/// The last three are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationStatus {
    /// Accepted, and not begun.
    Pending,
    /// Under way.
    Running,
    /// Done.
    Succeeded,
    /// Not done; `problem` says why.
    Failed,
    /// Something of higher rank took its place.
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

/// What an operation is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationPhase {
    /// Other members are down (`guard: serial`).
    WaitingTurn,
    /// A round of the sidecar's has to end.
    WaitingSidecar,
    /// The next configuration, while etcd runs.
    Fetching,
    /// The sidecar looks at the directory.
    Validating,
    /// Readers are told to look elsewhere.
    Draining,
    /// Leadership is handed over.
    Transferring,
    /// etcd was told to end.
    Stopping,
    /// etcd is spawned and not confirmed.
    Starting,
    /// Over, whatever came of it.
    Done,
}

/// One mutating operation, living or finished.
#[derive(Clone, Debug)]
pub struct OperationView {
    /// `op-<n>` on the wire.
    pub id: u64,
    /// The verb.
    pub kind: OperationKind,
    /// The last three are final.
    pub status: OperationStatus,
    /// What it is at.
    pub phase: OperationPhase,
    /// False: there was nothing to do.
    pub changed: bool,
    /// When it was accepted.
    pub started_at: SystemTime,
    /// None: it is not over.
    pub finished_at: Option<SystemTime>,
    /// The generation that a start or restart brought up.
    pub generation: Option<u64>,
    /// Set when `status` is `Failed`.
    pub problem: Option<Refusal>,
    /// What went wrong last, while it is still tried.
    pub last_error: Option<String>,
}
