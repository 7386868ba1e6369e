// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Is this member ready? Pure: reads what the supervisor and the member stage have published, and the clock it is given.
//! Never asks etcd, so that a probe is answered at once however etcd does.
use std::time::{Duration, Instant, SystemTime};

use crate::supervise::view::{CoreView, OverrideMode, Phase};

use super::view::{MemberView, Probe};

/// A result that is older says nothing any more (`maxAge` of api.md §1).
pub const MAX_AGE: Duration = Duration::from_secs(10);

/// One condition, as shown by `?verbose` and in the `Readiness` document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// As in `/readyz/<name>`.
    pub name: &'static str,
    /// It is well.
    pub ok: bool,
    /// Counts for readiness.
    pub required: bool,
    /// When it was looked at; None: never, or a condition that needs no looking.
    pub at: Option<SystemTime>,
    /// For people; may be empty.
    pub detail: String,
}

/// The verdict and how it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// All checks that count are well.
    pub ready: bool,
    /// Name of the first required check that failed; the order is that of `checks`.
    pub reason: Option<&'static str>,
    /// In the order in which they are shown.
    pub checks: Vec<Check>,
}

impl Evaluation {
    fn of(checks: Vec<Check>) -> Self {
        let reason = checks.iter().find(|check| check.required && !check.ok).map(|check| check.name);
        Self { ready: reason.is_none(), reason, checks }
    }

    /// The verdict if the checks named did not count (`?exclude=`).
    pub fn without(self, excluded: &[&str]) -> Self {
        let checks = self.checks.into_iter().map(|check| {
            let required = check.required && !excluded.contains(&check.name);
            Check { required, ..check }
        });
        Self::of(checks.collect())
    }
}

/// Judges by `max_age` (normally [`MAX_AGE`]). A view of another generation than the living child's counts as empty.
///
/// A `ready` override takes the quorum and learner checks out of the count; what it cannot mask is a child that is not
/// running, a drain, and a member that has not answered anything within `max_age`.
pub fn evaluate(core: &CoreView, member: &MemberView, now: Instant, max_age: Duration) -> Evaluation {
    let empty = MemberView::default();
    let child = core.child.as_ref();
    let member = match child {
        Some(child) if member.generation == Some(child.generation) => member,
        _ => &empty,
    };
    let standing = core.override_.as_ref();
    let masked = standing.is_some_and(|standing| standing.mode == OverrideMode::Ready);
    let is_young = |at: Instant| now.saturating_duration_since(at) < max_age;
    let condition = |name, ok, detail: String| Check { name, ok, required: true, at: None, detail };

    let process = condition(
        "process",
        core.phase == Phase::Running && child.is_some(),
        match child {
            Some(child) => format!("phase {}, pid {}", core.phase.as_str(), child.pid),
            None => format!("phase {}, no etcd", core.phase.as_str()),
        },
    );
    let is_draining = core.draining || matches!(core.phase, Phase::Stopping | Phase::Exiting);
    let draining = condition("draining", !is_draining, said(is_draining, "a stop has begun", "no"));
    let override_ = condition(
        "override",
        standing.is_none_or(|standing| standing.mode != OverrideMode::Unready),
        standing.map_or_else(
            || "none".into(),
            |standing| {
                let mode = said(masked, "ready", "unready");
                format!("{mode} by {:?}: {}", standing.owner, standing.reason)
            },
        ),
    );
    let learner = Check {
        required: !masked,
        ..condition(
            "learner",
            member.learner != Some(true),
            match member.learner {
                Some(true) => "is a learner".into(),
                Some(false) => "is a voter".into(),
                None => "not known yet".into(),
            },
        )
    };
    let linearizable_read = probed("linearizable_read", member.linearizable_read.as_ref(), !masked);

    // What must be young: normally the newest success of the read. A failed one does not get here, it fails above.
    let newest = match (masked, &member.linearizable_read) {
        (true, _) => member.last_answer(),
        (false, Some(read)) if read.ok => read.last_success,
        (false, Some(read)) => Some(read.at),
        (false, None) => None,
    };
    let fresh = condition(
        "fresh",
        newest.is_some_and(is_young),
        newest.map_or_else(
            || "nothing was answered yet".into(),
            |at| format!("{} ms old", now.saturating_duration_since(at).as_millis()),
        ),
    );

    Evaluation::of(vec![
        process,
        draining,
        override_,
        learner,
        linearizable_read,
        fresh,
        alarm("nospace", member.alarms.map(|alarms| alarms.nospace)),
        alarm("corrupt", member.alarms.map(|alarms| alarms.corrupt)),
        probed("serializable_read", member.serializable_read.as_ref(), false),
    ])
}

fn probed(name: &'static str, probe: Option<&Probe>, required: bool) -> Check {
    match probe {
        Some(probe) => {
            Check { name, ok: probe.ok, required, at: Some(probe.at_wall), detail: probe.detail.clone() }
        }
        None => Check { name, ok: false, required, at: None, detail: "not asked yet".into() },
    }
}

fn alarm(name: &'static str, raised: Option<bool>) -> Check {
    let detail = match raised {
        Some(true) => "alarm raised",
        Some(false) => "no alarm",
        None => "not known",
    };
    Check { name, ok: raised != Some(true), required: false, at: None, detail: detail.into() }
}

fn said(which: bool, yes: &str, no: &str) -> String {
    if which { yes.into() } else { no.into() }
}

#[cfg(test)]
mod tests;
