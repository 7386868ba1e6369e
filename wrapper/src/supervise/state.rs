// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The state machine: `step(state, event) -> (state, effects)`, pure. No clock, no I/O, no randomness: they come in as
//! events. Every event first changes facts, then `drive` looks at all facts and issues what is missing next, so that
//! no path can forget a step. The parts: `dialogue` (talking to the sidecar), `admit` (commands), `gate` (what a
//! command waits for), `restart`, `launch` (the way to a
//! running child), `ending` (the way down of a child), `leaving` (of the process), `hold` (overrides and the hold file).
mod admit;
mod dialogue;
mod ending;
mod event;
#[cfg(test)]
mod explore;
mod facts;
mod gate;
mod hold;
mod launch;
mod leaving;
mod restart;
mod rules;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use dialogue::{Dialogue, Next, Round};
pub use event::{Call, Done, Effect, Event, Exit, Job, Outcome, Plan, Reply, RequestId, Sig, Timer, Verdict};
pub use facts::{
    Asker, Child, Ending, EndingStage, ExitPlan, Found, Gate, Hold, HoldFile, Launch, Marker, NextGeneration,
    Op, Override, Phase, Settings, StartTerms, Terms, Why, Work,
};
pub use rules::{Rule, Rules};

use super::command::{Code, Command, Guard, HoldRequest, Refusal, Shutdown};
use super::view::{Intent, Mode, OperationPhase, OverrideMode, SidecarWord};

/// Everything there is to know. Owned by one task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Of the whole life.
    pub settings: Settings,
    /// What was asked for.
    pub intent: Intent,
    /// Where it stands.
    pub phase: Phase,
    /// The one etcd, from spawn to reaping.
    pub child: Option<Child>,
    /// Successful spawns so far.
    pub generation: u64,
    /// Of a clean end.
    pub marker: Marker,
    /// The hold file.
    pub hold: Hold,
    /// Of readiness.
    pub override_: Option<Override>,
    /// The one that is under way.
    pub op: Option<Op>,
    /// Number of the next.
    pub next_op: u64,
    /// The one to the sidecar that is in flight.
    pub call: Option<Call>,
    /// The one job that is under way.
    pub disk: Option<Job>,
    /// What a spawn under way starts etcd with.
    pub spawning: Option<Plan>,
    /// Whether the sidecar may be at work for us.
    pub round: Round,
    /// A `/config` call was given up on: its rewrite may still run in the sidecar.
    pub config_suspect: bool,
    /// We hold `etcd.lock`.
    pub locked: bool,
    /// Somebody else holds a lock we want, or would want.
    pub lock_held: bool,
    /// The sidecar said `Progress` when we last looked from `held` or `stopped`, or a stop was forced through one.
    pub sidecar_busy: bool,
    /// A pause runs; nothing is asked or tried until it is over.
    pub pausing: bool,
    /// [`Timer::Ready`] runs.
    pub timing_ready: bool,
    /// A command that waits for a fact.
    pub gate: Option<Gate>,
    /// Set once the end has begun.
    pub exit: Option<ExitPlan>,
    /// Everything is done; no event changes anything.
    pub exited: bool,
}

impl State {
    /// As it begins, with what lay on the disk.
    pub fn new(settings: Settings, found: Found) -> Self {
        let round = if settings.sidecar { Round::Unheard } else { Round::Ended };
        Self {
            settings,
            intent: Intent::Up,
            phase: Phase::Begin,
            child: None,
            generation: 0,
            marker: Marker::Found { clean: found.clean_marker },
            hold: Hold { file: found.hold, marked: false },
            override_: None,
            op: None,
            next_op: 1,
            call: None,
            disk: None,
            spawning: None,
            round,
            config_suspect: false,
            locked: false,
            lock_held: false,
            sidecar_busy: false,
            pausing: false,
            timing_ready: false,
            gate: None,
            exit: None,
            exited: false,
        }
    }

    /// Commands are fed one by one: while one is being admitted the next waits in the runtime's queue.
    pub fn takes_commands(&self) -> bool {
        self.gate.is_none() && self.phase != Phase::Begin
    }

    /// A stop has begun: readiness is gone, leadership is on its way.
    pub fn draining(&self) -> bool {
        self.child.as_ref().is_some_and(|child| child.ending.is_some())
    }

