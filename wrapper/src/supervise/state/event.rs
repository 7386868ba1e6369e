// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What goes into the machine and what comes out: events, effects, and the few facts they carry. Values only.
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::supervise::command::{Answer, Command, HoldRequest, Refusal, Shutdown};
use crate::supervise::view::{ConfigSource, ExitStatus, Mode, OperationKind, SidecarWord};

/// Ties an [`Effect::Reply`] to the [`Event::Command`] it answers.
pub type RequestId = u64;

/// What the machine has to know of a checked configuration; the bytes stay with the runtime, found by digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    pub digest: Arc<str>,
    pub data_dir: Arc<Path>,
    /// False with `unsafe-no-fsync: true`: then no end of this etcd says anything about its directory.
    pub fsync: bool,
    pub force_new_cluster: bool,
    pub source: ConfigSource,
}

/// A request to the sidecar. At most one is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Status read by a bootstrap.
    Status,
    /// Status read as the last check before a spawn (safety.md 5): one second, no retry.
    Check,
    /// Status read in `held` and `stopped`: shown, never counted.
    Watch,
    Start(Mode),
    /// `quick`: while etcd runs (restart, 45 s), else 60 s.
    Config {
        quick: bool,
    },
}

/// The outcome of a [`Call`]; what it said in words stays with the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    Word(SidecarWord),
    Started,
    Config(Plan),
    /// A body that is no usable configuration.
    BadConfig(Refusal),
    /// The connection was refused: nobody listens, nothing was sent.
    Refused,
    /// Nothing was sent for another reason: no name, no route, no TLS.
    Unreachable,
    /// The request may have been carried out; its answer did not arrive whole.
    Lost,
    /// A whole answer that does not say what was asked: not 200, or an unknown word.
    Failed,
}

/// Work for the disk thread. At most one is outstanding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    ConsumeMarker,
    WriteMarker(Shutdown),
    WriteHold(HoldRequest),
    RemoveHold,
    /// Read and check `--etcd-config-file`.
    ReadFile,
    /// Check a configuration without touching anything: files readable, data-dir guard, directory writable.
    Inspect(Plan),
    /// The same, then repair modes and write `$HOME/etcd.conf.yaml`.
    Prepare(Plan),
    /// Take `etcd.lock`; with a plan also look whether somebody holds its database.
    Lock(Option<Plan>),
    /// Look at the locks without taking any.
    ProbeLocks,
}

/// How a [`Job`] ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Done {
    MarkerConsumed(Result<(), String>),
    MarkerWritten,
    HoldWritten(Result<(), String>),
    HoldRemoved(Result<(), String>),
    FileRead(Result<Plan, Refusal>),
    Inspected(Result<(), Refusal>),
    Prepared(Result<(), Refusal>),
    /// `Ok(false)`: somebody else holds one of them.
    Locked(Result<bool, String>),
    /// True: somebody else holds one of them.
    Probed(bool),
}

/// What the guard found (api.md §2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    Safe,
    Refused(Refusal),
}

/// Timers the machine arms; each is alone under its name, arming again replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Timer {
    /// The pause before the next sidecar call, lock attempt or look.
    Pause,
    /// `--etcd-ready-timeout`.
    Ready,
    /// SIGTERM's grace is over.
    Grace,
    /// SIGQUIT had its two seconds.
    Kill,
    Transfer,
    Backoff,
    /// An override's ttl.
    Override,
    /// A stop has waited long enough for a round whose fate is unknown.
    SidecarWait,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The process has started; marker and hold file were read.
    Begin,
    /// Only while [`super::State::takes_commands`].
    Command(RequestId, Command),
    /// SIGTERM, SIGINT or `POST /stop`; never waits for anything.
    Shutdown(Shutdown),
    /// A task of ours panicked, or an invariant broke.
    Panicked,
    Sidecar(Reply),
    Disk(Done),
    Timer(Timer),
    Spawned,
    SpawnFailed(String),
    /// The READY datagram of the living child.
    Ready,
    /// The living child answered a linearizable read, or says that it is a learner.
    Confirmed,
    /// `recent_crashes`: unrequested ends within the budget's window, this one included.
    ChildExited {
        status: ExitStatus,
        recent_crashes: u8,
    },
    Guard {
        gate: bool,
        verdict: Verdict,
    },
    /// `guard: serial`: it is this member's turn, or it never was.
    Turn(Result<(), Refusal>),
    Transferred(Result<bool, Refusal>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sig {
    Term,
    Quit,
    Kill,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    Succeeded { changed: bool },
    Failed(Refusal),
    Superseded,
}

/// How the process ends; `code` as in api.md §7.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exit {
    pub code: u8,
    pub cause: &'static str,
    pub detail: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Call(Call),
    /// Give up on the call in flight; no reply will come.
    CancelCall,
    Disk(Job),
    /// Answered by `Spawned` or `SpawnFailed` before any other event.
    Spawn(Plan),
    Signal(Sig),
    Arm(Timer, Duration),
    /// Like `Arm`, but never later than it was armed already.
    ArmAtMost(Timer, Duration),
    Disarm(Timer),
    Guard {
        gate: bool,
    },
    AwaitTurn,
    CancelTurn,
    Transfer,
    Reply(RequestId, Answer),
    Finished {
        id: u64,
        kind: OperationKind,
        outcome: Outcome,
    },
    Exit(Exit),
}
