// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Figures as inline SVG: runs as dots, distributions as curves, something over time as lines, phases as bars. Colours
//! are the style's; whatever a colour says, a name beside it says too.
use std::fmt::Write as _;

use super::page::esc;
use crate::finding::{Figure, Plot};
use crate::stats::quantile;
use crate::verdict::{Bar, number};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 28.0;
/// Height of a curve's field.
const FIELD: f64 = 180.0;
/// Height of a line of dots or of one bar.
const LANE: f64 = 26.0;
/// Points of a curve: more would not be seen.
const POINTS: usize = 400;
const COLOURS: usize = 8;
/// Letters of a name that have room to the left of the axis.
const NAME: usize = 19;

/// From values to places along one axis.
#[derive(Clone, Copy)]
struct Axis {
    from: f64,
    to: f64,
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    /// From nothing up to the highest value.
    fn linear(high: f64, from: f64, to: f64) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        Self { from, to, low: 0.0, high: ceiling(high), log: false }
    }

    fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = 10_f64.powf(low.max(1e-6).log10().floor());
        let high = 10_f64.powf(high.max(low * 1.001).log10().ceil());
        Self { from, to, low, high, log: true }
    }

    fn at(self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low).log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn ticks(self) -> Vec<f64> {
        if self.log {
            let decades = (self.high / self.low).log10().round().max(1.0) as i32;
            return (0..=decades).map(|power| self.low * 10_f64.powi(power)).collect();
        }
        (0..=5).map(|step| self.high * f64::from(step) / 5.0).collect()
    }
}

/// A round number not below this one.
fn ceiling(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|round| *round >= value)
        .unwrap_or(value)
}

fn svg(height: f64, title: &str, body: &str, legend: &str) -> String {
    let title = esc(title);
    let legend =
        if legend.is_empty() { String::new() } else { format!("<figcaption>{legend}</figcaption>\n") };
    format!(
        "<figure>\n<div class=\"wide\"><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
         <text class=\"title\" x=\"12\" y=\"18\">{title}</text>\n{body}</svg></div>\n{legend}</figure>\n"
    )
}

fn x_grid(axis: Axis, bottom: f64, unit: &str) -> String {
    let mut text = String::new();
    for tick in axis.ticks() {
        let x = axis.at(tick);
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>\
             <text class=\"mid\" x=\"{x:.1}\" y=\"{:.1}\">{} {}</text>",
            bottom + 16.0,
            number(tick),
            esc(unit)
        );
    }
    text
}

fn legend<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.enumerate().fold(String::new(), |mut text, (index, name)| {
        let _ =
            write!(text, "<span class=\"i{}\"><i class=\"swatch\"></i>{}</span>", index % COLOURS, esc(name));
        text
    })
}

/// The name of a lane; a longer one is cut, and whole under the mouse.
fn lane_name(name: &str) -> String {
    match name.char_indices().nth(NAME) {
        Some((cut, _)) => format!("{}…<title>{}</title>", esc(&name[..cut]), esc(name)),
        None => esc(name),
    }
}

