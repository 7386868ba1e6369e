// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What comes back from the child, the disk, the sidecar and the member: noted for readers and the log, then turned into
//! the machine's events.
use std::sync::Arc;
use std::time::SystemTime;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::{CRASH_WINDOW, Supervisor, effects};
use crate::bootstrap::calls::{self, Answered};
use crate::config::{self, EtcdConfig};
use crate::exit::record::EtcdEnd;
use crate::supervise::command::{Code, Refusal};
use crate::supervise::disk::{self, Completion};
use crate::supervise::notify::NotifySocket;
use crate::supervise::process::Child;
use crate::supervise::state::{self, Event, Job};
use crate::supervise::view::{ExitStatus, OperationKind};

impl Supervisor {
    /// The outstanding job counts as failed. What it still does is harmless: a marker on its way to the disk is true, and a
    /// hold holds.
    pub(super) fn give_up_on_disk(&mut self) {
        self.disk_limit = None;
        if let Some(job) = self.state().disk.clone() {
            error!(?job, "gave up on the disk");
            self.feed(Event::Disk(disk::failed(&job)));
        }
    }

    pub(super) fn on_child_ended(&mut self, status: ExitStatus) {
        let state = self.state();
        let requested = state.draining();
        let clean = state.end_is_clean(status);
        let cause = match (&state.exit, &state.op) {
            (Some(plan), _) => plan.cause(),
            (None, Some(op)) if requested => match op.kind() {
                OperationKind::Restart => "restart",
                _ => "stop",
            },
            _ => "crash",
        };
        let running = self.child.take();
        let pid = running.as_ref().map(|running| running.child.pid());
        let ready_seen = running.is_some_and(|running| running.ready_seen);
        info!(?status, requested, clean, pid, "etcd ended");
        self.chronicle.ended(status, requested, clean, cause, SystemTime::now());
        self.etcd_end = Some(EtcdEnd::new(status, requested, ready_seen));
        self.living.send_replace(None);
        let now = Instant::now();
        if !requested {
            self.crashes.push_back(now);
        }
        while self.crashes.front().is_some_and(|at| now - *at > CRASH_WINDOW) {
            self.crashes.pop_front();
        }
        let recent_crashes = u8::try_from(self.crashes.len()).unwrap_or(u8::MAX);
        self.feed(Event::ChildExited { status, recent_crashes });
    }

    pub(super) fn on_disk(&mut self, completion: Completion) {
        for note in completion.notes {
            warn!("{note}");
        }
        if matches!(completion.done, state::Done::Locked(Ok(_)) | state::Done::Probed(_)) {
            self.on_locks_seen(completion.held);
        }
        if let Some(config) = completion.config {
            self.remember(config);
        }
        self.lock = completion.lock.or(self.lock.take());
        if matches!(completion.done, state::Done::Prepared(Ok(()))) {
            self.prepared = Some(completion.done);
            self.arrange();
        } else {
            self.feed(Event::Disk(completion.done));
        }
    }

    /// Another holder is said at once (the warning tells only of the first); while it lasts the reminder says it again.
    pub(super) fn on_locks_seen(&mut self, held: Option<String>) {
        if let Some(held) = held.as_ref().filter(|held| self.chronicle.lock_note.as_ref() != Some(held)) {
            info!("{held}; a start waits until it is free");
        }
        self.chronicle.lock_note = held;
    }

    pub(super) fn on_version(&mut self, version: Option<String>) {
        match &version {
            Some(version) => info!(version, program = %self.program.display(), "etcd"),
            None => warn!(program = %self.program.display(), "etcd does not tell its version"),
        }
        self.chronicle.etcd_version = version.clone();
        self.version = Some(version);
        if let Some(config) = self.untold.take() {
            self.tell_unknown_keys(&config);
        }
        self.arrange();
        self.publish();
    }

