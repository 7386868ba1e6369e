// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Made-up traffic on a store that is sound, with latencies as real ones have them.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;
use e2e::history::{Answer, Call, End, History, Op, Outcome, Seen, Sink, judge};
use e2e::load::{HISTORY, JUDGEMENT, Judged};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// As a load leaves them.
pub(crate) fn write(folder: &Path, history: &History) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut sink = Sink::create(&folder.join(HISTORY), &history.prefix, history.seed, history.began)?;
    history.ops.iter().try_for_each(|op| sink.add(op))?;
    sink.finish(history.end)?;
    let judged = Judged { began: history.began, judgement: judge(history) };
    fs::write(folder.join(JUDGEMENT), serde_json::to_vec(&judged)?)?;
    Ok(())
}

/// From second to second since `began`; nobody is answered within `outage`.
pub(crate) fn history(seed: u64, began: u64, (from, to): (u64, u64), outage: Option<(f64, f64)>) -> History {
    let mut random = StdRng::seed_from_u64(seed);
    let mut begins = Vec::new();
    for client in 0..3_u64 {
        let mut at = from as f64;
        while at < to as f64 {
            at += random.random_range(0.025..0.075);
            begins.push((at, client));
        }
    }
    begins.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut store: BTreeMap<u32, Seen> = BTreeMap::new();
    let mut ops = Vec::new();
    let mut busy = [0.0; 3];
    let mut revision = 10;
    for (number, (at, client)) in begins.into_iter().enumerate() {
        let slot = client as usize;
        if at < busy[slot] {
            continue;
        }
        let key = random.random_range(0..5);
        let slow = if random.random_ratio(1, 60) { 20.0 } else { 1.0 };
        let mut took = 0.002 * random.random_range(0.3_f64..1.9).exp() * slow;
        let is_out = outage.is_some_and(|(begin, end)| at > begin && at < end);
        let (outcome, call) = if is_out && client == 1 {
            (Outcome::Failed { why: "no connection: refused".into() }, Call::Read)
        } else if is_out {
            took = 2.0;
            (Outcome::Unknown { why: "no answer within 2s".into() }, Call::Read)
        } else if random.random_ratio(2, 3) {
            let answer = Answer { seen: store.get(&key).cloned(), written: None, store: revision };
            (Outcome::Ok(answer), Call::Read)
        } else {
            revision += 1;
            let value = format!("{client}.{number}");
            store.insert(key, Seen { value: value.clone(), revision });
            let answer = Answer { seen: None, written: Some(revision), store: revision };
            (Outcome::Ok(answer), Call::Put { value })
        };
        busy[slot] = at + took;
        ops.push(op(client, key, call, at, took, outcome));
    }
    for (key, seen) in &store {
        let answer = Answer { seen: Some(seen.clone()), written: None, store: revision };
        let read = op(0, *key, Call::Read, to as f64 + 3.0, 0.002, Outcome::Ok(answer));
        ops.push(Op { client: 9, last: true, ..read });
    }
    ops.sort_by_key(|op| op.ended);
    History { prefix: "example/".into(), seed, began, ops, end: End::Stopped }
}

fn op(client: u64, key: u32, call: Call, at: f64, took: f64, outcome: Outcome) -> Op {
    let begun = (at * 1e6) as u64;
    let (member, key, ended) = (format!("main-{client}"), format!("k{key}"), begun + (took * 1e6) as u64);
    Op { client, member, key, call, begun, ended, outcome, last: false }
}

/// One read in the middle sees what was there long before.
pub(crate) fn make_stale(history: &mut History) {
    let written = |op: &Op| match (op.answer()?.written, &op.call) {
        (Some(revision), Call::Put { value }) => Some(Seen { value: value.clone(), revision }),
        _ => None,
    };
    let Some((key, old)) = history.ops.iter().find_map(|op| Some((op.key.clone(), written(op)?))) else {
        return;
    };
    let middle = history.ops.len() / 2;
    let is_read = |op: &&mut Op| op.key == key && op.call == Call::Read && op.answer().is_some();
    if let Some(Outcome::Ok(answer)) =
        history.ops[middle..].iter_mut().find(is_read).map(|op| &mut op.outcome)
    {
        answer.seen = Some(old);
    }
}
