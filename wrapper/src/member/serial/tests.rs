// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One member by itself, then a whole cluster whose members all want to go at the same moment.
use proptest::prelude::*;

use super::super::testing::sight;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn waits(self_id: u64) -> Serial {
    Serial::new(&sight(3, 0, self_id, &[1, 2, 3]))
}

#[test]
fn the_first_voter_goes_after_a_second_and_each_next_one_six_later() {
    for (self_id, needed) in [(1, 1), (2, 7), (3, 13)] {
        let (mut serial, seen) = (waits(self_id), Ok(sight(3, 0, self_id, &[1, 2, 3])));
        let went = (0u32..).map(|half| SECOND / 2 * half).find(|at| serial.observe(&seen, *at) == Turn::Go);
        assert_eq!(went, Some(needed * SECOND));
    }
}

#[test]
fn a_break_starts_the_count_anew() {
    let mut serial = waits(2);
    let (all, thin) = (Ok(sight(3, 0, 2, &[1, 3])), Ok(sight(3, 0, 2, &[3])));
    for half in 0..13 {
        assert!(matches!(serial.observe(&all, SECOND / 2 * half), Turn::Wait { .. }));
    }
    assert_eq!(serial.observe(&thin, SECOND * 7), Turn::Wait { left: 7 * SECOND });
    assert_eq!(serial.observe(&all, SECOND * 8), Turn::Wait { left: 7 * SECOND });
    assert_eq!(serial.observe(&all, SECOND * 10), Turn::Wait { left: 5 * SECOND });
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
fn e19_the_limit_of_60_s_and_30_s_a_voter_ends_the_wait_with_the_obstacle() {
    let mut serial = waits(1);
    let thin = Ok(sight(3, 0, 1, &[2]));
    assert!(matches!(serial.observe(&thin, 149 * SECOND), Turn::Wait { .. }));
    let Turn::Failed(why) = serial.observe(&thin, 150 * SECOND) else { panic!("still waiting") };
    assert!(why.contains("not active: 3"), "{why}");
}

#[test]
fn a_single_voter_and_a_learner_go_at_once() {
    let alone = Ok(sight(1, 0, 1, &[]));
    assert_eq!(Serial::new(alone.as_ref().unwrap()).observe(&alone, Duration::ZERO), Turn::Go);
    let learner = Ok(sight(3, 1, 4, &[]));
    assert_eq!(Serial::new(learner.as_ref().unwrap()).observe(&learner, Duration::ZERO), Turn::Go);
}

proptest! {
    /// All members of a cluster are asked within 2 s of each other, and each is down for a while; nobody is down while
    /// another one is, and all get their turn.
    #[test]
    fn e19_no_two_members_are_down_at_once(
        downs in prop::collection::vec(500u64..20_000, 2..6),
        offsets in prop::collection::vec(0u64..2_000, 6),
        jitter in prop::collection::vec(400u64..700, 64),
    ) {
        #[derive(Clone, Copy)]
        enum State { Waiting { next: u64 }, Down { until: u64 }, Done }
        let voters = downs.len() as u64;
        let mut serials: Vec<_> = (1..=voters).map(|id| Serial::new(&sight(voters, 0, id, &[]))).collect();
        let mut states: Vec<_> = offsets.iter().take(downs.len()).map(|at| State::Waiting { next: *at }).collect();
        let mut looks = 0;
        for now in (0..200_000u64).step_by(50) {
            for state in &mut states {
                if matches!(state, State::Down { until } if *until <= now) {
                    *state = State::Done;
                }
            }
            for index in 0..states.len() {
                let State::Waiting { next } = states[index] else { continue };
                if next > now {
                    continue;
                }
                let up = states.iter().enumerate().filter(|(_, state)| !matches!(state, State::Down { .. }));
                let active: Vec<u64> = up.map(|(index, _)| index as u64 + 1).collect();
                let seen = Ok(sight(voters, 0, index as u64 + 1, &active));
                let elapsed = Duration::from_millis(now - offsets[index]);
                match serials[index].observe(&seen, elapsed) {
                    Turn::Go => {
                        prop_assert_eq!(active.len() as u64, voters, "two are down at {} ms", now);
                        states[index] = State::Down { until: now + downs[index] };
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
