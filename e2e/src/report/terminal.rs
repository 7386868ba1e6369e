// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The run as a table for the terminal, in colour only where that is asked for.
use std::fmt::Write as _;

use super::model::{Outcome, Run};
use super::page::plain;

/// Longest gist; the whole of it stands on the page.
const GIST: usize = 110;

/// The verdict, one line for each scenario, and the verdict again, since long tables scroll. `colour`: only when a
/// terminal reads it.
pub fn table(run: &Run, colour: bool) -> String {
    let width = run.cases.iter().map(|case| case.name.chars().count()).max().unwrap_or(0);
    let mut text = format!("{}\n\n", run.headline());
    for case in &run.cases {
        let word = format!("{:<7}", case.outcome.word());
        let word = if colour { format!("\x1b[{}m{word}\x1b[0m", code(&case.outcome)) } else { word };
        let gist = plain(&case.gist());
        let gist = match gist.char_indices().nth(GIST) {
            Some((cut, _)) => format!("{}…", &gist[..cut]),
            None => gist,
        };
        let name = plain(&case.name);
        let line = format!("{word}  {name:<width$}  {:>8}  {gist}", time(case.took.as_secs_f64()));
        let _ = writeln!(text, "{}", line.trim_end());
        if let (Outcome::Failed | Outcome::Hung, Some(evidence)) = (&case.outcome, &case.evidence) {
            let _ = writeln!(text, "         evidence: {}", plain(evidence));
        }
    }
    if run.cases.len() > 20 {
        let _ = write!(text, "\n{}\n", run.headline());
    }
    text
}

pub(super) fn time(seconds: f64) -> String {
    if seconds >= 60.0 {
        // Whole seconds first, or 119.99 would become "1 min 60 s".
        let whole = seconds.round();
        format!("{:.0} min {:02.0} s", (whole / 60.0).floor(), whole % 60.0)
    } else {
        format!("{seconds:.1} s")
    }
}

fn code(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Passed => 32,
        Outcome::Failed | Outcome::Hung => 31,
        Outcome::Skipped(_) => 33,
    }
}
