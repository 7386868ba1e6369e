// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask release rehearse`: a release against stand-ins on this machine.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::release::rehearse::{self, Options};
use crate::{cache, repo, workspace};

/// Rehearses a minor and a patch release on this machine
///
/// A scratch remote, a real registry with TLS and login, a double of GitHub's API, and signatures with a local key. Every
/// verb runs as a process of its own and is killed after each step and continued; then a consumer pulls, verifies and
/// starts the image. Reaches nothing beyond this machine but what builds need. Shows each step, and at the end what stood
/// in for what.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask release rehearse             with the real image\n  \
    cargo xtask release rehearse --planted   with a small image in its place")]
pub(super) struct Args {
    /// Take a small image of a shell script in the place of the real one, and say so
    #[arg(long)]
    planted: bool,
    /// Where everything goes; it must be empty or not there [default: a folder below target that is removed at the end]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let root = repo::root();
    let above = workspace::target_folder(&root)?.join("rehearsal");
    std::fs::create_dir_all(&above).with_context(|| format!("create {}", above.display()))?;
    // The folder that cargo builds the real image in is kept, so that the next rehearsal is quicker.
    let _alone = cache::lock(&above.join("lock"), "rehearsal")?;
    let temporary = tempfile::Builder::new()
        .prefix("run-")
        .tempdir_in(&above)
        .context("make a folder for the rehearsal")?;
    let folder = match &args.folder {
        Some(folder) => std::path::absolute(folder)?,
        None => temporary.path().to_owned(),
    };
    let target = if args.planted { folder.join("target") } else { above.join("target") };
    std::fs::create_dir_all(&target).with_context(|| format!("create {}", target.display()))?;
    rehearse::run(&Options { root: &root, folder: &folder, target: &target, planted: args.planted })?;
    Ok(ExitCode::SUCCESS)
}
