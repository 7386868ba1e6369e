// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask release`: from the plan of a release to its publication. The steps are in [`crate::release`]; here they
//! are chosen and shown.

mod build;
mod check;
mod cut;
mod rehearse;
mod show;
mod surroundings;

use std::process::ExitCode;

use anyhow::Result;

use crate::release::plan::Plan;
use crate::release::policy::Bump;
use crate::release::prepare::{self, Prepared};
use crate::repo;

/// Plans, prepares, builds, checks and cuts a release
///
/// Minor releases are cut from the main branch, patch releases from the branch of their minor. docs/releasing.md has the
/// whole way, what is signed, and how to verify it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask release plan --bump minor  what the next release would be\n  \
    cargo xtask release prepare            the commit of the release\n  \
    cargo xtask release build              images, descriptor and archive\n  \
    cargo xtask release check              whether all of it is whole\n  \
    cargo xtask release cut                what a cut would do\n  \
    cargo xtask release rehearse           all of it, on this machine alone")]
pub(crate) struct Args {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, clap::Subcommand)]
enum Step {
    Plan(PlanArgs),
    Prepare(PrepareArgs),
    Build(build::Args),
    Check(check::Args),
    Cut(cut::Args),
    Rehearse(rehearse::Args),
}

/// Says what the next release would be; changes nothing
///
/// Version, commits and changelog since the release before, and what would be published. Reads this clone alone: fetch
/// first to know the newest tags.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: cargo xtask release plan --bump minor --json")]
struct PlanArgs {
    /// What it raises [default: what the branch brings]
    #[arg(long)]
    bump: Option<Bump>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Makes the commit of a release: versions and changelog
///
/// Sets the version in Cargo.toml, Cargo.lock and the OpenAPI document, moves what is unreleased in CHANGELOG.md under the
/// version, and commits that. Nothing is pushed. Run again, it finds its commit.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: cargo xtask release prepare\nUndone by: git reset --hard HEAD~1")]
struct PrepareArgs {
    /// What it raises [default: what the branch brings]
    #[arg(long)]
    bump: Option<Bump>,
    /// The day in the changelog [default: today, UTC]
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    date: Option<String>,
    /// Say what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.step {
        Step::Plan(args) => plan(args),
        Step::Prepare(args) => prepare(args),
        Step::Build(args) => build::run(args),
        Step::Check(args) => check::run(args),
        Step::Cut(args) => cut::run(args),
        Step::Rehearse(args) => rehearse::run(args),
    }
}

fn plan(args: &PlanArgs) -> Result<ExitCode> {
    let plan = Plan::make(&repo::root(), args.bump)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&plan)?);
    } else {
        print!("{}", show::plan(&plan));
    }
    Ok(ExitCode::SUCCESS)
}

fn prepare(args: &PrepareArgs) -> Result<ExitCode> {
    let root = repo::root();
    let plan = Plan::make(&root, args.bump)?;
    if args.dry_run {
        print!("{}", show::plan(&plan));
        return Ok(if plan.obstacles.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let date = args.date.clone().unwrap_or_else(prepare::today);
    match prepare::run(&root, &surroundings::git(&root), &plan, &date)? {
        Prepared::Now(commit) => {
            eprintln!("committed; look at it with: git show");
            println!("{commit}");
        }
        Prepared::Before(commit) => {
            eprintln!("{} is prepared already", plan.version.tag());
            println!("{commit}");
        }
    }
    eprintln!("next: cargo xtask release build --evidence DIR");
    Ok(ExitCode::SUCCESS)
}

fn day(text: &str) -> Result<String> {
    humantime::parse_rfc3339(&format!("{text}T00:00:00Z"))?;
    Ok(text.to_owned())
}
