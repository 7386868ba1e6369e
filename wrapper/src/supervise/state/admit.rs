// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Admission of commands: every verb against every phase. What a verdict needs to know first, the gate finds out.
use super::gate::{Admission, Facts, Need, Pause, UNCHANGED, refuse};
use super::{
    Code, Effect, Intent, Launch, Op, OperationPhase, Outcome, Phase, Plan, RequestId, StartTerms, State,
    Terms, Timer, Work,
};
use crate::supervise::command::{Accepted, Command, Seat, StartRequest, StopRequest, Validation};
use crate::supervise::view::ConfigSource;

impl State {
    pub(super) fn on_command(&mut self, request: RequestId, command: Command, fx: &mut Vec<Effect>) {
        if let Command::Shutdown(shutdown) = command {
            fx.push(Effect::Reply(request, Ok(Accepted { operation: None, changed: true })));
            self.on_shutdown(shutdown, fx);
            return;
        }
        self.judge(request, command, Facts::default(), fx);
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

    pub(super) fn check_generation(&self, wanted: Option<u64>) -> Result<(), Pause> {
        match wanted {
            Some(wanted) if wanted != self.generation => refuse(
                Code::GenerationMismatch,
                format!("generation {wanted} has passed; the current one is {}", self.generation),
            ),
            _ => Ok(()),
        }
    }

    pub(super) fn begin_op(&mut self, work: Work, phase: OperationPhase) -> Accepted {
        let id = self.next_op;
        self.next_op += 1;
        self.op = Some(Op { id, phase, work });
        Accepted { operation: Some(id), changed: true }
    }

    pub(super) fn admit_start(
        &mut self,
        start: &StartRequest,
        facts: &Facts,
        fx: &mut Vec<Effect>,
    ) -> Admission {
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

    pub(super) fn admit_stop(
        &mut self,
        stop: &StopRequest,
        facts: &Facts,
        fx: &mut Vec<Effect>,
    ) -> Admission {
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

    pub(super) fn admit_transfer(&mut self, seat: Seat, fx: &mut Vec<Effect>) -> Admission {
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
}

/// The facts of a posted configuration.
pub(super) fn posted_plan(config: &crate::config::EtcdConfig) -> Plan {
    Plan::of(config, ConfigSource::Posted)
}
