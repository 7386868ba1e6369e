// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The way down: stop, restart, shutdown, crash. Decides what an end was worth (marker, validation) and how the process
//! leaves.
//!
//! Long: all ways down meet in the same few facts, and are to be read together.
use std::time::Duration;

use super::{
    Asker, Child, Code, Effect, Ending, EndingStage, Exit, ExitPlan, Guard, Intent, Job, Launch, Op,
    OperationPhase, Outcome, Phase, Plan, Refusal, Rule, Shutdown, Sig, State, Terms, Timer, Verdict, Why,
    Work,
};
use crate::supervise::command::Validation;
use crate::supervise::view::{ConfigSource, ExitStatus};

const TRANSFER_LIMIT: Duration = Duration::from_secs(3);
const QUIT_LIMIT: Duration = Duration::from_secs(2);
/// SIGKILL was sent and nothing came: the child hangs in the kernel. The parent-death signal is all that is left.
const KILL_LIMIT: Duration = Duration::from_secs(5);
const FORCED_LIMIT: Duration = Duration::from_millis(800);
const CRASH_BUDGET: u8 = 5;
const SIGTERM: i32 = 15;
/// How long a stop waits for a round of which nothing is heard.
pub(super) const SILENT_ROUND: Duration = Duration::from_secs(60);

impl State {
    /// SIGTERM, SIGINT or `/stop`. Outranks everything; a second signal forces.
    pub(super) fn on_shutdown(&mut self, shutdown: Shutdown, fx: &mut Vec<Effect>) {
        let signal = u8::from(shutdown != Shutdown::StopCall);
        if let Some(plan) = &mut self.exit {
            plan.signals = plan.signals.saturating_add(signal).min(2);
            if signal == 1 && plan.signals >= 2 && !plan.forced {
                plan.forced = true;
                if self.child.is_none() && matches!(plan.why, Why::Requested(_)) {
                    let detail =
                        "a second signal forced the end; the last writes to disk were not waited for";
                    plan.exit = Some(Exit { code: 1, cause: "forced", detail: detail.into() });
                }
                self.kill_now(FORCED_LIMIT, fx);
            }
            return;
        }
        self.leave(Why::Requested(shutdown), signal, Outcome::Superseded, fx);
        self.end_child_for_exit(Asker::Shutdown, fx);
    }

    /// The process ends with this exit, of its own accord.
    pub(super) fn end_process(&mut self, exit: Exit, fx: &mut Vec<Effect>) {
        if self.exit.is_some() {
            return;
        }
        let problem = Refusal { code: Code::Failed, detail: exit.detail.clone() };
        self.leave(Why::Fault(exit), 0, Outcome::Failed(problem), fx);
        self.end_child_for_exit(Asker::Ourselves, fx);
    }

    fn leave(&mut self, why: Why, signals: u8, outcome: Outcome, fx: &mut Vec<Effect>) {
        self.exit = Some(ExitPlan { why, forced: false, signals, marker_settled: true, exit: None });
        self.intent = Intent::Exit;
        self.phase = Phase::Exiting;
        self.finish_op(outcome, fx);
        self.cancel_call(fx);
        self.unpause(fx);
        self.stop_timing_ready(fx);
        fx.push(Effect::CancelTurn);
    }

    fn end_child_for_exit(&mut self, asker: Asker, fx: &mut Vec<Effect>) {
        let grace = self.settings.grace;
        let Some(child) = &mut self.child else { return };
        match &mut child.ending {
            None => {
                let terms = Terms { grace, transfer: false, guard: Guard::None, force: false };
                self.begin_ending(terms, asker, fx);
            }
            // A verb's stop runs already: it goes on, but not beyond our own grace (safety.md 17).
            Some(ending) => {
                child.no_marker = true;
                fx.push(Effect::ArmAtMost(Timer::Grace, grace));
                if matches!(ending.stage, EndingStage::Transferring | EndingStage::Guarding) {
                    self.terminate(fx);
                }
            }
        }
    }

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

