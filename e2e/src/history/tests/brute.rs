// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A checker that tries every order of the calls on one key, straight from what the calls mean. It shares nothing with
//! the search but the histories, and can judge small ones only.
use super::super::{Call, Op, Outcome};

pub(super) fn is_orderable(ops: &[Op]) -> bool {
    go(ops, &mut vec![false; ops.len()], None)
}

fn go(ops: &[Op], done: &mut Vec<bool>, state: Option<&str>) -> bool {
    let must = |op: &Op| matches!(op.outcome, Outcome::Ok(_));
    if ops.iter().zip(done.iter()).all(|(op, done)| *done || !must(op)) {
        return true;
    }
    for index in 0..ops.len() {
        let op = &ops[index];
        let waits = |other: usize| must(&ops[other]) && !done[other] && ops[other].ended < op.begun;
        if done[index] || (0..ops.len()).any(waits) {
            continue;
        }
        for after in outcomes(op, state) {
            done[index] = true;
            if go(ops, done, after) {
                return true;
            }
            done[index] = false;
        }
    }
    false
}

/// What the key may be after the call, if the call may happen now at all and was told what it was told.
fn outcomes<'a>(op: &'a Op, state: Option<&'a str>) -> Vec<Option<&'a str>> {
    let expected = |expect: &'a Option<super::super::Seen>| expect.as_ref().map(|seen| seen.value.as_str());
    match (&op.call, &op.outcome) {
        (_, Outcome::Failed { .. }) => vec![],
        (Call::Read, Outcome::Unknown { .. }) => vec![state],
        (Call::Put { value }, _) => vec![Some(value)],
        (Call::Delete, Outcome::Unknown { .. }) => vec![None],
        (Call::Swap { expect, value }, Outcome::Unknown { .. }) => {
            if expected(expect) == state {
                vec![value.as_deref()]
            } else {
                vec![state]
            }
        }
        (Call::Read, Outcome::Ok(answer)) => {
            if expected(&answer.seen) == state {
                vec![state]
            } else {
                vec![]
            }
        }
        (Call::Delete, Outcome::Ok(answer)) => {
            if expected(&answer.seen) == state {
                vec![None]
            } else {
                vec![]
            }
        }
        (Call::Swap { expect, value }, Outcome::Ok(answer)) if answer.written.is_some() => {
            if expected(expect) == state { vec![value.as_deref()] } else { vec![] }
        }
        (Call::Swap { expect, .. }, Outcome::Ok(answer)) => {
            let refused = expected(expect) != state && expected(&answer.seen) == state;
            if refused { vec![state] } else { vec![] }
        }
    }
}
