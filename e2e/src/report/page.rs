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

use super::model::{Case, Origin, Outcome, Run};
use super::terminal::time;
use super::verdict::Standing;
use markup::esc;
pub(super) use markup::plain;

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

pub(super) fn text(run: &Run) -> String {
    let standing = match run.standing() {
        Standing::Passed => "passed",
        Standing::Partly => "skipped",
        Standing::Failed | Standing::Empty => "failed",
    };
    let headline = esc(&run.headline());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{headline}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1 class=\"{standing}\">{headline}</h1>\n"
    );
    page.push_str(&facts(run));
    page.push_str(&scenarios(run));
    // What needs a look comes first.
    let is_bad = |case: &&Case| matches!(case.outcome, Outcome::Failed | Outcome::Hung);
    let numbered = || run.cases.iter().enumerate();
    for (number, of) in
        numbered().filter(|(_, of)| is_bad(of)).chain(numbered().filter(|(_, of)| !is_bad(of)))
    {
        if !matches!(of.outcome, Outcome::Skipped(_)) {
            page.push_str(&case::section(number, of));
        }
    }
    page.push_str("<h2>Images</h2>\n");
    page.push_str(&images(run));
    let _ = write!(page, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    page
}

/// What the run was and what repeats it.
fn facts(run: &Run) -> String {
    let stage = &run.stage;
    let mut facts = vec![
        ("begun".to_owned(), run.begun.clone()),
        ("took".to_owned(), time(run.took.as_secs_f64())),
        ("commit".to_owned(), stage.commit.clone()),
        ("Kubernetes".to_owned(), stage.kubernetes.clone()),
        ("seed".to_owned(), stage.seed.to_string()),
    ];
    facts.extend(stage.host.iter().map(|fact| (fact.name.clone(), fact.value.clone())));
    let mut text = "<dl class=\"facts\">".to_owned();
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(text, "<div><dt>{}</dt><dd>{}</dd></div>", esc(name), esc(value));
    }
    text.push_str("</dl>\n");
    if !stage.command.is_empty() {
        let _ = writeln!(text, "<p>Once more, the same: <code>{}</code></p>", esc(&stage.command));
    }
    text
}

fn scenarios(run: &Run) -> String {
    if run.cases.is_empty() {
        return "<p class=\"failed\">No scenario was selected, or the run ended before the first one began.</p>\n".into();
    }
    let mut text = "<table class=\"scenarios\">\n<thead><tr><th>Outcome</th><th>Scenario</th><th>Took</th>\
                    <th>In short</th></tr></thead>\n<tbody>\n"
        .to_owned();
    for (number, case) in run.cases.iter().enumerate() {
        let word = case.outcome.word();
        let name = esc(&case.name);
        let (name, took) = match case.outcome {
            Outcome::Skipped(_) => (name, "–".to_owned()),
            _ => (format!("<a href=\"#case-{number}\">{name}</a>"), time(case.took.as_secs_f64())),
        };
        let _ = writeln!(
            text,
            "<tr><td><span class=\"chip {word}\">{word}</span></td><td>{name}</td><td class=\"number\">{took}</td><td>{}</td></tr>",
            esc(&case.gist()),
        );
    }
    text.push_str("</tbody>\n</table>\n");
    text
}

fn images(run: &Run) -> String {
    let mut text =
        "<table>\n<thead><tr><th>Role</th><th>From</th><th>Image</th><th>Digest</th></tr></thead>\n<tbody>\n"
            .to_owned();
    for image in &run.stage.images {
        let class = if image.origin == Origin::Double { "chip skipped" } else { "chip" };
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td><span class=\"{class}\">{}</span></td><td><code>{}</code></td><td><code>{}</code></td></tr>",
            esc(&image.role),
            image.origin.word(),
            esc(&image.reference),
            esc(&image.digest),
        );
    }
    text.push_str("</tbody>\n</table>\n");
    text
}
