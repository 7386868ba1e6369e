// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask image`: the wrapper of this tree and an etcd as a container image.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::engine::Engine;
use crate::image::ours;
use crate::tools::Line;
use crate::{repo, workspace};

/// Builds the image of this tree
///
/// The wrapper is built static and as it is shipped, and put beside a pinned etcd on an empty root, for the architecture
/// of this machine. The same inputs give the same image. Prints the image's name alone on stdout.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask image --load                      into the local engine\n  \
    cargo xtask image --etcd 3.6 --output x.tar   an archive that engines and containerd load")]
#[group(required = true, multiple = true)]
pub(crate) struct Args {
    /// Put it into the local container engine
    #[arg(long)]
    load: bool,
    /// Write it as an archive
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The line of etcd in it
    #[arg(long, value_name = "LINE", default_value = "3.5")]
    #[arg(group = "settings")]
    etcd: Line,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let engine = args.load.then(Engine::running).transpose()?;
    let binary = workspace::build("etcd-wrapper", "etcd-wrapper", true)?;
    let work = workspace::target_folder(&repo::root())?.join("image");
    let ready = ours::wrapper(&binary, args.etcd)?.pack(&work)?;
    let reference = ours::reference(&format!("etcd-wrapper-{}", args.etcd.as_str()), &ready);
    if let Some(path) = &args.output {
        let path = std::path::absolute(path).with_context(|| format!("find {}", path.display()))?;
        ready.write(&reference, &path)?;
        eprintln!("wrote {}", path.display());
    }
    if let Some(engine) = engine {
        let archive = work.join("load.tar");
        ready.write(&reference, &archive)?;
        engine.load(&archive)?;
        std::fs::remove_file(&archive).with_context(|| format!("remove {}", archive.display()))?;
        eprintln!("loaded, image id sha256:{}", ready.id);
    }
    println!("{reference}");
    Ok(ExitCode::SUCCESS)
}
