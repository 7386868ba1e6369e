// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a client asks for next: drawn from its random numbers and from what was last seen of the key. No clock, no
//! calls.
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::history::{Answer, Call, Seen};

/// How often each kind of call is made, in proportion to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Weight of reads.
    pub read: u32,
    /// Weight of writes.
    pub put: u32,
    /// Writes a new value over the one last seen.
    pub swap: u32,
    /// Deletes the value last seen, as Kubernetes does it: only if it still is that one.
    pub remove: u32,
    /// Deletes whatever is there. None by default: one whose outcome is not known excuses for all time that a value is
    /// gone, while a `remove` can only ever take its own value.
    pub delete: u32,
}

impl Default for Mix {
    fn default() -> Self {
        Self { read: 45, put: 25, swap: 18, remove: 12, delete: 0 }
    }
}

impl Mix {
    pub(super) fn total(&self) -> u32 {
        [self.read, self.put, self.swap, self.remove, self.delete].iter().sum()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Put,
    Swap,
    Remove,
    Delete,
}

/// One client's choices.
#[derive(Debug)]
pub(super) struct Chooser {
    random: StdRng,
    slot: usize,
    keys: usize,
    mix: Mix,
    /// Values written so far.
    count: u64,
}

impl Chooser {
    pub(super) fn new(seed: u64, slot: usize, keys: usize, mix: Mix) -> Self {
        // Far apart, or neighbouring seeds would share clients.
        let own = seed.wrapping_add((slot as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self { random: StdRng::seed_from_u64(own), slot, keys, mix, count: 0 }
    }

    /// The number of a key, and what to ask of it. Draws the same numbers whatever was seen, so that answers change
    /// what is expected and nothing else.
    pub(super) fn next(&mut self, known: &Known) -> (usize, Call) {
        let key = self.random.random_range(0..self.keys);
        let kind = self.kind();
        self.count += 1;
        // Unique, since no two clients have the same slot: that is what makes a history quick to check and to read.
        let value = format!("{}.{}", self.slot, self.count);
        let call = match (kind, known.of(key)) {
            (Kind::Read, _) => Call::Read,
            (Kind::Put, _) => Call::Put { value },
            (Kind::Delete, _) => Call::Delete,
            (Kind::Remove, Some(seen)) => Call::Swap { expect: Some(seen), value: None },
            // There is nothing to remove, so it is made.
            (Kind::Remove, None) => Call::Swap { expect: None, value: Some(value) },
            (Kind::Swap, expect) => Call::Swap { expect, value: Some(value) },
        };
        (key, call)
    }

    fn kind(&mut self) -> Kind {
        let Mix { read, put, swap, remove, delete } = self.mix;
        let mut drawn = self.random.random_range(0..self.mix.total());
        for (kind, weight) in
            [(Kind::Read, read), (Kind::Put, put), (Kind::Swap, swap), (Kind::Remove, remove)]
        {
            if drawn < weight {
                return kind;
            }
            drawn -= weight;
        }
        debug_assert!(drawn < delete, "what is left of the total is the last weight");
        Kind::Delete
    }

    /// From one call to the next: between half and one and a half of `pace`, so that clients do not march in step.
    pub(super) fn pause(&mut self, pace: Duration) -> Duration {
        pace.mul_f64(self.random.random_range(0.5..1.5))
    }
}

/// What was last seen of each key by any client: a guess, good enough for swaps that often succeed.
#[derive(Debug)]
pub(super) struct Known {
    keys: Vec<Mutex<(i64, Option<Seen>)>>,
}

impl Known {
    pub(super) fn new(keys: usize) -> Self {
        Self { keys: (0..keys).map(|_| Mutex::new((0, None))).collect() }
    }

    fn of(&self, key: usize) -> Option<Seen> {
        self.keys[key].lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Takes an answer in, unless a newer one was taken in before.
    pub(super) fn learn(&self, key: usize, call: &Call, answer: &Answer) {
        let now = match (answer.written, call) {
            (None, _) => answer.seen.clone(),
            (Some(revision), Call::Put { value } | Call::Swap { value: Some(value), .. }) => {
                Some(Seen { value: value.clone(), revision })
            }
            (Some(_), Call::Read | Call::Delete | Call::Swap { value: None, .. }) => None,
        };
        let mut known = self.keys[key].lock().unwrap_or_else(PoisonError::into_inner);
        if answer.store >= known.0 {
            *known = (answer.store, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Mix = Mix { read: 1, put: 1, swap: 1, remove: 1, delete: 1 };

    fn calls(seed: u64, slot: usize) -> Vec<(usize, Call)> {
        let known = Known::new(3);
        let mut chooser = Chooser::new(seed, slot, 3, ALL);
        (0..100).map(|_| chooser.next(&known)).collect()
    }

    #[test]
    fn a_seed_asks_for_the_same_again_and_slots_differ() {
        assert_eq!(calls(7, 0), calls(7, 0));
        assert_ne!(calls(7, 0), calls(7, 1));
        assert_ne!(calls(7, 0), calls(8, 0));
    }

    #[test]
    fn answers_change_what_is_expected_and_nothing_else() {
        let (blank, known) = (Known::new(3), Known::new(3));
        let seen = Seen { value: "x".into(), revision: 5 };
        for key in 0..3 {
            known.learn(key, &Call::Read, &Answer { seen: Some(seen.clone()), store: 5, written: None });
        }
        let (mut one, mut two) = (Chooser::new(1, 0, 3, ALL), Chooser::new(1, 0, 3, ALL));
        let mut kinds = [0; 5];
        for _ in 0..200 {
            let ((key, plain), (same_key, informed)) = (one.next(&blank), two.next(&known));
            assert_eq!(key, same_key);
            match (plain, informed) {
                (Call::Swap { expect: None, value: Some(_) }, Call::Swap { expect, value }) => {
                    assert_eq!(expect.as_ref(), Some(&seen));
                    kinds[if value.is_some() { 0 } else { 1 }] += 1;
                }
                (plain, informed) => {
                    assert_eq!(plain, informed);
                    kinds[match plain {
                        Call::Read => 2,
                        Call::Put { .. } => 3,
                        _ => 4,
                    }] += 1;
                }
            }
        }
        assert!(kinds.iter().all(|count| *count > 15), "{kinds:?}");
    }

    #[test]
    fn an_older_answer_does_not_take_the_place_of_a_newer_one() {
        let known = Known::new(1);
        let write = |value: &str| Call::Put { value: value.into() };
        let answer = |revision| Answer { written: Some(revision), store: revision, seen: None };
        known.learn(0, &write("new"), &answer(9));
        known.learn(0, &write("old"), &answer(8));
        assert_eq!(known.of(0), Some(Seen { value: "new".into(), revision: 9 }));
        known.learn(0, &Call::Delete, &answer(10));
        assert_eq!(known.of(0), None);
    }
}
