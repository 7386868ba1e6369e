// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A sentence about the call at which a history breaks, for the kinds of break that have a name.
use super::super::register::{ABSENT, Effect, Event, Register, Value};
use super::super::{Op, Outcome};

/// A sentence, and the calls that it names besides the one at which it shows.
pub(super) type Reason = (String, Vec<usize>);

/// What the sentence may speak of.
pub(super) struct Scene<'a> {
    pub(super) ops: &'a [&'a Op],
    pub(super) register: &'a Register,
    /// The events that break it together.
    pub(super) kept: &'a [Event],
}

impl Scene<'_> {
    /// Why the history breaks at this call.
    pub(super) fn reason(&self, culprit: usize) -> Reason {
        let who = name(self.ops[culprit]);
        let Some(event) = self.kept.iter().find(|event| event.op == culprit) else {
            return (general(), vec![]);
        };
        let plain = |text: String| (text, vec![]);
        match event.effect {
            Effect::Never if self.ops[culprit].answer().is_some() => {
                plain(format!("{who} was told that the key was not as expected, and it was"))
            }
            Effect::Never => plain(format!("{who} wrote a value that was seen before the call began")),
            Effect::Read(ABSENT) | Effect::Swap(ABSENT, _) => self.lost(event).unwrap_or_else(|| {
                plain(format!("{who} found nothing, which no order of these calls explains"))
            }),
            Effect::Read(value) | Effect::Swap(value, _) => self
                .ghost(event, value)
                .or_else(|| self.twice(event, value))
                .or_else(|| self.stale(event, value))
                .unwrap_or_else(|| {
                    let value = self.register.text(value).unwrap_or_default();
                    plain(format!("{who} saw {value}, which no order of these calls explains"))
                }),
            Effect::Write(_) => plain(general()),
        }
    }

    /// The newest event that fits: of those that break the history together if there is one, else of all.
    fn newest(&self, fits: impl Fn(&Event) -> bool) -> Option<&Event> {
        let newest = |events: &'_ [Event]| events.iter().rposition(&fits);
        let kept = newest(self.kept).map(|index| &self.kept[index]);
        kept.or_else(|| newest(&self.register.events).map(|index| &self.register.events[index]))
    }

    /// Nothing was there, though a write was acknowledged before and nothing took it away.
    fn lost(&self, event: &Event) -> Option<Reason> {
        let makes = |event: &Event| event.effect.makes().is_some_and(|value| value != ABSENT);
        let write = self.newest(|write| write.ended < event.begun && makes(write))?;
        let removes = |effect: Effect| effect.makes() == Some(ABSENT);
        let mut removals = self.register.events.iter().filter(|other| removes(other.effect));
        if removals.any(|other| other.ended >= write.begun && other.begun <= event.ended)
            || self.register.maybes.iter().any(|maybe| removes(maybe.effect))
        {
            return None;
        }
        let (who, what) = (name(self.ops[event.op]), name(self.ops[write.op]));
        let text = format!(
            "{who} found nothing, though {what} was acknowledged before and nothing took it away: the write is lost"
        );
        Some((text, vec![write.op]))
    }

    /// The value comes from nowhere.
    fn ghost(&self, event: &Event, value: Value) -> Option<Reason> {
        let who = name(self.ops[event.op]);
        let text = self.register.text(value)?;
        let writers = self.register.writers(value);
        if let [first, ..] = writers {
            let is_later = writers.iter().all(|writer| self.ops[*writer].begun > self.ops[event.op].ended);
            let what = name(self.ops[*first]);
            return is_later.then(|| (format!("{who} saw {text} before {what} began"), vec![*first]));
        }
        let writes =
            |op: &&Op| op.call.writes() == Some(text) && matches!(op.outcome, Outcome::Failed { .. });
        Some(match self.ops.iter().position(writes) {
            Some(refused) => {
                (format!("{who} saw {text}, though {} was refused", name(self.ops[refused])), vec![refused])
            }
            None => (format!("{who} saw {text}, which nobody wrote"), vec![]),
        })
    }

    /// Two swaps took the same write's value away.
    fn twice(&self, event: &Event, value: Value) -> Option<Reason> {
        let swaps = |event: &Event| matches!(event.effect, Effect::Swap(from, _) if from == value);
        if !swaps(event) || !self.register.is_unique(value) {
            return None;
        }
        let other = self.newest(|other| other.op != event.op && swaps(other))?;
        let (who, what) = (name(self.ops[event.op]), name(self.ops[other.op]));
        Some((format!("{who} and {what} both replaced the same value, and only one can"), vec![other.op]))
    }

    /// The value was overwritten before.
    fn stale(&self, event: &Event, value: Value) -> Option<Reason> {
        if !self.register.is_unique(value) {
            return None;
        }
        let written = self.register.events.iter().find(|write| write.effect.makes() == Some(value))?;
        let changes = |event: &Event| event.effect.makes().is_some_and(|made| made != value);
        let newer =
            self.newest(|newer| changes(newer) && newer.begun > written.ended && newer.ended < event.begun)?;
        let (who, text) = (name(self.ops[event.op]), self.register.text(value)?);
        let what = name(self.ops[newer.op]);
        let text = format!(
            "{who} saw {text}, though {what} came after that and was acknowledged before: \
             the answer is stale, or the later write is lost"
        );
        Some((text, vec![written.op, newer.op]))
    }
}

/// `the read by client 3 at m-0`.
fn name(op: &Op) -> String {
    let last = if op.last { "last " } else { "" };
    format!("the {last}{} by client {} at {}", op.call, op.client, op.member)
}

fn general() -> String {
    "no order of these calls explains what they were told".to_owned()
}
