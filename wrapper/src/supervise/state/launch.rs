// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The way to a running child: ask the sidecar, get the configuration, prepare the directory, take the locks, look once
//! more, spawn, wait until it is ready and confirmed.
use std::time::Duration;

use super::dialogue::Step;
use super::{
    Call, Child, Code, Dialogue, Effect, Exit, Intent, Job, Launch, Marker, Mode, Next, OperationPhase,
    Outcome, Phase, Plan, Refusal, Reply, Rule, SidecarWord, State, Timer, Work,
};

const LOCK_RETRY: Duration = Duration::from_millis(250);
/// A last check that says no is repeated this often, a second apart, before the start counts as failed.
const CHECKS: u8 = 5;

impl State {
    /// Enters `initializing` (with a sidecar) or goes straight to the configuration (without).
    pub(super) fn bootstrap(
        &mut self,
        from_process_start: bool,
        launch: Launch,
        asked: Option<Mode>,
        fx: &mut Vec<Effect>,
    ) {
        self.rest_no_more(fx);
        if !self.settings.sidecar {
            self.configure(Launch { vouched: true, ..launch });
            return;
        }
        let marker = matches!(self.marker, Marker::Found { clean: true });
        let by_marker = if from_process_start && (marker || !self.rule(Rule::SanityNeedsMarker)) {
            Mode::Sanity
        } else {
            Mode::Full
        };
        self.phase =
            Phase::Initializing(Dialogue::new(from_process_start, asked.unwrap_or(by_marker)), launch);
    }

    /// Enters `configuring`.
    pub(super) fn configure(&mut self, launch: Launch) {
        self.phase = Phase::Configuring(launch);
    }

    /// Leaves `held`, `stopped` or `backoff` for the way up.
    pub(super) fn rest_no_more(&mut self, fx: &mut Vec<Effect>) {
        self.unpause(fx);
        self.intent = Intent::Up;
        self.sidecar_busy = false;
        self.lock_held = false;
        if self.phase == Phase::Backoff {
            fx.push(Effect::Disarm(Timer::Backoff));
        }
    }

    pub(super) fn after_dialogue(&mut self, step: Step, fx: &mut Vec<Effect>) {
        match step {
            Step::Now => {}
            Step::After(pause) => self.pause(pause, fx),
            Step::Sound => {
                let Phase::Initializing(_, launch) = &self.phase else { return };
                let launch = Launch { vouched: true, ..launch.clone() };
                self.configure(launch);
            }
        }
    }

    pub(super) fn drive_initializing(&mut self, fx: &mut Vec<Effect>) {
        let stop_waits = self.stop_waits();
        let Phase::Initializing(dialogue, _) = &mut self.phase else { return };
        if stop_waits {
            dialogue.next = Next::Ask;
        }
        let (next, heard) = (dialogue.next, dialogue.heard());
        // Somebody is or was at work on the directory: what dies from now on must leave no marker either.
        if heard && self.marker_left() && self.rule(Rule::HearingConsumesMarker) {
            self.consume_marker(fx);
        }
        if self.call.is_some() || self.pausing {
            return;
        }
        match next {
            Next::Ask => self.call(Call::Status, fx),
            Next::Start if self.marker_left() => self.consume_marker(fx),
            Next::Start if !self.locked && self.rule(Rule::TakeLock) => self.take_locks(None, fx),
            Next::Start => {
                let rules = self.settings.rules;
                let mut round = self.round;
                let Phase::Initializing(dialogue, _) = &mut self.phase else { return };
                let mode = dialogue.mode(&rules);
                dialogue.start_sent(&mut round);
                self.round = round;
                self.stop_timing_ready(fx);
                self.call(Call::Start(mode), fx);
            }
        }
    }

    pub(super) fn drive_configuring(&mut self, fx: &mut Vec<Effect>) {
        let Phase::Configuring(launch) = &self.phase else { return };
        if self.pausing {
            return;
        }
        let Some(plan) = launch.plan.clone() else {
            self.obtain_config(false, fx);
            return;
        };
        let check = self.settings.sidecar && !launch.vouched && !launch.force && !launch.checked;
        let (prepared, locked) = (launch.prepared, launch.locked);
        if self.marker_left() {
            self.consume_marker(fx);
        } else if !prepared {
            if self.disk.is_none() {
                self.job(Job::Prepare(plan), fx);
            }
        } else if !locked && self.rule(Rule::TakeLock) {
            self.take_locks(Some(plan), fx);
        } else if check && self.rule(Rule::CheckBeforeSpawn) {
            if self.call.is_none() {
                self.call(Call::Check, fx);
            }
        } else {
            self.cancel_call(fx);
            self.spawning = Some(plan.clone());
            fx.push(Effect::Spawn(plan));
        }
    }

