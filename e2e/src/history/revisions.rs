// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What revisions tell beyond values. etcd numbers all writes of the store in one row: no two have the same number, a
//! write gets a higher one than any that was known before it began, no answer comes from a store older than one that
//! was told of before the call began, and a value is read under the number of its write. This sees a member that
//! lags or starts over even where the values happen to fit.
use std::collections::HashMap;

use super::explain::table;
use super::{Answer, History, Op, Violation};

/// The first of each kind.
pub(super) fn check(history: &History) -> Vec<Violation> {
    [twice(history), backwards(history), misread(history)].into_iter().flatten().collect()
}

fn violation(what: &str, one: &Op, other: &Op) -> Violation {
    let key = other.key.clone();
    Violation { key, what: what.to_owned(), table: table(&[one, other], Some(other)) }
}

fn twice(history: &History) -> Option<Violation> {
    let mut writes: HashMap<i64, &Op> = HashMap::new();
    history.answered().find_map(|(op, answer)| {
        let other = writes.insert(answer.written?, op)?;
        Some(violation("two writes were given the same revision", other, op))
    })
}

fn backwards(history: &History) -> Option<Violation> {
    let mut by_begin: Vec<(&Op, &Answer)> = history.answered().collect();
    let mut by_end = by_begin.clone();
    by_begin.sort_by_key(|(op, _)| op.begun);
    by_end.sort_by_key(|(op, _)| op.ended);
    let mut ended = by_end.into_iter().peekable();
    let mut newest: Option<(&Op, i64)> = None;
    for (op, answer) in by_begin {
        while let Some((earlier, told)) = ended.next_if(|(earlier, _)| earlier.ended < op.begun) {
            if newest.is_none_or(|(_, store)| told.store > store) {
                newest = Some((earlier, told.store));
            }
        }
        let Some((earlier, store)) = newest else { continue };
        if answer.written.is_some_and(|written| written <= store) {
            let what =
                format!("a write got revision {}, though {store} was known before it began", answer.store);
            return Some(violation(&what, earlier, op));
        }
        if answer.store < store {
            let what = format!(
                "an answer came from a store at revision {}, though {store} was known before the call began",
                answer.store
            );
            return Some(violation(&what, earlier, op));
        }
    }
    None
}

fn misread(history: &History) -> Option<Violation> {
    // For each value of each key: who first told of its revision. Values that two calls write are left out.
    let mut told: HashMap<(&str, &str), (&Op, i64)> = HashMap::new();
    let mut writers: HashMap<(&str, &str), u32> = HashMap::new();
    for op in &history.ops {
        if let Some(value) = op.call.writes() {
            *writers.entry((&op.key, value)).or_default() += 1;
        }
    }
    let is_unique = |key: &str, value: &str| writers.get(&(key, value)).is_none_or(|count| *count <= 1);
    for (op, answer) in history.answered() {
        let written = answer.written.zip(op.call.writes());
        let seen = answer.seen.as_ref().map(|seen| (seen.revision, seen.value.as_str()));
        for (revision, value) in
            written.into_iter().chain(seen).filter(|(_, value)| is_unique(&op.key, value))
        {
            let (first, known) = *told.entry((&op.key, value)).or_insert((op, revision));
            if known != revision {
                let what = format!("{value} has revision {known} for one and {revision} for another");
                return Some(violation(&what, first, op));
            }
        }
        if let Some((revision, value)) = seen
            && revision > answer.store
        {
            let what = format!("{value} has revision {revision}, in a store at revision {}", answer.store);
            return Some(violation(&what, op, op));
        }
    }
    None
}
