// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask image`: the wrapper of this tree and an etcd as a container image, and where it shall go.

mod verify;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::arch::Arch;
use crate::engine::Engine;
use crate::image::smoke::{self, Outcome};
use crate::image::{self, Layout, export, registry};
use crate::tools::Line;

/// Builds the image of this tree
///
/// The wrapper is built static and as it is shipped, and put beside a pinned etcd on an empty root, for both architectures:
/// one index as an OCI image layout in target/image/NAME, with lists of contents and provenance. Each program is run once,
/// those of another architecture under qemu. The same commit gives the same digest in every folder. The last line on stdout
/// is the digest of the index.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  \
    cargo xtask image                           into target/image/etcd-wrapper-3.5\n  \
    cargo xtask image --arch amd64 --load       into the local engine\n  \
    cargo xtask image --etcd 3.6 --output x.tar an archive that engines load\n  \
    cargo xtask image --push registry.example.org/team/etcd-wrapper\n  \
    cargo xtask image verify target/image/etcd-wrapper-3.5\n\n\
    SOURCE_DATE_EPOCH takes the place of the time of the commit.")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The architectures
    #[arg(long, value_name = "ARCH,…", value_delimiter = ',', default_value = "amd64,arm64")]
    arch: Vec<Arch>,
    /// The line of etcd in it
    #[arg(long, value_name = "LINE", default_value = "3.5", value_parser = shipped_line())]
    etcd: Line,
    /// Put that of this machine's architecture into the local container engine
    #[arg(long)]
    load: bool,
    /// Write it here as well: as an archive if the name ends in .tar, else as a layout
    #[arg(long, value_name = "DIR|FILE.tar")]
    output: Option<PathBuf>,
    /// With a static shell and etcdutl, for `kubectl debug`
    #[arg(long)]
    ops: bool,
    /// A wrapper that was built elsewhere; may be given for each architecture
    #[arg(long, value_name = "ARCH=FILE", value_parser = parse_wrapper)]
    wrapper: Vec<(Arch, PathBuf)>,
    /// Send it to a registry; without a tag it gets that of its version
    #[arg(long, value_name = "REGISTRY/REPO[:TAG]")]
    push: Option<registry::Reference>,
    /// Build it, and say what would be loaded and sent
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    access: registry::Access,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Verify(verify::Args),
}

fn shipped_line() -> impl TypedValueParser<Value = Line> {
    PossibleValuesParser::new(["3.5", "3.6", "3.7"]).map(|text| match text.as_str() {
        "3.6" => Line::L36,
        "3.7" => Line::L37,
        _ => Line::L35,
    })
}

fn parse_wrapper(text: &str) -> Result<(Arch, PathBuf)> {
    let (name, file) = text.split_once('=').with_context(|| format!("{text:?} is not ARCH=FILE"))?;
    let arch = Arch::from_name(name).with_context(|| format!("no architecture {name:?}"))?;
    Ok((arch, std::path::absolute(file)?))
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(Verb::Verify(args)) = &args.verb {
        return verify::run(args);
    }
    let engine = (args.load && !args.dry_run).then(Engine::running).transpose()?;
    let mut archs = args.arch.clone();
    archs.sort();
    archs.dedup();
    if args.load && !archs.contains(&Arch::HERE) {
        bail!("--load puts the image for {here} into the engine; add it: --arch {here}", here = Arch::HERE);
    }
    let wrappers: BTreeMap<_, _> = args.wrapper.iter().cloned().collect();
    let options = image::Options { archs, line: args.etcd, ops: args.ops, wrappers };
    let layout = image::build(&options)?;
    smoke(&layout, &options)?;
    let reference = format!("localhost/{}:{}", options.name(), layout.digest.short());
    if args.dry_run {
        for line in plan(args, &layout, &reference) {
            eprintln!("would {line}");
        }
        println!("{}", layout.digest);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &args.output {
        write(&layout, &reference, path)?;
    }
    if let Some(engine) = engine {
        load(&layout, &reference, &engine)?;
        println!("{reference}");
    }
    if let Some(to) = &args.push {
        println!("{}", registry::push(&layout, to, &args.access)?);
    }
    println!("{}", layout.digest);
    Ok(ExitCode::SUCCESS)
}

/// What a run would do outside the target folder.
fn plan(args: &Args, layout: &Layout, reference: &str) -> Vec<String> {
    let write = args.output.as_ref().map(|path| format!("write {}", path.display()));
    let load = args.load.then(|| format!("load {reference} into the container engine"));
    let push = args.push.as_ref().map(|to| {
        let tag = layout.tag.as_deref().unwrap_or_default();
        format!("push {} to {to}, without a tag there as {tag}", layout.digest)
    });
    [write, load, push].into_iter().flatten().collect()
}

/// Runs every program once, and names those that cannot be run here.
fn smoke(layout: &Layout, options: &image::Options) -> Result<()> {
    for (arch, outcome) in smoke::run(layout, options)? {
        match outcome {
            Outcome::Ran(said) => eprintln!("ran on {arch}: {}", said.join("; ")),
            Outcome::NotRun(why) => eprintln!("NOT RUN: the programs for {arch}: {why}"),
        }
    }
    Ok(())
}

fn write(layout: &Layout, reference: &str, path: &Path) -> Result<()> {
    let path = std::path::absolute(path).with_context(|| format!("find {}", path.display()))?;
    if path.extension().is_some_and(|end| end == "tar") {
        export::archive(layout, reference, &path)?;
    } else {
        export::copy(layout, &path)?;
    }
    eprintln!("wrote {}", path.display());
    Ok(())
}

fn load(layout: &Layout, reference: &str, engine: &Engine) -> Result<()> {
    let folder = layout.path.parent().context("a layout lies in a folder")?;
    let folder =
        tempfile::tempdir_in(folder).with_context(|| format!("make a folder in {}", folder.display()))?;
    let archive = folder.path().join("load.tar");
    export::loadable(layout, Arch::HERE, reference, &archive)?;
    engine.load(&archive)?;
    eprintln!("loaded {reference}");
    Ok(())
}
