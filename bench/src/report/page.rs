// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The run as one page of HTML that needs nothing else: style and figures stand in it, for light and for dark screens.
use std::fmt::Write as _;

use super::{Report, plot};
use crate::finding::{Figure, Row};
use crate::verdict::{Bar, FOREIGN, LAG, SPREAD, Verdict, number};

const STYLE: &str = include_str!("page/style.css");

pub(super) fn text(report: &Report<'_>) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{0}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<h1 class=\"{1}\">{0}</h1>\n",
        esc(&headline(report)),
        worst(report)
    );
    page.push_str(&facts(report));
    page.push_str(&bars(report));
    for row in &report.rows {
        page.push_str(&section(row));
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// What was missed comes first and by its name; what did not occur is not told.
fn headline(report: &Report<'_>) -> String {
    let bars = || report.rows.iter().flat_map(|row| row.bars.iter().map(move |bar| (row, bar)));
    let count = |verdict| bars().filter(|(_, bar)| bar.verdict == verdict).count();
    let (all, missed, noisy) = (bars().count(), count(Verdict::Missed), count(Verdict::Noisy));
    let absent: usize = report.rows.iter().map(|row| row.missing.len()).sum();
    let mut parts = Vec::new();
    if missed > 0 {
        let names = bars().filter(|(_, bar)| bar.verdict == Verdict::Missed);
        let names: Vec<String> = names.map(|(row, bar)| format!("{} ({})", row.title, bar.what)).collect();
        parts.push(format!("{missed} of {all} bars MISSED: {}", names.join(", ")));
    }
    let holds = count(Verdict::Holds);
    parts.push(if missed > 0 { format!("{holds} hold") } else { format!("{holds} of {all} bars hold") });
    if noisy > 0 {
        parts.push(format!("{noisy} too noisy for a verdict"));
    }
    if absent > 0 {
        parts.push(format!("{absent} not measured"));
    }
    parts.join("; ")
}

/// The class of the headline.
fn worst(report: &Report<'_>) -> &'static str {
    if report.any(Verdict::Missed) || report.failed() {
        "missed"
    } else if report.any(Verdict::Noisy) {
        "noisy"
    } else {
        "holds"
    }
}

fn facts(report: &Report<'_>) -> String {
    let stage = report.stage;
    let mut facts = vec![("commit", stage.commit.as_str()), ("etcd", &stage.line)];
    facts.extend(stage.peer.as_ref().map(|peer| ("peer", peer.name.as_str())));
    facts.extend(report.facts.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let mut text = "<dl class=\"facts\">".to_owned();
    for (name, value) in facts {
        let _ = write!(text, "<div><dt>{}</dt><dd>{}</dd></div>", esc(name), esc(value));
    }
    let _ = writeln!(text, "</dl>\n<p>Once more: <code>{}</code></p>", esc(&stage.command));
    text
}

fn bars(report: &Report<'_>) -> String {
    let mut text =
        "<div class=\"wide\"><table>\n<thead><tr><th>Row</th><th>Verdict</th><th>What</th><th>Bar</th><th>Measured</th>\
                    <th>Middle half</th></tr></thead>\n<tbody>\n"
            .to_owned();
    for row in &report.rows {
        for bar in &row.bars {
            let _ = writeln!(text, "{}", bar_line(row, bar));
        }
        for missing in &row.missing {
            let _ = writeln!(
                text,
                "<tr><td><a href=\"#row-{0}\">{0}</a></td><td><span class=\"chip\">not measured</span></td>\
                 <td>{1}: {2}</td><td colspan=\"3\">{3}</td></tr>",
                row.id,
                esc(row.title),
                esc(&missing.what),
                esc(&missing.why)
            );
        }
    }
    let _ = write!(
        text,
        "</tbody>\n</table></div>\n<p class=\"aside\">A bar is too noisy for a verdict when the middle half of its runs spreads over more than \
         {:.0} % of the bar and the bar lies within it, or when it was missed while others used more than {:.0} % of the machine, \
         or, for a worst case, while a thread that only waited woke late by {:.0} % of the bar or more.</p>\n",
        SPREAD * 100.0,
        FOREIGN * 100.0,
        LAG * 100.0
    );
    text
}

fn bar_line(row: &Row, bar: &Bar) -> String {
    let class = match bar.verdict {
        Verdict::Holds => "holds",
        Verdict::Missed => "missed",
        Verdict::Noisy => "noisy",
    };
    let middle = if bar.runs > 1 && bar.middle.0 < bar.middle.1 {
        format!("{} – {}", number(bar.middle.0), number(bar.middle.1))
    } else {
        String::new()
    };
    // A number that means nothing is none.
    let value = if bar.verdict == Verdict::Noisy { "–".to_owned() } else { number(bar.value) };
    let why =
        if bar.why.is_empty() { String::new() } else { format!("<br><small>{}</small>", esc(&bar.why)) };
    format!(
        "<tr class=\"{class}\"><td><a href=\"#row-{0}\">{0}</a></td><td><span class=\"chip {class}\">{5}</span></td>\
         <td>{1}: {2}{why}</td><td>{3}</td><td class=\"number\">{value} {4}</td>\
         <td class=\"number\">{middle}</td></tr>",
        row.id,
        esc(row.title),
        esc(&bar.what),
        esc(&bar.limit_text()),
        esc(bar.unit),
        bar.verdict.word()
    )
}

fn section(row: &Row) -> String {
    let mut text = format!("<h2 id=\"row-{}\">{}. {}</h2>\n", row.id, row.id, esc(row.title));
    if !row.figures.is_empty() {
        text.push_str(
            "<div class=\"wide\"><table>\n<thead><tr><th>Figure</th><th>Of</th><th>Median</th><th>Least</th><th>Most</th><th>Runs</th>\
             </tr></thead>\n<tbody>\n",
        );
        for figure in &row.figures {
            text.push_str(&figure_lines(figure));
        }
        text.push_str("</tbody>\n</table></div>\n");
    }
    for figure in row.figures.iter().filter(|figure| figure.series.iter().any(|series| series.runs.len() > 1))
    {
        text.push_str(&plot::dots(figure, row.bars.iter().find(|bar| bar.what == figure.name)));
    }
    for plot in &row.plots {
        text.push_str(&plot::draw(plot));
    }
    for note in &row.notes {
        let _ = writeln!(text, "<p>{}</p>", esc(note));
    }
    let _ = writeln!(
        text,
        "<p class=\"aside\">Measured in {:.0} s. Others used {:.0} % of the machine; a waiting thread woke {} ms late (99th \
         percentile), {} ms at worst.</p>",
        row.took,
        row.foreign * 100.0,
        number(row.lag.0),
        number(row.lag.1)
    );
    text
}

fn figure_lines(figure: &Figure) -> String {
    let mut text = String::new();
    for series in &figure.series {
        let cell = |value: f64| format!("<td class=\"number\">{} {}</td>", number(value), esc(figure.unit));
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td>{}{}{}<td class=\"number\">{}</td></tr>",
            esc(&figure.name),
            esc(&series.of),
            cell(series.median),
            cell(series.min),
            cell(series.max),
            series.runs.len()
        );
    }
    text
}

/// Text that stays text in HTML.
pub(super) fn esc(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
