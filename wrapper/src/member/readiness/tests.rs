// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Single cases by name, then every combination of inputs against the rule of api.md §1 and §2 written out.
use crate::supervise::view::OverrideView;

use super::super::testing::{core, probe};
use super::super::view::{Alarms, MemberView, Probe};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A long while after the process began, so that ages can be subtracted.
fn now() -> Instant {
    Instant::now() + 1000 * SECOND
}

fn standing(mode: OverrideMode) -> OverrideView {
    OverrideView {
        mode,
        owner: "backup-restore".into(),
        reason: "restore".into(),
        expires_at: None,
        durable: false,
    }
}

fn ready_member(now: Instant) -> MemberView {
    MemberView {
        generation: Some(1),
        confirmed: true,
        learner: Some(false),
        linearizable_read: Some(probe(true, now - SECOND, Some(now - SECOND))),
        ..MemberView::default()
    }
}

fn verdict(core: &CoreView, member: &MemberView, now: Instant) -> Option<&'static str> {
    let evaluation = evaluate(core, member, now, MAX_AGE);
    assert_eq!(evaluation.ready, evaluation.reason.is_none());
    evaluation.reason
}

#[test]
fn a_running_member_with_a_young_read_is_ready() {
    let now = now();
    assert_eq!(verdict(&core(Phase::Running), &ready_member(now), now), None);
}

#[test]
fn d16_a_result_older_than_max_age_is_not_fresh() {
    let now = now();
    let old = now - MAX_AGE;
    let member = MemberView { linearizable_read: Some(probe(true, old, Some(old))), ..ready_member(now) };
    assert_eq!(verdict(&core(Phase::Running), &member, now), Some("fresh"));
}

#[test]
fn d9_a_read_that_failed_makes_unready_though_the_last_success_is_young() {
    let now = now();
    let failed = probe(false, now, Some(now - 7 * SECOND));
    let member = MemberView { linearizable_read: Some(failed), ..ready_member(now) };
    assert_eq!(verdict(&core(Phase::Running), &member, now), Some("linearizable_read"));
}

#[test]
fn d6_a_learner_is_named_as_the_reason() {
    let now = now();
    let member = MemberView {
        learner: Some(true),
        linearizable_read: Some(probe(false, now, None)),
        ..ready_member(now)
    };
    assert_eq!(verdict(&core(Phase::Running), &member, now), Some("learner"));
}

#[test]
fn d3_alarms_are_shown_and_do_not_count() {
    let now = now();
    let alarms = Some(Alarms { nospace: true, corrupt: true });
    let evaluation =
        evaluate(&core(Phase::Running), &MemberView { alarms, ..ready_member(now) }, now, MAX_AGE);
    assert!(evaluation.ready);
    let failed: Vec<_> = evaluation.checks.iter().filter(|check| !check.ok).map(|check| check.name).collect();
    assert_eq!(failed, ["nospace", "corrupt", "serializable_read"]);
}

#[test]
fn a_drain_and_an_unready_override_end_readiness() {
    let now = now();
    let draining = CoreView { draining: true, ..core(Phase::Running) };
    assert_eq!(verdict(&draining, &ready_member(now), now), Some("draining"));
    let unready = CoreView { override_: Some(standing(OverrideMode::Unready)), ..core(Phase::Running) };
    assert_eq!(verdict(&unready, &ready_member(now), now), Some("override"));
}

#[test]
fn the_view_of_another_generation_says_nothing() {
    let now = now();
    let member = MemberView { generation: Some(2), ..ready_member(now) };
    assert_eq!(verdict(&core(Phase::Running), &member, now), Some("linearizable_read"));
}

#[test]
fn a_ready_override_masks_quorum_and_learner_while_the_member_answers() {
    let now = now();
    let core = CoreView { override_: Some(standing(OverrideMode::Ready)), ..core(Phase::Running) };
    let lost = MemberView {
        linearizable_read: Some(probe(false, now, None)),
        status: Some(probe(true, now, Some(now))),
        ..ready_member(now)
    };
    assert_eq!(verdict(&core, &lost, now), None);
    assert_eq!(verdict(&core, &MemberView { learner: Some(true), ..lost.clone() }, now), None);
    let silent = MemberView { status: Some(probe(false, now, Some(now - MAX_AGE))), ..lost };
    assert_eq!(verdict(&core, &silent, now), Some("fresh"));
}

#[test]
fn an_excluded_check_is_shown_and_does_not_count() {
    let now = now();
    let draining = CoreView { draining: true, ..core(Phase::Running) };
    let evaluation = evaluate(&draining, &ready_member(now), now, MAX_AGE).without(&["draining"]);
    assert!(evaluation.ready);
    assert!(evaluation.checks.iter().any(|check| check.name == "draining" && !check.ok));
}

// Shows: Invariant 3
/// And its reverse: ready exactly when all conditions hold, over every combination.
#[test]
fn ready_is_exactly_the_conjunction_of_the_rule() {
    let now = now();
    let ages = [Duration::ZERO, MAX_AGE - Duration::from_millis(1), MAX_AGE, 60 * SECOND];
    let reads: Vec<Option<Probe>> = std::iter::once(None)
        .chain(ages.iter().map(|age| Some(probe(true, now - *age, Some(now - *age)))))
        .chain(ages.iter().map(|age| Some(probe(false, now, Some(now - *age)))))
        .chain([Some(probe(false, now, None))])
        .collect();
    let overrides = [None, Some(OverrideMode::Ready), Some(OverrideMode::Unready)];
    let mut ready_seen = [0; 2];
    for phase in Phase::ALL {
        for (draining, child, generation) in [(0, 1), (0, 2), (1, 1), (1, 2)]
            .into_iter()
            .flat_map(|(d, g)| [(d == 1, true, g), (d == 1, false, g)])
        {
            for mode in overrides {
                for learner in [None, Some(false), Some(true)] {
                    for read in &reads {
                        for status in &reads {
                            let mut core = core(phase);
                            core.draining = draining;
                            core.override_ = mode.map(standing);
                            if !child {
                                core.child = None;
                            }
                            let member = MemberView {
                                generation: Some(generation),
                                learner,
                                linearizable_read: read.clone(),
                                status: status.clone(),
                                ..MemberView::default()
                            };
                            let known = child && generation == 1;
                            let young = |probe: &Option<Probe>| {
                                probe
                                    .as_ref()
                                    .and_then(|probe| probe.last_success)
                                    .is_some_and(|at| now - at < MAX_AGE)
                            };
                            let may = phase == Phase::Running && child && !draining;
                            let expected = may
                                && match mode {
                                    Some(OverrideMode::Unready) => false,
                                    Some(OverrideMode::Ready) => known && (young(read) || young(status)),
                                    None => {
                                        known
                                            && learner != Some(true)
                                            && read.as_ref().is_some_and(|read| read.ok)
                                            && young(read)
                                    }
                                };
                            let evaluation = evaluate(&core, &member, now, MAX_AGE);
                            assert_eq!(evaluation.ready, expected, "{core:?}\n{member:?}\n{evaluation:?}");
                            ready_seen[usize::from(expected)] += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(ready_seen[0] > 0 && ready_seen[1] > 0, "{ready_seen:?}");
}