    /// Does a child, a launch, a restart, a command at the gate or a job on the disk rest on the configuration with this
    /// digest? A job goes on when the launch that wanted it is gone.
    pub fn speaks_of(&self, digest: &str) -> bool {
        let launch = match &self.phase {
            Phase::Initializing(_, launch) | Phase::Configuring(launch) => launch.plan.as_ref(),
            _ => None,
        };
        let next = match &self.op {
            Some(Op { work: Work::Restart { next, .. }, .. }) => next.plan.as_ref(),
            _ => None,
        };
        let posted = match &self.gate {
            Some(Gate { command: Command::Start(start), .. }) => start.posted.as_ref(),
            _ => None,
        };
        let child = self.child.as_ref().map(|child| &child.plan);
        let job = match &self.disk {
            Some(Job::Inspect(plan) | Job::Prepare(plan) | Job::Lock(Some(plan))) => Some(plan),
            _ => None,
        };
        let plans = [launch, next, child, job, self.spawning.as_ref()];
        plans.iter().flatten().any(|plan| *plan.digest == *digest)
            || posted.is_some_and(|config| config.digest == digest)
    }

    fn rule(&self, rule: Rule) -> bool {
        self.settings.rules.on(rule)
    }
}

/// The one transition function.
pub fn step(mut state: State, event: Event) -> (State, Vec<Effect>) {
    let mut fx = Vec::new();
    if !state.exited {
        state.take(event, &mut fx);
        state.drive(&mut fx);
    }
    (state, fx)
}

impl State {
    fn take(&mut self, event: Event, fx: &mut Vec<Effect>) {
        match event {
            Event::Begin => self.begin(fx),
            Event::Command(request, command) => self.on_command(request, command, fx),
            Event::Shutdown(shutdown) => self.on_shutdown(shutdown, fx),
            Event::Panicked => {
                let exit =
                    Exit { code: 1, cause: "internal", detail: "a task of the wrapper panicked".into() };
                self.end_process(exit, fx);
            }
            Event::Sidecar(reply) => self.on_reply(reply, fx),
            Event::Disk(done) => self.on_disk(done, fx),
            Event::Timer(timer) => self.on_timer(timer, fx),
            Event::Spawned => self.on_spawned(fx),
            Event::SpawnFailed(detail) => {
                self.spawning = None;
                self.launch_failed(Refusal { code: Code::Failed, detail }, fx);
            }
            Event::Ready => {
                if let Some(child) = &mut self.child {
                    child.ready_seen = true;
                }
                self.maybe_running(fx);
            }
            Event::Confirmed => {
                if let Some(child) = &mut self.child {
                    child.confirmed = true;
                }
                self.maybe_running(fx);
            }
            Event::ChildExited { status, recent_crashes } => self.on_child_exited(status, recent_crashes, fx),
            Event::Guard { gate: true, verdict } => self.on_gate_guard(verdict, fx),
            Event::Guard { gate: false, verdict } => self.on_ending_guard(verdict, fx),
            Event::Turn(result) => self.on_turn(result, fx),
            Event::Transferred(result) => self.on_transferred(result, fx),
        }
    }

    /// Held by flag or file, else on the way up.
    fn begin(&mut self, fx: &mut Vec<Effect>) {
        let held = self.settings.hold || (self.hold.file.is_some() && self.rule(Rule::HoldFileHolds));
        if held {
            self.intent = Intent::Down;
        } else {
            self.bootstrap(true, Launch::fetch(), None, fx);
        }
    }

    fn on_timer(&mut self, timer: Timer, fx: &mut Vec<Effect>) {
        match timer {
            Timer::Pause => self.pausing = false,
            Timer::Ready => self.on_ready_timeout(fx),
            Timer::Grace | Timer::Kill => self.escalate(fx),
            Timer::Transfer => self.transfer_over(fx),
            Timer::Backoff => {
                if self.phase == Phase::Backoff {
                    self.bootstrap(false, Launch::fetch(), None, fx);
                }
            }
            Timer::Override => self.end_override(fx),
            Timer::SidecarWait => self.stop_waited_long_enough(fx),
        }
    }

    fn on_reply(&mut self, reply: Reply, fx: &mut Vec<Effect>) {
        let Some(call) = self.call.take() else { return };
        match call {
            Call::Start(_) => {
                let mut round = self.round;
                if let Phase::Initializing(dialogue, _) = &mut self.phase {
                    let step = dialogue.on_start(&reply, &mut round);
                    self.round = round;
                    self.after_dialogue(step, fx);
                }
                self.stop_if_round_ended(fx);
            }
            Call::Config { .. } => self.on_config(reply, fx),
            Call::Status | Call::Check | Call::Watch => {
                let before = self.round;
                self.round = before.after_status(&reply, &self.settings.rules);
                if call == Call::Watch {
                    self.sidecar_busy = reply == Reply::Word(SidecarWord::Progress);
                }
                if call == Call::Check {
                    self.on_check(&reply, fx);
                }
                let rules = self.settings.rules;
                if let Phase::Initializing(dialogue, _) = &mut self.phase {
                    let step = dialogue.on_status(&reply, before, &rules);
                    self.after_dialogue(step, fx);
                }
                self.stop_if_round_ended(fx);
            }
        }
    }