    /// Fetches from the sidecar or reads the file; `quick` while etcd runs.
    pub(super) fn obtain_config(&mut self, quick: bool, fx: &mut Vec<Effect>) {
        if self.settings.sidecar {
            if self.call.is_none() {
                self.call(Call::Config { quick }, fx);
            }
        } else if self.disk.is_none() {
            self.job(Job::ReadFile, fx);
        }
    }

    fn marker_left(&self) -> bool {
        matches!(self.marker, Marker::Found { .. }) && self.rule(Rule::ConsumeMarker)
    }

    fn consume_marker(&mut self, fx: &mut Vec<Effect>) {
        if self.disk.is_none() {
            self.job(Job::ConsumeMarker, fx);
        }
    }

    /// Tries the locks; the ready timeout runs from the first attempt.
    fn take_locks(&mut self, plan: Option<Plan>, fx: &mut Vec<Effect>) {
        if self.disk.is_some() {
            return;
        }
        if let (Some(limit), false) = (self.settings.ready_timeout, self.timing_ready) {
            self.timing_ready = true;
            fx.push(Effect::Arm(Timer::Ready, limit));
        }
        self.job(Job::Lock(plan), fx);
    }

    pub(super) fn stop_timing_ready(&mut self, fx: &mut Vec<Effect>) {
        if std::mem::take(&mut self.timing_ready) {
            fx.push(Effect::Disarm(Timer::Ready));
        }
    }

    pub(super) fn on_locked(&mut self, job: Option<Job>, result: Result<bool, String>, fx: &mut Vec<Effect>) {
        match result {
            Ok(true) => {
                self.locked = true;
                self.lock_held = false;
                if let (Phase::Configuring(launch), Some(Job::Lock(Some(plan)))) = (&mut self.phase, job) {
                    launch.locked = launch.plan.as_ref() == Some(&plan);
                }
            }
            Ok(false) => {
                self.lock_held = true;
                if matches!(self.phase, Phase::Initializing(..) | Phase::Configuring(_)) {
                    self.pause(LOCK_RETRY, fx);
                }
            }
            Err(detail) => {
                if matches!(self.phase, Phase::Initializing(..) | Phase::Configuring(_)) {
                    self.launch_failed(Refusal { code: Code::Failed, detail }, fx);
                }
            }
        }
    }

    pub(super) fn on_prepared(
        &mut self,
        job: Option<Job>,
        result: Result<(), Refusal>,
        fx: &mut Vec<Effect>,
    ) {
        let Phase::Configuring(launch) = &mut self.phase else { return };
        // The outcome for a plan that another start has replaced meanwhile says nothing of this one.
        if job != launch.plan.clone().map(Job::Prepare) {
            return;
        }
        match result {
            Ok(()) => launch.prepared = true,
            Err(refusal) => self.launch_failed(refusal, fx),
        }
    }

    pub(super) fn on_file_read(&mut self, result: Result<Plan, Refusal>, fx: &mut Vec<Effect>) {
        match (result, &mut self.phase) {
            (Ok(plan), Phase::Configuring(launch)) => {
                launch.plan.get_or_insert(plan);
            }
            (Err(refusal), Phase::Configuring(_)) => self.launch_failed(refusal, fx),
            (Ok(plan), _) => self.restart_has_plan(plan),
            (Err(refusal), _) => {
                if self.restart_fetches() {
                    self.finish_op(Outcome::Failed(refusal), fx);
                }
            }
        }
    }

