// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One scenario on the page: what went wrong, the figure of its time, the verdict on its history, what was measured, done
//! and seen, the ends of its logs, and where the rest lies.
use std::fmt::Write as _;

use super::super::model::{Case, Tail, word};
use super::super::terminal::took;
use super::markup::esc;
use super::{figure, list, moment};
use crate::history::{Verdict as History, Violation};
use crate::outcome::Verdict;

/// Characters of one line of a log, and notes. The files have all of it.
const LINE: usize = 400;
const NOTES: usize = 300;

pub(super) fn section(number: usize, case: &Case) -> String {
    let outcome = &case.outcome;
    let word = word(outcome.verdict);
    let open = if case.is_bad() { " open" } else { "" };
    let lasted = if outcome.took == 0 { String::new() } else { took(outcome) };
    let mut text = format!(
        "<details class=\"case\" id=\"case-{number}\"{open}>\n<summary><span class=\"chip {word}\">{word}</span> \
         <span class=\"name\">{}</span> <span class=\"number\">{lasted}</span></summary>\n<p>{}</p>\n",
        esc(&outcome.name),
        esc(&outcome.about),
    );
    if outcome.verdict != Verdict::Passed {
        let what = if outcome.verdict == Verdict::Hung { "It did not end" } else { "What went wrong" };
        // The cause in a line; below it whatever else is known of that moment.
        let reason = outcome.reason.as_deref().unwrap_or("no reason was told").trim();
        let (cause, scene) = reason.split_once('\n').unwrap_or((reason, ""));
        let _ = writeln!(text, "<h3>{what}</h3>\n<p class=\"cause\">{}</p>", esc(cause));
        if !scene.is_empty() {
            let _ = writeln!(text, "<pre class=\"message\">{}</pre>", esc(scene));
        }
    }
    text.push_str(&evidence(case));
    text.push_str(&figure::figure(case));
    text.push_str(&history(case));
    text.push_str(&list(outcome.measured.iter().map(|(what, value)| (what.as_str(), value.as_str()))));
    text.push_str(&notes(case));
    text.push_str(&logs(case));
    text.push_str("</details>\n");
    text
}

fn evidence(case: &Case) -> String {
    // A check of what others recorded has no beginning of its own.
    let begun = match case.outcome.started {
        0 => String::new(),
        started => format!("Begun {}. ", moment(started)),
    };
    let Some(path) = &case.outcome.evidence else {
        return if begun.is_empty() { begun } else { format!("<p>{}</p>\n", begun.trim_end()) };
    };
    let path = path.display().to_string();
    // Only a path below the report is a link: the page may be read on another machine, or on a server.
    let is_below = !path.starts_with('/') && !path.contains(':') && !path.split('/').any(|part| part == "..");
    let shown = esc(&path);
    let shown = if is_below {
        format!("<a href=\"{shown}\"><code>{shown}</code></a>")
    } else {
        format!("<code>{shown}</code>")
    };
    format!("<p>{begun}Logs, objects, events and volumes that were kept: {shown}</p>\n")
}

fn history(case: &Case) -> String {
    let Some(traffic) = &case.traffic else { return String::new() };
    let judgement = &traffic.judgement;
    let (class, details) = match &judgement.verdict {
        History::Linearizable => ("passed", String::new()),
        History::Violated(violations) => ("failed", violations.iter().map(violation).collect()),
        History::Undecided(reasons) => {
            ("missing", reasons.iter().map(|reason| format!("<p>{}</p>\n", esc(reason))).collect())
        }
    };
    format!("<p class=\"history {class}\">{}</p>\n{details}", esc(&judgement.summary()))
}

fn violation(Violation { key, what, table }: &Violation) -> String {
    format!("<p>Key {}: {}</p>\n<pre class=\"calls\">{}</pre>\n", esc(key), esc(what), esc(table))
}

fn notes(case: &Case) -> String {
    if case.notes.is_empty() {
        return String::new();
    }
    let open = if case.is_bad() { " open" } else { "" };
    let mut text =
        format!("<details{open}><summary>What was done and seen</summary>\n<table class=\"notes\"><tbody>\n");
    let from = case.notes.len().saturating_sub(NOTES);
    if from > 0 {
        let _ = writeln!(text, "<tr><td></td><td>… {from} more before, in results.json</td></tr>");
    }
    for note in &case.notes[from..] {
        let at = note.at.as_secs_f64();
        let class = if note.text.starts_with("FAULT") { " class=\"fault\"" } else { "" };
        let _ = writeln!(
            text,
            "<tr><td class=\"number\">{at:.3} s</td><td{class}>{}</td></tr>",
            esc(&short(&note.text))
        );
    }
    text.push_str("</tbody></table>\n</details>\n");
    text
}

fn logs(case: &Case) -> String {
    let mut text = String::new();
    for log in &case.logs {
        let _ = writeln!(
            text,
            "<details><summary>The end of {}</summary>\n<div class=\"log\"><pre>{}</pre></div></details>",
            esc(&log.name),
            esc(&tail(log)),
        );
    }
    text
}

fn tail(log: &Tail) -> String {
    log.lines.iter().map(|line| short(line)).collect::<Vec<_>>().join("\n")
}

fn short(line: &str) -> String {
    match line.char_indices().nth(LINE) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}
