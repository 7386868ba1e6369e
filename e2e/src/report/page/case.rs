// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One scenario on the page: what went wrong, the figure of its time, the verdict on its history, what was done, the ends
//! of its logs, and where the rest lies.
use std::fmt::Write as _;

use super::super::model::{Case, Outcome, Tail};
use super::super::terminal::time;
use super::figure;
use super::markup::esc;
use crate::history::{Verdict, Violation};

/// Lines of one log, characters of one line, and logs of one scenario. The files with the evidence have all of it.
const LINES: usize = 60;
const LINE: usize = 400;
const LOGS: usize = 16;

pub(super) fn section(number: usize, case: &Case) -> String {
    let word = case.outcome.word();
    let is_bad = matches!(case.outcome, Outcome::Failed | Outcome::Hung);
    let open = if is_bad { " open" } else { "" };
    let mut text = format!(
        "<details class=\"case\" id=\"case-{number}\"{open}>\n<summary><span class=\"chip {word}\">{word}</span> \
         <span class=\"name\">{}</span> <span class=\"number\">{}</span></summary>\n",
        esc(&case.name),
        time(case.took.as_secs_f64()),
    );
    if is_bad {
        let what = if case.outcome == Outcome::Hung { "It did not end" } else { "What went wrong" };
        let message = esc(case.message.as_deref().unwrap_or("no message"));
        let _ = writeln!(text, "<h3>{what}</h3>\n<pre class=\"message\">{message}</pre>");
    }
    text.push_str(&evidence(case));
    text.push_str(&figure::figure(case));
    text.push_str(&history(case));
    text.push_str(&notes(case, is_bad));
    text.push_str(&logs(case, is_bad));
    text.push_str("</details>\n");
    text
}

fn evidence(case: &Case) -> String {
    let begun = format!("Begun {}.", esc(&case.begun));
    let Some(path) = &case.evidence else { return format!("<p>{begun}</p>\n") };
    // Only a path below the report is a link: the page may be read on another machine, or on a server.
    let is_below = !path.starts_with('/') && !path.contains(':') && !path.split('/').any(|part| part == "..");
    let shown = esc(path);
    let shown = if is_below {
        format!("<a href=\"{shown}\"><code>{shown}</code></a>")
    } else {
        format!("<code>{shown}</code>")
    };
    format!("<p>{begun} All logs, objects and volumes that were kept: {shown}</p>\n")
}

fn history(case: &Case) -> String {
    let Some(traffic) = &case.timeline.traffic else { return String::new() };
    let judgement = &traffic.judgement;
    let (class, details) = match &judgement.verdict {
        Verdict::Linearizable => ("passed", String::new()),
        Verdict::Violated(violations) => ("failed", violations.iter().map(violation).collect()),
        Verdict::Undecided(reasons) => {
            ("skipped", reasons.iter().map(|reason| format!("<p>{}</p>\n", esc(reason))).collect())
        }
    };
    format!("<p class=\"history {class}\">{}</p>\n{details}", esc(&judgement.summary()))
}

fn violation(Violation { key, what, table }: &Violation) -> String {
    format!("<p>Key {}: {}</p>\n<pre class=\"calls\">{}</pre>\n", esc(key), esc(what), esc(table))
}

fn notes(case: &Case, is_open: bool) -> String {
    if case.notes.is_empty() {
        return String::new();
    }
    let open = if is_open { " open" } else { "" };
    let mut text =
        format!("<details{open}><summary>What was done and seen</summary>\n<table class=\"notes\"><tbody>\n");
    for note in &case.notes {
        let at = note.at.as_secs_f64();
        let _ = writeln!(text, "<tr><td class=\"number\">{at:.3} s</td><td>{}</td></tr>", esc(&note.text));
    }
    text.push_str("</tbody></table>\n</details>\n");
    text
}

fn logs(case: &Case, is_open: bool) -> String {
    let open = if is_open { " open" } else { "" };
    let mut text = String::new();
    for log in case.logs.iter().take(LOGS) {
        let _ = writeln!(
            text,
            "<details{open}><summary>The end of the log {}</summary>\n<div class=\"log\"><pre>{}</pre></div></details>",
            esc(&log.name),
            esc(&tail(log)),
        );
    }
    if case.logs.len() > LOGS {
        let _ = writeln!(text, "<p>{} more logs lie with the evidence.</p>", case.logs.len() - LOGS);
    }
    text
}

fn tail(log: &Tail) -> String {
    let short = |line: &String| match line.char_indices().nth(LINE) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.clone(),
    };
    let from = log.lines.len().saturating_sub(LINES);
    if log.lines.is_empty() {
        return "(empty)".into();
    }
    log.lines[from..].iter().map(short).collect::<Vec<_>>().join("\n")
}
