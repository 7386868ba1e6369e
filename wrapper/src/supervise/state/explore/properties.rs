// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The properties P1–P4 and P7 of the data directory, judged on the world's own truth. P5 and P6 are questions about
//! the whole graph: see the search.
use super::super::{Effect, Outcome, OverrideMode, Phase, Plan, State, Work};
use super::cast::Line;
use super::world::{Dir, Etcd, Held, Sidecar, World};
use crate::supervise::view::{Intent, OperationKind};

impl World {
    pub(super) fn spawn(&mut self, plan: &Plan) -> Result<(), String> {
        let Some(State { phase: Phase::Configuring(launch), intent, .. }) = &self.state else {
            return Err("P1: a spawn outside of a launch".into());
        };
        if self.etcd.is_some() {
            return Err("P1: a second etcd".into());
        }
        if *intent != Intent::Up {
            return Err("P1: etcd is started although it was stopped".into());
        }
        if matches!(self.held, Some(Held::Directory(_))) {
            return Err("P7: etcd is started on a directory that is held".into());
        }
        let own = plan.data_dir.ends_with("own");
        let bad = !matches!(self.dir, Dir::Sound | Dir::Unsynced);
        if own && launch.vouched && self.settings.sidecar && bad && !self.forced {
            return Err(format!("P2: etcd is started on a directory that is {:?}", self.dir));
        }
        self.etcd = Some(Etcd {
            own,
            fsync: plan.fsync,
            up: false,
            told: false,
            sig: None,
            orphan: false,
            forced: launch.force,
        });
        // Whoever starts without validation answers for the data.
        if own && !launch.vouched && !matches!(self.sidecar, Sidecar::Progress(_)) {
            self.dir = Dir::Sound;
        }
        self.given = false;
        self.forced |= launch.force;
        Ok(())
    }

    /// An answer to the command that was said last.
    pub(super) fn replied(&mut self, accepted: bool) -> Result<(), String> {
        let Some(line) = self.command.take() else { return Ok(()) };
        if !accepted {
            return Ok(());
        }
        if let Some((owner, hold)) = line.start() {
            let entitled = match self.held {
                Some(Held::Directory(Some(of))) => owner == Some(of) || line == Line::StartForced,
                Some(Held::Unready(of)) => !hold || owner == Some(of),
                _ => true,
            };
            if !entitled {
                return Err(format!("P7: {line:?} was accepted against {:?}", self.held));
            }
            match (hold, owner, self.held) {
                (true, Some(owner), _) => self.held = Some(Held::Unready(owner)),
                (_, _, Some(Held::Directory(_))) => (self.held, self.pledged) = (None, true),
                _ => {}
            }
            (self.given, self.rested) = (false, false);
        }
        match line {
            Line::StopHold(owner) | Line::StopSerialHold(owner) => {
                let taken = match self.held {
                    Some(Held::Directory(Some(of)) | Held::Unready(of)) => of != owner,
                    _ => false,
                };
                if taken {
                    return Err(format!("P7: {line:?} was accepted against {:?}", self.held));
                }
                self.held = Some(Held::Directory(Some(owner)));
                self.rested = true;
            }
            Line::Release(owner) | Line::Unready(owner) => {
                if let Some(Held::Unready(of)) = self.held {
                    if of != owner {
                        return Err(format!("P7: {line:?} ended the hold of {of}"));
                    }
                    if line == Line::Release(owner) {
                        self.held = None;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn finished(&mut self, kind: OperationKind, outcome: &Outcome, forced: bool) {
        if kind != OperationKind::Stop {
            return;
        }
        match outcome {
            Outcome::Succeeded { .. } => self.given = !forced && !self.forced,
            Outcome::Failed(_) => {
                let stays = self.state.as_ref().is_none_or(|state| state.phase == Phase::Stopping);
                if let (Some(Held::Directory(Some(owner))), false) = (self.held, stays) {
                    let durable = self.state.as_ref().is_some_and(durable);
                    self.held = durable.then_some(Held::Unready(owner));
                    self.rested = false;
                }
            }
            Outcome::Superseded => {}
        }
    }

    /// What must hold whenever the world stands still.
    pub(super) fn check(&self) -> Result<(), String> {
        let working = matches!(self.sidecar, Sidecar::Progress(_));
        if let Some(etcd) = &self.etcd
            && etcd.own
            && !etcd.forced
            && working
        {
            return Err("P1: the sidecar works beside a living etcd".into());
        }
        if self.given && (working || self.late.is_some()) {
            return Err("P1: a stop was called done while the sidecar works on the directory".into());
        }
        if self.marker && !self.stranger && (self.dir != Dir::Sound || self.etcd.is_some() || self.unclean) {
            return Err(format!(
                "P4: a clean marker lies on disk (directory {:?}, etcd lives: {}, last end unclean: {})",
                self.dir,
                self.etcd.is_some(),
                self.unclean
            ));
        }
        if self.held.is_some() && self.file.is_none() {
            return Err("P7: a hold is lost".into());
        }
        if self.pledged && self.file.is_none() {
            return Err("P7: a hold file went before its start was running".into());
        }
        match &self.state {
            Some(state) => self.check_process(state),
            None => Ok(()),
        }
    }

    fn check_process(&self, state: &State) -> Result<(), String> {
        if state.phase != Phase::Running {
            return Ok(());
        }
        let unready = state.override_.as_ref().is_some_and(|o| o.mode == OverrideMode::Unready);
        let serving = state.child.is_some() && !state.draining() && !unready;
        let stopping = matches!(&state.op, Some(op) if matches!(op.work, Work::Stop { .. }));
        if serving && self.held.is_some() && !stopping {
            return Err(format!("P3: 200 is served although {:?}", self.held));
        }
        if serving && self.dir == Dir::Half && self.etcd.is_some_and(|etcd| etcd.own && !etcd.forced) {
            return Err("P3: 200 is served for a half-restored directory".into());
        }
        let still = state.disk.is_none() && !state.pausing && state.op.is_none() && state.gate.is_none();
        if still && self.file.is_some() && self.held.is_none() && !durable(state) {
            return Err("P7: a released hold stays".into());
        }
        Ok(())
    }

    /// What an effect gives away by itself.
    pub(super) fn judge(&self, effect: &Effect) -> Result<(), String> {
        match effect {
            Effect::Call(super::super::Call::Start(_)) if self.etcd.is_some() => {
                Err("P1: the sidecar is told to start beside a living etcd".into())
            }
            Effect::Signal(_) if self.etcd.is_none() => Err("invariant 7: a signal without a child".into()),
            _ => Ok(()),
        }
    }
}

fn durable(state: &State) -> bool {
    state.override_.as_ref().is_some_and(|standing| standing.durable)
}
