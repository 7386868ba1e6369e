// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask tool`: the path of a pinned tool, alone on stdout, so that `$(…)` can use it.

use std::process::ExitCode;

use anyhow::Result;

use super::USAGE;
use crate::tools::Tool;

/// Builds a pinned tool if needed and prints its path
///
/// The path is all that goes to stdout; progress goes to stderr. Finished tools are kept in $ETCD_WRAPPER_CACHE, else
/// $XDG_CACHE_HOME/etcd-wrapper, else ~/.cache/etcd-wrapper, and built anew when their pin or the compiler changes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: $(cargo xtask tool etcdctl@3.6) version\n\
    A name without @LINE means 3.5. An unknown name is exit code 2, with the list of names.")]
pub(crate) struct Args {
    /// Such as etcd, etcd@3.6, etcdctl, etcdutl@3.7, cargo-nextest
    #[arg(value_name = "NAME[@LINE]")]
    name: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match args.name.parse::<Tool>() {
        Ok(tool) => {
            println!("{}", tool.ensure()?.display());
            Ok(ExitCode::SUCCESS)
        }
        Err(unknown) => {
            eprintln!("error: {unknown}");
            Ok(ExitCode::from(USAGE))
        }
    }
}
