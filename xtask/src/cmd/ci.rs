// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask ci`: what workflows have to decide, as verbs that can be typed and tested: what a change needs, whether it
//! passed, who is told, and a rehearsal of the workflow on this machine.

mod gate;
mod plan;
mod rehearse;
mod report;

use std::process::ExitCode;

use anyhow::Result;

/// Decides for the workflows: what a run needs, whether it passed, who is told
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask ci plan --base origin/main        what this branch's changes need\n  \
    cargo xtask ci plan --event schedule          what a night runs\n  \
    cargo xtask ci rehearse                       ci.yml on this machine")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Plan(plan::Args),
    Gate(gate::Args),
    Report(report::Args),
    Rehearse(rehearse::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Plan(args) => plan::run(args),
        What::Gate(args) => gate::run(args),
        What::Report(args) => report::run(args),
        What::Rehearse(args) => rehearse::run(args),
    }
}
