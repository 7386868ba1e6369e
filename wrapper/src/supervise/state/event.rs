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
    /// Of the configuration's bytes.
    pub digest: Arc<str>,
    /// As the configuration has it.
    pub data_dir: Arc<Path>,
    /// False with `unsafe-no-fsync: true`: then no end of this etcd says anything about its directory.
    pub fsync: bool,
    /// It must not be started twice.
    pub force_new_cluster: bool,
    /// Where it came from.
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
    /// For a validation in this mode.
    Start(Mode),
    /// `quick`: while etcd runs (restart, 45 s), else 60 s.
    Config {
        /// Within the time of a restart.
        quick: bool,
    },
}

/// The outcome of a [`Call`]; what it said in words stays with the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The status.
    Word(SidecarWord),
    /// A 200 to `start`.
    Started,
    /// A configuration that can be used.
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
    /// Read, and remove.
    ConsumeMarker,
    /// With the word for this end.
    WriteMarker(Shutdown),
    /// Durable before it counts as done.
    WriteHold(HoldRequest),
    /// It has served.
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
    /// It is gone for sure, or why not.
    MarkerConsumed(Result<(), String>),
    /// Or not: the exit goes on either way.
    MarkerWritten,
    /// It is on disk, or why not.
    HoldWritten(Result<(), String>),
    /// It is gone, or why not.
    HoldRemoved(Result<(), String>),
    /// `--etcd-config-file`.
    FileRead(Result<Plan, Refusal>),
    /// Files and data directory are good, or not.
    Inspected(Result<(), Refusal>),
    /// Modes are set and the file is written, or not.
    Prepared(Result<(), Refusal>),
    /// `Ok(false)`: somebody else holds one of them.
    Locked(Result<bool, String>),
    /// True: somebody else holds one of them.
    Probed(bool),
}

/// What the guard found (api.md §2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The healthy voters left are a quorum, or there is nobody else.
    Safe,
    /// With the words for the caller.
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
    /// The time to hand leadership over is up.
    Transfer,
    /// The pause after a crash is over.
    Backoff,
    /// An override's ttl.
    Override,
    /// A stop has waited long enough for a round whose fate is unknown.
    SidecarWait,
}

/// What the machine hears.
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
    /// An answer to the call in flight.
    Sidecar(Reply),
    /// The job is done.
    Disk(Done),
    /// It ran out.
    Timer(Timer),
    /// etcd is started.
    Spawned,
    /// It could not be, and why.
    SpawnFailed(String),
    /// The READY datagram of the living child.
    Ready,
    /// The living child answered a linearizable read, or says that it is a learner.
    Confirmed,
    /// etcd was reaped.
    ChildExited {
        /// How it ended.
        status: ExitStatus,
        /// Ends that nobody asked for within the budget's window, this one included.
        recent_crashes: u8,
    },
    /// What the guard of the quorum says.
    Guard {
        /// Of a command that waits at the gate; else right before SIGTERM.
        gate: bool,
        /// Whether this member may go.
        verdict: Verdict,
    },
    /// `guard: serial`: it is this member's turn, or it never was.
    Turn(Result<(), Refusal>),
    /// Whether another one leads now.
    Transferred(Result<bool, Refusal>),
}

/// What etcd is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sig {
    /// SIGTERM.
    Term,
    /// SIGQUIT: it writes its stacks and ends.
    Quit,
    /// SIGKILL.
    Kill,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Done.
    Succeeded {
        /// False: there was nothing to do.
        changed: bool,
    },
    /// With the problem.
    Failed(Refusal),
    /// Something of higher rank took its place.
    Superseded,
}

/// How the process ends; `code` as in api.md §7.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exit {
    /// The process's.
    pub code: u8,
    /// A stable word (api.md §7).
    pub cause: &'static str,
    /// For people.
    pub detail: String,
}

/// What the runtime is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the sidecar.
    Call(Call),
    /// Give up on the call in flight; no reply will come.
    CancelCall,
    /// Order a job.
    Disk(Job),
    /// Answered by `Spawned` or `SpawnFailed` before any other event.
    Spawn(Plan),
    /// To the child.
    Signal(Sig),
    /// Start a timer anew.
    Arm(Timer, Duration),
    /// Like `Arm`, but never later than it was armed already.
    ArmAtMost(Timer, Duration),
    /// Forget it.
    Disarm(Timer),
    /// Look whether the quorum survives without us.
    Guard {
        /// For a command that waits at the gate; else right before SIGTERM.
        gate: bool,
    },
    /// Watch the other voters until it is ours.
    AwaitTurn,
    /// Nobody waits any more.
    CancelTurn,
    /// Hand leadership over.
    Transfer,
    /// To who asked.
    Reply(RequestId, Answer),
    /// An operation has come to its one end.
    Finished {
        /// Which.
        id: u64,
        /// Its verb.
        kind: OperationKind,
        /// Its end.
        outcome: Outcome,
    },
    /// End the process.
    Exit(Exit),
}
