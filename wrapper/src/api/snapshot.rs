// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Turns the stages' views into the documents of wire.rs. Pure: every call with the same views and clock gives the
//! same document; holds no state and does no I/O.
use std::time::{Instant, SystemTime};

use crate::member::health::diagnose;
use crate::member::readiness::{self, Evaluation, MAX_AGE};
use crate::member::view::{MemberView, Source};
use crate::member::volume::Volume;
use crate::supervise::view::{
    BootstrapState, BootstrapView, ChildView, ConfigSource, CoreView, ExitStatus, LastExit, OperationPhase,
    OperationView, OverrideMode, OverrideView, Phase, Warning,
};
use crate::tls::TlsView;

use super::problem::Problem;
use super::{warnings, wire};

/// Both clocks, read once for a whole document.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For ages.
    pub instant: Instant,
    /// For what is shown.
    pub wall: SystemTime,
}

impl Now {
    /// Reads the clocks.
    pub fn read() -> Self {
        Self { instant: Instant::now(), wall: SystemTime::now() }
    }
}

/// What only the history of the views can tell; kept by the publisher.
#[derive(Clone, Debug)]
pub struct Marks {
    /// Of the newest change.
    pub index: u64,
    /// As it was last judged.
    pub ready: bool,
    /// Since when it is so.
    pub ready_since: SystemTime,
    /// Since when leadership is what it is.
    pub leader_since: SystemTime,
    /// Those that stand, with their beginnings.
    pub warnings: Vec<Warning>,
    /// None: it cannot be looked at.
    pub volume: Option<Volume>,
}

/// `GET /v1/status`.
pub fn compose(core: &CoreView, member: &MemberView, tls: &TlsView, marks: &Marks, now: Now) -> wire::Status {
    let evaluation = readiness::evaluate(core, member, now.instant, MAX_AGE);
    let warnings = warnings::current(core, member, tls, marks.volume, &marks.warnings, now.wall);
    wire::Status {
        epoch: core.epoch.clone(),
        index: marks.index,
        time: wire::time(now.wall),
        wrapper: wrapper(core),
        etcd: etcd(core, member),
        bootstrap: bootstrap(&core.bootstrap),
        member: member
            .own_row()
            .map(|row| wire::Member { id: wire::member_id(row.id), peer_urls: row.peer_urls.clone() }),
        volume: marks
            .volume
            .map(|volume| wire::Volume { free_bytes: volume.free_bytes, free_inodes: volume.free_inodes }),
        readiness: readiness_document(core, &evaluation, marks, now),
        leader: leader(core, member, marks, now),
        health: health(core, member, now),
        operation: core.operation().map(|living| operation(&core.epoch, living)),
        warnings: warnings.iter().map(warning).collect(),
        poll: wire::Poll::default(),
    }
}

/// `GET /v1/readiness`.
pub fn readiness_document(
    core: &CoreView,
    evaluation: &Evaluation,
    marks: &Marks,
    now: Now,
) -> wire::Readiness {
    let since = if evaluation.ready == marks.ready { marks.ready_since } else { now.wall };
    wire::Readiness {
        ready: evaluation.ready,
        since: wire::time(since),
        reason: evaluation.reason.map(Into::into),
        checks: evaluation.checks.iter().map(check).collect(),
        override_: core.override_.as_ref().map(override_document),
    }
}

fn check(check: &readiness::Check) -> wire::Check {
    wire::Check {
        name: check.name.into(),
        ok: check.ok,
        required: check.required,
        at: check.at.map(wire::time),
        detail: (!check.detail.is_empty()).then(|| check.detail.clone()),
    }
}

/// `GET /v1/leader`. Leads only who runs, is not on the way out, and was named by its own generation's newest answer.
pub fn leader(core: &CoreView, member: &MemberView, marks: &Marks, now: Now) -> wire::Leader {
    let child = core.child.as_ref();
    let leadership = member
        .leadership
        .as_ref()
        .filter(|_| child.is_some_and(|child| member.generation == Some(child.generation)));
    let leaving = core.draining && child.is_some();
    let answered = member.status.as_ref().map(|status| status.last_success.unwrap_or(status.at));
    let age = answered.map(|at| wire::duration(now.instant.saturating_duration_since(at)));
    wire::Leader {
        epoch: core.epoch.clone(),
        index: marks.index,
        member_id: leadership.and_then(|l| l.member_id).map(wire::member_id),
        member_name: child.map(|child| child.config.name.clone()),
        leader_id: leadership.and_then(|l| l.leader_id).map(wire::member_id),
        is_leader: core.phase == Phase::Running && !core.draining && leadership.is_some_and(|l| l.is_leader),
        is_learner: leadership.and_then(|l| l.is_learner.or(member.learner)),
        leaving,
        term: leadership.and_then(|l| l.term),
        generation: core.generation,
        since: wire::time(marks.leader_since),
        confirmed: false,
        age: age.filter(|_| leadership.is_some()),
        source: leadership.map(|l| match l.source {
            Source::Status => "status".into(),
            Source::Metrics => "metrics".into(),
        }),
        poll: wire::Poll::default(),
    }
}

fn health(core: &CoreView, member: &MemberView, now: Now) -> wire::Health {
    let health = diagnose(core, member, now.instant);
    wire::Health {
        process: health.process.as_str().into(),
        member: health.member.as_str().into(),
        quorum: health.quorum.as_str().into(),
        role: health.role.as_str().into(),
        diagnosis: health.diagnosis.as_str().into(),
    }
}

fn wrapper(core: &CoreView) -> wire::Wrapper {
    wire::Wrapper {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        started_at: wire::time(core.started_at),
        intent: core.intent.as_str().into(),
        phase: core.phase.as_str().into(),
        phase_since: wire::time(core.phase_since),
        hold_reason: core.hold_reason.clone(),
    }
}

