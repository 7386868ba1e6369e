// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The figure of one scenario: faults, leader, members and latencies above each other along one axis of time, so that
//! what happens at the same moment stands in one line. Colours are the style's; whatever a colour says, a word, a shape or
//! a place says too.
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use super::super::model::{Case, Rows, Traffic};
use super::markup::esc;
use super::{lanes, latency};

/// Units of the figure; on a wide screen one is about a pixel.
pub(super) const WIDTH: f64 = 1100.0;
const LEFT: f64 = 120.0;
const RIGHT: f64 = 16.0;

/// The phases that have a colour of their own.
pub(super) const PHASES: [&str; 10] = [
    "initializing",
    "configuring",
    "starting",
    "running",
    "stopping",
    "stopped",
    "held",
    "backoff",
    "exiting",
    "gone",
];

/// From times to places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    span: f64,
}

impl Scale {
    pub(super) fn x(self, at: Duration) -> f64 {
        self.x_of(at.as_secs_f64())
    }

    fn x_of(self, seconds: f64) -> f64 {
        LEFT + (seconds / self.span).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    /// Where the last moment lies.
    pub(super) fn end(self) -> f64 {
        WIDTH - RIGHT
    }

    /// Where the first moment lies.
    pub(super) fn begin(self) -> f64 {
        LEFT
    }
}

/// A part of the figure: its markup, and how much of the height it takes.
pub(super) struct Part {
    pub(super) markup: String,
    pub(super) height: f64,
}

/// Empty when nothing was recorded.
pub(super) fn figure(case: &Case) -> String {
    let rows = &case.rows;
    if case.end().is_zero() && rows.members.is_empty() {
        // Of a check of what others recorded nobody misses it, unless it failed.
        return if case.is_bad() { "<p>No timeline was recorded.</p>\n".into() } else { String::new() };
    }
    let scale = Scale { span: case.end().max(case.took()).as_secs_f64().max(0.001) };
    let mut body = String::new();
    let mut top = 6.0;
    let mut put = |part: Part| {
        let _ = writeln!(body, "<g transform=\"translate(0 {top:.1})\">\n{}</g>", part.markup);
        top += part.height;
    };
    let labels = lanes::fault_labels(rows, scale);
    let bands_from = labels.height;
    put(labels);
    put(lanes::leaders(rows, scale));
    for member in &rows.members {
        put(lanes::member(rows, member, scale));
    }
    if let Some(traffic) = &case.traffic {
        put(latency::plot(traffic, scale));
    }
    let bottom = top + 2.0;
    let (bands, edges) = lanes::fault_bands(rows, scale, 6.0 + bands_from, bottom);
    let axis = axis(scale, bottom);
    let height = bottom + 24.0;
    format!(
        "<figure>\n<div class=\"wide\"><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"timeline of {}\" \
         data-span=\"{}\" data-left=\"{LEFT}\" data-right=\"{}\">\n{axis}{bands}{body}{edges}\
         <g class=\"cursor\" style=\"display:none\"><line y1=\"0\" y2=\"{bottom:.0}\"/><text y=\"{:.0}\"></text></g>\n</svg></div>\n{}</figure>\n",
        esc(&case.outcome.name),
        scale.span,
        scale.end(),
        bottom + 20.0,
        legend(rows, case.traffic.as_ref()),
    )
}

fn axis(scale: Scale, bottom: f64) -> String {
    let step = step(scale.span);
    let mut text = String::new();
    for number in 0_u32.. {
        let seconds = f64::from(number) * step;
        if seconds > scale.span {
            break;
        }
        let x = scale.x_of(seconds);
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\">{seconds} s</text>",
            bottom + 14.0
        );
    }
    text
}

/// A round number of seconds, so that there are 6 to 15 of them.
fn step(span: f64) -> f64 {
    let rough = span / 15.0;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

/// What stands for what, as far as it occurs.
fn legend(rows: &Rows, traffic: Option<&Traffic>) -> String {
    let mut text = "<figcaption>".to_owned();
    let seen: BTreeSet<&str> =
        rows.members.iter().flat_map(|member| &member.changes).map(|change| change.phase.as_str()).collect();
    for phase in PHASES.iter().filter(|phase| seen.contains(**phase)) {
        let _ = write!(text, "<span><i class=\"swatch ph-{phase}\"></i>{phase}</span>");
    }
    if !rows.members.is_empty() {
        text.push_str("<span><i class=\"swatch ready\"></i>ready</span><span><i class=\"swatch unready\"></i>not ready</span>");
    }
    if !rows.faults.is_empty() {
        text.push_str("<span><i class=\"swatch fault\"></i>fault</span>");
    }
    if let Some(traffic) = traffic {
        text.push_str(&latency::legend(traffic));
    }
    text.push_str("</figcaption>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for (span, wanted) in [(15.0, 1.0), (60.0, 5.0), (131.0, 10.0), (0.9, 0.1), (3600.0, 500.0)] {
            assert!((step(span) - wanted).abs() < wanted / 1e6, "{span}: {}", step(span));
        }
    }
}
