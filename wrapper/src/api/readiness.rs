// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The seam to `member::readiness`: what the probes need of it, and nothing else.
use std::time::{Duration, Instant, SystemTime};

use crate::member::view::{MemberView, Probe};
use crate::supervise::view::{CoreView, OverrideMode, Phase};

/// Is this member ready, and why not.
#[derive(Clone, Debug)]
pub struct Evaluation {
    pub ready: bool,
    /// Name of the first failed check that counts.
    pub reason: Option<&'static str>,
    pub checks: Vec<Check>,
}

#[derive(Clone, Debug)]
pub struct Check {
    pub name: &'static str,
    pub ok: bool,
    /// Counts for readiness.
    pub required: bool,
    /// When the answer came that this rests on.
    pub at: Option<SystemTime>,
    pub detail: String,
}

/// A success counts for this long (api.md §1 `maxAge`).
pub const MAX_AGE: Duration = Duration::from_secs(10);

/// Readiness as of `now`, from the two snapshots alone.
pub fn evaluate(core: &CoreView, member: &MemberView, now: Instant) -> Evaluation {
    let mode = core.override_.as_ref().map(|o| o.mode);
    let age = |at: Instant| now.saturating_duration_since(at);
    let fresh = |at: Option<Instant>| at.is_some_and(|at| age(at) < MAX_AGE);
    let last = |probe: &Option<Probe>| probe.as_ref().and_then(|p| p.last_success);
    let alive = fresh(last(&member.status)) || fresh(last(&member.linearizable_read));
    let masked = mode == Some(OverrideMode::Ready) && alive;
    let learner = member.leadership.as_ref().is_some_and(|l| l.is_learner == Some(true));
    let read = member.linearizable_read.as_ref();
    let read_ok = read.is_some_and(|r| r.ok);
    let at = read.map(|r| r.at_wall);
    let alarms = member.alarms.unwrap_or_default();
    let check = |name, ok, required, at, detail: String| Check { name, ok, required, at, detail };
    let checks = vec![
        check(
            "process",
            core.phase == Phase::Running && core.child.is_some(),
            true,
            None,
            core.phase.as_str().into(),
        ),
        check("draining", !core.draining, true, None, String::new()),
        check("override", mode != Some(OverrideMode::Unready), true, None, String::new()),
        check("learner", !learner, !masked, None, String::new()),
        check("linearizable_read", read_ok, !masked, at, read.map(|r| r.detail.clone()).unwrap_or_default()),
        check("fresh", fresh(last(&member.linearizable_read)) || masked, true, at, String::new()),
        check(
            "serializable_read",
            member.serializable_read.as_ref().is_some_and(|r| r.ok),
            false,
            None,
            String::new(),
        ),
        check("nospace", !alarms.nospace, false, None, String::new()),
        check("corrupt", !alarms.corrupt, false, None, String::new()),
    ];
    let reason = checks.iter().find(|c| c.required && !c.ok).map(|c| c.name);
    Evaluation { ready: reason.is_none(), reason, checks }
}