    /// Once a configuration is on disk, and etcd's version is known where anything hangs on it: how to start it. To ask
    /// for a version is to start an etcd, too long for a start to wait for.
    pub(super) fn arrange(&mut self) {
        if self.prepared.is_none() {
            return;
        }
        let Some(Job::Prepare(plan)) = self.state().disk.clone() else { return };
        let waits = |config: &Arc<EtcdConfig>| self.version.is_none() && config::hangs_on_version(config);
        if self.configs.get(&plan.digest).is_some_and(waits) {
            return;
        }
        self.prepared = None;
        let Some(config) = self.configs.get(&plan.digest).cloned() else {
            // Whatever became of it, the job has to end: everything else waits for it.
            let detail = "the configuration that was prepared is gone: a defect of the wrapper".into();
            self.feed(Event::Disk(state::Done::Prepared(Err(Refusal { code: Code::Failed, detail }))));
            return;
        };
        if self.told_of.as_ref() != Some(&plan.digest) {
            self.told_of = Some(plan.digest);
            if self.version.is_some() {
                self.tell_unknown_keys(&config);
            } else {
                self.untold = Some(config.clone());
            }
        }
        let version = self.version.as_ref().and_then(Option::as_deref);
        let outcome = effects::arguments(&config, version, &self.paths.written_config());
        let done = match outcome {
            Ok(arguments) => {
                self.arguments = arguments;
                Ok(())
            }
            Err(detail) => Err(Refusal { code: Code::ConfigInvalid, detail }),
        };
        self.feed(Event::Disk(state::Done::Prepared(done)));
    }

    /// Which keys are unknown hangs on the version.
    fn tell_unknown_keys(&self, config: &EtcdConfig) {
        let version = self.version.as_ref().and_then(Option::as_deref);
        for key in config::unknown_keys(config, version) {
            warn!("{key}");
        }
    }

    /// Keeps a configuration, and of the earlier ones those that the machine speaks of.
    pub(super) fn remember(&mut self, config: Arc<EtcdConfig>) {
        let state = self.state.as_ref().expect("taken only within feed");
        self.configs.retain(|digest, _| state.speaks_of(digest));
        self.configs.insert(Arc::from(config.digest.as_str()), config);
    }

    pub(super) fn on_answer(&mut self, answer: Result<Answered, tokio::task::JoinError>) {
        self.call = None;
        let Some(call) = self.state().call else { return };
        let answered = match answer {
            Ok(answered) => answered,
            Err(error) => {
                error!(%error, "the sidecar task ended");
                self.feed(Event::Panicked);
                return;
            }
        };
        self.metrics.sidecar_request(calls::name(call), answered.outcome);
        if let state::Reply::Word(word) = answered.reply {
            if self.chronicle.word != Some(word) {
                info!(status = word.as_str(), "sidecar");
            }
            self.chronicle.word = Some(word);
        }
        if let Some(said) = &answered.said {
            if self.chronicle.last_error.as_ref() != Some(said) {
                warn!(call = calls::name(call), "sidecar: {said}");
            }
            self.chronicle.last_error = Some(said.clone());
        }
        if let Some(config) = answered.config {
            self.remember(config);
        }
        self.feed(Event::Sidecar(answered.reply));
    }

    pub(super) fn on_ready(&mut self, result: std::io::Result<()>) {
        let Some(running) = &mut self.child else { return };
        running.listening = false;
        if let Err(error) = result {
            error!(%error, "the notify socket broke: etcd's READY cannot be heard");
            return;
        }
        running.ready_seen = true;
        info!("etcd says READY");
        self.living.send_modify(|alive| {
            if let Some(alive) = alive {
                alive.ready_seen = true;
            }
        });
        self.feed(Event::Ready);
    }

    pub(super) fn on_member(&mut self) {
        let (generation, confirmed) = {
            let view = self.member.borrow_and_update();
            (view.generation, view.confirmed)
        };
        let current = self.state().generation;
        if let Some(running) = &mut self.child
            && confirmed
            && generation == Some(current)
            && !std::mem::replace(&mut running.confirmed, true)
        {
            if let Some(child) = &mut self.chronicle.child {
                child.ready_since = Some(SystemTime::now());
            }
            self.feed(Event::Confirmed);
        }
    }
}

pub(super) async fn child_end(child: Option<&mut Child>) -> ExitStatus {
    match child {
        Some(child) => child.wait().await,
        None => std::future::pending().await,
    }
}

pub(super) async fn said_ready(socket: Option<(&mut NotifySocket, u32)>) -> std::io::Result<()> {
    match socket {
        Some((socket, pid)) => socket.ready(pid).await,
        None => std::future::pending().await,
    }
}

pub(super) async fn joined(
    call: Option<&mut JoinHandle<Answered>>,
) -> Result<Answered, tokio::task::JoinError> {
    match call {
        Some(call) => call.await,
        None => std::future::pending().await,
    }
}
