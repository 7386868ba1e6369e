// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What revisions give away although the values would fit.
use super::super::{Answer, Op, Outcome, Seen, Verdict, judge};
use super::is_orderable;
use super::ops::{at, history, last, ok_put, ok_read};

fn told(ops: &[Op]) -> String {
    let history = history(ops);
    assert!(is_orderable(&history), "the values fit");
    match judge(&history).verdict {
        Verdict::Violated(violations) => violations[0].what.clone(),
        other => panic!("{other:?}"),
    }
}

fn read(when: (u64, u64), value: &str, revision: i64, store: i64) -> Op {
    let seen = Some(Seen { value: value.into(), revision });
    Op { outcome: Outcome::Ok(Answer { seen, written: None, store }), ..ok_read(when, None) }
}

#[test]
fn two_writes_cannot_have_one_revision() {
    let other = Op { key: "j".into(), ..ok_put(at(2, 8), "b", 5) };
    assert_eq!(told(&[ok_put(at(1, 9), "a", 5), other]), "two writes were given the same revision");
}

#[test]
fn a_write_gets_a_higher_revision_than_what_was_known_before() {
    let what = told(&[ok_put(at(1, 2), "a", 5), ok_put(at(3, 4), "b", 4)]);
    assert_eq!(what, "a write got revision 4, though 5 was known before it began");
    // Under way at the same time, any order will do.
    let fine = [ok_put(at(1, 3), "a", 5), ok_put(at(2, 4), "b", 4), last(read(at(5, 6), "a", 5, 5))];
    assert_eq!(judge(&history(&fine)).verdict, Verdict::Linearizable);
}

#[test]
fn no_answer_comes_from_a_store_older_than_one_known_before() {
    let other = Op { key: "j".into(), ..ok_put(at(3, 4), "b", 6) };
    let what = told(&[ok_put(at(1, 2), "a", 5), other, read(at(5, 6), "a", 5, 5)]);
    assert_eq!(what, "an answer came from a store at revision 5, though 6 was known before the call began");
}

#[test]
fn a_value_is_read_under_the_revision_of_its_write() {
    let what = told(&[ok_put(at(1, 2), "a", 5), read(at(3, 4), "a", 6, 9)]);
    assert_eq!(what, "a has revision 5 for one and 6 for another");
    let what = told(&[ok_put(at(1, 2), "a", 5), read(at(1, 4), "a", 5, 4)]);
    assert_eq!(what, "a has revision 5, in a store at revision 4");
}
