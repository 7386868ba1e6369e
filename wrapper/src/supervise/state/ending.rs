// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The way down of one child: drained, guarded, ended step by step, or crashed; and what its end was worth. How the
//! process leaves is `leaving`.
use std::time::Duration;

use super::{
    Asker, Child, Code, Effect, Ending, EndingStage, Exit, Guard, Intent, Op, OperationPhase, Outcome, Phase,
    Refusal, Rule, Sig, State, Terms, Timer, Verdict, Why, Work,
};
use crate::supervise::view::{ConfigSource, ExitStatus};

const TRANSFER_LIMIT: Duration = Duration::from_secs(3);
const QUIT_LIMIT: Duration = Duration::from_secs(2);
/// SIGKILL was sent and nothing came: the child hangs in the kernel. The parent-death signal is all that is left.
const KILL_LIMIT: Duration = Duration::from_secs(5);
pub(super) const FORCED_LIMIT: Duration = Duration::from_millis(800);
const CRASH_BUDGET: u8 = 5;
pub(super) const SIGTERM: i32 = 15;
/// How long a stop waits for a round of which nothing is heard.
pub(super) const SILENT_ROUND: Duration = Duration::from_secs(60);
impl State {
    /// Draining begins: from here on the member is not ready, and says that it is leaving.
    pub(super) fn begin_ending(&mut self, terms: Terms, asker: Asker, fx: &mut Vec<Effect>) {
        let Some(child) = &mut self.child else { return };
        let after_ready = child.ready_seen;
        let serving = self.phase == Phase::Running && asker == Asker::Verb;
        child.no_marker |= asker == Asker::Verb;
        let ending = Ending { stage: EndingStage::Terminating, asker, terms: terms.clone(), after_ready };
        child.ending = Some(ending);
        if asker == Asker::Verb {
            self.phase = Phase::Stopping;
        }
        self.stop_timing_ready(fx);
        if terms.force {
            self.kill_now(KILL_LIMIT, fx);
            return;
        }
        fx.push(Effect::Arm(Timer::Grace, terms.grace));
        if serving && terms.transfer {
            self.set_ending_stage(EndingStage::Transferring);
            self.set_op_phase(OperationPhase::Transferring);
            fx.push(Effect::Transfer);
            fx.push(Effect::Arm(Timer::Transfer, TRANSFER_LIMIT.min(terms.grace / 2)));
        } else {
            self.guard_again(fx);
        }
    }

    /// Right before SIGTERM the quorum guard looks once more.
    fn guard_again(&mut self, fx: &mut Vec<Effect>) {
        let Some(ending) = self.child.as_ref().and_then(|child| child.ending.as_ref()) else { return };
        let needed = ending.terms.guard == Guard::Quorum
            && ending.asker == Asker::Verb
            && ending.after_ready
            && self.child.as_ref().is_some_and(|child| child.confirmed)
            && self.intent != Intent::Exit;
        if needed {
            self.set_ending_stage(EndingStage::Guarding);
            fx.push(Effect::Guard { gate: false });
        } else {
            self.terminate(fx);
        }
    }

    pub(super) fn terminate(&mut self, fx: &mut Vec<Effect>) {
        self.set_ending_stage(EndingStage::Terminating);
        self.set_op_phase(OperationPhase::Stopping);
        fx.push(Effect::Disarm(Timer::Transfer));
        fx.push(Effect::Signal(Sig::Term));
    }

    fn set_ending_stage(&mut self, stage: EndingStage) {
        if let Some(ending) = self.child.as_mut().and_then(|child| child.ending.as_mut()) {
            ending.stage = stage;
        }
    }

    fn ending_stage(&self) -> Option<EndingStage> {
        self.child.as_ref()?.ending.as_ref().map(|ending| ending.stage)
    }

    pub(super) fn kill_now(&mut self, limit: Duration, fx: &mut Vec<Effect>) {
        if self.child.is_some() {
            self.set_ending_stage(EndingStage::Killing);
            fx.push(Effect::Disarm(Timer::Grace));
            fx.push(Effect::Signal(Sig::Kill));
            fx.push(Effect::Arm(Timer::Kill, limit));
        }
    }

    /// A stop takes over an ending that runs, at once; also one that has failed already, so that this one ends too.
    pub(super) fn kill_again(&mut self, fx: &mut Vec<Effect>) {
        self.kill_now(KILL_LIMIT, fx);
    }

    pub(super) fn killing(&self) -> bool {
        self.ending_stage() == Some(EndingStage::Killing)
    }

