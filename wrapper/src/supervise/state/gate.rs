// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The gate: a verdict may need facts from outside (a guard, a look at the sidecar, a durable write); then the command
//! waits here and is judged anew, from the start, when the fact is in: so a decision never rests on a state that has passed.
use std::sync::Arc;

use super::{
    Call, Code, Effect, Gate, Guard, HoldRequest, Intent, Job, Marker, Plan, Refusal, RequestId, State,
    Verdict,
};
use crate::supervise::command::{Accepted, Command};

/// A fact that an admission waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// The marker removed from disk.
    Marker,
    /// Are its files and directory good.
    Inspect(Plan),
    /// The sidecar's status, as the last check.
    Check,
    /// May this member go.
    Guard,
    /// Is the file on disk.
    Hold(HoldRequest),
}

/// What was found out for the command at the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// None: not asked yet.
    pub inspected: Option<Result<(), Refusal>>,
    /// True: the sidecar does not work on the directory.
    pub free: Option<bool>,
    /// None: not asked yet.
    pub guard: Option<Verdict>,
    /// None: not asked yet.
    pub hold_written: Option<Result<(), String>>,
    /// The mark of the file that was there before it was written.
    pub marked_before: Option<bool>,
    /// What the gate needs was issued.
    pub asked: bool,
}

/// Why a command is not taken: not yet, or not at all.
pub(super) enum Pause {
    Need(Need),
    Refuse(Refusal),
}

pub(super) type Admission = Result<Accepted, Pause>;

pub(super) fn refuse<T>(code: Code, detail: impl Into<String>) -> Result<T, Pause> {
    Err(Pause::Refuse(Refusal { code, detail: detail.into() }))
}

pub(super) const UNCHANGED: Accepted = Accepted { operation: None, changed: false };

impl State {
    pub(super) fn judge(&mut self, request: RequestId, command: Command, facts: Facts, fx: &mut Vec<Effect>) {
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

    /// The hold file is written last, so that a refused command leaves none.
    pub(super) fn need_hold(&self, hold: &HoldRequest, facts: &Facts) -> Result<(), Pause> {
        match &facts.hold_written {
            None if !self.rule(super::Rule::HoldIsWritten) => Ok(()),
            None => Err(Pause::Need(Need::Hold(hold.clone()))),
            Some(Ok(())) => Ok(()),
            Some(Err(detail)) => refuse(Code::Failed, detail.clone()),
        }
    }

    pub(super) fn need_marker(&self) -> Result<(), Pause> {
        match self.marker {
            Marker::Found { .. } if self.rule(super::Rule::ConsumeMarker) => Err(Pause::Need(Need::Marker)),
            _ => Ok(()),
        }
    }

    pub(super) fn need_guard(guard: Guard, facts: &Facts) -> Result<(), Pause> {
        match (guard, &facts.guard) {
            (Guard::Quorum, None) => Err(Pause::Need(Need::Guard)),
            (Guard::Quorum, Some(Verdict::Refused(refusal))) => Err(Pause::Refuse(refusal.clone())),
            _ => Ok(()),
        }
    }

    /// safety.md 5, for a plan that no final status of a bootstrap will precede.
    pub(super) fn need_check(&self, facts: &Facts) -> Result<(), Pause> {
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
}

fn inspection(need: &Need) -> Option<Job> {
    match need {
        Need::Inspect(plan) => Some(Job::Inspect(plan.clone())),
        Need::Marker | Need::Check | Need::Guard | Need::Hold(_) => None,
    }
}
