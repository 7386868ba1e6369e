// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A picture's worth of a history: few enough calls for a page, and those in it that tell most.
use std::time::Duration;

use super::model::{Point, PointOutcome};
use crate::history::{History, Op, Outcome};

/// Points of one scenario.
pub(super) const MOST_POINTS: usize = 3_000;

/// At most `most` calls, in the order of their beginnings: half of it for calls without a good answer, a tenth for the
/// slowest, and the rest evenly over all others.
pub(super) fn sample(history: &History, most: usize) -> Vec<Point> {
    let (good, bad): (Vec<&Op>, Vec<&Op>) = history.ops.iter().partition(|op| op.answer().is_some());
    let mut chosen = thinned(&bad, most / 2);
    let room = most - chosen.len();
    let mut by_time = good;
    by_time.sort_by_key(|op| std::cmp::Reverse(op.ended - op.begun));
    let slowest = if by_time.len() > room { by_time.len().min(room / 5) } else { by_time.len() };
    let mut others = by_time.split_off(slowest);
    others.sort_by_key(|op| op.begun);
    chosen.extend(by_time);
    chosen.extend(thinned(&others, room - slowest));
    chosen.sort_by_key(|op| op.begun);
    chosen.into_iter().map(point).collect()
}

/// Evenly over the whole list.
fn thinned<'a>(ops: &[&'a Op], most: usize) -> Vec<&'a Op> {
    let count = ops.len().min(most);
    (0..count).map(|index| ops[index * ops.len() / count]).collect()
}

fn point(op: &Op) -> Point {
    let outcome = match &op.outcome {
        Outcome::Ok(answer) if answer.written.is_some() => PointOutcome::Write,
        Outcome::Ok(_) => PointOutcome::Read,
        Outcome::Failed { .. } => PointOutcome::Refused,
        Outcome::Unknown { .. } => PointOutcome::Unknown,
    };
    let took = Duration::from_micros(op.ended.saturating_sub(op.begun));
    Point { at: Duration::from_micros(op.begun), took, outcome }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Answer, Call};

    fn history(good: u64, bad: u64) -> History {
        let op = |begun: u64, outcome: Outcome| Op {
            client: 0,
            member: "m".into(),
            key: "k".into(),
            call: Call::Read,
            begun,
            ended: begun + if begun == 777 { 90_000 } else { 10 },
            outcome,
            last: false,
        };
        let good = (0..good).map(|at| op(at, Outcome::Ok(Answer::default())));
        let bad = (0..bad).map(|at| op(at, Outcome::Unknown { why: String::new() }));
        History { ops: good.chain(bad).collect(), ..History::default() }
    }

    #[test]
    fn a_short_history_is_kept_whole() {
        assert_eq!(sample(&history(20, 10), 30).len(), 30);
        assert_eq!(sample(&history(0, 0), 30), []);
    }

    #[test]
    fn a_long_history_keeps_its_bad_calls_and_its_slowest() {
        let points = sample(&history(50_000, 400), 1_000);
        assert_eq!(points.len(), 1_000);
        assert!(points.iter().any(|point| point.took == Duration::from_millis(90)));
        let bad = points.iter().filter(|point| point.outcome == PointOutcome::Unknown);
        assert_eq!(bad.count(), 400);
        assert!(points.is_sorted_by_key(|point| point.at));
        let late = points.iter().filter(|point| point.at >= Duration::from_micros(25_000)).count();
        assert!((200..400).contains(&late), "{late} of the 600 good ones are from the second half");
        assert_eq!(sample(&history(10, 90_000), 1_000).len(), 510);
    }
}
