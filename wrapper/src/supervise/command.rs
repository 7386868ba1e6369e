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
    /// One at a time.
    OperationInProgress,
    /// The sidecar works on the directory, or may.
    InitializationInProgress,
    /// etcd runs with another configuration.
    ConfigDiffers,
    /// It would cut the cluster again.
    ConfigNotRepeatable,
    /// It is somebody else's.
    OverrideHeld,
    /// It needs a living etcd.
    NotRunning,
    /// The healthy voters left would be no quorum.
    WouldBreakQuorum,
    /// What the guard must know cannot be known.
    GuardUnknown,
    /// The caller means another generation.
    GenerationMismatch,
    /// It cannot be given to etcd.
    ConfigInvalid,
    /// A file that the configuration names.
    FileUnreadable,
    /// It does not pass its guard.
    DataDirRefused,
    /// Nobody else could lead.
    NoCandidate,
    /// Out of its range, or of no meaning here.
    InvalidValue,
    /// Nothing new is begun any more.
    ShuttingDown,
    /// No answer, or none of use.
    SidecarUnavailable,
    /// A failed operation whose cause is the machine below us: state dir not writable, spawn failed, etcd ended.
    Failed,
}

/// A refused command or the problem of a failed operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// What kind of refusal.
    pub code: Code,
    /// For people: what was tried, on what, what to do.
    pub detail: String,
}

/// What is asked of the sidecar before etcd is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Validation {
    /// By the marker and the rules of safety.md.
    Auto,
    /// Nothing: the caller answers for the data.
    None,
    /// This mode, whatever the marker says.
    Ask(Mode),
}

/// What must hold of the other voters before this one goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// Those left are one.
    Quorum,
    /// Nobody else is down; it waits for that.
    Serial,
    /// Nothing.
    None,
}

/// Which shutdown was asked for; decides the marker's word (contract.md §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shutdown {
    /// SIGTERM, or `/stop`.
    Terminate,
    /// SIGINT.
    Interrupt,
    /// `POST /stop`.
    StopCall,
}

/// Where a member sits that is asked to give leadership away, as far as it is known when the call comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Seat {
    /// It does.
    Leads,
    /// It leads, and there is no other voter.
    LeadsAlone,
    /// It does not.
    Follows,
    /// etcd has not told: to be found out.
    Unknown,
}

/// `ready=hold` of a start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HoldRequest {
    /// Who alone ends it without force; never empty.
    pub owner: String,
    /// For people; may be empty.
    pub reason: String,
}

/// A `start`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StartRequest {
    /// None: take it from the sidecar (or the `--etcd-config-file`).
    pub posted: Option<Arc<EtcdConfig>>,
    /// Before etcd is started.
    pub validation: Validation,
    /// Come up held by this owner.
    pub hold: Option<HoldRequest>,
    /// Names the owner of a standing hold, which a start in `held` needs (safety.md 15).
    pub owner: Option<String>,
    /// Pass the checks of safety.md 5 and 15.
    pub force: bool,
    /// Only if etcd is of this one; 0: none was started yet.
    pub if_generation: Option<u64>,
    /// For people; may be empty.
    pub reason: String,
}

/// A `stop`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StopRequest {
    /// From SIGTERM to SIGQUIT; None: the flag's.
    pub grace: Option<Duration>,
    /// Hand leadership over first.
    pub transfer: bool,
    /// Of the other voters.
    pub guard: Guard,
    /// SIGKILL at once.
    pub force: bool,
    /// Leave the hold file.
    pub hold: Option<HoldRequest>,
    /// Only if etcd is of this one.
    pub if_generation: Option<u64>,
    /// For people; may be empty.
    pub reason: String,
}

/// A `restart`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RestartRequest {
    /// Between end and start.
    pub validation: Validation,
    /// None: `same` for a posted generation, else the source the generation came from.
    pub config_from_sidecar: Option<bool>,
    /// From SIGTERM to SIGQUIT; None: the flag's.
    pub grace: Option<Duration>,
    /// Hand leadership over first.
    pub transfer: bool,
    /// Of the other voters.
    pub guard: Guard,
    /// SIGKILL at once.
    pub force: bool,
    /// Only if etcd is of this one.
    pub if_generation: Option<u64>,
    /// For people; may be empty.
    pub reason: String,
}

/// A change of the readiness override.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OverrideRequest {
    /// None: `auto`, ends what stands.
    pub mode: Option<OverrideMode>,
    /// None: without end.
    pub ttl: Option<Duration>,
    /// Who asks; None: nobody in particular.
    pub owner: Option<String>,
    /// For people; may be empty.
    pub reason: String,
    /// Whoever holds it.
    pub force: bool,
}

/// What others may ask of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Start etcd.
    Start(StartRequest),
    /// Stop it; the wrapper stays.
    Stop(StopRequest),
    /// In place.
    Restart(RestartRequest),
    /// Hand over, given who leads now.
    TransferLeadership(Seat),
    /// Of readiness.
    SetOverride(OverrideRequest),
    /// End the process.
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

/// What a caller hears at once.
pub type Answer = Result<Accepted, Refusal>;

/// A command on its way to the supervisor. Dropping `reply` (a caller that hung up) changes nothing.
#[derive(Debug)]
pub struct Request {
    /// What is asked.
    pub command: Command,
    /// Where the answer goes; a caller that is gone changes nothing.
    pub reply: tokio::sync::oneshot::Sender<Answer>,
}
