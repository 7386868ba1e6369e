// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The diagnosis for people and agents: tells "this member is down" from "quorum is lost", which a readiness bit cannot.
//! Pure, like readiness; decides nothing.
use std::time::{Duration, Instant};

use crate::supervise::view::{CoreView, Phase};

use super::readiness::MAX_AGE;
use super::view::MemberView;

/// Silence of the local member for longer than this is called unresponsive: three Status polls that went unanswered.
const PATIENCE: Duration = Duration::from_secs(3);

/// Declares an enum whose variants have one word each on the wire.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// Every word.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

words! {
    /// Is there an etcd?
    Process {
        /// There is one.
        Alive = "alive",
        /// It ended and nobody had asked for that.
        Dead = "dead",
        /// None was started, or its end was asked for.
        None = "none",
    }
}

words! {
    /// Does the local member do its work?
    Member {
        /// It answers.
        Healthy = "healthy",
        /// It runs, and has not answered for a while.
        Unresponsive = "unresponsive",
        /// There is none, or it was not asked yet.
        Unknown = "unknown",
    }
}

words! {
    /// Does the cluster, as seen from here, agree on anything?
    Quorum {
        /// A read through it succeeded a moment ago.
        Ok = "ok",
        /// The member answers, and no read through a quorum does.
        Lost = "lost",
        /// The member itself does not answer.
        Unknown = "unknown",
    }
}

words! {
    /// What is this member in its cluster?
    Role {
        /// It leads.
        Leader = "leader",
        /// A voter that follows.
        Follower = "follower",
        /// No voter yet.
        Learner = "learner",
        /// It has not told.
        Unknown = "unknown",
    }
}

words! {
    /// All of it in one word.
    Diagnosis {
        /// It serves, and so does the quorum.
        Healthy = "healthy",
        /// This member is at fault: it ended, or does not answer.
        MemberDown = "member_down",
        /// This member is not at fault: the others are.
        QuorumLostMemberAlive = "quorum_lost_member_alive",
        /// It serves no normal requests yet.
        Learner = "learner",
        /// Reads work, writes are refused.
        AlarmNospace = "alarm_nospace",
        /// A member has other data than the rest.
        AlarmCorrupt = "alarm_corrupt",
        /// It has not got there yet.
        Bootstrapping = "bootstrapping",
        /// A stop has begun.
        Draining = "draining",
        /// Somebody has to start it.
        Held = "held",
        /// Somebody stopped it.
        Stopped = "stopped",
        /// It crashed, and will be started again.
        Backoff = "backoff",
    }
}

/// `health` of the `Status` document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Is there an etcd.
    pub process: Process,
    /// Does it answer.
    pub member: Member,
    /// As seen from here.
    pub quorum: Quorum,
    /// In the cluster.
    pub role: Role,
    /// All of it in one word.
    pub diagnosis: Diagnosis,
}

/// Judges what was published. A view of another generation than the living child's counts as empty.
pub fn diagnose(core: &CoreView, member: &MemberView, now: Instant) -> Health {
    let empty = MemberView::default();
    let view = match &core.child {
        Some(child) if member.generation == Some(child.generation) => member,
        _ => &empty,
    };
    let process = match (&core.child, &core.last_exit) {
        (Some(_), _) => Process::Alive,
        (None, Some(exit)) if !exit.requested => Process::Dead,
        (None, _) => Process::None,
    };
    let (member, quorum) = reach(view, now);
    let role = match (&view.leadership, view.learner) {
        (_, Some(true)) => Role::Learner,
        (Some(leadership), _) if leadership.is_leader => Role::Leader,
        (Some(leadership), Some(false)) if leadership.has_leader => Role::Follower,
        _ => Role::Unknown,
    };
    let diagnosis = match core.phase {
        Phase::Held => Diagnosis::Held,
        Phase::Stopped => Diagnosis::Stopped,
        Phase::Backoff => Diagnosis::Backoff,
        Phase::Stopping | Phase::Exiting => Diagnosis::Draining,
        _ if core.draining => Diagnosis::Draining,
        Phase::Initializing | Phase::Configuring => Diagnosis::Bootstrapping,
        // A member that waits for its peers is not bootstrapping in any way that helps to say.
        Phase::Starting if quorum == Quorum::Lost => Diagnosis::QuorumLostMemberAlive,
        Phase::Starting => Diagnosis::Bootstrapping,
        Phase::Running => running(view, member, quorum),
    };
    Health { process, member, quorum, role, diagnosis }
}

fn running(view: &MemberView, member: Member, quorum: Quorum) -> Diagnosis {
    let alarms = view.alarms.unwrap_or_default();
    match (member, quorum) {
        (Member::Unresponsive, _) => Diagnosis::MemberDown,
        (_, Quorum::Lost) => Diagnosis::QuorumLostMemberAlive,
        _ if alarms.corrupt => Diagnosis::AlarmCorrupt,
        _ if view.learner == Some(true) => Diagnosis::Learner,
        _ if alarms.nospace => Diagnosis::AlarmNospace,
        (Member::Healthy, _) => Diagnosis::Healthy,
        // The view lags a moment behind the phase.
        (Member::Unknown, _) => Diagnosis::Bootstrapping,
    }
}

fn reach(view: &MemberView, now: Instant) -> (Member, Quorum) {
    let age = |at: Instant| now.saturating_duration_since(at);
    let asked = view.status.is_some() || view.linearizable_read.is_some();
    let Some(last) = view.last_answer() else {
        return (if asked { Member::Unresponsive } else { Member::Unknown }, Quorum::Unknown);
    };
    let speaks = age(last) <= PATIENCE;
    let has_leader = view.leadership.as_ref().is_some_and(|leadership| leadership.has_leader);
    let member_if_speaking = if speaks { Member::Healthy } else { Member::Unresponsive };
    match &view.linearizable_read {
        Some(read) if read.ok && read.last_success.is_some_and(|at| age(at) < MAX_AGE) => {
            (member_if_speaking, Quorum::Ok)
        }
        _ if !speaks => (Member::Unresponsive, Quorum::Unknown),
        // It refuses reads by its nature; a leader it hears from has a quorum.
        Some(_) if view.learner == Some(true) => {
            (Member::Healthy, if has_leader { Quorum::Ok } else { Quorum::Lost })
        }
        Some(read) if !read.ok && !has_leader => (Member::Healthy, Quorum::Lost),
        // There is a leader, yet reads through this member fail: a stalled disk or an apply that lags, not the quorum.
        // (A leader without a quorum steps down, and a follower forgets it, well before a read is given up.)
        Some(read) if !read.ok => (Member::Unresponsive, Quorum::Unknown),
        _ => (Member::Healthy, Quorum::Unknown),
    }
}

#[cfg(test)]
mod tests;
