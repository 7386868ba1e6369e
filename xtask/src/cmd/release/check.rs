// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask release check`: every part of a release that is missing or wrong, by name.

use std::process::ExitCode;

use anyhow::Result;

use crate::release::check::{self, Report, Subject};
use crate::release::component::Component;
use crate::{repo, workspace};

/// Checks whether a release is whole
///
/// The tree, target/release-VERSION, the tags of the remote, and what CI says of the commit. Names each part that is
/// missing or wrong. Changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: cargo xtask release check --offline\n\n\
    GITHUB_TOKEN is sent to GITHUB_API_URL if it is set. Exit code 1 if a part is missing or wrong.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// Do not ask for CI and for tags of the remote; both are named as not looked at
    #[arg(long)]
    offline: bool,
}

/// What check and cut share.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// The remote
    #[arg(long, value_name = "NAME", default_value = "origin")]
    pub(super) remote: String,
    /// Let an end-to-end report count that was made with a double; for rehearsals
    #[arg(long)]
    pub(super) rehearsal: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let report = look(&args.common, args.offline)?;
    show(&report);
    if !report.findings.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    println!("{} of {} is whole", report.bundle.version.tag(), report.commit);
    if args.common.rehearsal {
        println!("for a rehearsal: an end-to-end report with doubles was let through");
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn look(common: &Common, offline: bool) -> Result<Report> {
    let root = repo::root();
    let target = workspace::target_folder(&root)?;
    let client =
        if offline { None } else { Some(super::surroundings::github(Component::read(&root)?.slug()?)?) };
    check::run(&Subject {
        root: &root,
        target: &target,
        remote: (!offline).then_some(common.remote.as_str()),
        github: client.as_ref(),
        rehearsal: common.rehearsal,
    })
}

pub(super) fn show(report: &Report) {
    for part in &report.well {
        println!("well       {part}");
    }
    for what in &report.unseen {
        println!("not seen   {what}");
    }
    for finding in &report.findings {
        println!("missing    {finding}");
    }
}
