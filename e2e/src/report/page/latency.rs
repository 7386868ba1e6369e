// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! How long calls took, as a cloud of points: each at its beginning, on a logarithmic scale. One path for each outcome,
//! since thousands of elements would make the page slow; outcomes differ in shape as well as in colour.
use std::fmt::Write as _;
use std::time::Duration;

use super::super::model::{Point, PointOutcome, Traffic};
use super::figure::{Part, Scale};
use super::lanes::name;

const HEIGHT: f64 = 150.0;
/// What a pause must last to be drawn.
const PAUSE: Duration = Duration::from_millis(500);

const OUTCOMES: [(PointOutcome, &str, &str); 4] = [
    (PointOutcome::Read, "read", "reads"),
    (PointOutcome::Write, "write", "writes"),
    (PointOutcome::Refused, "refused", "refused"),
    (PointOutcome::Unknown, "unknown", "no answer"),
];

pub(super) fn plot(traffic: &Traffic, scale: Scale) -> Part {
    let mut markup = name("latency");
    let decades = Decades::of(&traffic.points);
    for power in decades.low..=decades.high {
        let y = decades.y(10_f64.powi(power));
        let _ = writeln!(
            markup,
            "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"level\" x=\"{}\" y=\"{:.1}\">{}</text>",
            scale.begin(),
            scale.end(),
            scale.begin() - 6.0,
            y + 4.0,
            label(power)
        );
    }
    for (outcome, class, _) in OUTCOMES {
        let mut path = String::new();
        for point in traffic.points.iter().filter(|point| point.outcome == outcome) {
            let (x, y) = (scale.x(point.at), decades.y(point.took.as_secs_f64()));
            let _ = match outcome {
                // A line without length, with round ends.
                PointOutcome::Read | PointOutcome::Write => write!(path, "M{x:.1} {y:.1}h0"),
                PointOutcome::Refused => write!(path, "M{:.1} {y:.1}h5m-2.5-2.5v5", x - 2.5),
                PointOutcome::Unknown => write!(path, "M{:.1} {:.1}l5 5m0-5l-5 5", x - 2.5, y - 2.5),
            };
        }
        if !path.is_empty() {
            let _ = writeln!(markup, "<path class=\"op {class}\" d=\"{path}\"/>");
        }
    }
    markup.push_str(&pause(traffic, scale));
    Part { markup, height: HEIGHT + 20.0 }
}

/// The longest time without an acknowledged write, below the points.
fn pause(traffic: &Traffic, scale: Scale) -> String {
    let Some((from, to)) = traffic.pause else { return String::new() };
    let lasted = to.saturating_sub(from);
    if lasted < PAUSE {
        return String::new();
    }
    let (left, right, y) = (scale.x(from), scale.x(to), HEIGHT + 8.0);
    let is_late = right > scale.end() - 220.0;
    let (x, anchor) = if is_late { (left - 6.0, "end") } else { (right + 6.0, "start") };
    format!(
        "<path class=\"pause\" d=\"M{left:.1} {:.1}v8m0-4H{right:.1}m0-4v8\"/>\n\
         <text class=\"pause\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">no write acknowledged for {:.2} s</text>\n",
        y - 4.0,
        y + 4.0,
        lasted.as_secs_f64()
    )
}

/// What stands for what, with how many there were.
pub(super) fn legend(traffic: &Traffic) -> String {
    let judgement = &traffic.judgement;
    let counts = [judgement.reads, judgement.writes, judgement.failed, judgement.unknown];
    let mut text = String::new();
    for ((_, class, word), count) in OUTCOMES.iter().zip(counts).filter(|(_, count)| *count > 0) {
        let _ = write!(text, "<span><i class=\"dot {class}\"></i>{count} {word}</span>");
    }
    if traffic.points.len() < traffic.calls {
        let _ = write!(text, "<span>{} of {} calls are drawn</span>", traffic.points.len(), traffic.calls);
    }
    text
}

/// Powers of ten seconds, from bottom to top.
struct Decades {
    low: i32,
    high: i32,
}

impl Decades {
    /// All that occurs, and at least from 1 ms to 1 s.
    fn of(points: &[Point]) -> Self {
        let logs = points.iter().map(|point| point.took.as_secs_f64().max(1e-5).log10());
        let (mut low, mut high) = (-3, 0);
        for log in logs {
            low = low.min(log.floor() as i32);
            high = high.max(log.ceil() as i32);
        }
        Self { low, high }
    }

    fn y(&self, seconds: f64) -> f64 {
        let span = f64::from(self.high - self.low);
        let share = (seconds.max(1e-5).log10() - f64::from(self.low)) / span;
        HEIGHT * (1.0 - share.clamp(0.0, 1.0))
    }
}

fn label(power: i32) -> String {
    let micros = 10_f64.powi(power + 6).round();
    match micros {
        ..1e3 => format!("{micros} µs"),
        ..1e6 => format!("{} ms", micros / 1e3),
        _ => format!("{} s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names_that_people_use() {
        assert_eq!([-4, -3, -1, 0, 1].map(label), ["100 µs", "1 ms", "100 ms", "1 s", "10 s"]);
    }

    #[test]
    fn every_point_lies_within_the_plot() {
        let point = |micros| Point {
            at: Duration::ZERO,
            took: Duration::from_micros(micros),
            outcome: PointOutcome::Read,
        };
        let points = [point(0), point(130), point(40_000_000)];
        let decades = Decades::of(&points);
        for point in &points {
            assert!((0.0..=HEIGHT).contains(&decades.y(point.took.as_secs_f64())));
        }
        assert_eq!((decades.low, decades.high), (-5, 2));
    }
}
