// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Readiness overrides and the hold file: who may set and end them, and when the file goes (safety.md 13–16).
use std::sync::Arc;

use super::gate::{Facts, Pause};
use super::{Code, Effect, HoldRequest, Job, Override, OverrideMode, Phase, Refusal, Rule, State, Timer};
use crate::supervise::command::{Accepted, OverrideRequest, StartRequest, StopRequest};

fn held_by(owner: &str, what: &str) -> Pause {
    let detail = format!("{what} belongs to {owner:?}; name that owner, or use force");
    Pause::Refuse(Refusal { code: Code::OverrideHeld, detail })
}

impl State {
    fn durable(&self) -> bool {
        self.override_.as_ref().is_some_and(|standing| standing.durable)
    }

    /// Removes the file when it is marked, this process is `running`, and no durable override stands.
    pub(super) fn drive_hold(&mut self, fx: &mut Vec<Effect>) {
        let due = self.hold.file.is_some()
            && self.hold.marked
            && (self.phase == Phase::Running || !self.rule(Rule::HoldOutlivesStart))
            && !self.durable();
        if due && self.disk.is_none() && !self.pausing && !self.draining() {
            self.job(Job::RemoveHold, fx);
        }
    }

    /// A `start` at rest must name the owner of the file; one with `ready=hold` must not take another's override.
    pub(super) fn check_start_hold(&self, start: &StartRequest) -> Result<(), Pause> {
        if start.force || !self.rule(Rule::StartNamesOwner) {
            return Ok(());
        }
        let named = start.owner.as_deref().or(start.hold.as_ref().map(|hold| hold.owner.as_str()));
        let takes_place =
            matches!(self.phase, Phase::Initializing(..) | Phase::Configuring(_)) && start.posted.is_some();
        let at_rest = takes_place || matches!(self.phase, Phase::Held | Phase::Stopped | Phase::Backoff);
        if let Some(owner) = self.hold.file.as_ref().and_then(|file| file.owner.as_deref())
            && at_rest
            && named != Some(owner)
        {
            return Err(held_by(owner, "the hold"));
        }
        match (&start.hold, &self.override_) {
            (Some(hold), Some(standing)) if *standing.owner != *hold.owner => {
                Err(held_by(&standing.owner, "the readiness override"))
            }
            _ => Ok(()),
        }
    }

    /// A `stop` with `hold` must not take another's file.
    pub(super) fn check_stop_hold(&self, stop: &StopRequest) -> Result<(), Pause> {
        let named = stop.hold.as_ref().map(|hold| hold.owner.as_str());
        match self.hold.file.as_ref().and_then(|file| file.owner.as_deref()) {
            Some(owner) if !stop.force && named != Some(owner) => Err(held_by(owner, "the hold")),
            _ => Ok(()),
        }
    }

    /// What this start wants held is held already, or it wants nothing held.
    pub(super) fn hold_stands(&self, start: &StartRequest) -> bool {
        let Some(hold) = &start.hold else { return true };
        self.override_.as_ref().is_some_and(|standing| standing.durable && *standing.owner == *hold.owner)
    }

    /// `ready=hold` of an accepted start: the file is on disk, the durable override stands.
    pub(super) fn hold_by_start(
        &mut self,
        start: &StartRequest,
        facts: &Facts,
        fx: &mut Vec<Effect>,
    ) -> Result<(), Pause> {
        let Some(hold) = &start.hold else { return Ok(()) };
        self.need_hold(hold, facts)?;
        fx.push(Effect::Disarm(Timer::Override));
        self.override_ = Some(Override {
            mode: OverrideMode::Unready,
            owner: Arc::from(hold.owner.as_str()),
            reason: Arc::from(hold.reason.as_str()),
            durable: true,
            ttl: None,
        });
        Ok(())
    }

    pub(super) fn admit_override(
        &mut self,
        change: &OverrideRequest,
        facts: &Facts,
        fx: &mut Vec<Effect>,
    ) -> Result<Accepted, Pause> {
        self.check_override_owner(change)?;
        let changed = Accepted { operation: None, changed: true };
        let Some(mode) = change.mode else {
            let any = self.override_.is_some();
            self.end_override(fx);
            return Ok(Accepted { changed: any, ..changed });
        };
        let owner: Arc<str> = Arc::from(change.owner.as_deref().unwrap_or_default());
        let reason: Arc<str> = Arc::from(change.reason.as_str());
        match &self.override_ {
            // Its owner may only change the reason of a durable override; it ends by `auto`, `ready` or DELETE.
            Some(standing)
                if standing.durable && standing.owner == owner && mode == OverrideMode::Unready =>
            {
                let hold = HoldRequest { owner: owner.to_string(), reason: reason.to_string() };
                self.need_hold(&hold, facts)?;
                if let Some(standing) = &mut self.override_ {
                    standing.reason = reason;
                }
            }
            _ => {
                self.end_override(fx);
                if let Some(ttl) = change.ttl {
                    fx.push(Effect::Arm(Timer::Override, ttl));
                }
                self.override_ = Some(Override { mode, owner, reason, durable: false, ttl: change.ttl });
            }
        }
        Ok(changed)
    }

    fn check_override_owner(&self, change: &OverrideRequest) -> Result<(), Pause> {
        let Some(standing) = &self.override_ else { return Ok(()) };
        let needs_owner = standing.durable && self.rule(Rule::DurableHasOwner);
        let mine = match &change.owner {
            Some(owner) => **owner == *standing.owner || (standing.durable && !needs_owner),
            None => !needs_owner,
        };
        if mine || change.force { Ok(()) } else { Err(held_by(&standing.owner, "the readiness override")) }
    }

    /// Ends what stands; the end of a durable override releases the hold file, whenever it comes.
    pub(super) fn end_override(&mut self, fx: &mut Vec<Effect>) {
        if let Some(standing) = self.override_.take() {
            self.hold.marked |= standing.durable;
            fx.push(Effect::Disarm(Timer::Override));
        }
    }
}
