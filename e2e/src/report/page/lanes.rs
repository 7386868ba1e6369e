// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The rows of the figure: faults with their labels, who led, and how each member fared.
use std::fmt::Write as _;

use super::super::model::{MemberRow, Rows};
use super::figure::{PHASES, Part, Scale};
use super::markup::esc;

/// Height of a line of labels, of a row, and of the strip of readiness below it.
const LABEL: f64 = 15.0;
const ROW: f64 = 16.0;
const STRIP: f64 = 5.0;
/// Width of a letter, roughly.
const LETTER: f64 = 6.3;
/// Lines of labels; faults beyond keep their bands, and their names stand in the notes.
const LINES: usize = 8;

/// The labels of faults, each at its beginning, on as many lines as it takes for none to lie over another.
pub(super) fn fault_labels(rows: &Rows, scale: Scale) -> Part {
    let mut markup = String::new();
    let mut ends: Vec<f64> = Vec::new();
    for fault in &rows.faults {
        let width = LETTER * short(&fault.label).chars().count() as f64;
        // At the right edge a label ends where its fault begins.
        let x = scale.x(fault.from).min(scale.end() - width).max(0.0);
        let line = ends.iter().position(|end| *end < x).unwrap_or(ends.len());
        if line >= LINES {
            continue;
        }
        if line == ends.len() {
            ends.push(0.0);
        }
        ends[line] = x + width + LETTER;
        let y = LABEL * (line as f64 + 0.8);
        let _ = writeln!(
            markup,
            "<text class=\"fault-label\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            esc(&short(&fault.label))
        );
    }
    Part { markup, height: LABEL * ends.len() as f64 + 3.0 }
}

/// The bands of faults, to lie behind all rows, and their edges, to lie over them: one line for what took no time.
pub(super) fn fault_bands(rows: &Rows, scale: Scale, top: f64, bottom: f64) -> (String, String) {
    let (mut bands, mut edges) = (String::new(), String::new());
    for fault in &rows.faults {
        let from = scale.x(fault.from);
        let to = fault.to.map_or(from, |to| scale.x(to));
        let lasted = match fault.to {
            Some(to) => format!(", for {:.2} s", (to.saturating_sub(fault.from)).as_secs_f64()),
            None => String::new(),
        };
        let title = format!("{} at {:.3} s{lasted}", esc(&fault.label), fault.from.as_secs_f64());
        let _ = writeln!(
            bands,
            "<rect class=\"fault\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{title}</title></rect>",
            (to - from).max(0.5),
            bottom - top,
        );
        for x in [from, to] {
            let _ = write!(edges, "M{x:.1} {top:.1}V{bottom:.1}");
        }
    }
    (bands, format!("<path class=\"fault-edge\" d=\"{edges}\"/>\n"))
}

/// Who led from when to when.
pub(super) fn leaders(rows: &Rows, scale: Scale) -> Part {
    if rows.leaders.is_empty() {
        return Part { markup: String::new(), height: 0.0 };
    }
    let mut markup = name("leader");
    for (index, change) in rows.leaders.iter().enumerate() {
        let until = rows.leaders.get(index + 1).map_or(scale.end(), |next| scale.x(next.at));
        let (class, label) = match &change.member {
            None => ("leader-none".to_owned(), "no leader".to_owned()),
            Some(member) => (colour(rows, member), format!("{member} (term {})", change.term)),
        };
        // In a narrow span the name alone, and in a narrower one what tells it from the others.
        let name = change.member.as_deref().unwrap_or("none");
        let labels = [label.as_str(), name, name.rsplit('-').next().unwrap_or(name)];
        let from = scale.x(change.at);
        markup.push_str(&block(
            &class,
            from,
            until,
            ROW,
            &labels,
            &format!("{:.3} s: {label}", change.at.as_secs_f64()),
        ));
    }
    Part { markup, height: ROW + 8.0 }
}

/// The class of a member's colour in the row of leaders.
fn colour(rows: &Rows, member: &str) -> String {
    let place = rows.members.iter().position(|row| row.name == member).unwrap_or(5);
    format!("leader-{}", place % 6)
}

/// One member: its phases, and below them whether it was ready. Beside its name stands its colour as a leader.
pub(super) fn member(rows: &Rows, row: &MemberRow, scale: Scale) -> Part {
    let mut markup = name(&row.name);
    if !rows.leaders.is_empty() {
        let class = colour(rows, &row.name);
        let _ = writeln!(markup, "<rect class=\"{class}\" x=\"0\" y=\"1\" width=\"4\" height=\"14\"/>");
    }
    for (index, change) in row.changes.iter().enumerate() {
        let until = row.changes.get(index + 1).map_or(scale.end(), |next| scale.x(next.at));
        let from = scale.x(change.at);
        let phase = PHASES.iter().find(|phase| **phase == change.phase).copied().unwrap_or("other");
        let ready = if change.ready { "ready" } else { "not ready" };
        let title = format!("{:.3} s: {}, {ready}", change.at.as_secs_f64(), change.phase);
        markup.push_str(&block(&format!("ph-{phase}"), from, until, ROW, &[&change.phase], &title));
        let class = if change.ready { "ready" } else { "unready" };
        let _ = writeln!(
            markup,
            "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{ROW}\" width=\"{:.1}\" height=\"{STRIP}\"/>",
            (until - from).max(0.5)
        );
    }
    Part { markup, height: ROW + STRIP + 7.0 }
}

/// The name of a row.
pub(super) fn name(text: &str) -> String {
    format!("<text class=\"row\" x=\"9\" y=\"12\">{}</text>\n", esc(&short(text)))
}

/// A span with the first of its labels that fits, or none.
fn block(class: &str, from: f64, until: f64, height: f64, labels: &[&str], title: &str) -> String {
    let width = (until - from).max(0.5);
    let mut text = format!(
        "<rect class=\"{class}\" x=\"{from:.1}\" y=\"0\" width=\"{width:.1}\" height=\"{height}\"><title>{}</title></rect>\n",
        esc(title)
    );
    let fits = |label: &&&str| LETTER * label.chars().count() as f64 + 4.0 < width;
    if let Some(label) = labels.iter().find(fits) {
        let _ = writeln!(
            text,
            "<text class=\"in {class}\" x=\"{:.1}\" y=\"12\">{}</text>",
            from + 3.0,
            esc(label)
        );
    }
    text
}

fn short(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}
