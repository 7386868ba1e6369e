// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask release build`: image, documents, descriptor, transport archive and sums in one folder.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::arch::Arch;
use crate::image::{self, Layout};
use crate::release::build::{self, Inputs};
use crate::tools::Line;
use crate::{repo, workspace};

/// Puts a release together in target/release-VERSION
///
/// Of the commit that is checked out, which `prepare` made. The same commit, image and reports give the same bytes in every
/// folder. Reports that are not there are named, and the exit code is 0: `check` is who refuses. Prints the folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: cargo xtask release build --evidence evidence\n\n\
    The folder of --evidence has tests/, sast/ and e2e/ with whatever those made; each is copied as it is. \
    With one --arch the release is for trying things on this machine: `check` and `cut` refuse it.")]
pub(super) struct Args {
    /// Folder with reports
    #[arg(long, value_name = "DIR")]
    evidence: Option<PathBuf>,
    /// The architectures
    #[arg(long, value_name = "ARCH,…", value_delimiter = ',', default_value = "amd64,arm64")]
    arch: Vec<Arch>,
    /// Take this layout, made before by `cargo xtask image`, and build none
    #[arg(long, value_name = "DIR", conflicts_with = "arch")]
    image: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let root = repo::root();
    // Before minutes of building.
    build::prepared(&root)?;
    let layout = match &args.image {
        Some(path) => Layout::open(path)?,
        None => {
            let mut archs = args.arch.clone();
            archs.sort();
            archs.dedup();
            let options =
                image::Options { archs, line: Line::DEFAULT, ops: false, wrappers: BTreeMap::new() };
            image::build(&options)?
        }
    };
    let target = workspace::target_folder(&root)?;
    let evidence = args.evidence.as_deref();
    let (bundle, absent) = build::run(&Inputs { root: &root, target: &target, image: &layout, evidence })?;
    for kind in absent {
        eprintln!("absent: {}; it is made by: {}", kind.resource(), kind.mend());
    }
    let archs = bundle.summary()?.architectures;
    if let Some(lacking) = Arch::ALL.iter().find(|arch| !archs.iter().any(|name| name == arch.as_str())) {
        eprintln!("the image lacks linux/{lacking}: `check` and `cut` will refuse this release");
    }
    eprintln!("image {}", layout.digest);
    println!("{}", bundle.path.display());
    eprintln!("next: cargo xtask release check");
    Ok(ExitCode::SUCCESS)
}