    /// A time limit of the ending ran out: the next harder means.
    pub(super) fn escalate(&mut self, fx: &mut Vec<Effect>) {
        match self.ending_stage() {
            None => {}
            Some(EndingStage::Terminating) => {
                self.set_ending_stage(EndingStage::Quitting);
                fx.push(Effect::Signal(Sig::Quit));
                fx.push(Effect::Arm(Timer::Kill, QUIT_LIMIT));
            }
            Some(EndingStage::Transferring | EndingStage::Guarding) => {
                self.terminate(fx);
                self.set_ending_stage(EndingStage::Quitting);
                fx.push(Effect::Arm(Timer::Kill, QUIT_LIMIT));
            }
            Some(EndingStage::Quitting) => self.kill_now(KILL_LIMIT, fx),
            Some(EndingStage::Killing) => self.child_will_not_die(fx),
        }
    }

    fn child_will_not_die(&mut self, fx: &mut Vec<Effect>) {
        let detail = "etcd does not go away after SIGKILL: it hangs in the kernel, look at its disk";
        if let Some(plan) = &mut self.exit {
            let code = match &plan.why {
                Why::Fault(exit) => exit.code,
                Why::Requested(_) if plan.forced => 1,
                Why::Requested(_) => 13,
            };
            plan.exit = Some(Exit { code, cause: "child_stuck", detail: detail.into() });
        } else {
            self.finish_op(Outcome::Failed(Refusal { code: Code::Failed, detail: detail.into() }), fx);
        }
    }

    pub(super) fn transfer_over(&mut self, fx: &mut Vec<Effect>) {
        if self.ending_stage() == Some(EndingStage::Transferring) {
            fx.push(Effect::Disarm(Timer::Transfer));
            self.guard_again(fx);
        }
    }

    pub(super) fn on_transferred(&mut self, result: Result<bool, Refusal>, fx: &mut Vec<Effect>) {
        if self.ending_stage().is_some() {
            self.transfer_over(fx);
        } else if matches!(&self.op, Some(Op { work: Work::Transfer, .. })) {
            let outcome = match result {
                Ok(changed) => Outcome::Succeeded { changed },
                Err(refusal) => Outcome::Failed(refusal),
            };
            self.finish_op(outcome, fx);
        }
    }

    pub(super) fn on_ending_guard(&mut self, verdict: Verdict, fx: &mut Vec<Effect>) {
        if self.ending_stage() != Some(EndingStage::Guarding) {
            return;
        }
        match verdict {
            Verdict::Safe => self.terminate(fx),
            Verdict::Refused(refusal) => self.stay_up(refusal, fx),
        }
    }

    /// The guard said no at the last moment: nothing was sent to etcd, so it serves on.
    fn stay_up(&mut self, refusal: Refusal, fx: &mut Vec<Effect>) {
        if let Some(child) = &mut self.child {
            child.ending = None;
        }
        fx.push(Effect::Disarm(Timer::Grace));
        self.phase = Phase::Running;
        self.intent = Intent::Up;
        self.release_hold_of_stop();
        self.finish_op(Outcome::Failed(refusal), fx);
    }

    /// A stop that failed leaves no hold behind: nobody would ever release it.
    fn release_hold_of_stop(&mut self) {
        let held = matches!(&self.op, Some(Op { work: Work::Stop { held: true, .. }, .. }));
        self.hold.marked |= held && self.rule(Rule::RefusalReleases);
    }

    pub(super) fn on_turn(&mut self, result: Result<(), Refusal>, fx: &mut Vec<Effect>) {
        let Some(op) = &self.op else { return };
        if op.phase != OperationPhase::WaitingTurn {
            return;
        }
        let terms = match &op.work {
            Work::Stop { terms, .. } | Work::Restart { terms, .. } => terms.clone(),
            Work::Start(_) | Work::Transfer => return,
        };
        match result {
            Ok(()) => {
                self.set_op_phase(OperationPhase::Draining);
                self.begin_ending(terms, Asker::Verb, fx);
            }
            Err(refusal) => {
                self.release_hold_of_stop();
                self.intent = Intent::Up;
                self.finish_op(Outcome::Failed(refusal), fx);
            }
        }
    }

    /// Stop and restart of a running member: wait for the turn, or begin at once.
    pub(super) fn go_down_by_verb(&mut self, terms: Terms, fx: &mut Vec<Effect>) {
        if self.phase == Phase::Running && terms.guard == Guard::Serial {
            self.set_op_phase(OperationPhase::WaitingTurn);
            fx.push(Effect::AwaitTurn);
        } else {
            self.set_op_phase(OperationPhase::Draining);
            self.begin_ending(terms, Asker::Verb, fx);
        }
    }

