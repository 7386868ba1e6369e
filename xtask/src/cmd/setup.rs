// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask setup`: brings what a machine lacks for the other verbs, and says what and why. Packages are
//! installed only as root on a machine with apt-get; elsewhere the command that does it is named.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};

use crate::arch::Arch;
use crate::engine::bring::{self, Brought};
use crate::machine::{self, LINKER_MEND};
use crate::repo::{self, Pins};
use crate::sh::Step;
use crate::tools::{Line, Tool};
use crate::workspace::Cross;

/// Installs what this machine lacks, and says what and why
///
/// Looks for Rust, its formatter and lints, a C linker, Go, curl, cargo-nextest, and an etcd 3.4 out of Debian's package.
/// With --engine, which the end-to-end suite needs, also for a container engine: as root on Debian it installs docker.io
/// and starts its daemon, which then runs until --engine-stop. With --image also for what builds the image for the other
/// architecture. May be run again at any time: what is there is left as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask setup\n  \
    cargo xtask setup --engine\n  \
    cargo xtask setup --image\n\n\
    Exit code 1 if something is still missing that `cargo xtask test` needs.")]
pub(crate) struct Args {
    /// Bring up a container engine where none runs
    #[arg(long)]
    engine: bool,
    /// Stop the engine that --engine started, and no other
    #[arg(long, conflicts_with = "engine")]
    engine_stop: bool,
    /// Bring what `cargo xtask image` builds for another architecture with
    #[arg(long)]
    image: bool,
}

const CURL_MEND: &str = "apt-get install -y curl";

/// What was found, or done, about one thing.
enum Found {
    There(String),
    Brought(String),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.engine_stop {
        match bring::down()? {
            Some(pid) => println!("stopped   container engine: dockerd, pid {pid}"),
            None => println!("there     no container engine runs that `setup --engine` started"),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let root = repo::root();
    let needed = [
        ("rust", "compiles everything", rust(&root)),
        ("rustfmt, clippy", "the first two checks of .ci/run", components()),
        ("C linker", "every program of the workspace is linked by it", program("cc", LINKER_MEND)),
        ("go", "builds the pinned etcd of hack/tools", go(&root)),
        ("curl", "the flows in the docs are run as they stand", program("curl", CURL_MEND)),
        ("cargo-nextest", "runs the tests", Tool::CargoNextest.ensure().map(|path| there(path.display()))),
    ];
    let mut missing = false;
    for (name, why, found) in needed {
        missing |= found.is_err();
        tell(name, why, found, "MISSING");
    }
    let debian = Tool::Etcd(Line::L34).ensure().map(|path| there(path.display()));
    tell("etcd 3.4", "its tests are left out without it", debian, "left out");
    if args.engine {
        let engine = engine(&root);
        missing |= engine.is_err();
        tell("container engine", "the test cluster is a container", engine, "MISSING");
    }
    if args.image {
        for arch in Arch::ALL.into_iter().filter(|arch| *arch != Arch::HERE) {
            let cross = Cross::of(arch)?;
            let compiler = program(&cross.compiler(), &cross.compiler_mend());
            missing |= compiler.is_err();
            tell(&format!("C compiler for {arch}"), "compiles and links the wrapper", compiler, "MISSING");
            let library = library(&cross);
            missing |= library.is_err();
            tell(&format!("Rust for {arch}"), "the standard library of the wrapper", library, "MISSING");
            let emulator = Tool::Qemu(arch).ensure().map(|path| there(path.display()));
            tell(&format!("qemu for {arch}"), "the image's programs are run once", emulator, "left out");
        }
    }
    Ok(if missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Rust's standard library for another architecture, by rustup.
fn library(cross: &Cross) -> Result<Found> {
    if cross.library()?.is_some() {
        return Ok(there("in the toolchain"));
    }
    let mend = cross.library_mend();
    if machine::on_path("rustup").is_none() {
        bail!("not in the toolchain; run: {mend}");
    }
    Step::new("rustup").args(mend.split_whitespace().skip(1)).dir(&repo::root()).run()?;
    Ok(Found::Brought(mend))
}

fn engine(root: &Path) -> Result<Found> {
    let (engine, how) = bring::up(&Pins::read(root)?)?;
    Ok(match how {
        Brought::There => there(format!("docker {}", engine.version)),
        Brought::Started { pid, log } => Found::Brought(format!(
            "docker {}, dockerd has pid {pid} and writes to {}; stop it: cargo xtask setup --engine-stop",
            engine.version,
            log.display()
        )),
    })
}

fn tell(name: &str, why: &str, found: Result<Found>, lacking: &str) {
    match found {
        Ok(Found::There(what)) => println!("{:9} {name} ({why}): {what}", "there"),
        Ok(Found::Brought(what)) => println!("{:9} {name} ({why}): {what}", "installed"),
        Err(error) => println!("{lacking:9} {name} ({why}): {error:#}"),
    }
}

fn there(what: impl std::fmt::Display) -> Found {
    Found::There(what.to_string())
}

fn rust(root: &Path) -> Result<Found> {
    let file = root.join("rust-toolchain.toml");
    let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let wanted = repo::toolchain_channel(&text).with_context(|| format!("{}: no channel", file.display()))?;
    let have = Step::new("rustc").arg("--version").dir(root).mend("https://rustup.rs").read()?;
    let have = have.split_whitespace().nth(1).unwrap_or_default();
    if !machine::at_least(have, wanted) {
        bail!("rustc is {have}; run: rustup toolchain install {wanted}");
    }
    Ok(there(have))
}

fn components() -> Result<Found> {
    let lacking: Vec<&str> = [("rustfmt", "fmt"), ("clippy", "clippy")]
        .into_iter()
        .filter(|(_, verb)| Step::new("cargo").args([verb, "--version"]).read().is_err())
        .map(|(component, _)| component)
        .collect();
    if lacking.is_empty() {
        return Ok(there("both"));
    }
    let mend = format!("rustup component add {}", lacking.join(" "));
    if machine::on_path("rustup").is_none() {
        bail!("without {}; run: {mend}", lacking.join(" and "));
    }
    Step::new("rustup").args(["component", "add"]).args(&lacking).run()?;
    Ok(Found::Brought(mend))
}

/// A program of the system's, and the line that installs it.
fn program(name: &str, mend: &str) -> Result<Found> {
    match machine::on_path(name) {
        Some(path) => Ok(there(path.display())),
        None => apt_install(mend),
    }
}

fn go(root: &Path) -> Result<Found> {
    let module = root.join("hack/tools/etcd35");
    let wanted = machine::wanted_go(&module)?;
    if machine::on_path("go").is_some() {
        // In the module's folder, so that a Go that fetches its own toolchain says the one it will use.
        let version = machine::go_version(&module)?;
        if machine::at_least(version.trim_start_matches("go"), &wanted) {
            return Ok(there(version));
        }
        bail!("{version} is older than {wanted}; run: {}", machine::go_mend(&wanted));
    }
    let mend = machine::go_mend(&wanted);
    if mend.starts_with("apt-get") { apt_install(&mend) } else { Err(anyhow!("not on PATH; run: {mend}")) }
}

/// Runs an `apt-get install` line, where that is ours to do.
fn apt_install(line: &str) -> Result<Found> {
    if !machine::apt_as_root() {
        bail!("not on PATH; run, as root: {line}");
    }
    Step::new("apt-get").args(["-q", "update"]).run()?;
    Step::new("apt-get")
        .args(line.split_whitespace().skip(1))
        .env("DEBIAN_FRONTEND", "noninteractive")
        .run()?;
    Ok(Found::Brought(line.to_owned()))
}
