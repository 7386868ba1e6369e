// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The run as a table for the terminal, in colour only where that is asked for.
use std::fmt::Write as _;

use super::headline::headline;
use super::model::{gist, word};
use super::page::plain;
use crate::outcome::{Outcome, Results, Verdict};

/// Longest gist; the whole of it stands on the page.
const GIST: usize = 110;

/// The verdict in one line, and a line for each scenario. `colour`: only when a terminal reads it.
pub fn table(results: &Results, colour: bool) -> String {
    let width = results.outcomes.iter().map(|outcome| outcome.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for outcome in &results.outcomes {
        let word = format!("{:<11}", word(outcome.verdict));
        let word = if colour { format!("\x1b[{}m{word}\x1b[0m", code(outcome.verdict)) } else { word };
        let gist = plain(&gist(outcome));
        let gist = match gist.char_indices().nth(GIST) {
            Some((cut, _)) => format!("{}…", &gist[..cut]),
            None => gist,
        };
        let name = plain(&outcome.name);
        let line = format!("{word}  {name:<width$}  {:>12}  {gist}", took(outcome));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    // Last, since a table scrolls.
    let _ = writeln!(text, "{}", headline(results));
    text
}

/// How long a scenario ran; nothing for one that did not, nor for a check of what others recorded.
pub(super) fn took(outcome: &Outcome) -> String {
    match outcome.verdict {
        Verdict::Missing => "–".into(),
        _ if outcome.took == 0 => "–".into(),
        _ => time(outcome.took),
    }
}

/// Milliseconds for people.
pub(super) fn time(millis: u64) -> String {
    // Rounded first, or 119,990 would become "1 min 60 s".
    let tenths = (millis + 50) / 100;
    if tenths < 600 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        let seconds = (millis + 500) / 1000;
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

fn code(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Passed => 32,
        Verdict::Failed | Verdict::Hung | Verdict::Interrupted => 31,
        Verdict::Missing => 33,
    }
}