    pub(super) fn on_child_exited(&mut self, status: ExitStatus, recent_crashes: u8, fx: &mut Vec<Effect>) {
        let Some(child) = self.child.take() else { return };
        for timer in [Timer::Grace, Timer::Kill, Timer::Transfer] {
            fx.push(Effect::Disarm(timer));
        }
        self.stop_timing_ready(fx);
        fx.push(Effect::CancelTurn);
        let clean = is_clean(&child, status, &self.settings.rules);
        if self.exit.is_some() {
            self.exit_after(&child, status, clean);
            return;
        }
        match self.op.as_ref().map(|op| op.work.clone()) {
            // However it came about: down is what was wanted.
            Some(Work::Stop { .. }) => {
                self.go_down(fx);
                self.sidecar_busy = self.round.is_open();
            }
            // A stop that failed because etcd did not go away; now it has.
            None if child.ending.is_some() && self.intent == Intent::Down => self.go_down(fx),
            Some(Work::Restart { next, .. }) if child.ending.is_some() => {
                let plan = next.plan.clone().unwrap_or_else(|| child.plan.clone());
                self.next_generation(&child.plan, plan, next.validation, clean, fx);
            }
            _ => self.crashed(&child, status, recent_crashes, fx),
        }
    }

    /// Nobody asked for this end.
    fn crashed(&mut self, child: &Child, status: ExitStatus, recent_crashes: u8, fx: &mut Vec<Effect>) {
        let detail = match status {
            ExitStatus::Exited(code) => format!("etcd ended by itself with status {code}"),
            ExitStatus::Signaled(signal) => format!("etcd was killed by signal {signal}"),
        };
        self.finish_op(Outcome::Failed(Refusal { code: Code::Failed, detail: detail.clone() }), fx);
        if child.ready_seen && status == ExitStatus::Exited(0) {
            self.end_process(Exit { code: 20, cause: "member_removed", detail }, fx);
        } else if !self.settings.restart_on_exit || child.plan.source == ConfigSource::Posted {
            self.end_process(Exit { code: 10, cause: "etcd_ended", detail }, fx);
        } else if recent_crashes > CRASH_BUDGET {
            self.end_process(Exit { code: 11, cause: "crash_budget", detail }, fx);
        } else {
            self.phase = Phase::Backoff;
            let doublings = recent_crashes.saturating_sub(1).min(5);
            let pause = Duration::from_secs(1 << doublings).min(Duration::from_secs(30));
            fx.push(Effect::Arm(Timer::Backoff, pause));
        }
    }

    /// A stop is carried out: nothing runs, and nothing will until somebody says so.
    pub(super) fn go_down(&mut self, fx: &mut Vec<Effect>) {
        self.cancel_call(fx);
        self.unpause(fx);
        self.stop_timing_ready(fx);
        fx.push(Effect::Disarm(Timer::SidecarWait));
        self.intent = Intent::Down;
        self.phase = Phase::Stopped;
        self.finish_op(Outcome::Succeeded { changed: true }, fx);
    }

    /// Back to rest after a start that failed.
    pub(super) fn rest(&mut self, fx: &mut Vec<Effect>) {
        self.cancel_call(fx);
        self.unpause(fx);
        self.intent = Intent::Down;
        self.phase = if self.hold.file.is_some() { Phase::Held } else { Phase::Stopped };
    }

    /// A stop is waiting for a round of ours (safety.md 6).
    pub(super) fn stop_waits(&self) -> bool {
        matches!(&self.op, Some(Op { work: Work::Stop { .. }, phase: OperationPhase::WaitingSidecar, .. }))
    }

    pub(super) fn stop_if_round_ended(&mut self, fx: &mut Vec<Effect>) {
        if !self.stop_waits() {
            return;
        }
        match self.round {
            super::Round::Ended => self.go_down(fx),
            super::Round::Open { whole: true } => fx.push(Effect::Arm(Timer::SidecarWait, SILENT_ROUND)),
            super::Round::Open { whole: false } | super::Round::Unheard => {}
        }
    }

    pub(super) fn stop_waited_long_enough(&mut self, fx: &mut Vec<Effect>) {
        if self.stop_waits() {
            self.intent = Intent::Up;
            self.release_hold_of_stop();
            self.finish_op(Outcome::Failed(super::launch::initialization_in_progress()), fx);
        }
    }
}

/// etcd.md 2: READY was seen, then we asked, then it ended by that signal or with 0, unforced.
pub(super) fn is_clean(child: &Child, status: ExitStatus, rules: &super::Rules) -> bool {
    let Some(ending) = &child.ending else { return false };
    let gentle = ending.stage == EndingStage::Terminating
        && matches!(status, ExitStatus::Exited(0) | ExitStatus::Signaled(SIGTERM));
    (gentle || !rules.on(Rule::MarkerOnlyAfterCleanEnd))
        && (ending.after_ready || !rules.on(Rule::MarkerOnlyAfterReady))
}
