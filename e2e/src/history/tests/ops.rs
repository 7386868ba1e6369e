// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Calls made by hand, on the key `k`.
use super::super::{Answer, Call, End, History, Op, Outcome, Seen};

/// Begin and end.
pub(in super::super) fn at(begun: u64, ended: u64) -> (u64, u64) {
    (begun, ended)
}

pub(in super::super) fn op((begun, ended): (u64, u64), call: Call, outcome: Outcome) -> Op {
    Op { client: begun, member: "m-0".into(), key: "k".into(), call, begun, ended, outcome, last: false }
}

fn seen(value: &str) -> Seen {
    Seen { value: value.into(), revision: 0 }
}

fn unknown() -> Outcome {
    Outcome::Unknown { why: "no answer within 5s".into() }
}

fn put(value: &str) -> Call {
    Call::Put { value: value.into() }
}

fn swap(expect: Option<&str>, value: Option<&str>) -> Call {
    Call::Swap { expect: expect.map(seen), value: value.map(str::to_owned) }
}

pub(in super::super) fn ok_put(when: (u64, u64), value: &str, revision: i64) -> Op {
    op(when, put(value), Outcome::Ok(Answer { written: Some(revision), store: revision, seen: None }))
}

pub(in super::super) fn unknown_put(when: (u64, u64), value: &str) -> Op {
    op(when, put(value), unknown())
}

pub(in super::super) fn failed_put(when: (u64, u64), value: &str) -> Op {
    op(when, put(value), Outcome::Failed { why: "permission denied".into() })
}

pub(in super::super) fn ok_read(when: (u64, u64), value: Option<&str>) -> Op {
    op(when, Call::Read, Outcome::Ok(Answer { seen: value.map(seen), ..Answer::default() }))
}

pub(in super::super) fn ok_swap(when: (u64, u64), from: Option<&str>, to: Option<&str>, revision: i64) -> Op {
    op(when, swap(from, to), Outcome::Ok(Answer { written: Some(revision), store: revision, seen: None }))
}

pub(in super::super) fn refused_swap(when: (u64, u64), from: Option<&str>, found: Option<&str>) -> Op {
    let answer = Answer { seen: found.map(seen), ..Answer::default() };
    op(when, swap(from, Some("never")), Outcome::Ok(answer))
}

/// A deletion of one value.
pub(in super::super) fn unknown_remove(when: (u64, u64), value: &str) -> Op {
    op(when, swap(Some(value), None), unknown())
}

pub(in super::super) fn unknown_delete(when: (u64, u64)) -> Op {
    op(when, Call::Delete, unknown())
}

pub(in super::super) fn ok_delete(when: (u64, u64), found: Option<&str>) -> Op {
    let written = found.map(|_| 1);
    op(when, Call::Delete, Outcome::Ok(Answer { seen: found.map(seen), written, store: 1 }))
}

pub(in super::super) fn last(op: Op) -> Op {
    Op { last: true, ..op }
}

pub(in super::super) fn history(ops: &[Op]) -> History {
    History { prefix: "p/".into(), ops: ops.to_vec(), end: End::Stopped, ..History::default() }
}
