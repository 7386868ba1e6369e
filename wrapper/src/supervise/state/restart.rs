// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Restart in place: the next configuration is fetched and looked at while etcd still runs; only then it is stopped, and
//! started again.
use super::gate::{Admission, Facts, refuse};
use super::{
    Code, Effect, Job, Launch, NextGeneration, Op, OperationPhase, Outcome, Phase, Plan, Refusal, Rule,
    State, Terms, Work,
};
use crate::supervise::command::{RestartRequest, Validation};
use crate::supervise::view::ConfigSource;

impl State {
    pub(super) fn admit_restart(
        &mut self,
        restart: &RestartRequest,
        facts: &Facts,
        fx: &mut Vec<Effect>,
    ) -> Admission {
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

    pub(super) fn restart_inspected(&mut self, result: Result<(), Refusal>, fx: &mut Vec<Effect>) {
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

    /// The second half of a restart (safety.md 12).
    pub(super) fn next_generation(
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
}
