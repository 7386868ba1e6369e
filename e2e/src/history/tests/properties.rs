// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Sound histories pass, broken ones do not, and on small ones the search agrees with one that tries everything.
use proptest::prelude::*;

use super::super::{Answer, Call, History, Op, Outcome, Seen, Verdict, judge};
use super::simulate::{Shape, simulate};
use super::{brute, is_orderable, ops};

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let numbers = (1u64..6, 1usize..4, 5usize..300, 0u32..30, 0u32..10);
    (numbers, any::<bool>(), any::<bool>()).prop_map(|(numbers, repeats_values, deletes_blindly)| {
        let (clients, keys, calls, lost, refused) = numbers;
        // Values that come again leave the search little to go by: fewer calls without an answer then.
        let lost = if repeats_values { lost / 6 } else { lost };
        Shape { clients, keys, calls, lost, refused, repeats_values, deletes_blindly }
    })
}

/// Acknowledged writes, each with its value.
fn acknowledged(history: &History) -> Vec<(&Op, &str)> {
    let written = history.answered().filter(|(_, answer)| answer.written.is_some());
    written.filter_map(|(op, _)| op.call.writes().map(|value| (op, value))).collect()
}

/// A write, and a later one on the same key: begun when the first was acknowledged. After the second, nobody may see the
/// first one's value any more.
fn overwritten(history: &History) -> Vec<(&Op, &str, &Op)> {
    let changes = |op: &Op| op.answer().is_some_and(|answer| answer.written.is_some());
    let mut pairs = Vec::new();
    for (first, value) in acknowledged(history) {
        let later =
            history.ops.iter().find(|op| op.key == first.key && op.begun > first.ended && changes(op));
        pairs.extend(later.map(|later| (first, value, later)));
    }
    pairs
}

/// The history with one more call, behind all others but on a key of theirs.
fn with(history: &History, key: &str, call: Call, answer: Answer) -> History {
    let end = history.ops.iter().map(|op| op.ended).max().unwrap_or_default();
    let op = Op { key: key.into(), ..ops::op((end + 1, end + 2), call, Outcome::Ok(answer)) };
    let mut broken = history.clone();
    broken.ops.push(op);
    broken
}

fn seen(value: &str) -> Seen {
    Seen { value: value.into(), revision: 0 }
}

fn assert_told(history: &History, most_rows: usize) {
    let Verdict::Violated(violations) = judge(history).verdict else {
        panic!("passed: {:#?}", history.ops);
    };
    let told = violations.last().unwrap();
    assert!(told.table.contains("\n> "), "the call at which it shows is marked:\n{}", told.table);
    let rows = told.table.lines().count() - 2;
    assert!(rows <= most_rows, "{rows} rows for {}:\n{}", told.what, told.table);
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn sound_histories_pass(seed: u64, shape in shapes()) {
        let history = simulate(seed, shape);
        prop_assert!(is_orderable(&history));
        let judgement = judge(&history);
        if shape.calls > 100 && shape.lost < 10 {
            prop_assert_eq!(&judgement.verdict, &Verdict::Linearizable, "{}", judgement);
        } else {
            prop_assert!(!matches!(judgement.verdict, Verdict::Violated(_)), "{}", judgement);
        }
    }

    #[test]
    fn stale_reads_and_lost_writes_are_found(seed: u64) {
        let history = simulate(seed, Shape::default());
        prop_assert!(is_orderable(&history));
        for (first, value, _) in overwritten(&history).into_iter().step_by(10) {
            let answer = Answer { seen: Some(seen(value)), ..Answer::default() };
            let broken = with(&history, &first.key, Call::Read, answer);
            prop_assert!(!is_orderable(&broken), "{value} on {}", first.key);
            assert_told(&broken, 12);
        }
    }

    #[test]
    fn a_write_that_is_gone_is_found(seed: u64) {
        // Without deletions a key that was written once is never absent again.
        let history = simulate(seed, Shape { lost: 0, ..Shape::default() });
        let keeps = |op: &Op| !matches!(op.call, Call::Delete | Call::Swap { value: None, .. });
        for (write, _) in acknowledged(&history).into_iter().step_by(10) {
            let ops = history.ops.iter().filter(|op| op.key != write.key || keeps(op)).cloned().collect();
            let kept = History { ops, ..history.clone() };
            if is_orderable(&kept) {
                let broken = with(&kept, &write.key, Call::Read, Answer::default());
                prop_assert!(!is_orderable(&broken));
            }
        }
    }

    #[test]
    fn a_swap_of_what_was_taken_before_is_found(seed: u64) {
        let history = simulate(seed, Shape::default());
        for (first, value, _) in overwritten(&history).into_iter().step_by(10) {
            let call = Call::Swap { expect: Some(seen(value)), value: Some("again".into()) };
            let answer = Answer { written: Some(9_999), store: 9_999, seen: None };
            prop_assert!(!is_orderable(&with(&history, &first.key, call, answer)));
        }
    }

    #[test]
    fn a_deleted_value_that_comes_back_is_found(seed: u64) {
        let history = simulate(seed, Shape { repeats_values: false, ..Shape::default() });
        for (op, answer) in history.answered().step_by(3) {
            let removed = match &op.call {
                Call::Delete => answer.seen.clone(),
                Call::Swap { expect, value: None } if answer.written.is_some() => expect.clone(),
                _ => None,
            };
            if let Some(removed) = removed {
                let answer = Answer { seen: Some(removed), ..Answer::default() };
                prop_assert!(!is_orderable(&with(&history, &op.key, Call::Read, answer)));
            }
        }
    }
}

/// Any few calls on one key, sound or not.
fn few() -> impl Strategy<Value = Vec<Op>> {
    let value = || prop_oneof![Just(None), Just(Some("a")), Just(Some("b")), Just(Some("c"))];
    let one = (0u64..20, 0u64..8, 0u32..12, value(), value(), value());
    let op = one.prop_map(|(begun, takes, kind, one, two, three)| {
        let when = (begun, begun + takes);
        let text = three.unwrap_or("d");
        match kind {
            0..=2 => ops::ok_read(when, one),
            3 | 4 => ops::ok_put(when, text, 1),
            5 => ops::unknown_put(when, text),
            6 => ops::ok_swap(when, one, two, 1),
            7 => ops::refused_swap(when, one, two),
            8 => ops::unknown_delete(when),
            9 => ops::ok_delete(when, one),
            10 => {
                let call = Call::Swap { expect: one.map(seen), value: two.map(str::to_owned) };
                ops::op(when, call, Outcome::Unknown { why: "lost".into() })
            }
            _ => ops::failed_put(when, text),
        }
    });
    prop::collection::vec(op, 1..8)
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn the_search_agrees_with_one_that_tries_everything(ops in few()) {
        prop_assert_eq!(is_orderable(&ops::history(&ops)), brute::is_orderable(&ops));
    }
}

#[test]
fn both_kinds_of_history_come_up_when_everything_is_tried() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let sound =
        (0..1000).filter(|_| brute::is_orderable(&few().new_tree(&mut runner).unwrap().current())).count();
    assert!((100..900).contains(&sound), "{sound} of 1000");
}

#[test]
fn tens_of_thousands_of_calls_take_about_as_many_steps() {
    let shape = Shape { calls: 40_000, clients: 6, keys: 4, ..Shape::default() };
    let history = simulate(7, shape);
    let judgement = judge(&history);
    assert_eq!(judgement.verdict, Verdict::Linearizable, "{judgement}");
    assert!(judgement.steps < 400_000, "{}", judgement.steps);
}
