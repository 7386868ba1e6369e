// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Turns the machine's state into the view that everybody reads. Keeps what a pure state has no room for: when things
//! were, pids, words of errors. Decides nothing.
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::command::Refusal;
use super::state::{self, Call, Outcome, State};
use super::view::{
    BootstrapState, BootstrapView, ChildView, ConfigSource, CoreView, ExitStatus, LastExit, Mode,
    OperationKind, OperationPhase, OperationStatus, OperationView, OverrideView, Phase, SidecarWord, Warning,
};
use crate::config::EtcdConfig;

/// Finished operations that can still be asked for.
pub const REMEMBERED: usize = 32;

/// The living child as the operating system knows it.
#[derive(Clone, Debug)]
pub struct Living {
    /// Counted from 1.
    pub generation: u64,
    /// etcd's.
    pub pid: u32,
    /// When it was spawned.
    pub started_at: SystemTime,
    /// When READY came; None: not yet.
    pub ready_since: Option<SystemTime>,
    /// What it runs with.
    pub config: Arc<EtcdConfig>,
    /// Where that came from.
    pub source: ConfigSource,
}

/// What the view needs beside the state.
#[derive(Debug)]
pub struct Chronicle {
    epoch: String,
    started_at: SystemTime,
    phase: Phase,
    phase_since: SystemTime,
    /// Of the binary; None: it has not told.
    pub etcd_version: Option<String>,
    /// None: no etcd lives.
    pub child: Option<Living>,
    /// None: none has ended in this process.
    pub last_exit: Option<LastExit>,
    /// Calls of `initialization/start` by this bootstrap.
    pub rounds: u32,
    /// The one last asked for.
    pub mode: Option<Mode>,
    /// The sidecar's own, when last heard.
    pub word: Option<SidecarWord>,
    bootstrap_since: SystemTime,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Which lock somebody else holds, and who that is.
    pub lock_note: Option<String>,
    override_expires: Option<SystemTime>,
    overridden: Option<state::Override>,
    /// Shared with the views: copied only when one of them changes.
    operations: Arc<VecDeque<OperationView>>,
    /// For `/startupz`.
    pub ready_once: bool,
    warnings: Vec<Warning>,
    data_dir: Option<std::path::PathBuf>,
}

impl Chronicle {
    /// Of a process that began at `now`.
    pub fn new(epoch: String, now: SystemTime) -> Self {
        Self {
            epoch,
            started_at: now,
            phase: Phase::Initializing,
            phase_since: now,
            etcd_version: None,
            child: None,
            last_exit: None,
            rounds: 0,
            mode: None,
            word: None,
            bootstrap_since: now,
            last_error: None,
            lock_note: None,
            override_expires: None,
            overridden: None,
            operations: Arc::default(),
            ready_once: false,
            warnings: Vec::new(),
            data_dir: None,
        }
    }

    /// A sidecar call leaves.
    pub fn calls(&mut self, call: Call) {
        if let Call::Start(mode) = call {
            self.rounds += 1;
            self.mode = Some(mode);
        }
    }

    /// An etcd was started.
    pub fn spawned(&mut self, child: Living) {
        self.data_dir = Some(child.config.data_dir.clone());
        self.child = Some(child);
    }

    /// etcd was reaped; `cause` is a stable word (api.md §3).
    pub fn ended(
        &mut self,
        status: ExitStatus,
        requested: bool,
        clean: bool,
        cause: &'static str,
        now: SystemTime,
    ) {
        let generation = self.child.take().map_or(0, |child| child.generation);
        self.last_exit = Some(LastExit { generation, status, requested, clean, at: now, cause });
    }

    /// An operation has ended; its view is the newest one with this id.
    pub fn finished(
        &mut self,
        id: u64,
        kind: OperationKind,
        outcome: &Outcome,
        generation: u64,
        now: SystemTime,
    ) {
        let (status, changed, problem) = match outcome {
            Outcome::Succeeded { changed } => (OperationStatus::Succeeded, *changed, None),
            Outcome::Failed(refusal) => (OperationStatus::Failed, false, Some(refusal.clone())),
            Outcome::Superseded => (OperationStatus::Superseded, false, None),
        };
        let failed = problem.is_some();
        let last_error = self.last_error.clone().filter(|_| failed);
        let view = self.operation(id, kind, now);
        view.status = status;
        view.changed = changed;
        view.finished_at = Some(now);
        let started = matches!(kind, OperationKind::Start | OperationKind::Restart);
        view.generation = (started && status == OperationStatus::Succeeded).then_some(generation);
        view.problem = problem.map(|problem: Refusal| problem);
        view.last_error = last_error;
        if !failed {
            view.phase = OperationPhase::Done;
        }
    }

