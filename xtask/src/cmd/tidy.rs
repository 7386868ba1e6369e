// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask tidy`: the repository's own rules. The rules are in [`crate::tidy`]; here they are shown.

use std::process::ExitCode;

use anyhow::Result;

use crate::{repo, tidy};

/// Checks the repository's own rules
///
/// Edges between the stages, the purity of the state machine, licence lines, heads, lengths, `unsafe`, links between the
/// pages, the verbs and flags of commands in them, the table of requirements and tests, who names whom, and the flags,
/// exit codes, metrics, threads and variables that pages list. The tests check the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask tidy\n  \
    cargo xtask tidy --fix      after a test was added, renamed or removed\n\n\
    Exit code 1 if a rule is broken.")]
pub(crate) struct Args {
    /// Put right what needs no thought: licence lines, the tests in docs/requirements.md, who names whom in ARCHITECTURE.md
    #[arg(long)]
    fix: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let root = repo::root();
    if args.fix {
        for path in tidy::fix(&root)? {
            println!("changed   {}", path.strip_prefix(&root).unwrap_or(&path).display());
        }
    }
    let tidy::Report { findings, untested } = tidy::check(&root)?;
    for finding in &findings {
        println!("{finding}");
    }
    if !untested.is_empty() {
        println!("note: requirements that no test names yet: {}", untested.join(", "));
    }
    if findings.is_empty() {
        println!("tidy: no rule of the repository is broken");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} to mend", findings.len());
    Ok(ExitCode::FAILURE)
}
