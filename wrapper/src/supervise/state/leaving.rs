// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The end of the process: who asked for it, what becomes of the child and the marker, and with which code it exits.
use super::ending::{FORCED_LIMIT, SIGTERM, is_clean};
use super::{
    Asker, Child, Code, Effect, EndingStage, Exit, ExitPlan, Guard, Intent, Job, Outcome, Phase, Refusal,
    Rule, Shutdown, State, Terms, Timer, Why,
};
use crate::supervise::view::{ConfigSource, ExitStatus};

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

    /// A shutdown has lost its child: the exit code, and whether the end deserves a marker (safety.md 10).
    pub(super) fn exit_after(&mut self, child: &Child, status: ExitStatus, clean: bool) {
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
