// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! When to ask what: due times per kind of question, never two of one kind at once. Pure; the prober brings the clock.
use std::time::Duration;

use tokio::time::Instant;

/// A kind of question. Each has its own pace and its own flight, so that one that hangs holds up no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Linearizable,
    Serializable,
    Status,
    /// `/metrics`, only while auth hides Status.
    Gauges,
    Members,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::Linearizable, Self::Serializable, Self::Status, Self::Gauges, Self::Members];
}

#[derive(Clone, Copy, Debug, Default)]
enum Slot {
    #[default]
    Idle,
    Due(Instant),
    InFlight {
        since: Instant,
    },
}

/// Whatever is due within this time goes along with what is due now: to be woken costs an idle etcd more than a question
/// does.
const TOGETHER: Duration = Duration::from_millis(50);

/// Due times of one generation.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    slots: [Slot; Kind::ALL.len()],
}

impl Schedule {
    /// Asks `kind` at `at`, or sooner if it was due sooner; while one is in flight this is left to its end.
    pub(super) fn ask_by(&mut self, kind: Kind, at: Instant) {
        let slot = &mut self.slots[kind as usize];
        *slot = match *slot {
            Slot::Idle => Slot::Due(at),
            Slot::Due(due) => Slot::Due(due.min(at)),
            in_flight @ Slot::InFlight { .. } => in_flight,
        };
    }

    /// Asks `kind` at `at` unless that is arranged already.
    pub(super) fn begin(&mut self, kind: Kind, at: Instant) {
        let slot = &mut self.slots[kind as usize];
        if matches!(slot, Slot::Idle) {
            *slot = Slot::Due(at);
        }
    }

    /// The next moment at which something is due.
    pub(super) fn next(&self) -> Option<Instant> {
        let due = |slot: &Slot| if let Slot::Due(at) = slot { Some(*at) } else { None };
        self.slots.iter().filter_map(due).min()
    }

    /// When anything is due, takes it and what is due soon after; it counts as in flight from now on.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Kind> {
        let mut due = Vec::new();
        if self.next().is_none_or(|next| next > now) {
            return due;
        }
        for kind in Kind::ALL {
            let slot = &mut self.slots[kind as usize];
            if matches!(*slot, Slot::Due(at) if at <= now + TOGETHER) {
                *slot = Slot::InFlight { since: now };
                due.push(kind);
            }
        }
        due
    }

    /// How long the flight of `kind` has been under way.
    pub(super) fn took(&self, kind: Kind, now: Instant) -> Duration {
        match self.slots[kind as usize] {
            Slot::InFlight { since } => now - since,
            Slot::Idle | Slot::Due(_) => Duration::ZERO,
        }
    }

    /// The flight of `kind` has ended: asks again `pace` after it began, but not before `now`; None: not again until
    /// told.
    pub(super) fn landed(&mut self, kind: Kind, now: Instant, pace: Option<Duration>) {
        let slot = &mut self.slots[kind as usize];
        let Slot::InFlight { since } = *slot else { return };
        *slot = pace.map_or(Slot::Idle, |pace| Slot::Due((since + pace).max(now)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_question_in_flight_is_not_asked_again_before_it_landed() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.ask_by(Kind::Status, start);
        assert_eq!(schedule.take_due(start), [Kind::Status]);
        schedule.ask_by(Kind::Status, start);
        assert_eq!((schedule.next(), schedule.take_due(start + SECOND)), (None, vec![]));
        assert_eq!(schedule.took(Kind::Status, start + SECOND), SECOND);
        schedule.landed(Kind::Status, start + SECOND, Some(SECOND / 4));
        // It took longer than its pace: at once.
        assert_eq!(schedule.next(), Some(start + SECOND));
    }

    #[test]
    fn the_pace_counts_from_the_start_of_the_last_flight() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.ask_by(Kind::Linearizable, start);
        schedule.take_due(start);
        schedule.landed(Kind::Linearizable, start + SECOND / 2, Some(2 * SECOND));
        assert_eq!(schedule.next(), Some(start + 2 * SECOND));
        schedule.ask_by(Kind::Linearizable, start + SECOND);
        assert_eq!(schedule.next(), Some(start + SECOND));
    }

    #[test]
    fn what_is_arranged_is_not_begun_again() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.begin(Kind::Gauges, start + SECOND);
        schedule.begin(Kind::Gauges, start);
        assert_eq!(schedule.next(), Some(start + SECOND));
    }

    #[test]
    fn what_is_due_soon_after_goes_along_and_nothing_goes_alone_before_its_time() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.ask_by(Kind::Linearizable, start + TOGETHER);
        schedule.ask_by(Kind::Members, start + 2 * TOGETHER);
        assert_eq!(schedule.take_due(start), []);
        schedule.ask_by(Kind::Status, start);
        assert_eq!(schedule.take_due(start), [Kind::Linearizable, Kind::Status]);
        assert_eq!(schedule.next(), Some(start + 2 * TOGETHER));
    }

    proptest! {
        /// Whatever is asked and lands in whatever order, a kind is in flight at most once.
        #[test]
        fn never_two_of_a_kind(steps in prop::collection::vec((0..3usize, 0..5usize, 0..400u64), 1..200)) {
            let mut now = Instant::now();
            let mut schedule = Schedule::default();
            let mut flights = [0usize; Kind::ALL.len()];
            for (action, kind, millis) in steps {
                now += Duration::from_millis(millis);
                let kind = Kind::ALL[kind];
                match action {
                    0 => schedule.ask_by(kind, now + Duration::from_millis(millis)),
                    1 => {
                        schedule.landed(kind, now, Some(Duration::from_millis(250)));
                        flights[kind as usize] = 0;
                    }
                    _ => {
                        for kind in schedule.take_due(now) {
                            flights[kind as usize] += 1;
                        }
                    }
                }
                prop_assert!(flights.iter().all(|flights| *flights <= 1));
            }
        }
    }
}
