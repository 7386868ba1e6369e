// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Admission of commands: every verb against every phase. A verdict may need facts from outside (a guard, a look at the
//! sidecar, a durable write); then the command waits at the gate and is judged anew, from the start, when the fact is in:
//! so a decision never rests on a state that has passed.
//!
//! Long: every verb against every phase, to be read side by side.
use std::sync::Arc;

use super::{
    Call, Code, Effect, Gate, Guard, HoldRequest, Intent, Job, Launch, Marker, NextGeneration, Op,
    OperationPhase, Outcome, Phase, Plan, Refusal, RequestId, StartTerms, State, Terms, Timer, Verdict, Work,
};
use crate::supervise::command::{
    Accepted, Command, RestartRequest, Seat, StartRequest, StopRequest, Validation,
};
use crate::supervise::view::ConfigSource;

/// A fact that an admission waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// The marker removed from disk.
    Marker,
    Inspect(Plan),
    /// The sidecar's status, as the last check.
    Check,
    Guard,
    Hold(HoldRequest),
}

/// What was found out for the command at the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    pub inspected: Option<Result<(), Refusal>>,
    /// True: the sidecar does not work on the directory.
    pub free: Option<bool>,
    pub guard: Option<Verdict>,
    pub hold_written: Option<Result<(), String>>,
    /// The mark of the file that was there before it was written.
    pub marked_before: Option<bool>,
    /// What the gate needs was issued.
    pub asked: bool,
}

pub(super) enum Pause {
    Need(Need),
    Refuse(Refusal),
}

type Admission = Result<Accepted, Pause>;

fn refuse<T>(code: Code, detail: impl Into<String>) -> Result<T, Pause> {
    Err(Pause::Refuse(Refusal { code, detail: detail.into() }))
}

const UNCHANGED: Accepted = Accepted { operation: None, changed: false };

impl State {
    pub(super) fn on_command(&mut self, request: RequestId, command: Command, fx: &mut Vec<Effect>) {
        if let Command::Shutdown(shutdown) = command {
            fx.push(Effect::Reply(request, Ok(Accepted { operation: None, changed: true })));
            self.on_shutdown(shutdown, fx);
            return;
        }
        self.judge(request, command, Facts::default(), fx);
    }

    fn judge(&mut self, request: RequestId, command: Command, facts: Facts, fx: &mut Vec<Effect>) {
        let admission = if self.intent == Intent::Exit {
            // A hold that is on disk already is kept: the caller must not believe that it was refused.
            if matches!(facts.hold_written, Some(Ok(()))) {
                if self.rule(super::Rule::NoMarkerOncePromised) {
                    self.leave_no_marker();
                }
                Ok(Accepted { operation: None, changed: true })
            } else {
                refuse(Code::ShuttingDown, "the wrapper is shutting down")
            }
        } else {
            match &command {
                Command::Start(start) => self.admit_start(start, &facts, fx),
                Command::Stop(stop) => self.admit_stop(stop, &facts, fx),
                Command::Restart(restart) => self.admit_restart(restart, &facts, fx),
                Command::TransferLeadership(seat) => self.admit_transfer(*seat, fx),
                Command::SetOverride(change) => self.admit_override(change, &facts, fx),
                Command::Shutdown(_) => Ok(UNCHANGED),
            }
        };
        match admission {
            Ok(accepted) => fx.push(Effect::Reply(request, Ok(accepted))),
            Err(Pause::Refuse(refusal)) => {
                // The world moved on while the file was written: what was refused must not leave a hold.
                if matches!(facts.hold_written, Some(Ok(()))) && self.rule(super::Rule::RefusalReleases) {
                    self.hold.marked = facts.marked_before.unwrap_or(true);
                }
                fx.push(Effect::Reply(request, Err(refusal)));
            }
            Err(Pause::Need(need)) => {
                if need == Need::Guard {
                    fx.push(Effect::Guard { gate: true });
                }
                self.gate = Some(Gate { request, command, need, facts: Facts { asked: false, ..facts } });
            }
        }
    }

