// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The calls on one key, as events of one register. What cannot matter is left out here, and what must have happened is
//! told from what may have: a call without an answer whose value somebody saw has happened, before the first who saw it
//! was told so; one whose value nobody saw, or would see, may as well not have.
//!
//! Times are those of the calls: one event comes before another exactly when it had ended when the other began.
use std::collections::HashMap;

use super::{Call, Op, Outcome, Seen};

/// A value of the key, numbered within this register.
pub(super) type Value = usize;

/// The key is not there.
pub(super) const ABSENT: Value = 0;

/// What an event does, and what must be so for it to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Effect {
    /// The value is this one.
    Read(Value),
    /// The value becomes this one, whatever it was.
    Write(Value),
    /// The value is the first, and becomes the second.
    Swap(Value, Value),
    /// No register can do this.
    Never,
}

/// Something that happened at one moment from `begun` to `ended`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Which call, as an index into what the register was made of.
    pub(super) op: usize,
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) effect: Effect,
}

/// Something that happened at one moment after `begun`, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Maybe {
    pub(super) op: usize,
    pub(super) begun: u64,
    pub(super) effect: Effect,
}

#[derive(Clone, Debug)]
pub(super) struct Register {
    /// In the order of their beginnings.
    pub(super) events: Vec<Event>,
    pub(super) maybes: Vec<Maybe>,
    /// The texts of the values; `ABSENT` has none.
    values: Vec<Option<String>>,
    /// For each value, the calls that write it and were not refused.
    writers: Vec<Vec<usize>>,
}

impl Effect {
    /// What must have been there.
    pub(super) fn sees(self) -> Option<Value> {
        match self {
            Self::Read(value) | Self::Swap(value, _) => Some(value),
            Self::Write(_) | Self::Never => None,
        }
    }

    /// What is there afterwards, if it is made by this.
    pub(super) fn makes(self) -> Option<Value> {
        match self {
            Self::Write(value) | Self::Swap(_, value) => Some(value),
            Self::Read(_) | Self::Never => None,
        }
    }

    /// What a register with `state` holds afterwards; None: it cannot happen to that one.
    pub(super) fn on(self, state: Value) -> Option<Value> {
        match self {
            Self::Read(value) => (state == value).then_some(state),
            Self::Write(value) => Some(value),
            Self::Swap(from, to) => (state == from).then_some(to),
            Self::Never => None,
        }
    }
}

impl Register {
    /// Of all calls on one key.
    pub(super) fn new(ops: &[&Op]) -> Self {
        let mut register =
            Self { events: Vec::new(), maybes: Vec::new(), values: vec![None], writers: vec![Vec::new()] };
        let mut numbers = HashMap::new();
        for (index, op) in ops.iter().enumerate() {
            register.take_in(index, op, &mut numbers);
        }
        register.settle();
        register.events.sort_by_key(|event| (event.begun, event.ended));
        register.maybes.sort_by_key(|maybe| maybe.begun);
        register
    }

    /// What the value is called; None: absent.
    pub(super) fn text(&self, value: Value) -> Option<&str> {
        self.values[value].as_deref()
    }

    /// The calls that write the value and were not refused.
    pub(super) fn writers(&self, value: Value) -> &[usize] {
        &self.writers[value]
    }

    /// One call writes it, and no other: only then does a value tell which write it is of.
    pub(super) fn is_unique(&self, value: Value) -> bool {
        value != ABSENT && self.writers[value].len() <= 1
    }

    fn take_in(&mut self, index: usize, op: &Op, numbers: &mut HashMap<String, Value>) {
        let mut number = |text: Option<&str>| {
            let Some(text) = text else { return ABSENT };
            *numbers.entry(text.to_owned()).or_insert_with(|| {
                self.values.push(Some(text.to_owned()));
                self.writers.push(Vec::new());
                self.values.len() - 1
            })
        };
        let mut seen = |seen: &Option<Seen>| number(seen.as_ref().map(|seen| seen.value.as_str()));
        let (begun, ended) = (op.begun, op.ended);
        let effect = match (&op.outcome, &op.call) {
            (Outcome::Failed { .. }, _) | (Outcome::Unknown { .. }, Call::Read) => return,
            (Outcome::Unknown { .. }, Call::Delete) => Effect::Write(ABSENT),
            (_, Call::Put { value }) => Effect::Write(number(Some(value))),
            (Outcome::Unknown { .. }, Call::Swap { expect, value }) => {
                Effect::Swap(seen(expect), number(value.as_deref()))
            }
            (Outcome::Ok(answer), Call::Read) => Effect::Read(seen(&answer.seen)),
            (Outcome::Ok(answer), Call::Delete) => match seen(&answer.seen) {
                ABSENT => Effect::Read(ABSENT),
                there => Effect::Swap(there, ABSENT),
            },
            (Outcome::Ok(answer), Call::Swap { expect, value }) => {
                let (expect, found) = (seen(expect), seen(&answer.seen));
                match answer.written {
                    Some(_) => Effect::Swap(expect, number(value.as_deref())),
                    // Refused although it was as expected.
                    None if expect == found => Effect::Never,
                    None => Effect::Read(found),
                }
            }
        };
        if let Some(made) = effect.makes() {
            self.writers[made].push(index);
        }
        if matches!(op.outcome, Outcome::Unknown { .. }) {
            self.maybes.push(Maybe { op: index, begun, effect });
        } else {
            self.events.push(Event { op: index, begun, ended, effect });
        }
    }