    fn terminate(&mut self, fx: &mut Vec<Effect>) {
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

    fn kill_now(&mut self, limit: Duration, fx: &mut Vec<Effect>) {
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

    /// An agent was promised the directory while the process is leaving: it may be working there before the next one
    /// comes up.
    pub(super) fn leave_no_marker(&mut self) {
        if let Some(child) = &mut self.child {
            child.no_marker = true;
        }
        if let Some(plan) = &mut self.exit {
            plan.marker_settled = true;
        }
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

    /// A shutdown has lost its child: the exit code, and whether the end deserves a marker (safety.md 10).
    fn exit_after(&mut self, child: &Child, status: ExitStatus, clean: bool) {
        let rules = self.settings.rules;
        let marker_on_stop = self.settings.marker_on_stop;
        let Some(plan) = &mut self.exit else { return };
        let shutdown = match &plan.why {
            Why::Requested(shutdown) => *shutdown,
            Why::Fault(exit) => {
                plan.exit = Some(exit.clone());
                return;
            }
        };
        let stage = child.ending.as_ref().map(|ending| ending.stage);
        let gentle = matches!(status, ExitStatus::Exited(0) | ExitStatus::Signaled(SIGTERM));
        let (code, cause, detail) = if plan.forced {
            (1, "forced", "a second signal forced the end; etcd was killed")
        } else if matches!(stage, Some(EndingStage::Quitting | EndingStage::Killing)) {
            (13, "killed", "etcd did not end within the grace period and had to be killed")
        } else if gentle {
            (0, "requested", "")
        } else {
            (10, "etcd_ended", "etcd was asked to end and ended in another way")
        };
        plan.exit = Some(Exit { code, cause, detail: detail.into() });
        let own = child.plan.source != ConfigSource::Posted && child.plan.fsync
            || !rules.on(Rule::MarkerOnlyForOwnDirectory);
        let wanted = marker_on_stop || shutdown != Shutdown::StopCall;
        let by_shutdown = !child.no_marker || !rules.on(Rule::MarkerOnlyAfterShutdown);
        plan.marker_settled = !(clean && own && wanted && by_shutdown && !plan.forced);
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

    /// The second half of a restart (safety.md 12).
    fn next_generation(
        &mut self,
        old: &Plan,
        plan: Plan,
        validation: Validation,
        clean: bool,
        fx: &mut Vec<Effect>,
    ) {
        let same = old.source == plan.source && old.data_dir == plan.data_dir && old.fsync && plan.fsync;
        // A round that `force` stepped over may still be at work: then the sidecar has the last word again.
        let over = !self.round.may_run() || !self.rule(Rule::RestartHeedsRound);
        let let_through = clean && same && over || !self.rule(Rule::RestartValidates);
        let posted = plan.source == ConfigSource::Posted;
        let launch = Launch::with(plan);
        self.set_op_phase(OperationPhase::Validating);
        match validation {
            Validation::Ask(mode) => self.bootstrap(false, launch, Some(mode), fx),
            Validation::Auto if !posted && !let_through => self.bootstrap(false, launch, None, fx),
            Validation::Auto if !posted => self.configure(Launch { vouched: true, ..launch }),
            Validation::Auto | Validation::None => self.configure(launch),
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

    pub(super) fn drive_exit(&mut self, fx: &mut Vec<Effect>) {
        // A hold that is being written is kept: the process waits for it, unless it is forced.
        let writing = matches!(self.disk, Some(Job::WriteHold(_)));
        let Some(plan) = &mut self.exit else { return };
        if writing && !plan.forced {
            return;
        }
        let stuck = plan.exit.as_ref().is_some_and(|exit| exit.cause == "child_stuck");
        if self.child.is_some() && !stuck {
            return;
        }
        let exit = plan.exit.clone().unwrap_or_else(|| match &plan.why {
            Why::Requested(_) => Exit { code: 0, cause: "requested", detail: String::new() },
            Why::Fault(exit) => exit.clone(),
        });
        match (&plan.why, plan.marker_settled) {
            (Why::Requested(shutdown), false) if !plan.forced => {
                let word = *shutdown;
                if self.disk.is_none() {
                    self.job(Job::WriteMarker(word), fx);
                }
            }
            _ => {
                self.exited = true;
                fx.push(Effect::Exit(exit));
            }
        }
    }
}

impl State {
    /// Would this end of the living child be a clean one?
    pub fn end_is_clean(&self, status: ExitStatus) -> bool {
        self.child.as_ref().is_some_and(|child| is_clean(child, status, &self.settings.rules))
    }
}

impl ExitPlan {
    /// Why the process ends, in a word.
    pub fn cause(&self) -> &'static str {
        match &self.why {
            Why::Requested(_) => "shutdown",
            Why::Fault(exit) => exit.cause,
        }
    }
}

/// etcd.md 2: READY was seen, then we asked, then it ended by that signal or with 0, unforced.
fn is_clean(child: &Child, status: ExitStatus, rules: &super::Rules) -> bool {
    let Some(ending) = &child.ending else { return false };
    let gentle = ending.stage == EndingStage::Terminating
        && matches!(status, ExitStatus::Exited(0) | ExitStatus::Signaled(SIGTERM));
    (gentle || !rules.on(Rule::MarkerOnlyAfterCleanEnd))
        && (ending.after_ready || !rules.on(Rule::MarkerOnlyAfterReady))
}