/// Every run as a dot, the median as a tick; a line of dots for each candidate.
pub(super) fn dots(figure: &Figure, bar: Option<&Bar>) -> String {
    let high = figure.series.iter().map(|series| series.max).fold(bar.map_or(0.0, |bar| bar.limit), f64::max);
    let low = figure.series.iter().map(|series| series.min).fold(f64::MAX, f64::min);
    // Beside a peer that takes a hundred times as long ours would be a spot.
    let axis = if low > 0.0 && high / low > 20.0 {
        Axis::log(low, high, LEFT, WIDTH - RIGHT - 30.0)
    } else {
        Axis::linear(high, LEFT, WIDTH - RIGHT - 30.0)
    };
    let bottom = TOP + 6.0 + LANE * figure.series.len() as f64;
    let mut body = x_grid(axis, bottom, figure.unit);
    for (index, series) in figure.series.iter().enumerate() {
        let y = TOP + 6.0 + LANE * (index as f64 + 0.5);
        let _ = writeln!(
            body,
            "<g class=\"i{}\"><text class=\"name end\" x=\"{}\" y=\"{:.1}\">{}</text>",
            index % COLOURS,
            LEFT - 12.0,
            y + 4.0,
            lane_name(&series.of)
        );
        for run in &series.runs {
            let _ = write!(body, "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>", axis.at(*run));
        }
        let _ = writeln!(
            body,
            "<path class=\"tick\" d=\"M{:.1} {:.1}v18\"/></g>",
            axis.at(series.median),
            y - 9.0
        );
    }
    let mut legend = String::new();
    if let Some(bar) = bar {
        let _ = write!(legend, "<span><i class=\"dash\"></i>the bar: {}</span>", esc(&bar.limit_text()));
        let x = axis.at(bar.limit);
        let _ = writeln!(
            body,
            "<line class=\"limit\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>"
        );
    }
    let scale = if axis.log { ", logarithmic" } else { "" };
    svg(bottom + 24.0, &format!("{} ({}{scale})", figure.name, figure.unit), &body, &legend)
}

pub(super) fn draw(plot: &Plot) -> String {
    match plot {
        Plot::Distribution { title, unit, of } => distribution(title, unit, of),
        Plot::Lines { title, x, unit, of } => lines(title, x, unit, of),
        Plot::Phases { title, phases, of } => bars(title, phases, of),
    }
}

/// Percentiles to the right, what they took upwards, both so that the tail is seen.
fn distribution(title: &str, unit: &str, of: &[(String, Vec<f64>)]) -> String {
    let filled: Vec<&(String, Vec<f64>)> = of.iter().filter(|(_, values)| !values.is_empty()).collect();
    let all = || filled.iter().flat_map(|(_, values)| values.iter().copied());
    let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    if filled.is_empty() {
        return String::new();
    }
    let y = Axis::log(low, high, TOP + FIELD, TOP + 8.0);
    // 0, 90, 99, 99.9, 99.99 %: each nine takes the same room.
    let (left, right) = (LEFT, WIDTH - RIGHT - 30.0);
    let nines = |share: f64| left + (-(1.0 - share).max(1e-4).log10()) / 4.0 * (right - left);
    let mut body = String::new();
    for (share, label) in
        [(0.0, "0 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")]
    {
        let x = nines(share);
        let _ = writeln!(
            body,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
             <text class=\"mid\" x=\"{x:.1}\" y=\"{:.1}\">{label}</text>",
            TOP + FIELD,
            TOP + FIELD + 16.0
        );
    }
    body.push_str(&y_grid(y, unit));
    for (index, (_, values)) in filled.iter().enumerate() {
        let mut path = String::new();
        for point in 0..=POINTS {
            let share = 1.0 - 10_f64.powf(-4.0 * point as f64 / POINTS as f64);
            let verb = if point == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{verb}{:.1} {:.1}", nines(share), y.at(quantile(values, share)));
        }
        let _ = writeln!(body, "<path class=\"curve i{}\" d=\"{path}\"/>", index % COLOURS);
    }
    svg(TOP + FIELD + 24.0, title, &body, &legend(filled.iter().map(|(name, _)| name.as_str())))
}

fn y_grid(axis: Axis, unit: &str) -> String {
    let mut text = String::new();
    for tick in axis.ticks() {
        let y = axis.at(tick);
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{} {}</text>",
            WIDTH - RIGHT - 30.0,
            LEFT - 8.0,
            y + 4.0,
            number(tick),
            esc(unit)
        );
    }
    text
}

