// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The run on the terminal: each row when it is done, on stderr; the table at the end, on stdout.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the terminal's part")]
use std::path::Path;

use super::Report;
use crate::finding::Row;
use crate::verdict::{Verdict, number};

/// A row that is done, in a line.
pub(crate) fn tell(row: &Row) {
    let word = if row.has(Verdict::Missed) {
        "missed"
    } else if row.has(Verdict::Noisy) {
        "too noisy"
    } else if row.bars.is_empty() {
        "no verdict"
    } else {
        "holds"
    };
    eprintln!("row {}: {word}, {:.0} s", row.id, row.took);
}

pub(super) fn end(report: &Report<'_>, folder: &Path) {
    for row in &report.rows {
        println!("{:>2}  {}", row.id, row.title);
        for figure in &row.figures {
            for series in &figure.series {
                let (median, min, max) = (number(series.median), number(series.min), number(series.max));
                let spread =
                    if series.runs.len() > 1 { format!("  ({min} – {max})") } else { String::new() };
                println!("    {:<34} {:<22} {median:>9} {}{spread}", figure.name, series.of, figure.unit);
            }
        }
        for bar in &row.bars {
            // A number that means nothing is none.
            let value = if bar.verdict == Verdict::Noisy { "–".to_owned() } else { number(bar.value) };
            let says = format!("{} is {value}", bar.limit_text());
            println!("    {:<57} {:>18}  {}", bar.what, says, bar.verdict.word());
            if !bar.why.is_empty() {
                println!("      {}", bar.why);
            }
        }
        for note in &row.notes {
            println!("    {note}");
        }
        for missing in &row.missing {
            println!("    not measured: {}: {}", missing.what, missing.why);
        }
        if row.took > 1.0 {
            println!(
                "    while it was measured others used {:.0} % of the machine; a waiting thread woke {} ms late (p99), {} ms at worst",
                row.foreign * 100.0,
                number(row.lag.0),
                number(row.lag.1)
            );
        }
    }
    eprintln!("report: {} and report.json beside it", folder.join("report.html").display());
}
