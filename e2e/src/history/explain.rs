// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Why there is no order: the fewest calls that cannot all have been told the truth, as a table, with the one at which it
//! shows and a sentence about it. Leaves a call out only where a sound history stays sound without it, so what is left
//! is as broken as the whole.
mod reason;
mod table;

use super::register::{Effect, Event, Maybe, Register};
use super::search::{Budget, Class, Config, Stuck, classes, pass};
use super::{Op, Violation};

use self::reason::Scene;
pub(super) use self::table::table;

/// Steps for one explanation. Each trial is a search within one window, short as a rule.
const STEPS: u64 = 1_000_000;

/// The calls of a window that a trial keeps.
#[derive(Clone, Debug)]
struct Kept {
    events: Vec<Event>,
    /// Of those that had not ended at the moment to which the trial looks.
    maybes: Vec<Maybe>,
}

/// `ops` are all calls on the key, of which the register was made.
pub(super) fn explain(key: &str, ops: &[&Op], register: &Register, stuck: &Stuck) -> Violation {
    let base = classes(&register.maybes);
    let mut budget = Budget(STEPS);
    let events = &register.events[stuck.window.clone()];
    // A search that runs out of steps counts as "could be sound": then less is left out.
    let mut is_broken = |kept: &Kept| {
        let (classes, starts) = widened(&base, &stuck.before, &kept.maybes);
        pass(&kept.events, &classes, &starts, &mut budget).is_ok_and(|after| after.is_empty())
    };
    let mut ends: Vec<u64> = events.iter().map(|event| event.ended).collect();
    ends.sort_unstable();
    ends.dedup();
    // Whatever is broken at one moment is broken at each later one.
    let first = ends.partition_point(|end| !is_broken(&until(events, *end)));
    let moment = ends.get(first).or(ends.last()).copied().unwrap_or_default();
    let mut kept = until(events, moment);
    shrink(&mut kept, register, &stuck.before, &mut is_broken);

    let culprit = kept.events.iter().rfind(|event| event.ended == moment).map(|event| event.op);
    let scene = Scene { ops, register, kept: &kept.events };
    let (what, named) = culprit.map(|op| scene.reason(op)).unwrap_or_default();
    let mut rows: Vec<usize> = kept.events.iter().map(|event| event.op).chain(named).collect();
    rows.extend(kept.maybes.iter().map(|maybe| maybe.op));
    rows.extend(origins(register, &stuck.before, moment));
    rows.sort_by_key(|op| (ops[*op].begun, *op));
    rows.dedup();
    let chosen: Vec<&Op> = rows.iter().map(|op| ops[*op]).collect();
    let before = before(register, &stuck.before);
    let table = format!("{before}{}", table(&chosen, culprit.map(|op| ops[op])));
    Violation { key: key.to_owned(), what, table }
}

/// What is known of the window at one moment: calls that end later may have happened, and those that begin later have
/// not.
fn until(events: &[Event], moment: u64) -> Kept {
    let (ended, open): (Vec<Event>, Vec<Event>) = events.iter().partition(|event| event.ended <= moment);
    let may_matter = |event: &&Event| event.begun <= moment && event.effect.makes().is_some();
    let maybe = |event: &Event| Maybe { op: event.op, begun: event.begun, effect: event.effect };
    Kept { events: ended, maybes: open.iter().filter(may_matter).map(maybe).collect() }
}

/// The classes of the whole register, and those of a trial behind them.
fn widened(base: &[Class], before: &[Config], maybes: &[Maybe]) -> (Vec<Class>, Vec<Config>) {
    let more = classes(maybes);
    let starts = before.iter().map(|config| config.widened(more.len())).collect();
    (base.iter().cloned().chain(more).collect(), starts)
}

/// Leaves calls out, one after the other from the last, as long as the rest is broken.
fn shrink(
    kept: &mut Kept,
    register: &Register,
    before: &[Config],
    is_broken: &mut impl FnMut(&Kept) -> bool,
) {
    loop {
        let size = kept.events.len() + kept.maybes.len();
        for index in (0..kept.maybes.len()).rev() {
            let mut less = kept.clone();
            let out = less.maybes.remove(index);
            if is_spare(out.effect, &less, register, before) && is_broken(&less) {
                *kept = less;
            }
        }
        for index in (0..kept.events.len()).rev() {
            let mut less = kept.clone();
            let out = less.events.remove(index);
            if is_spare(out.effect, &less, register, before) && is_broken(&less) {
                *kept = less;
            }
        }
        // A write may be spare once its readers are gone.
        if kept.events.len() + kept.maybes.len() == size {
            return;
        }
    }
}

/// A history without this call is sound if the one with it is: nobody left sees what it makes, or it could never be.
fn is_spare(effect: Effect, rest: &Kept, register: &Register, before: &[Config]) -> bool {
    let effects = || {
        let events = rest.events.iter().map(|event| event.effect);
        let maybes = rest.maybes.iter().chain(&register.maybes).map(|maybe| maybe.effect);
        events.chain(maybes)
    };
    let Some(made) = effect.makes() else { return true };
    let is_unseen = register.is_unique(made) && !effects().any(|other| other.sees() == Some(made));
    let is_impossible = matches!(effect, Effect::Swap(from, _) if !before.iter().any(|config| config.state == from)
        && !effects().any(|other| other.makes() == Some(from)));
    is_unseen || is_impossible
}

/// Who wrote what the key may have been before, and which calls without an answer could still matter then.
fn origins(register: &Register, before: &[Config], moment: u64) -> Vec<usize> {
    let states = before.iter().flat_map(|config| register.writers(config.state).last().copied());
    let base = classes(&register.maybes);
    let live = register.maybes.iter().filter(|maybe| {
        maybe.begun <= moment && before.iter().any(|config| config.may_use(&base, maybe.effect))
    });
    states.chain(live.map(|maybe| maybe.op)).collect()
}

fn before(register: &Register, before: &[Config]) -> String {
    let mut states: Vec<&str> =
        before.iter().map(|config| register.text(config.state).unwrap_or("nothing")).collect();
    states.sort_unstable();
    states.dedup();
    format!("before these calls the key was: {}\n", states.join(" or "))
}