    /// Issues what the command at the gate waits for, as soon as the slot is free.
    pub(super) fn drive_gate(&mut self, fx: &mut Vec<Effect>) {
        let Some(gate) = &self.gate else { return };
        let leaving =
            self.intent == Intent::Exit && !(gate.facts.asked && matches!(gate.need, Need::Hold(_)));
        let there = gate.need == Need::Marker && matches!(self.marker, Marker::Consumed { .. });
        if leaving || there {
            self.rejudge(|_| {}, fx);
            self.drive_gate(fx);
            return;
        }
        let job = match &gate.need {
            Need::Marker => Job::ConsumeMarker,
            Need::Inspect(plan) => Job::Inspect(plan.clone()),
            Need::Hold(hold) => Job::WriteHold(hold.clone()),
            Need::Check => {
                // A fetch would keep us waiting for a minute; the bootstrap repeats it if this start is refused.
                if matches!(self.call, Some(Call::Config { .. })) {
                    self.cancel_call(fx);
                }
                if self.call.is_none() {
                    self.call(Call::Check, fx);
                    self.mark_asked();
                }
                return;
            }
            Need::Guard => return,
        };
        if self.disk.is_none() && !gate.facts.asked {
            self.job(job, fx);
            self.mark_asked();
        }
    }

    fn mark_asked(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.facts.asked = true;
        }
    }

    /// A stop waits for a round that was forced aside: nothing goes up meanwhile, and somebody has to ask for its end.
    fn listen_to_round(&mut self, fx: &mut Vec<Effect>) {
        let plan = match &self.phase {
            Phase::Configuring(launch) => launch.plan.clone(),
            Phase::Backoff => None,
            _ => return,
        };
        self.cancel_call(fx);
        self.unpause(fx);
        self.stop_timing_ready(fx);
        let launch = plan.map_or_else(Launch::fetch, Launch::with);
        self.phase = Phase::Initializing(super::Dialogue::new(false, super::Mode::Full), launch);
    }

    /// Lets a stop that waits ask at once.
    fn ask_again(&mut self) {
        if let Phase::Initializing(dialogue, _) = &mut self.phase {
            dialogue.next = super::Next::Ask;
        }
    }

    fn rejudge(&mut self, learn: impl FnOnce(&mut Facts), fx: &mut Vec<Effect>) {
        let Some(Gate { request, command, mut facts, .. }) = self.gate.take() else { return };
        learn(&mut facts);
        self.judge(request, command, facts, fx);
    }

    fn gate_needs(&self, wanted: impl Fn(&Need) -> bool) -> bool {
        self.gate.as_ref().is_some_and(|gate| wanted(&gate.need))
    }

    pub(super) fn on_gate_guard(&mut self, verdict: Verdict, fx: &mut Vec<Effect>) {
        if self.gate_needs(|need| *need == Need::Guard) {
            self.rejudge(|facts| facts.guard = Some(verdict), fx);
        }
    }

    /// True when the check was the gate's.
    pub(super) fn on_gate_check(&mut self, free: bool, fx: &mut Vec<Effect>) -> bool {
        let mine = self.gate_needs(|need| *need == Need::Check);
        if mine {
            self.rejudge(|facts| facts.free = Some(free), fx);
        }
        mine
    }

    pub(super) fn on_inspected(
        &mut self,
        result: Result<(), Refusal>,
        job: Option<Job>,
        fx: &mut Vec<Effect>,
    ) {
        if self.gate_needs(|need| job == inspection(need)) {
            self.rejudge(|facts| facts.inspected = Some(result), fx);
        } else {
            self.restart_inspected(result, fx);
        }
    }

    pub(super) fn on_hold_written(
        &mut self,
        job: Option<Job>,
        result: Result<(), String>,
        fx: &mut Vec<Effect>,
    ) {
        let before = self.hold.file.is_some().then_some(self.hold.marked);
        if let (Some(Job::WriteHold(hold)), Ok(())) = (job, &result) {
            let owner = Some(hold.owner).filter(|owner| !owner.is_empty()).map(Arc::from);
            self.hold.file = Some(super::HoldFile { owner, reason: Arc::from(hold.reason) });
            self.hold.marked = false;
        }
        if self.gate_needs(|need| matches!(need, Need::Hold(_))) {
            let learn =
                |facts: &mut Facts| (facts.hold_written, facts.marked_before) = (Some(result), before);
            self.rejudge(learn, fx);
        }
    }

    fn check_generation(&self, wanted: Option<u64>) -> Result<(), Pause> {
        match wanted {
            Some(wanted) if wanted != self.generation => refuse(
                Code::GenerationMismatch,
                format!("generation {wanted} has passed; the current one is {}", self.generation),
            ),
            _ => Ok(()),
        }
    }

    /// The hold file is written last, so that a refused command leaves none.
    pub(super) fn need_hold(&self, hold: &HoldRequest, facts: &Facts) -> Result<(), Pause> {
        match &facts.hold_written {
            None if !self.rule(super::Rule::HoldIsWritten) => Ok(()),
            None => Err(Pause::Need(Need::Hold(hold.clone()))),
            Some(Ok(())) => Ok(()),
            Some(Err(detail)) => refuse(Code::Failed, detail.clone()),
        }
    }

    fn need_marker(&self) -> Result<(), Pause> {
        match self.marker {
            Marker::Found { .. } if self.rule(super::Rule::ConsumeMarker) => Err(Pause::Need(Need::Marker)),
            _ => Ok(()),
        }
    }

    fn need_guard(guard: Guard, facts: &Facts) -> Result<(), Pause> {
        match (guard, &facts.guard) {
            (Guard::Quorum, None) => Err(Pause::Need(Need::Guard)),
            (Guard::Quorum, Some(Verdict::Refused(refusal))) => Err(Pause::Refuse(refusal.clone())),
            _ => Ok(()),
        }
    }

    /// safety.md 5, for a plan that no final status of a bootstrap will precede.
    fn need_check(&self, facts: &Facts) -> Result<(), Pause> {
        if !self.settings.sidecar || !self.rule(super::Rule::CheckBeforeSpawn) {
            return Ok(());
        }
        match facts.free {
            None => Err(Pause::Need(Need::Check)),
            _ if self.round.is_open() => Err(Pause::Refuse(super::launch::initialization_in_progress())),
            Some(false) => Err(Pause::Refuse(super::launch::initialization_in_progress())),
            Some(true) => Ok(()),
        }
    }

    fn begin_op(&mut self, work: Work, phase: OperationPhase) -> Accepted {
        let id = self.next_op;
        self.next_op += 1;
        self.op = Some(Op { id, phase, work });
        Accepted { operation: Some(id), changed: true }
    }

    fn admit_start(&mut self, start: &StartRequest, facts: &Facts, fx: &mut Vec<Effect>) -> Admission {
        self.check_generation(start.if_generation)?;
        let posted = start.posted.as_ref().map(|config| posted_plan(config));
        let terms = StartTerms {
            digest: posted.as_ref().map(|plan| plan.digest.clone()),
            validation: start.validation,
            hold: start.hold.clone(),
        };
        match &self.op {
            Some(Op { id, work: Work::Start(running), .. }) if *running == terms => {
                let joined = Accepted { operation: Some(*id), changed: true };
                // The hold of the first may have been released meanwhile: what is promised anew is held anew.
                if !self.hold_stands(start) {
                    self.check_start_hold(start)?;
                    self.hold_by_start(start, facts, fx)?;
                }
                return Ok(joined);
            }
            Some(_) => return refuse(Code::OperationInProgress, "another operation is in progress"),
            None => {}
        }
        self.check_start_hold(start)?;
        match &self.phase {
            Phase::Running | Phase::Starting => {
                self.start_of_running(start, posted.as_ref(), terms, facts, fx)
            }
            Phase::Initializing(..) | Phase::Configuring(_) if posted.is_none() => {
                if start.validation != Validation::Auto {
                    return refuse(
                        Code::OperationInProgress,
                        "the wrapper is starting etcd already, with the validation it chose itself",
                    );
                }
                self.hold_by_start(start, facts, fx)?;
                Ok(self.begin_op(Work::Start(terms), OperationPhase::Validating))
            }
            Phase::Initializing(..)
            | Phase::Configuring(_)
            | Phase::Held
            | Phase::Stopped
            | Phase::Backoff => self.start_from_rest(start, posted, terms, facts, fx),
            Phase::Begin | Phase::Stopping => {
                refuse(Code::OperationInProgress, "another operation is in progress")
            }
            Phase::Exiting => refuse(Code::ShuttingDown, "the wrapper is shutting down"),
        }
    }

    /// `start` never restarts: the same configuration is there already, another one is a conflict.
    fn start_of_running(
        &mut self,
        start: &StartRequest,
        posted: Option<&Plan>,
        terms: StartTerms,
        facts: &Facts,
        fx: &mut Vec<Effect>,
    ) -> Admission {
        let Some(child) = &self.child else { return Ok(UNCHANGED) };
        let differs = posted.is_some_and(|plan| plan.digest != child.plan.digest);
        if self.phase == Phase::Starting {
            if differs {
                return refuse(Code::OperationInProgress, "etcd is being started with another configuration");
            }
            self.hold_by_start(start, facts, fx)?;
            return Ok(self.begin_op(Work::Start(terms), OperationPhase::Starting));
        }
        if differs {
            return refuse(
                Code::ConfigDiffers,
                "etcd runs with another configuration; stop it first, or restart it",
            );
        }
        self.hold_by_start(start, facts, fx)?;
        Ok(UNCHANGED)
    }

    /// Out of `held`, `stopped`, `backoff`, or in the place of our own bootstrap.
    fn start_from_rest(
        &mut self,
        start: &StartRequest,
        posted: Option<Plan>,
        terms: StartTerms,
        facts: &Facts,
        fx: &mut Vec<Effect>,
    ) -> Admission {
        if let Some(plan) = &posted {
            match &facts.inspected {
                None => return Err(Pause::Need(Need::Inspect(plan.clone()))),
                Some(Err(refusal)) => return Err(Pause::Refuse(refusal.clone())),
                Some(Ok(())) => {}
            }
        }
        let unchecked = match start.validation {
            Validation::Auto => posted.is_some(),
            Validation::None => true,
            Validation::Ask(_) => false,
        };
        if !start.force && (unchecked || posted.is_some() && self.round.is_open()) {
            self.need_check(facts)?;
        }
        self.hold_by_start(start, facts, fx)?;
        // With `ready=hold` it is the end of that override that releases the file, whenever it comes.
        self.hold.marked |= start.hold.is_none() && self.hold.file.is_some();

        self.cancel_call(fx);
        self.stop_timing_ready(fx);
        let launch = posted.map_or_else(Launch::fetch, Launch::with);
        let launch = Launch { force: start.force, from_rest: true, ..launch };
        match start.validation {
            Validation::Ask(mode) => self.bootstrap(false, launch, Some(mode), fx),
            Validation::Auto if !unchecked => self.bootstrap(false, launch, None, fx),
            Validation::Auto | Validation::None => {
                self.rest_no_more(fx);
                let vouched = !self.settings.sidecar;
                self.configure(Launch { vouched, ..launch });
            }
        }
        Ok(self.begin_op(Work::Start(terms), OperationPhase::Validating))
    }

    fn admit_stop(&mut self, stop: &StopRequest, facts: &Facts, fx: &mut Vec<Effect>) -> Admission {
        self.check_generation(stop.if_generation)?;
        if let Some(Op { id, work: Work::Stop { held, .. }, .. }) = &self.op
            && (*held || stop.hold.is_none())
            && !stop.force
        {
            return Ok(Accepted { operation: Some(*id), changed: true });
        }
        if stop.hold.is_some() && facts.hold_written.is_none() {
            self.check_stop_hold(stop)?;
        }
        let terms = Terms {
            grace: stop.grace.unwrap_or(self.settings.grace),
            transfer: stop.transfer,
            guard: stop.guard,
            force: stop.force,
        };
        if self.phase == Phase::Running {
            Self::need_guard(terms.guard, facts)?;
        }
        self.need_marker()?;
        if let Some(hold) = &stop.hold {
            self.need_hold(hold, facts)?;
        }
        let held = stop.hold.is_some();
        match &self.phase {
            Phase::Begin | Phase::Held | Phase::Stopped => Ok(Accepted { operation: None, changed: held }),
            Phase::Exiting => refuse(Code::ShuttingDown, "the wrapper is shutting down"),
            Phase::Backoff | Phase::Initializing(..) | Phase::Configuring(_) => {
                self.finish_op(Outcome::Superseded, fx);
                let accepted = self.begin_op(Work::Stop { terms, held }, OperationPhase::WaitingSidecar);
                self.intent = Intent::Down;
                if self.phase == Phase::Backoff {
                    fx.push(Effect::Disarm(Timer::Backoff));
                }
                let unheard = self.rule(super::Rule::UnheardRoundCounts);
                let busy = if unheard { self.round.may_run() } else { self.round.is_open() };
                if busy && !stop.force && self.rule(super::Rule::StopWaitsForRound) {
                    self.listen_to_round(fx);
                    fx.push(Effect::Arm(Timer::SidecarWait, super::ending::SILENT_ROUND));
                    self.ask_again();
                } else {
                    self.go_down(fx);
                    self.sidecar_busy = busy;
                }
                Ok(accepted)
            }
            Phase::Starting | Phase::Running | Phase::Stopping => {
                self.finish_op(Outcome::Superseded, fx);
                self.cancel_call(fx);
                fx.push(Effect::CancelTurn);
                self.intent = Intent::Down;
                let ending = self.phase == Phase::Stopping;
                let force = terms.force;
                if let Some(child) = &mut self.child {
                    child.no_marker = true;
                }
                let accepted =
                    self.begin_op(Work::Stop { terms: terms.clone(), held }, OperationPhase::Stopping);
                if !ending {
                    self.go_down_by_verb(terms, fx);
                } else if force || self.killing() {
                    self.kill_again(fx);
                }
                Ok(accepted)
            }
        }
    }

    fn admit_restart(&mut self, restart: &RestartRequest, facts: &Facts, fx: &mut Vec<Effect>) -> Admission {
        self.check_generation(restart.if_generation)?;
        if self.op.is_some() {
            return refuse(Code::OperationInProgress, "another operation is in progress");
        }
        let child = match (&self.child, &self.phase) {
            (Some(child), Phase::Running) => child,
            (Some(_), _) => return refuse(Code::OperationInProgress, "etcd is being started or stopped"),
            (None, _) => return refuse(Code::NotRunning, "there is no etcd to restart; start one"),
        };
        let posted = child.plan.source == ConfigSource::Posted;
        if restart.config_from_sidecar == Some(false) && !posted {
            return refuse(
                Code::InvalidValue,
                "config=same is for a posted configuration; this one is fetched anew on every start",
            );
        }
        let refetch = restart.config_from_sidecar.unwrap_or(!posted);
        let kept = (!refetch).then(|| child.plan.clone());
        if let Some(plan) = &kept {
            if plan.force_new_cluster {
                return refuse(
                    Code::ConfigNotRepeatable,
                    "the posted configuration says force-new-cluster: starting it again would cut the cluster again",
                );
            }
            if !restart.force && matches!(restart.validation, Validation::Auto | Validation::None) {
                self.need_check(facts)?;
            }
        }
        Self::need_guard(restart.guard, facts)?;
        let terms = Terms {
            grace: restart.grace.unwrap_or(self.settings.grace),
            transfer: restart.transfer,
            guard: restart.guard,
            force: restart.force,
        };
        let phase = if kept.is_some() { OperationPhase::Validating } else { OperationPhase::Fetching };
        let next = NextGeneration { plan: kept, validation: restart.validation, refetch, seen_once: None };
        let _ = fx;
        Ok(self.begin_op(Work::Restart { terms, next }, phase))
    }

    fn admit_transfer(&mut self, seat: Seat, fx: &mut Vec<Effect>) -> Admission {
        if self.op.is_some() {
            return refuse(Code::OperationInProgress, "another operation is in progress");
        }
        if self.phase != Phase::Running {
            return refuse(Code::NotRunning, "etcd is not running");
        }
        match seat {
            Seat::Follows => return Ok(UNCHANGED),
            Seat::LeadsAlone => return refuse(Code::NoCandidate, "there is no other voter"),
            Seat::Leads | Seat::Unknown => {}
        }
        fx.push(Effect::Transfer);
        Ok(self.begin_op(Work::Transfer, OperationPhase::Transferring))
    }

    pub(super) fn restart_fetches(&self) -> bool {
        matches!(&self.op, Some(Op { work: Work::Restart { .. }, phase: OperationPhase::Fetching, .. }))
    }

    pub(super) fn restart_has_plan(&mut self, plan: Plan) {
        if !self.restart_fetches() {
            return;
        }
        if let Some(Op { work: Work::Restart { next, .. }, phase, .. }) = &mut self.op {
            next.plan = Some(plan);
            *phase = OperationPhase::Validating;
        }
    }

    /// A running member's operation: what a restart does before it touches etcd.
    pub(super) fn drive_operation(&mut self, fx: &mut Vec<Effect>) {
        let Some(Op { work: Work::Restart { next, .. }, phase, .. }) = &self.op else { return };
        match (phase, &next.plan) {
            (OperationPhase::Fetching, None) => self.obtain_config(true, fx),
            (OperationPhase::Validating, Some(plan)) if self.disk.is_none() => {
                let job = Job::Inspect(plan.clone());
                self.job(job, fx);
            }
            _ => {}
        }
    }

    fn restart_inspected(&mut self, result: Result<(), Refusal>, fx: &mut Vec<Effect>) {
        let Some(Op { work: Work::Restart { terms, .. }, phase: OperationPhase::Validating, .. }) = &self.op
        else {
            return;
        };
        if self.phase != Phase::Running {
            return;
        }
        let terms = terms.clone();
        match result {
            Ok(()) => self.go_down_by_verb(terms, fx),
            Err(refusal) => self.finish_op(Outcome::Failed(refusal), fx),
        }
    }
}

fn inspection(need: &Need) -> Option<Job> {
    match need {
        Need::Inspect(plan) => Some(Job::Inspect(plan.clone())),
        Need::Marker | Need::Check | Need::Guard | Need::Hold(_) => None,
    }
}

/// The facts of a posted configuration.
pub(super) fn posted_plan(config: &crate::config::EtcdConfig) -> Plan {
    Plan::of(config, ConfigSource::Posted)
}