    /// An answer to `/config`, for a launch or for a restart.
    pub(super) fn on_config(&mut self, reply: Reply, fx: &mut Vec<Effect>) {
        if reply == Reply::Lost {
            self.config_suspect = true;
        }
        let restart = self.restart_fetches();
        match reply {
            Reply::Config(plan) => {
                if self.config_suspect && !self.came_twice(&plan) {
                    return;
                }
                self.config_suspect = false;
                if restart {
                    self.restart_has_plan(plan);
                } else if let Phase::Configuring(launch) = &mut self.phase {
                    launch.plan = Some(plan);
                    launch.retries = 0;
                }
            }
            Reply::BadConfig(refusal) if restart => self.finish_op(Outcome::Failed(refusal), fx),
            _ if restart => {
                let detail = "the sidecar did not serve a configuration; etcd was left as it is".into();
                self.finish_op(Outcome::Failed(Refusal { code: Code::SidecarUnavailable, detail }), fx);
            }
            _ => {
                if let Phase::Configuring(launch) = &mut self.phase {
                    launch.seen_once = None;
                    let pause = Duration::from_millis(100 << launch.retries.min(6));
                    launch.retries = (launch.retries + 1).min(6);
                    self.pause(pause, fx);
                }
            }
        }
    }

    /// After a call that was given up on, its rewrite may cut ours short: only the same body twice in a row counts.
    fn came_twice(&mut self, plan: &Plan) -> bool {
        let seen = match (&mut self.phase, &mut self.op) {
            (Phase::Configuring(launch), _) => &mut launch.seen_once,
            (_, Some(super::Op { work: Work::Restart { next, .. }, .. })) => &mut next.seen_once,
            _ => return false,
        };
        if seen.as_ref() == Some(&plan.digest) {
            return true;
        }
        *seen = Some(plan.digest.clone());
        false
    }

    /// The last check before a spawn (safety.md 5), for an admission or for a launch.
    pub(super) fn on_check(&mut self, reply: &Reply, fx: &mut Vec<Effect>) {
        let free = match reply {
            Reply::Word(word) => *word != SidecarWord::Progress,
            Reply::Refused => true,
            _ => false,
        } && !self.round.is_open();
        if self.on_gate_check(free, fx) {
            return;
        }
        let Phase::Configuring(launch) = &mut self.phase else { return };
        launch.checked = free;
        if free {
            return;
        }
        launch.retries += 1;
        if launch.retries <= CHECKS {
            self.pause(Duration::from_secs(1), fx);
        } else {
            self.launch_failed(initialization_in_progress(), fx);
        }
    }

    pub(super) fn on_spawned(&mut self, fx: &mut Vec<Effect>) {
        let Some(plan) = self.spawning.take() else { return };
        self.generation += 1;
        self.child =
            Some(Child { plan, ready_seen: false, confirmed: false, ending: None, no_marker: false });
        self.phase = Phase::Starting;
        self.set_op_phase(OperationPhase::Starting);
        if let (Some(limit), false) = (self.settings.ready_timeout, self.timing_ready) {
            self.timing_ready = true;
            fx.push(Effect::Arm(Timer::Ready, limit));
        }
    }

    pub(super) fn maybe_running(&mut self, fx: &mut Vec<Effect>) {
        let Some(child) = &self.child else { return };
        if self.phase != Phase::Starting || !child.ready_seen || !child.confirmed || child.ending.is_some() {
            return;
        }
        self.phase = Phase::Running;
        self.stop_timing_ready(fx);
        self.finish_op(Outcome::Succeeded { changed: true }, fx);
    }

    pub(super) fn on_ready_timeout(&mut self, fx: &mut Vec<Effect>) {
        self.timing_ready = false;
        if !matches!(self.phase, Phase::Initializing(..) | Phase::Configuring(_) | Phase::Starting) {
            return;
        }
        let detail = if self.lock_held {
            "another process holds the lock of the state directory or of the database"
        } else {
            "etcd was not ready in time"
        };
        self.end_process(Exit { code: 14, cause: "not_ready", detail: detail.into() }, fx);
    }

    /// The way up has ended: back to where a `start` came from, or out of the process.
    pub(super) fn launch_failed(&mut self, refusal: Refusal, fx: &mut Vec<Effect>) {
        let from_rest = match &self.phase {
            Phase::Initializing(_, launch) | Phase::Configuring(launch) => launch.from_rest,
            _ => false,
        };
        self.stop_timing_ready(fx);
        self.finish_op(Outcome::Failed(refusal.clone()), fx);
        if from_rest {
            self.rest(fx);
        } else {
            self.end_process(Exit { code: 12, cause: "start_failed", detail: refusal.detail }, fx);
        }
    }
}

pub(super) fn initialization_in_progress() -> Refusal {
    Refusal {
        code: Code::InitializationInProgress,
        detail: "the sidecar may be validating or restoring the data directory; wait for it, or use force"
            .into(),
    }
}