    fn on_disk(&mut self, done: Done, fx: &mut Vec<Effect>) {
        let job = self.disk.take();
        match done {
            Done::MarkerConsumed(Ok(())) => {
                let was_clean = matches!(
                    self.marker,
                    Marker::Found { clean: true } | Marker::Consumed { was_clean: true }
                );
                self.marker = Marker::Consumed { was_clean };
            }
            Done::MarkerConsumed(Err(detail)) => {
                let exit = Exit { code: 12, cause: "marker_not_removable", detail };
                self.end_process(exit, fx);
            }
            Done::MarkerWritten => {
                if let Some(plan) = &mut self.exit {
                    plan.marker_settled = true;
                }
            }
            Done::HoldWritten(result) => self.on_hold_written(job, result, fx),
            Done::HoldRemoved(Ok(())) => self.hold = Hold { file: None, marked: false },
            // Tried again after a pause; a hold that lingers is safe, one that is lost is not.
            Done::HoldRemoved(Err(_)) => self.pause(Duration::from_secs(5), fx),
            Done::FileRead(result) => self.on_file_read(result, fx),
            Done::Inspected(result) => self.on_inspected(result, job, fx),
            Done::Prepared(result) => self.on_prepared(job, result, fx),
            Done::Locked(result) => self.on_locked(job, result, fx),
            Done::Probed(held) => self.lock_held = held,
        }
    }

    fn pause(&mut self, pause: Duration, fx: &mut Vec<Effect>) {
        self.pausing = true;
        fx.push(Effect::Arm(Timer::Pause, pause));
    }

    fn unpause(&mut self, fx: &mut Vec<Effect>) {
        if std::mem::take(&mut self.pausing) {
            fx.push(Effect::Disarm(Timer::Pause));
        }
    }

    fn call(&mut self, call: Call, fx: &mut Vec<Effect>) {
        debug_assert!(self.call.is_none(), "one sidecar call at a time");
        self.call = Some(call);
        fx.push(Effect::Call(call));
    }

    /// Gives up on what is in flight: its answer is lost, and what it did is unknown.
    fn cancel_call(&mut self, fx: &mut Vec<Effect>) {
        match self.call.take() {
            None => return,
            Some(Call::Config { .. }) => self.config_suspect = true,
            Some(Call::Start(_) | Call::Status | Call::Check | Call::Watch) => {}
        }
        fx.push(Effect::CancelCall);
    }

    fn job(&mut self, job: Job, fx: &mut Vec<Effect>) {
        debug_assert!(self.disk.is_none(), "one disk job at a time");
        self.disk = Some(job.clone());
        fx.push(Effect::Disk(job));
    }

    /// Issues what is missing next. The order is the order of urgency.
    fn drive(&mut self, fx: &mut Vec<Effect>) {
        if self.exited || self.spawning.is_some() {
            return;
        }
        // Before the exit: a caller at the gate gets its answer.
        self.drive_gate(fx);
        if self.exit.is_some() {
            self.drive_exit(fx);
            if self.exited {
                return;
            }
        }
        self.drive_hold(fx);
        match self.phase {
            Phase::Begin => self.drive_begin(fx),
            Phase::Held | Phase::Stopped => self.drive_idle(fx),
            Phase::Initializing(..) => self.drive_initializing(fx),
            Phase::Configuring(_) => self.drive_configuring(fx),
            Phase::Running => self.drive_operation(fx),
            Phase::Starting | Phase::Stopping | Phase::Backoff | Phase::Exiting => {}
        }
    }

    /// The marker goes before anybody may believe that the directory is free to work on.
    fn drive_begin(&mut self, fx: &mut Vec<Effect>) {
        if self.intent != Intent::Down {
            return;
        }
        if matches!(self.marker, Marker::Found { .. }) && self.rule(Rule::ConsumeMarker) {
            if self.disk.is_none() {
                self.job(Job::ConsumeMarker, fx);
            }
        } else {
            self.phase = Phase::Held;
            self.drive_idle(fx);
        }
    }

    /// `held` and `stopped` look at sidecar and locks every 5 s, and ask for nothing.
    fn drive_idle(&mut self, fx: &mut Vec<Effect>) {
        if self.pausing || self.gate.is_some() || self.disk.is_some() || self.call.is_some() {
            return;
        }
        self.pause(Duration::from_secs(5), fx);
        self.job(Job::ProbeLocks, fx);
        if self.settings.sidecar {
            self.call(Call::Watch, fx);
        }
    }

    fn finish_op(&mut self, outcome: Outcome, fx: &mut Vec<Effect>) {
        if let Some(op) = self.op.take() {
            fx.push(Effect::Finished { id: op.id, kind: op.kind(), outcome });
        }
    }

    fn set_op_phase(&mut self, phase: OperationPhase) {
        if let Some(op) = &mut self.op {
            op.phase = phase;
        }
    }
}
