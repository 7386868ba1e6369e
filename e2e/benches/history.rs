// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The checker of histories, by operation: one sound history of so many calls is judged. See the crate `micro`.
use std::process::ExitCode;

use e2e::history::{Answer, Call, End, History, Op, Outcome, Seen, Verdict, judge_within};
use micro::{Case, Work};

fn main() -> ExitCode {
    micro::main(&[Case { name: "history", set_up: || -> Work { Box::new(run) }, warm: 100 }])
}

fn run(count: u64) {
    let judgement = judge_within(&sound(count), u64::MAX);
    assert_eq!(judgement.verdict, Verdict::Linearizable, "the history is sound by construction");
}

const CLIENTS: u64 = 4;
const KEYS: u64 = 16;

/// Calls of four clients that overlap; each takes effect in the middle of its time, in the order of their numbers.
fn sound(count: u64) -> History {
    let mut store: Vec<Option<Seen>> = vec![None; KEYS as usize];
    let mut revision = 1;
    let mut op = |number: u64, call: u64, last: bool| {
        let place = (number / 3 % KEYS) as usize;
        let (call, answer) = if call == 0 {
            revision += 1;
            let value = format!("v{number}");
            store[place] = Some(Seen { value: value.clone(), revision });
            (Call::Put { value }, Answer { seen: None, written: Some(revision), store: revision })
        } else {
            (Call::Read, Answer { seen: store[place].clone(), written: None, store: revision })
        };
        Op {
            client: number % CLIENTS,
            member: "etcd-0".into(),
            key: format!("k{place}"),
            call,
            begun: number * 10,
            // The next call of the same client begins 40 later.
            ended: number * 10 + 35,
            outcome: Outcome::Ok(answer),
            last,
        }
    };
    let mut ops: Vec<Op> = (0..count).map(|number| op(number, number % 3, false)).collect();
    let after = count + CLIENTS;
    ops.extend((0..KEYS).map(|key| Op {
        client: key % CLIENTS,
        begun: (after + key) * 10,
        ended: (after + key) * 10 + 5,
        ..op(key * 3, 1, true)
    }));
    History { prefix: "bench/".into(), seed: 1, began: 0, ops, end: End::Stopped }
}
