// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Is there an order of a register's events that keeps to their times and that one register could have gone through?
//! The search of Wing and Gong with Lowe's memory: whatever set of events is done in whatever order, only the value
//! that is left counts. Events between two moments at which no call was under way are searched by themselves, and hand
//! on not one value but all that could be left.
use std::collections::HashSet;

use super::register::{ABSENT, Effect, Event, Maybe, Register, Value};

/// What a register may be between two events: its value, and which of the calls without an answer have happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Config {
    pub(super) state: Value,
    /// For each class, how many of it.
    used: Vec<usize>,
}

/// Calls without an answer that would do the same. They differ in when they began, so the earliest is always used first:
/// whatever a later one could do, it could do too.
#[derive(Clone, Debug)]
pub(super) struct Class {
    effect: Effect,
    /// When each began, in order.
    begun: Vec<u64>,
}

impl Config {
    /// The same beside `more` further classes, none of them used.
    pub(super) fn widened(&self, more: usize) -> Self {
        let used = self.used.iter().copied().chain(std::iter::repeat_n(0, more)).collect();
        Self { state: self.state, used }
    }

    /// A call with this effect is left that has not happened, and may.
    pub(super) fn may_use(&self, classes: &[Class], effect: Effect) -> bool {
        let mut pairs = classes.iter().zip(&self.used);
        pairs.any(|(class, used)| class.effect == effect && *used < class.begun.len())
    }
}

/// How many more steps may be taken. Not a time: the same history must have the same verdict on every machine.
#[derive(Debug)]
pub(super) struct Budget(pub(super) u64);

/// The budget is used up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

/// Where a register cannot go on.
#[derive(Debug)]
pub(super) struct Stuck {
    /// Which events, by index.
    pub(super) window: std::ops::Range<usize>,
    /// What it may have been before them.
    pub(super) before: Vec<Config>,
}

/// Looks for an order; Some: there is none.
pub(super) fn search(register: &Register, budget: &mut Budget) -> Result<Option<Stuck>, Exhausted> {
    let classes = classes(&register.maybes);
    let last_window = last_windows(register);
    let mut configs = vec![Config { state: ABSENT, used: vec![0; classes.len()] }];
    for (number, window) in windows(&register.events).enumerate() {
        let after = pass(&register.events[window.clone()], &classes, &configs, budget)?;
        if after.is_empty() {
            return Ok(Some(Stuck { window, before: configs }));
        }
        configs = Vec::new();
        for mut config in after {
            bury(&mut config, &classes, |value| last_window[value].is_none_or(|last| last <= number));
            keep_best(&mut configs, config);
        }
    }
    Ok(None)
}

/// The events between two moments at which none was under way.
fn windows(events: &[Event]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let begin = next;
        let mut busy_until = events.get(begin)?.ended;
        next = begin + 1;
        while let Some(event) = events.get(next).filter(|event| event.begun <= busy_until) {
            busy_until = busy_until.max(event.ended);
            next += 1;
        }
        Some(begin..next)
    })
}

pub(super) fn classes(maybes: &[Maybe]) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for maybe in maybes {
        match classes.iter_mut().find(|class| class.effect == maybe.effect) {
            Some(class) => class.begun.push(maybe.begun),
            None => classes.push(Class { effect: maybe.effect, begun: vec![maybe.begun] }),
        }
    }
    classes
}

/// For each value, the number of the last window in which it may be made; a call without an answer makes it at any time.
fn last_windows(register: &Register) -> Vec<Option<usize>> {
    let values =
        register.events.iter().map(|event| event.effect).chain(register.maybes.iter().map(|m| m.effect));
    let most = values.flat_map(|effect| [effect.sees(), effect.makes()]).flatten().max().unwrap_or(ABSENT);
    let mut last = vec![None; most + 1];
    for (number, window) in windows(&register.events).enumerate() {
        for value in register.events[window].iter().filter_map(|event| event.effect.makes()) {
            last[value] = Some(number);
        }
    }
    for value in register.maybes.iter().filter_map(|maybe| maybe.effect.makes()) {
        last[value] = Some(usize::MAX);
    }
    last[ABSENT] = Some(usize::MAX);
    last
}

/// Swaps of a value that will never be there again count as used: configurations that differ in nothing else are one.
fn bury(config: &mut Config, classes: &[Class], is_past: impl Fn(Value) -> bool) {
    for (class, used) in classes.iter().zip(&mut config.used) {
        if let Effect::Swap(from, _) = class.effect
            && from != config.state
            && is_past(from)
        {
            *used = class.begun.len();
        }
    }
}

/// Of two with the same value, the one that has used fewer calls up can do whatever the other can.
fn keep_best(configs: &mut Vec<Config>, new: Config) {
    let covers = |one: &Config, other: &Config| {
        one.state == other.state && one.used.iter().zip(&other.used).all(|(a, b)| a <= b)
    };
    if !configs.iter().any(|old| covers(old, &new)) {
        configs.retain(|old| !covers(&new, old));
        configs.push(new);
    }
}