fn lines(title: &str, x_unit: &str, unit: &str, of: &[(String, Vec<(f64, f64)>)]) -> String {
    let all = || of.iter().flat_map(|(_, points)| points);
    if all().next().is_none() {
        return String::new();
    }
    let high = |value: fn(&(f64, f64)) -> f64| all().map(value).fold(0.0, f64::max);
    let x = Axis::linear(high(|point| point.0), LEFT, WIDTH - RIGHT - 30.0);
    let y = Axis::linear(high(|point| point.1), TOP + FIELD, TOP + 8.0);
    let mut body = x_grid(x, TOP + FIELD, x_unit);
    body.push_str(&y_grid(y, unit));
    for (index, (_, points)) in of.iter().enumerate() {
        let mut path = String::new();
        for (number, (at, value)) in points.iter().enumerate() {
            let verb = if number == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{verb}{:.1} {:.1}", x.at(*at), y.at(*value));
        }
        let _ = writeln!(body, "<path class=\"curve i{}\" d=\"{path}\"/>", index % COLOURS);
    }
    svg(TOP + FIELD + 24.0, title, &body, &legend(of.iter().map(|(name, _)| name.as_str())))
}

/// One bar for each run, its parts one after the other.
fn bars(title: &str, phases: &[String], of: &[(String, Vec<f64>)]) -> String {
    let longest = of.iter().map(|(_, parts)| parts.iter().sum::<f64>()).fold(0.0, f64::max);
    let axis = Axis::linear(longest, LEFT, WIDTH - RIGHT - 30.0);
    let bottom = TOP + 6.0 + LANE * of.len() as f64;
    let mut body = x_grid(axis, bottom, "ms");
    for (lane, (name, parts)) in of.iter().enumerate() {
        let y = TOP + 6.0 + LANE * lane as f64;
        let _ = writeln!(
            body,
            "<text class=\"name end\" x=\"{}\" y=\"{:.1}\">{}</text>",
            LEFT - 12.0,
            y + 16.0,
            lane_name(name)
        );
        let mut begun = 0.0;
        for (index, part) in parts.iter().enumerate() {
            let (from, to) = (axis.at(begun), axis.at(begun + part));
            let phase = phases.get(index).map_or("", String::as_str);
            let _ = writeln!(
                body,
                "<rect class=\"bar i{}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{}\"><title>{}: {} ms</title></rect>",
                index % COLOURS,
                y + 2.0,
                to - from,
                LANE - 6.0,
                esc(phase),
                number(*part)
            );
            begun += part;
        }
    }
    let median = of.first().map(|(_, parts)| parts.as_slice()).unwrap_or_default();
    let names: Vec<String> =
        phases.iter().zip(median).map(|(phase, took)| format!("{phase} {} ms", number(*took))).collect();
    svg(bottom + 24.0, title, &body, &legend(names.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_round_and_hold_every_value() {
        assert_eq!((ceiling(0.7), ceiling(81.0), ceiling(100.0), ceiling(101.0)), (0.8, 100.0, 100.0, 150.0));
        let axis = Axis::log(0.03, 47.0, 0.0, 100.0);
        assert!(axis.low <= 0.03 && axis.high >= 47.0);
        assert_eq!((axis.at(axis.low), axis.at(axis.high)), (0.0, 100.0));
        assert!(Axis::linear(0.0, 0.0, 1.0).at(0.0).is_finite());
    }

    #[test]
    fn every_plot_draws_something_of_little() {
        let one = |of: Vec<f64>| vec![("a".to_owned(), of)];
        let plots = [
            Plot::Distribution { title: "d".into(), unit: "ms", of: one(vec![0.5]) },
            Plot::Lines { title: "l".into(), x: "s", unit: "MiB", of: vec![("a".into(), vec![(0.0, 0.0)])] },
            Plot::Phases { title: "p".into(), phases: vec!["bind".into()], of: one(vec![1.5]) },
        ];
        for plot in &plots {
            let drawn = draw(plot);
            assert!(drawn.contains("<svg") && !drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        }
        assert_eq!(draw(&Plot::Distribution { title: "d".into(), unit: "ms", of: one(vec![]) }), "");
    }
}