fn etcd(core: &CoreView, member: &MemberView) -> wire::Etcd {
    let child = core.child.as_ref();
    wire::Etcd {
        version: member.version.clone().or_else(|| core.etcd_version.clone()),
        generation: core.generation,
        pid: child.map(|child| child.pid),
        started_at: child.map(|child| wire::time(child.started_at)),
        ready_since: child.and_then(|child| child.ready_since).map(wire::time),
        config_digest: child.map(|child| child.config.digest.clone()),
        config_source: child.map(|child| match child.source {
            ConfigSource::Sidecar => "sidecar".into(),
            ConfigSource::File => "file".into(),
            ConfigSource::Posted => "posted".into(),
        }),
        effective: child.map(effective),
        db: member.db.map(|db| wire::Db { size: db.size, in_use: db.in_use, quota: db.quota }),
        last_exit: core.last_exit.as_ref().map(last_exit),
    }
}

fn effective(child: &ChildView) -> wire::Effective {
    let config = &child.config;
    let https = |urls: &[String]| urls.iter().any(|url| url.starts_with("https:"));
    wire::Effective {
        name: config.name.clone(),
        data_dir: config.data_dir.display().to_string(),
        listen_peer_urls: config.listen_peer_urls.clone(),
        advertise_peer_urls: config.advertise_peer_urls.clone(),
        peer_tls: https(&config.listen_peer_urls),
        client_tls: https(&config.listen_client_urls),
    }
}

fn last_exit(exit: &LastExit) -> wire::LastExit {
    let (kind, code, signal) = match exit.status {
        ExitStatus::Exited(code) => ("exited", Some(code), None),
        ExitStatus::Signaled(signal) => ("signaled", None, Some(signal_name(signal))),
    };
    wire::LastExit {
        generation: exit.generation,
        kind: kind.into(),
        code,
        signal,
        requested: exit.requested,
        clean: exit.clean,
        at: wire::time(exit.at),
        cause: exit.cause.into(),
    }
}

/// The signals that end an etcd; others keep their number.
fn signal_name(signal: i32) -> wire::Word {
    match signal {
        1 => "SIGHUP".into(),
        2 => "SIGINT".into(),
        3 => "SIGQUIT".into(),
        4 => "SIGILL".into(),
        5 => "SIGTRAP".into(),
        6 => "SIGABRT".into(),
        7 => "SIGBUS".into(),
        8 => "SIGFPE".into(),
        9 => "SIGKILL".into(),
        11 => "SIGSEGV".into(),
        13 => "SIGPIPE".into(),
        15 => "SIGTERM".into(),
        24 => "SIGXCPU".into(),
        25 => "SIGXFSZ".into(),
        31 => "SIGSYS".into(),
        other => format!("signal {other}").into(),
    }
}

fn bootstrap(bootstrap: &BootstrapView) -> wire::Bootstrap {
    wire::Bootstrap {
        state: match bootstrap.state {
            BootstrapState::Idle => "idle".into(),
            BootstrapState::Initializing => "initializing".into(),
            BootstrapState::Configuring => "configuring".into(),
            BootstrapState::Done => "done".into(),
        },
        validation: bootstrap.validation.map(|mode| mode.as_str().into()),
        rounds: bootstrap.rounds,
        sidecar_state: bootstrap.word.map(|word| word.as_str().into()),
        since: wire::time(bootstrap.since),
        last_error: bootstrap.last_error.clone(),
    }
}

fn override_document(standing: &OverrideView) -> wire::Override {
    wire::Override {
        mode: match standing.mode {
            OverrideMode::Ready => "ready".into(),
            OverrideMode::Unready => "unready".into(),
        },
        owner: standing.owner.clone(),
        reason: standing.reason.clone(),
        expires_at: standing.expires_at.map(wire::time),
        durable: standing.durable,
    }
}

/// The id by which an operation of the process `epoch` is asked for, `op-3f9a1c-17`. Operations are numbered from 1 in each
/// process: without the epoch, who asks after a crash would be told of somebody else's.
pub fn operation_id(epoch: &str, number: u64) -> String {
    match number {
        0 => "op-0".into(),
        number => format!("op-{epoch}-{number}"),
    }
}

/// The document of an operation of the process `epoch`.
pub fn operation(epoch: &str, operation: &OperationView) -> wire::Operation {
    wire::Operation {
        id: operation_id(epoch, operation.id),
        kind: operation.kind.as_str().into(),
        status: operation.status.as_str().into(),
        phase: match operation.phase {
            OperationPhase::WaitingTurn => "waiting_turn".into(),
            OperationPhase::WaitingSidecar => "waiting_sidecar".into(),
            OperationPhase::Fetching => "fetching".into(),
            OperationPhase::Validating => "validating".into(),
            OperationPhase::Draining => "draining".into(),
            OperationPhase::Transferring => "transferring".into(),
            OperationPhase::Stopping => "stopping".into(),
            OperationPhase::Starting => "starting".into(),
            OperationPhase::Done => "done".into(),
        },
        changed: operation.changed,
        started_at: wire::time(operation.started_at),
        finished_at: operation.finished_at.map(wire::time),
        result: operation.generation.map(|generation| serde_json::json!({ "generation": generation })),
        problem: operation.problem.clone().map(|refusal| Problem::from(refusal).document(None)),
        last_error: operation.last_error.clone(),
    }
}

fn warning(warning: &Warning) -> wire::Warning {
    wire::Warning {
        code: warning.code.into(),
        since: wire::time(warning.since),
        detail: warning.detail.clone(),
    }
}
