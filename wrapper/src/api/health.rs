// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Tells "this member is down" from "quorum is lost": the `health` part of a status. Pure; reports what the stages
//! saw and decides nothing.
use std::time::Instant;

use crate::member::view::{MemberView, Probe};
use crate::supervise::view::{CoreView, Phase};

use super::readiness::MAX_AGE;
use super::wire::Health;

/// Health as of `now`.
pub fn health(core: &CoreView, member: &MemberView, now: Instant) -> Health {
    let process = process(core);
    let state = state(core, member, now);
    let quorum = quorum(core, member, state, now);
    let role = role(core, member);
    Health {
        process: process.into(),
        member: state.into(),
        quorum: quorum.into(),
        role: role.into(),
        diagnosis: diagnosis(core, member, process, state, quorum, role).into(),
    }
}

fn fresh(probe: Option<&Probe>, now: Instant) -> Option<bool> {
    let probe = probe.filter(|probe| now.saturating_duration_since(probe.at) < MAX_AGE)?;
    Some(probe.ok)
}

/// `dead` is an end that nobody asked for, as long as no new child stands in its place.
fn process(core: &CoreView) -> &'static str {
    match (&core.child, &core.last_exit) {
        (Some(_), _) => "alive",
        (None, Some(exit)) if !exit.requested => "dead",
        (None, _) => "none",
    }
}

/// Does the member itself answer, quorum or not.
fn state(core: &CoreView, member: &MemberView, now: Instant) -> &'static str {
    if core.child.is_none() {
        return "unknown";
    }
    let answers = [&member.status, &member.serializable_read, &member.linearizable_read]
        .map(|probe| fresh(probe.as_ref(), now));
    match (answers.contains(&Some(true)), answers.iter().any(Option::is_some)) {
        (true, _) => "healthy",
        (false, true) => "unresponsive",
        // Nothing fresh: either too young to have been asked, or whoever asks is stuck.
        (false, false) => "unknown",
    }
}

fn quorum(core: &CoreView, member: &MemberView, state: &str, now: Instant) -> &'static str {
    if core.child.is_none() || is_learner(member) {
        // A learner cannot read linearizably; that it knows a leader is all that can be said.
        let led = member.leadership.as_ref().is_some_and(|l| l.leader_id.is_some());
        return if core.child.is_some() && led { "ok" } else { "unknown" };
    }
    match fresh(member.linearizable_read.as_ref(), now) {
        Some(true) => "ok",
        Some(false) if state == "healthy" => "lost",
        Some(false) | None => "unknown",
    }
}

fn role(core: &CoreView, member: &MemberView) -> &'static str {
    match member.leadership.as_ref().filter(|_| core.child.is_some()) {
        Some(leadership) if leadership.is_learner == Some(true) => "learner",
        Some(leadership) if leadership.is_leader => "leader",
        Some(_) => "follower",
        None => "unknown",
    }
}

fn is_learner(member: &MemberView) -> bool {
    member.leadership.as_ref().is_some_and(|l| l.is_learner == Some(true))
}

/// The one word; the more drastic state wins.
fn diagnosis(
    core: &CoreView,
    member: &MemberView,
    process: &str,
    state: &str,
    quorum: &str,
    role: &str,
) -> &'static str {
    let alarms = member.alarms.unwrap_or_default();
    match core.phase {
        Phase::Held => "held",
        Phase::Stopped => "stopped",
        Phase::Backoff => "backoff",
        Phase::Stopping | Phase::Exiting => "draining",
        Phase::Initializing | Phase::Configuring | Phase::Starting => "bootstrapping",
        Phase::Running if core.draining => "draining",
        Phase::Running if process != "alive" || state == "unresponsive" => "member_down",
        Phase::Running if alarms.corrupt => "alarm_corrupt",
        Phase::Running if quorum == "lost" => "quorum_lost_member_alive",
        Phase::Running if role == "learner" => "learner",
        Phase::Running if alarms.nospace => "alarm_nospace",
        // `running` was confirmed once; without a fresh answer since, nobody can call the member healthy.
        Phase::Running if state == "unknown" => "member_down",
        Phase::Running => "healthy",
    }
}
