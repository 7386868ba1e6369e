// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The run as one page of HTML that needs nothing else: style, script and figures stand in it. Every text that comes from
//! outside goes through [`markup`] first, and no text, log or figure is longer than a page can bear.
mod case;
mod figure;
mod lanes;
mod latency;
mod markup;

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use super::headline::headline;
use super::model::{Case, Run, gist, word};
use super::terminal::{time, took};
use crate::outcome::{Exit, Results, Verdict};
use crate::stage::Origin;
use markup::esc;
pub(super) use markup::plain;

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

pub(super) fn text(run: &Run) -> String {
    let class = match run.results.exit() {
        Exit::Passed if run.results.finished.is_some() => "passed",
        Exit::PartlyRan if run.results.finished.is_some() => "missing",
        Exit::Passed
        | Exit::PartlyRan
        | Exit::Failed
        | Exit::NothingRan
        | Exit::Interrupted
        | Exit::Usage => "failed",
    };
    let headline = esc(&headline(&run.results));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{headline}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1 class=\"{class}\">{headline}</h1>\n"
    );
    page.push_str(&facts(&run.results));
    page.push_str(&scenarios(run));
    // What needs a look comes first.
    let numbered =
        || run.cases.iter().enumerate().filter(|(_, case)| case.outcome.verdict != Verdict::Missing);
    for (number, case) in numbered().filter(|(_, case)| case.is_bad()) {
        page.push_str(&case::section(number, case));
    }
    for (number, case) in numbered().filter(|(_, case)| !case.is_bad()) {
        page.push_str(&case::section(number, case));
    }
    page.push_str("<h2>Images</h2>\n");
    page.push_str(&images(&run.results));
    let _ = write!(page, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    page
}

/// What the run was and what repeats it.
fn facts(results: &Results) -> String {
    let span = results.finished.map(|finished| time(finished.saturating_sub(results.started)));
    let facts = [
        ("begun", moment(results.started)),
        ("took", span.unwrap_or_else(|| "it did not end".into())),
        ("commit", results.commit.clone()),
        ("Kubernetes", results.kubernetes.clone()),
        ("cluster", results.cluster.clone()),
        ("run", results.run.clone()),
        ("seed", results.seed.to_string()),
    ];
    let facts = facts.iter().map(|(name, value)| (*name, value.as_str()));
    let host = results.host.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut text = list(facts.chain(host));
    if !results.replay.is_empty() {
        let _ = writeln!(text, "<p>Once more, the same: <code>{}</code></p>", esc(&results.replay));
    }
    text
}

/// Names and values side by side; nothing for none.
fn list<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        let _ = write!(text, "<div><dt>{}</dt><dd>{}</dd></div>", esc(name), esc(value));
    }
    if text.is_empty() { text } else { format!("<dl class=\"facts\">{text}</dl>\n") }
}

/// Milliseconds since 1970 as `2026-01-31T12:00:00Z`.
fn moment(millis: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(millis)).to_string()
}

fn scenarios(run: &Run) -> String {
    if run.cases.is_empty() {
        return "<p class=\"failed\">No scenario was selected, or the run ended before the first one did.</p>\n".into();
    }
    let mut text = "<table class=\"scenarios\">\n<thead><tr><th>Verdict</th><th>Scenario</th><th>Took</th>\
                    <th>In short</th></tr></thead>\n<tbody>\n"
        .to_owned();
    // As the sections: what needs a look first, what could not run next.
    let mut cases: Vec<(usize, &Case)> = run.cases.iter().enumerate().collect();
    cases.sort_by_key(|(_, case)| match case.outcome.verdict {
        Verdict::Failed | Verdict::Hung => 0,
        Verdict::Interrupted => 1,
        Verdict::Missing => 2,
        Verdict::Passed => 3,
    });
    for (number, case) in cases {
        let _ = writeln!(text, "{}", line(number, case));
    }
    text.push_str("</tbody>\n</table>\n");
    text
}

fn line(number: usize, case: &Case) -> String {
    let outcome = &case.outcome;
    let word = word(outcome.verdict);
    // Names are long, and may be broken between their words.
    let name = esc(&outcome.name).replace('_', "_<wbr>");
    let class = if case.is_bad() { " class=\"bad\"" } else { "" };
    let name = match outcome.verdict {
        Verdict::Missing => name,
        _ => format!("<a href=\"#case-{number}\">{name}</a>"),
    };
    let mut parts = vec![gist(outcome)];
    parts.extend(
        case.traffic.as_ref().map(|traffic| format!("{}: {} calls", traffic.verdict(), traffic.calls)),
    );
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() {
        parts.push(outcome.about.clone());
    }
    format!(
        "<tr{class}><td><span class=\"chip {word}\">{word}</span></td><td>{name}</td>\
         <td class=\"number\">{}</td><td>{}</td></tr>",
        took(outcome),
        esc(&parts.join("; ")),
    )
}

fn images(results: &Results) -> String {
    let mut text =
        "<table class=\"images\">\n<thead><tr><th>Role</th><th>From</th><th>Image</th><th>Digest</th></tr></thead>\n<tbody>\n"
            .to_owned();
    for image in &results.images {
        let class = if image.from == Origin::Double { "chip missing" } else { "chip" };
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td><span class=\"{class}\">{}</span></td><td><code>{}</code></td><td><code>{}</code></td></tr>",
            image.role,
            image.from,
            esc(&image.reference),
            esc(&image.digest),
        );
    }
    text.push_str("</tbody>\n</table>\n");
    text
}