    /// Turns calls without an answer into events, or leaves them out, as long as anything more follows from it.
    fn settle(&mut self) {
        loop {
            // When each value was first known to be there, and whether anything could still see it.
            let mut known = vec![u64::MAX; self.values.len()];
            let mut wanted = vec![false; self.values.len()];
            for event in &self.events {
                if let Some(value) = event.effect.sees() {
                    known[value] = known[value].min(event.ended);
                    wanted[value] = true;
                }
            }
            for value in self.maybes.iter().filter_map(|maybe| maybe.effect.sees()) {
                wanted[value] = true;
            }
            let mut moved = self.hasten(&known);
            for maybe in std::mem::take(&mut self.maybes) {
                let made = maybe.effect.makes().filter(|value| self.is_unique(*value));
                match made {
                    Some(value) if known[value] < u64::MAX => {
                        let Maybe { op, begun, effect } = maybe;
                        // Seen before it began: an event that no order has a place for.
                        let ended = known[value].max(begun);
                        let effect = if known[value] < begun { Effect::Never } else { effect };
                        self.events.push(Event { op, begun, ended, effect });
                        moved = true;
                    }
                    Some(value) if !wanted[value] => moved = true,
                    _ => self.maybes.push(maybe),
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// A write whose value was seen had happened by then, however late its answer came: this narrows what the search
    /// has to try, for answered calls as for others. True if anything moved.
    fn hasten(&mut self, known: &[u64]) -> bool {
        let mut moved = false;
        for index in 0..self.events.len() {
            let event = self.events[index];
            let unique = event.effect.makes().filter(|value| self.is_unique(*value));
            let Some(first) = unique.map(|value| known[value]) else { continue };
            if first < event.ended && first >= event.begun {
                self.events[index].ended = first;
                moved = true;
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::ops::{at, ok_put, ok_read, unknown_put, unknown_remove};
    use super::*;

    fn register(ops: &[Op]) -> Register {
        Register::new(&ops.iter().collect::<Vec<_>>())
    }

    #[test]
    fn an_unanswered_write_that_was_seen_has_happened_by_then() {
        let register = register(&[unknown_put(at(0, 5), "a"), ok_read(at(10, 20), Some("a"))]);
        assert!(register.maybes.is_empty());
        let event = register.events.iter().find(|event| event.op == 0).unwrap();
        assert_eq!((event.begun, event.ended, event.effect), (0, 20, Effect::Write(1)));
    }

    #[test]
    fn an_unanswered_write_that_nobody_saw_is_left_out_unless_somebody_may_undo_it() {
        assert!(register(&[unknown_put(at(0, 5), "a")]).maybes.is_empty());
        // Both may have happened, and what is seen then is nothing.
        let both = [unknown_put(at(0, 5), "a"), unknown_remove(at(6, 9), "a"), ok_read(at(10, 20), None)];
        assert_eq!(register(&both).maybes.len(), 2);
    }

    #[test]
    fn a_write_that_was_seen_before_its_answer_had_happened_by_then() {
        let register = register(&[ok_put(at(0, 90), "a", 2), ok_read(at(10, 20), Some("a"))]);
        assert_eq!(register.events[0].ended, 20);
    }

    #[test]
    fn a_value_seen_before_its_write_began_is_impossible() {
        let register = register(&[ok_read(at(0, 5), Some("a")), unknown_put(at(10, 20), "a")]);
        assert!(register.events.iter().any(|event| event.effect == Effect::Never));
    }

    #[test]
    fn values_that_two_calls_write_tell_nothing_about_either() {
        let ops = [unknown_put(at(0, 5), "a"), ok_put(at(6, 7), "a", 2), ok_read(at(10, 20), Some("a"))];
        assert_eq!(register(&ops).maybes.len(), 1);
    }
}
