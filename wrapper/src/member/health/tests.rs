// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Scenes as the prober shows them, and what they are called.
use std::time::SystemTime;

use rstest::rstest;

use crate::supervise::view::{ExitStatus, LastExit};

use super::super::testing::{core, probe};
use super::super::view::{Alarms, Leadership, Probe, Source};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn leadership(leader_id: Option<u64>) -> Leadership {
    Leadership {
        member_id: Some(7),
        leader_id,
        has_leader: leader_id.is_some(),
        is_leader: leader_id == Some(7),
        is_learner: Some(false),
        term: Some(4),
        source: Source::Status,
        since: SystemTime::UNIX_EPOCH,
    }
}

struct Scene {
    now: Instant,
    core: CoreView,
    view: MemberView,
}

impl Scene {
    fn healthy() -> Self {
        let now = Instant::now() + 1000 * SECOND;
        let view = MemberView {
            generation: Some(1),
            confirmed: true,
            learner: Some(false),
            linearizable_read: Some(probe(true, now, Some(now))),
            status: Some(probe(true, now, Some(now))),
            leadership: Some(leadership(Some(7))),
            ..MemberView::default()
        };
        Self { now, core: core(Phase::Running), view }
    }

    fn failed(&self, success_ago: u32) -> Option<Probe> {
        Some(probe(false, self.now, Some(self.now - success_ago * SECOND)))
    }

    fn health(&self) -> Health {
        diagnose(&self.core, &self.view, self.now)
    }
}

#[test]
fn a_leader_that_reads_is_healthy() {
    let health = Scene::healthy().health();
    assert_eq!((health.member, health.quorum, health.role), (Member::Healthy, Quorum::Ok, Role::Leader));
    assert_eq!((health.process, health.diagnosis), (Process::Alive, Diagnosis::Healthy));
}

#[test]
fn lost_quorum_is_told_from_a_member_that_is_down() {
    let mut lost = Scene::healthy();
    lost.view.linearizable_read = lost.failed(7);
    lost.view.leadership = Some(leadership(None));
    let health = lost.health();
    assert_eq!((health.member, health.quorum), (Member::Healthy, Quorum::Lost));
    assert_eq!(health.diagnosis, Diagnosis::QuorumLostMemberAlive);

    let mut frozen = Scene::healthy();
    frozen.view.linearizable_read = frozen.failed(7);
    frozen.view.status = frozen.failed(6);
    frozen.view.leadership = Some(leadership(None));
    let health = frozen.health();
    assert_eq!((health.member, health.quorum), (Member::Unresponsive, Quorum::Unknown));
    assert_eq!(health.diagnosis, Diagnosis::MemberDown);
}

#[test]
fn reads_that_fail_under_a_known_leader_are_this_members_own_trouble() {
    let mut scene = Scene::healthy();
    scene.view.linearizable_read = scene.failed(7);
    scene.view.leadership = Some(leadership(Some(8)));
    let health = scene.health();
    assert_eq!((health.member, health.quorum), (Member::Unresponsive, Quorum::Unknown));
    assert_eq!((health.diagnosis, health.role), (Diagnosis::MemberDown, Role::Follower));
}

#[test]
fn a_short_election_is_no_loss_of_quorum() {
    let mut scene = Scene::healthy();
    scene.view.linearizable_read = Some(probe(true, scene.now - 2 * SECOND, Some(scene.now - 2 * SECOND)));
    scene.view.leadership = Some(leadership(None));
    let health = scene.health();
    assert_eq!((health.quorum, health.diagnosis), (Quorum::Ok, Diagnosis::Healthy));
    assert_eq!(health.role, Role::Unknown);
}

#[test]
fn one_late_status_does_not_make_a_member_unresponsive() {
    let mut scene = Scene::healthy();
    scene.view.status = scene.failed(2);
    assert_eq!(scene.health().member, Member::Healthy);
}

#[test]
fn a_learner_is_named_before_the_reads_it_refuses() {
    let mut scene = Scene::healthy();
    scene.view.learner = Some(true);
    scene.view.linearizable_read = Some(probe(false, scene.now, None));
    let health = scene.health();
    assert_eq!((health.role, health.quorum), (Role::Learner, Quorum::Ok));
    assert_eq!(health.diagnosis, Diagnosis::Learner);
    scene.view.leadership = Some(leadership(None));
    assert_eq!(scene.health().diagnosis, Diagnosis::QuorumLostMemberAlive);
}

#[test]
fn alarms_are_named_the_worse_one_first() {
    let mut scene = Scene::healthy();
    scene.view.alarms = Some(Alarms { nospace: true, corrupt: false });
    assert_eq!(scene.health().diagnosis, Diagnosis::AlarmNospace);
    scene.view.alarms = Some(Alarms { nospace: true, corrupt: true });
    assert_eq!(scene.health().diagnosis, Diagnosis::AlarmCorrupt);
}

#[rstest]
#[case(Phase::Held, Diagnosis::Held)]
#[case(Phase::Initializing, Diagnosis::Bootstrapping)]
#[case(Phase::Configuring, Diagnosis::Bootstrapping)]
#[case(Phase::Stopping, Diagnosis::Draining)]
#[case(Phase::Stopped, Diagnosis::Stopped)]
#[case(Phase::Backoff, Diagnosis::Backoff)]
#[case(Phase::Exiting, Diagnosis::Draining)]
#[case(Phase::Starting, Diagnosis::Bootstrapping)]
fn other_phases_name_themselves(#[case] phase: Phase, #[case] diagnosis: Diagnosis) {
    let scene = Scene { core: core(phase), ..Scene::healthy() };
    assert_eq!(scene.health().diagnosis, diagnosis);
}

#[test]
fn a_start_that_waits_for_its_peers_says_so() {
    let mut scene = Scene { core: core(Phase::Starting), ..Scene::healthy() };
    scene.view.linearizable_read = Some(probe(false, scene.now, None));
    scene.view.leadership = Some(leadership(None));
    assert_eq!(scene.health().diagnosis, Diagnosis::QuorumLostMemberAlive);
}

#[test]
fn a_crash_is_a_dead_process_and_a_stop_is_none() {
    let mut scene = Scene { core: core(Phase::Backoff), ..Scene::healthy() };
    scene.core.child = None;
    let exit = |requested| LastExit {
        generation: 1,
        status: ExitStatus::Signaled(9),
        requested,
        clean: false,
        at: SystemTime::UNIX_EPOCH,
        cause: "crash",
    };
    scene.core.last_exit = Some(exit(false));
    let health = scene.health();
    assert_eq!((health.process, health.member, health.role), (Process::Dead, Member::Unknown, Role::Unknown));
    scene.core.last_exit = Some(exit(true));
    assert_eq!(scene.health().process, Process::None);
}

#[test]
fn words_are_unique() {
    let words: std::collections::BTreeSet<_> = Diagnosis::ALL.iter().map(|word| word.as_str()).collect();
    assert_eq!(words.len(), Diagnosis::ALL.len());
}