    fn operation(&mut self, id: u64, kind: OperationKind, now: SystemTime) -> &mut OperationView {
        let operations = Arc::make_mut(&mut self.operations);
        let known = operations.iter().position(|operation| operation.id == id);
        let place = known.unwrap_or_else(|| {
            if operations.len() == REMEMBERED {
                operations.pop_front();
            }
            operations.push_back(OperationView {
                id,
                kind,
                status: OperationStatus::Running,
                phase: OperationPhase::Validating,
                changed: true,
                started_at: now,
                finished_at: None,
                generation: None,
                problem: None,
                last_error: None,
            });
            operations.len() - 1
        });
        &mut operations[place]
    }

    /// Takes in a new state; returns the phase that was left, if one was.
    pub fn follow(&mut self, state: &State, now: SystemTime) -> Option<Phase> {
        if let Some(op) = &state.op {
            let shown = self.operations.back().map(|operation| (operation.id, operation.phase));
            if shown != Some((op.id, op.phase)) {
                self.operation(op.id, op.kind(), now).phase = op.phase;
            }
        }
        if self.overridden != state.override_ {
            self.override_expires = state.override_.as_ref().and_then(|standing| Some(now + standing.ttl?));
            self.overridden = state.override_.clone();
        }
        self.ready_once |= matches!(state.phase, state::Phase::Running);
        let phase = state.phase.name();
        let left = (phase != self.phase).then_some(self.phase);
        if left.is_some() {
            self.phase = phase;
            self.phase_since = now;
            if phase == Phase::Initializing
                || (phase == Phase::Configuring && left != Some(Phase::Initializing))
            {
                self.rounds = 0;
                self.mode = None;
                self.word = None;
                self.last_error = None;
            }
            if matches!(phase, Phase::Initializing | Phase::Configuring | Phase::Starting) {
                self.bootstrap_since = now;
            }
        }
        self.find_warnings(state, now);
        left
    }

    fn find_warnings(&mut self, state: &State, now: SystemTime) {
        let lock = self.lock_note.clone().unwrap_or_else(|| "another process holds the lock".into());
        let found = [
            (state.lock_held, "lock_held", lock),
            (state.sidecar_busy, "sidecar_busy", "the sidecar works on the data directory".into()),
        ];
        let before = std::mem::take(&mut self.warnings);
        self.warnings = found
            .into_iter()
            .filter(|(raised, ..)| *raised)
            .map(|(_, code, detail)| {
                let since =
                    before.iter().find(|warning| warning.code == code).map_or(now, |warning| warning.since);
                Warning { code, since, detail }
            })
            .collect();
    }

    /// The whole view.
    pub fn view(&self, state: &State, ticked: Instant) -> CoreView {
        CoreView {
            epoch: self.epoch.clone(),
            started_at: self.started_at,
            intent: state.intent,
            phase: self.phase,
            phase_since: self.phase_since,
            draining: state.draining(),
            hold_reason: self.hold_reason(state),
            generation: state.generation,
            etcd_version: self.etcd_version.clone(),
            child: self.child.as_ref().map(|child| ChildView {
                generation: child.generation,
                pid: child.pid,
                started_at: child.started_at,
                ready_since: child.ready_since,
                config: child.config.clone(),
                source: child.source,
            }),
            last_exit: self.last_exit.clone(),
            bootstrap: BootstrapView {
                state: match self.phase {
                    Phase::Initializing => BootstrapState::Initializing,
                    Phase::Configuring => BootstrapState::Configuring,
                    Phase::Starting | Phase::Running | Phase::Stopping => BootstrapState::Done,
                    Phase::Held | Phase::Stopped | Phase::Backoff | Phase::Exiting => BootstrapState::Idle,
                },
                validation: self.mode,
                rounds: self.rounds,
                word: self.word,
                since: self.bootstrap_since,
                last_error: self.last_error.clone(),
            },
            override_: state.override_.as_ref().map(|standing| OverrideView {
                mode: standing.mode,
                owner: standing.owner.to_string(),
                reason: standing.reason.to_string(),
                expires_at: self.override_expires,
                durable: standing.durable,
            }),
            operations: self.operations.clone(),
            ready_once: self.ready_once,
            warnings: self.warnings.clone(),
            data_dir: self.data_dir.clone(),
            ticked,
        }
    }

    fn hold_reason(&self, state: &State) -> Option<String> {
        if self.phase != Phase::Held {
            return None;
        }
        let file = state.hold.file.as_ref().map(|file| file.reason.to_string());
        Some(file.unwrap_or_else(|| "--hold".to_owned()))
    }
}
