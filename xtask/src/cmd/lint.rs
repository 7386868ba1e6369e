// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask lint`: what other people's programs say about this tree. Runs all of them, whatever the first one says,
//! and ends with a table. Which files and options each gets stands in `checks`.

mod checks;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};

use self::checks::{Check, Outcome};
use crate::repo;

/// Checks format, lints, licences, dependencies, workflows and scripts
///
/// Runs rustfmt, clippy, rustdoc, cargo-deny, cargo-machete, the REUSE rules, actionlint, zizmor and shellcheck, each in
/// its pinned version, and ends with a table: what passed, what failed and what mends it, what was not run and why. On
/// first use the pinned programs are built into the cache. The repository's own rules are `cargo xtask tidy`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lint\n  \
    cargo xtask lint --fix                     mends what programs can mend\n  \
    cargo xtask lint fmt clippy                only these\n  \
    cargo xtask lint --skip advisories\n  \
    cargo xtask lint --report evidence/sast    keeps what the programs say\n  \
    cargo xtask lint --complete                what cannot be run is a failure\n\n\
    Exit code 1 if a check failed.")]
pub(crate) struct Args {
    /// Only these
    #[arg(value_enum)]
    checks: Vec<Check>,
    /// Not these; may be repeated
    #[arg(long, value_enum, value_name = "CHECK")]
    skip: Vec<Check>,
    /// Let the programs that can do so mend what they find
    #[arg(long)]
    fix: bool,
    /// Keep the table, and what each program says, as files in this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// What cannot be run counts as failed
    #[arg(long)]
    complete: bool,
}

/// One line of the closing table.
#[derive(Debug)]
struct Row {
    check: Check,
    outcome: Outcome,
    seconds: f64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let root = repo::root();
    let mut chosen = if args.checks.is_empty() { Check::ALL.to_vec() } else { args.checks.clone() };
    chosen.retain(|check| !args.skip.contains(check));
    let report = args.report.as_ref().map(std::path::absolute).transpose()?;
    if let Some(folder) = &report {
        std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    }
    let mut rows = Vec::new();
    for check in chosen {
        eprintln!("\n== {check}");
        let since = Instant::now();
        // A check that cannot even start says nothing about the others.
        let kept = report.as_ref().map(|folder| folder.join(format!("{check}.txt")));
        let outcome = checks::run(check, &root, args.fix, kept.as_deref())
            .unwrap_or_else(|error| Outcome::Failed { mend: format!("{error:#}") });
        rows.push(Row { check, outcome, seconds: since.elapsed().as_secs_f64() });
    }
    let table = table(&rows);
    print!("\n{table}");
    if let Some(folder) = &report {
        let path = folder.join("summary.txt");
        std::fs::write(&path, &table).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(if failed(&rows, args.complete) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn failed(rows: &[Row], complete: bool) -> bool {
    rows.iter().any(|row| match row.outcome {
        Outcome::Passed => false,
        Outcome::Failed { .. } => true,
        Outcome::NotRun { .. } => complete,
    })
}

fn table(rows: &[Row]) -> String {
    let line = |name: &str, outcome: &str, time: &str, note: &str| {
        format!("{}\n", format!("{name:<12} {outcome:<8} {time:>7}  {note}").trim_end())
    };
    let mut table = line("check", "outcome", "time", "mended by, or why");
    for Row { check, outcome, seconds } in rows {
        let (word, note) = match outcome {
            Outcome::Passed => ("passed", ""),
            Outcome::Failed { mend } => ("FAILED", mend.as_str()),
            Outcome::NotRun { why } => ("not run", why.as_str()),
        };
        // A note of several lines was printed in full where it arose.
        let note = note.lines().next().unwrap_or_default();
        table.push_str(&line(&check.to_string(), word, &format!("{seconds:.1} s"), note));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(check: Check, outcome: Outcome) -> Row {
        Row { check, outcome, seconds: 1.0 }
    }

    #[test]
    fn the_table_names_what_mends_a_failure_and_why_something_was_not_run() {
        let rows = [
            row(Check::Fmt, Outcome::Passed),
            row(Check::Clippy, Outcome::Failed { mend: "cargo xtask lint --fix clippy".into() }),
            row(Check::Advisories, Outcome::NotRun { why: "no way to the database\nat all".into() }),
        ];
        let table = table(&rows);
        assert!(table.contains("fmt          passed"), "{table}");
        assert!(table.contains("FAILED     1.0 s  cargo xtask lint --fix clippy"), "{table}");
        assert!(table.contains("not run    1.0 s  no way to the database\n"), "{table}");
    }

    #[test]
    fn what_was_not_run_fails_only_a_run_that_has_to_be_complete() {
        let rows = [row(Check::Advisories, Outcome::NotRun { why: String::new() })];
        assert!(!failed(&rows, false) && failed(&rows, true));
        assert!(failed(&[row(Check::Fmt, Outcome::Failed { mend: String::new() })], false));
    }
}
