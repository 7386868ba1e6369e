// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Histories of a store that is sound by construction: every call takes effect at one moment, between its beginning and
//! its end if it has an answer. Replies are lost, and calls without one take effect late or never.
use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::{Answer, Call, End, History, Op, Outcome, Seen};

#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) clients: u64,
    pub(super) keys: usize,
    pub(super) calls: usize,
    /// Out of a hundred calls.
    pub(super) lost: u32,
    pub(super) refused: u32,
    /// Values are drawn from a few letters and written again and again.
    pub(super) repeats_values: bool,
    pub(super) deletes_blindly: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            clients: 4,
            keys: 3,
            calls: 200,
            lost: 5,
            refused: 3,
            repeats_values: false,
            deletes_blindly: true,
        }
    }
}

/// What is still to come, by its time.
enum Step {
    Begin(u64),
    Apply(usize),
    End(usize),
}

struct Simulation {
    random: StdRng,
    shape: Shape,
    now: u64,
    steps: BTreeMap<(u64, u64), Step>,
    count: u64,
    revision: i64,
    store: BTreeMap<String, Seen>,
    ops: Vec<Op>,
}

pub(super) fn simulate(seed: u64, shape: Shape) -> History {
    let mut simulation = Simulation {
        random: StdRng::seed_from_u64(seed),
        shape,
        now: 0,
        steps: BTreeMap::new(),
        count: 0,
        revision: 1,
        store: BTreeMap::new(),
        ops: Vec::new(),
    };
    for client in 0..shape.clients {
        simulation.after(50, Step::Begin(client));
    }
    while let Some(((now, _), step)) = simulation.steps.pop_first() {
        simulation.now = now;
        match step {
            Step::Begin(client) => simulation.begin(client),
            Step::Apply(op) => simulation.apply(op),
            Step::End(op) => simulation.end(op),
        }
    }
    simulation.last_reads();
    simulation.ops.sort_by_key(|op| op.ended);
    History { prefix: "p/".into(), seed, began: 0, ops: simulation.ops, end: End::Stopped }
}

impl Simulation {
    fn after(&mut self, most: u64, step: Step) {
        let time = self.now + self.random.random_range(1..=most);
        self.count += 1;
        self.steps.insert((time, self.count), step);
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_ratio(percent, 100)
    }

    fn begin(&mut self, client: u64) {
        let index = self.ops.len();
        if index >= self.shape.calls {
            return;
        }
        let key = format!("k{}", self.random.random_range(0..self.shape.keys));
        let call = self.call(&key, index);
        let (lost, refused) = (self.chance(self.shape.lost), self.chance(self.shape.refused));
        let outcome = match (lost, refused) {
            (true, _) => Outcome::Unknown { why: "lost".into() },
            (false, true) => Outcome::Failed { why: "refused".into() },
            (false, false) => Outcome::Ok(Answer::default()),
        };
        let (begun, member) = (self.now, format!("m-{}", client % 3));
        self.ops.push(Op { client, member, key, call, begun, ended: begun, outcome, last: false });
        let next = if lost {
            if self.chance(70) {
                self.after(400, Step::Apply(index));
            }
            self.after(60, Step::End(index));
            // Somebody else goes on.
            client + self.shape.clients
        } else if refused {
            self.after(20, Step::End(index));
            client
        } else {
            return self.after(40, Step::Apply(index));
        };
        self.after(100, Step::Begin(next));
    }

    fn call(&mut self, key: &str, index: usize) -> Call {
        let value = if self.shape.repeats_values {
            ["a", "b", "c"][self.random.random_range(0..3)].to_owned()
        } else {
            format!("v{index}")
        };
        // Mostly right, now and then out of date.
        let expect = if self.chance(80) { self.store.get(key).cloned() } else { None };
        match self.random.random_range(0..10) {
            0..=3 => Call::Read,
            4..=6 => Call::Put { value },
            7 if self.shape.deletes_blindly => Call::Delete,
            7 | 8 => Call::Swap { expect, value: Some(value) },
            _ => Call::Swap { expect, value: None },
        }
    }

    fn apply(&mut self, index: usize) {
        let (key, call) = (self.ops[index].key.clone(), self.ops[index].call.clone());
        let found = self.store.get(&key).cloned();
        let value = |seen: &Option<Seen>| seen.as_ref().map(|seen| seen.value.clone());
        let (seen, after) = match call {
            Call::Read => (found, None),
            Call::Put { value } => (None, Some(Some(value))),
            Call::Delete => (found.clone(), found.map(|_| None)),
            Call::Swap { expect, value: new } if value(&expect) == value(&found) => (None, Some(new)),
            Call::Swap { .. } => (found, None),
        };
        let written = after.map(|value| {
            self.revision += 1;
            match value {
                Some(value) => self.store.insert(key.clone(), Seen { value, revision: self.revision }),
                None => self.store.remove(&key),
            };
            self.revision
        });
        if let Outcome::Ok(answer) = &mut self.ops[index].outcome {
            *answer = Answer { seen, written, store: self.revision };
            let client = self.ops[index].client;
            self.after(40, Step::End(index));
            self.now += 40;
            self.after(60, Step::Begin(client));
            self.now -= 40;
        }
    }

    fn end(&mut self, index: usize) {
        self.ops[index].ended = self.now;
    }

    fn last_reads(&mut self) {
        for key in 0..self.shape.keys {
            let key = format!("k{key}");
            let seen = self.store.get(&key).cloned();
            self.now += 10;
            let outcome = Outcome::Ok(Answer { seen, written: None, store: self.revision });
            let (client, begun, ended) = (u64::MAX, self.now, self.now + 5);
            let member = "m-0".into();
            self.ops.push(Op { client, member, key, call: Call::Read, begun, ended, outcome, last: true });
        }
    }
}