/// All a register may be after these events, begun in one of `starts`.
pub(super) fn pass(
    events: &[Event],
    classes: &[Class],
    starts: &[Config],
    budget: &mut Budget,
) -> Result<Vec<Config>, Exhausted> {
    let mut seen = HashSet::new();
    let mut ends = Vec::new();
    let start = |config: &Config| Node { done: Done::default(), config: config.clone() };
    let mut open: Vec<Node> = starts.iter().map(start).collect();
    while let Some(mut node) = open.pop() {
        budget.0 = budget.0.checked_sub(1).ok_or(Exhausted)?;
        let frontier = node.read_all(events);
        if node.done.all_before == events.len() {
            keep_best(&mut ends, node.config);
            continue;
        }
        if !seen.insert(node.clone()) {
            continue;
        }
        for &index in &frontier.may_be_next {
            if let Some(state) = events[index].effect.on(node.config.state) {
                let mut next = node.clone();
                next.done.add(index);
                next.config.state = state;
                open.push(next);
            }
        }
        for (class, of) in classes.iter().enumerate() {
            let earliest = of.begun.get(node.config.used[class]);
            let changed = of.effect.on(node.config.state).filter(|state| *state != node.config.state);
            if let (Some(&begun), Some(state)) = (earliest, changed)
                && begun <= frontier.first_end
            {
                let mut next = node.clone();
                next.config.used[class] += 1;
                next.config.state = state;
                open.push(next);
            }
        }
    }
    Ok(ends)
}

/// Where the search stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    done: Done,
    config: Config,
}

/// Which events are done: nearly always all up to some point, and a few more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Done {
    all_before: usize,
    /// In order, none of them `all_before` itself.
    beyond: Vec<usize>,
}

/// What may come next: events that began before the first of those not done had ended.
struct Frontier {
    may_be_next: Vec<usize>,
    first_end: u64,
}

impl Node {
    /// Does all reads that fit right away. A read changes nothing, so whatever can follow without it can follow with it.
    fn read_all(&mut self, events: &[Event]) -> Frontier {
        loop {
            let frontier = self.done.frontier(events);
            let fits = |index: &&usize| events[**index].effect == Effect::Read(self.config.state);
            let reads: Vec<usize> = frontier.may_be_next.iter().filter(fits).copied().collect();
            if reads.is_empty() {
                return frontier;
            }
            for index in reads {
                self.done.add(index);
            }
        }
    }
}

impl Done {
    fn add(&mut self, index: usize) {
        if let Err(place) = self.beyond.binary_search(&index) {
            self.beyond.insert(place, index);
        }
        let run = self.beyond.iter().zip(self.all_before..).take_while(|(have, want)| *have == want).count();
        self.beyond.drain(..run);
        self.all_before += run;
    }

    fn frontier(&self, events: &[Event]) -> Frontier {
        let mut beyond = self.beyond.iter().copied().peekable();
        let mut may_be_next = Vec::new();
        let mut first_end = u64::MAX;
        for (index, event) in events.iter().enumerate().skip(self.all_before) {
            if event.begun > first_end {
                break;
            }
            if beyond.next_if_eq(&index).is_none() {
                may_be_next.push(index);
                first_end = first_end.min(event.ended);
            }
        }
        Frontier { may_be_next, first_end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(begun: u64, ended: u64, effect: Effect) -> Event {
        Event { op: 0, begun, ended, effect }
    }

    #[test]
    fn windows_are_cut_where_nothing_is_under_way() {
        let read = Effect::Read(ABSENT);
        let events = [
            event(0, 10, read),
            event(5, 6, read),
            event(10, 12, read),
            event(13, 14, read),
            event(15, 15, read),
        ];
        // One that begins in the very moment in which another ends may have come before it.
        assert_eq!(windows(&events).collect::<Vec<_>>(), [0..3, 3..4, 4..5]);
        assert_eq!(windows(&[]).count(), 0);
    }

    #[test]
    fn all_values_that_may_be_left_are_handed_on() {
        let events = [event(0, 10, Effect::Write(1)), event(5, 15, Effect::Write(2))];
        let start = [Config { state: ABSENT, used: vec![] }];
        let mut states: Vec<Value> =
            pass(&events, &[], &start, &mut Budget(100)).unwrap().iter().map(|config| config.state).collect();
        states.sort_unstable();
        assert_eq!(states, [1, 2]);
    }

    #[test]
    fn a_search_that_takes_too_long_has_no_answer() {
        let events: Vec<Event> = (0..12).map(|value| event(0, 10, Effect::Write(value))).collect();
        let start = [Config { state: ABSENT, used: vec![] }];
        assert_eq!(pass(&events, &[], &start, &mut Budget(1000)), Err(Exhausted));
    }

    #[test]
    fn the_better_of_two_configurations_is_kept() {
        let config = |state, used: &[usize]| Config { state, used: used.to_vec() };
        let mut configs = Vec::new();
        for new in [
            config(1, &[1, 1]),
            config(1, &[0, 1]),
            config(1, &[1, 0]),
            config(1, &[1, 1]),
            config(2, &[1, 1]),
        ] {
            keep_best(&mut configs, new);
        }
        assert_eq!(configs, [config(1, &[0, 1]), config(1, &[1, 0]), config(2, &[1, 1])]);
    }
}
