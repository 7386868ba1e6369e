// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask image verify`: holds an image against what is shipped, and tells it to people or to programs.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::arch::Arch;
use crate::image::verify::{self, Expected, Report};
use crate::image::{Layout, registry};

/// Holds a built image against what is shipped
///
/// Looks at architectures, labels, user, entrypoint, files and their modes, sizes, the lists of contents and the provenance,
/// and hashes every blob. An image in a registry is fetched first, with what is attached to it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask image verify target/image/etcd-wrapper-3.5\n  \
    cargo xtask image verify --json registry.example.org/team/etcd-wrapper:1.0.0\n\n\
    Exit code 1 if something is not as it should be; each such thing is named.")]
pub(crate) struct Args {
    /// The folder of an OCI image layout, or REGISTRY/REPO with a tag or digest
    #[arg(value_name = "LAYOUT|REF")]
    image: String,
    /// The architectures that it should have
    #[arg(long, value_name = "ARCH,…", value_delimiter = ',', default_value = "amd64,arm64")]
    arch: Vec<Arch>,
    /// It is the image with a shell and more tools
    #[arg(long)]
    ops: bool,
    /// Write the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: registry::Access,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut archs = args.arch.clone();
    archs.sort();
    archs.dedup();
    let expected = Expected { archs, ops: args.ops };
    let folder = Path::new(&args.image);
    let report = if folder.is_dir() {
        verify::verify(&Layout::open(folder)?, &expected)?
    } else {
        let reference: registry::Reference = args
            .image
            .parse()
            .with_context(|| format!("{} is no folder, and so should be in a registry", args.image))?;
        let pulled = tempfile::tempdir().context("make a temporary folder")?;
        let layout = registry::pull(&reference, &args.access, pulled.path())?;
        verify::verify(&layout, &expected)?
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", table(&report));
    }
    if report.ok {
        return Ok(ExitCode::SUCCESS);
    }
    let failed = report.checks.iter().filter(|check| !check.ok).count();
    eprintln!("error: {failed} of {} checks failed for {}", report.checks.len(), report.digest);
    Ok(ExitCode::FAILURE)
}

fn table(report: &Report) -> String {
    let rows = report.checks.iter().map(|check| {
        let outcome = if check.ok { "ok" } else { "FAILED" };
        format!("{outcome:<7} {:<6} {:<14} {}\n", check.arch.unwrap_or("all"), check.check, check.seen)
    });
    rows.chain([format!("{}\n", report.digest)]).collect()
}
