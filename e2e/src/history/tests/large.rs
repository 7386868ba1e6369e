// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Histories as long as those of the container tier: sound ones are judged in time, and one stale read, one lost write or
//! a split brain among a hundred thousand calls is found and told with few calls.
use std::time::{Duration, Instant};

use super::super::{Answer, Call, History, Op, Outcome, Seen, Verdict, judge};
use super::ops;
use super::simulate::{Shape, simulate};

/// What a run may take to be judged, in a build without optimization.
const LIMIT: Duration = Duration::from_secs(60);

fn long(calls: usize) -> History {
    // As many clients and keys as the container tier has, and as many calls without an answer as hard faults leave.
    let shape = Shape {
        clients: 60,
        keys: 30,
        calls,
        lost: 3,
        refused: 10,
        repeats_values: false,
        deletes_blindly: false,
    };
    simulate(7, shape)
}

/// The sentences about a history, and the most calls that one of them takes.
fn told(history: &History) -> (String, usize) {
    let Verdict::Violated(violations) = judge(history).verdict else { panic!("passed") };
    let rows = violations.iter().map(|violation| violation.table.lines().count()).max().unwrap();
    (violations.iter().map(|violation| violation.what.as_str()).collect::<Vec<_>>().join("\n"), rows)
}

#[test]
fn a_hundred_thousand_calls_are_judged_within_a_minute() {
    let history = long(100_000);
    let begun = Instant::now();
    let judgement = judge(&history);
    assert_eq!(judgement.verdict, Verdict::Linearizable, "{judgement}");
    assert!(begun.elapsed() < LIMIT, "{:?}, {} steps", begun.elapsed(), judgement.steps);
}

#[test]
fn one_stale_read_among_many_calls_is_found() {
    let mut history = long(10_000);
    let write = |op: &&Op| matches!(op.call, Call::Put { .. }) && op.answer().is_some();
    let first = history.ops.iter().find(write).unwrap().clone();
    let (Call::Put { value }, Some(answer)) = (&first.call, first.answer()) else { panic!("{first:?}") };
    let end = history.ops.iter().map(|op| op.ended).max().unwrap();
    let revision = answer.written.unwrap();
    let seen = Some(Seen { value: value.clone(), revision });
    let stale = Outcome::Ok(Answer { seen, written: None, store: i64::MAX });
    history.ops.push(Op { key: first.key.clone(), ..ops::op((end + 1, end + 2), Call::Read, stale) });
    let (what, rows) = told(&history);
    assert!(what.contains(&format!("saw {value}")) && what.contains("stale"), "{what}");
    assert!(rows < 12, "{rows} rows: {what}");
}

#[test]
fn one_lost_write_among_many_calls_is_found() {
    let mut history = long(10_000);
    // The last acknowledged write of a key, as if it had never been.
    let written =
        |op: &&Op| op.key == "k3" && !op.last && op.answer().is_some_and(|answer| answer.written.is_some());
    let last = history.ops.iter().filter(written).max_by_key(|op| op.ended).unwrap().ended;
    let (begun, ended) = (last + 1, last + 2);
    let store = i64::MAX - 1;
    let answer = Answer { seen: None, written: Some(store), store };
    let lost = ops::op((begun, ended), Call::Put { value: "lost".into() }, Outcome::Ok(answer));
    let place = history.ops.iter().position(|op| op.last).unwrap();
    history.ops.iter_mut().filter(|op| op.begun >= begun).for_each(|op| {
        (op.begun, op.ended) = (op.begun + 10, op.ended + 10);
    });
    history.ops.insert(place, Op { key: "k3".into(), ..lost });
    let (what, _) = told(&history);
    assert!(what.contains("lost") || what.contains("known before"), "{what}");
}

#[test]
fn two_sides_that_both_take_writes_are_found() {
    // One member goes on alone with what it had, and numbers its writes as the others do theirs.
    let put = |when, value: &str, revision| ops::ok_put(when, value, revision);
    let at = |time: u64| ops::at(time, time + 1);
    let mut alone = put(at(20), "y", 3);
    alone.member = "m-2".into();
    let mut read = ops::ok_read(at(40), Some("y"));
    read.member = "m-2".into();
    let history = ops::history(&[
        put(at(0), "a", 2),
        put(at(10), "x", 3),
        alone,
        ops::ok_read(at(30), Some("x")),
        read,
    ]);
    let (what, rows) = told(&history);
    assert!(what.contains("the same revision"), "{what}");
    assert!(rows <= 6, "{rows}");
}
