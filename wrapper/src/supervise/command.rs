// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What callers may ask of the supervisor, and its answers. Values only.
use std::sync::Arc;
use std::time::Duration;

use crate::config::EtcdConfig;

use super::view::{Mode, OverrideMode};

/// Stable codes of refusals and of failed operations (api.md §6); the API maps them to status and title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    OperationInProgress,
    InitializationInProgress,
    ConfigDiffers,
    ConfigNotRepeatable,
    OverrideHeld,
    NotRunning,
    WouldBreakQuorum,
    GuardUnknown,
    GenerationMismatch,
    ConfigInvalid,
    FileUnreadable,
    DataDirRefused,
    NoCandidate,
    InvalidValue,
    ShuttingDown,
    SidecarUnavailable,
    /// A failed operation whose cause is the machine below us: state dir not writable, spawn failed, etcd ended.
    Failed,
}

/// A refused command or the problem of a failed operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    pub code: Code,
    /// For people: what was tried, on what, what to do.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Validation {
    Auto,
    None,
    Ask(Mode),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    Quorum,
    Serial,
    None,
}

/// Which shutdown was asked for; decides the marker's word (contract.md §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shutdown {
    Terminate,
    Interrupt,
    /// `POST /stop`.
    StopCall,
}

/// Where a member sits that is asked to give leadership away, as far as it is known when the call comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Seat {
    Leads,
    /// It leads, and there is no other voter.
    LeadsAlone,
    Follows,
    /// etcd has not told: to be found out.
    Unknown,
}

/// `ready=hold` of a start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HoldRequest {
    pub owner: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StartRequest {
    /// None: take it from the sidecar (or the `--etcd-config-file`).
    pub posted: Option<Arc<EtcdConfig>>,
    pub validation: Validation,
    pub hold: Option<HoldRequest>,
    /// Names the owner of a standing hold, which a start in `held` needs (safety.md 15).
    pub owner: Option<String>,
    pub force: bool,
    pub if_generation: Option<u64>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StopRequest {
    pub grace: Option<Duration>,
    pub transfer: bool,
    pub guard: Guard,
    pub force: bool,
    pub hold: Option<HoldRequest>,
    pub if_generation: Option<u64>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RestartRequest {
    pub validation: Validation,
    /// None: `same` for a posted generation, else the source the generation came from.
    pub config_from_sidecar: Option<bool>,
    pub grace: Option<Duration>,
    pub transfer: bool,
    pub guard: Guard,
    pub force: bool,
    pub if_generation: Option<u64>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OverrideRequest {
    /// None: `auto`, ends what stands.
    pub mode: Option<OverrideMode>,
    /// None: without end.
    pub ttl: Option<Duration>,
    pub owner: Option<String>,
    pub reason: String,
    pub force: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    Start(StartRequest),
    Stop(StopRequest),
    Restart(RestartRequest),
    TransferLeadership(Seat),
    SetOverride(OverrideRequest),
    Shutdown(Shutdown),
}

impl Command {
    /// Why it is asked for, in its caller's own words; often empty. For the log alone.
    pub fn reason(&self) -> &str {
        match self {
            Self::Start(start) => &start.reason,
            Self::Stop(stop) => &stop.reason,
            Self::Restart(restart) => &restart.reason,
            Self::SetOverride(change) => &change.reason,
            Self::TransferLeadership(_) | Self::Shutdown(_) => "",
        }
    }
}

/// A command that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The operation that carries it out; None where there is none (`Shutdown`, `SetOverride`).
    pub operation: Option<u64>,
    /// False: there was nothing to do.
    pub changed: bool,
}

pub type Answer = Result<Accepted, Refusal>;

/// A command on its way to the supervisor. Dropping `reply` (a caller that hung up) changes nothing.
#[derive(Debug)]
pub struct Request {
    pub command: Command,
    pub reply: tokio::sync::oneshot::Sender<Answer>,
}
