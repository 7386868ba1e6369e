// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One member by itself, then a whole cluster whose members all want to go at the same moment.
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::testing::sight;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn waits(self_id: u64) -> Serial {
    Serial::new(&sight(3, 0, self_id, &[1, 2, 3]), SECOND)
}

#[test]
fn the_first_voter_goes_after_a_second_and_each_next_one_fourteen_later() {
    for (self_id, needed) in [(1, 1), (2, 15), (3, 29)] {
        let (mut serial, seen) = (waits(self_id), Ok(sight(3, 0, self_id, &[1, 2, 3])));
        let went = (0u32..).map(|half| SECOND / 2 * half).find(|at| serial.observe(&seen, *at) == Turn::Go);
        assert_eq!(went, Some(needed * SECOND));
    }
}

#[test]
fn a_break_starts_the_count_anew() {
    let mut serial = waits(2);
    let (all, thin) = (Ok(sight(3, 0, 2, &[1, 3])), Ok(sight(3, 0, 2, &[3])));
    for half in 0..30 {
        assert!(matches!(serial.observe(&all, SECOND / 2 * half), Turn::Wait { .. }));
    }
    assert_eq!(serial.observe(&thin, SECOND * 15), Turn::Wait { left: 15 * SECOND });
    assert_eq!(serial.observe(&all, SECOND * 16), Turn::Wait { left: 15 * SECOND });
    assert_eq!(serial.observe(&all, SECOND * 18), Turn::Wait { left: 13 * SECOND });
}

#[test]
fn e19_a_break_between_two_looks_starts_the_count_anew() {
    let mut serial = waits(2);
    let lost = |voter: u64, learner: u64| {
        Ok(Sight { disconnects: [(3, voter), (4, learner)].into(), ..sight(3, 1, 2, &[1, 3, 4]) })
    };
    serial.observe(&lost(5, 0), Duration::ZERO);
    assert_eq!(serial.observe(&lost(5, 0), SECOND), Turn::Wait { left: 14 * SECOND });
    assert_eq!(serial.observe(&lost(6, 0), SECOND * 2), Turn::Wait { left: 15 * SECOND });
    assert_eq!(serial.observe(&lost(6, 0), SECOND * 3), Turn::Wait { left: 14 * SECOND });
    // A learner's comings and goings are nobody's turn.
    assert_eq!(serial.observe(&lost(6, 9), SECOND * 4), Turn::Wait { left: 13 * SECOND });
    // Nor does a look that failed hide one.
    serial.observe(&Err("no metrics".into()), SECOND * 5);
    serial.observe(&lost(7, 9), SECOND * 6);
    assert_eq!(serial.observe(&lost(7, 9), SECOND * 7), Turn::Wait { left: 14 * SECOND });
}

#[test]
fn a_longer_election_timeout_puts_the_ranks_further_apart() {
    let all = Ok(sight(3, 0, 2, &[1, 3]));
    let mut serial = Serial::new(all.as_ref().unwrap(), 5 * SECOND);
    assert_eq!(serial.observe(&all, Duration::ZERO), Turn::Wait { left: 23 * SECOND });
}

#[test]
fn a_look_that_failed_or_came_late_is_a_break() {
    let mut serial = waits(1);
    let all = Ok(sight(3, 0, 1, &[2, 3]));
    serial.observe(&all, Duration::ZERO);
    assert_eq!(serial.observe(&all, SECOND * 4), Turn::Wait { left: SECOND });
    serial.observe(&Err("no metrics".into()), SECOND * 4 + SECOND / 2);
    assert_eq!(serial.observe(&all, SECOND * 5), Turn::Wait { left: SECOND });
}

#[test]
fn e19_the_limit_ends_the_wait_with_the_obstacle() {
    let mut serial = waits(1);
    let thin = Ok(sight(3, 0, 1, &[2]));
    // 60 s, 20 s for each of three, and three spacings.
    assert!(matches!(serial.observe(&thin, 161 * SECOND), Turn::Wait { .. }));
    let Turn::Failed(why) = serial.observe(&thin, 162 * SECOND) else { panic!("still waiting") };
    assert!(why.contains("not active: 3"), "{why}");
}

#[test]
fn a_single_voter_and_a_learner_go_at_once() {
    let alone = Ok(sight(1, 0, 1, &[]));
    assert_eq!(Serial::new(alone.as_ref().unwrap(), SECOND).observe(&alone, Duration::ZERO), Turn::Go);
    let learner = Ok(sight(3, 1, 4, &[]));
    assert_eq!(Serial::new(learner.as_ref().unwrap(), SECOND).observe(&learner, Duration::ZERO), Turn::Go);
}

/// What a member of a modelled cluster does; times are milliseconds.
#[derive(Clone, Copy)]
enum State {
    Waiting {
        next: u64,
    },
    /// It goes: its clients have lost it, its peers have not.
    Going {
        until: u64,
    },
    Down {
        until: u64,
    },
    Done,
}

proptest! {
    /// All members of a cluster are asked within 2 s of each other, and each goes slowly and is down for a while; nobody
    /// goes while another one is away, and all get their turn.
    #[test]
    fn e19_no_two_members_are_down_at_once(
        goings in prop::collection::vec(0u64..10_000, 7),
        // Peers are without a member that restarts for less time than lies between two looks: some 90 ms.
        downs in prop::collection::vec(50u64..20_000, 2..8),
        offsets in prop::collection::vec(0u64..2_000, 7),
        jitter in prop::collection::vec(400u64..700, 64),
    ) {
        let voters = downs.len() as u64;
        let new = |id| Serial::new(&sight(voters, 0, id, &[]), SECOND);
        let mut serials: Vec<_> = (1..=voters).map(new).collect();
        let mut states: Vec<_> = offsets.iter().take(downs.len()).map(|at| State::Waiting { next: *at }).collect();
        let mut looks = 0;
        let mut disconnects = BTreeMap::new();
        for now in (0..600_000u64).step_by(50) {
            for (index, state) in states.iter_mut().enumerate() {
                match *state {
                    State::Going { until } if until <= now => {
                        *state = State::Down { until: now + downs[index] };
                        disconnects.insert(index as u64 + 1, 1);
                    }
                    State::Down { until } if until <= now => *state = State::Done,
                    _ => {}
                }
            }
            for index in 0..states.len() {
                let State::Waiting { next } = states[index] else { continue };
                if next > now {
                    continue;
                }
                let up = states.iter().enumerate().filter(|(_, state)| !matches!(state, State::Down { .. }));
                let active: Vec<u64> = up.map(|(index, _)| index as u64 + 1).collect();
                let of_it = sight(voters, 0, index as u64 + 1, &active);
                let seen = Ok(Sight { disconnects: disconnects.clone(), ..of_it });
                let elapsed = Duration::from_millis(now - offsets[index]);
                match serials[index].observe(&seen, elapsed) {
                    Turn::Go => {
                        let away = |state: &State| matches!(state, State::Going { .. } | State::Down { .. });
                        prop_assert!(!states.iter().any(away), "two are away at {} ms", now);
                        states[index] = State::Going { until: now + goings[index] };
                    }
                    Turn::Wait { .. } => {
                        looks += 1;
                        states[index] = State::Waiting { next: now + jitter[looks % jitter.len()] };
                    }
                    Turn::Failed(why) => prop_assert!(false, "{}", why),
                }
            }
        }
        prop_assert!(states.iter().all(|state| matches!(state, State::Done)));
    }
}
