// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Rust programs, built by `cargo install --locked` into the cache. Never into `~/.cargo/bin`: a clone's pin must
//! not change what another clone finds.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cache::{self, Cache};
use crate::machine;
use crate::repo::Pins;
use crate::sh::Step;

/// The path of the program `name` in its pinned version: that on PATH if it is this version, else our own.
pub(super) fn install(cache: &Cache, pins: &Pins, name: &str) -> Result<PathBuf> {
    let version =
        pins.cargo.get(name).with_context(|| format!("pipelines/tools.yaml: no version of {name}"))?;
    if let Some(path) = machine::on_path(name)
        && is_version(&path, name, version)
    {
        return Ok(path);
    }
    let rustc = Step::new("rustc").arg("--version").read()?;
    let key = cache::key(&[("version", version.as_bytes()), ("rustc", rustc.as_bytes())]);
    let folder = cache.entry(name, &key, |folder| {
        machine::require_linker()?;
        // Unoptimised: it builds in a third of the time, and waits for tests rather than computes.
        Step::new("cargo")
            .args(["install", "--locked", "--debug", "--no-track", "--root"])
            .arg(folder)
            .arg(format!("{name}@{version}"))
            // Tools share what they are built from; the folder may be deleted at any time.
            .env("CARGO_TARGET_DIR", cache.scratch("cargo-target"))
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .watch(&format!("building {name} {version} (once, some 1 to 4 minutes on two cores)"))
    })?;
    Ok(folder.join("bin").join(name))
}

/// Whether the program says that it is of this version: as cargo would call it, or by itself, since they differ.
fn is_version(path: &std::path::Path, name: &str, version: &str) -> bool {
    let verb = name.trim_start_matches("cargo-");
    [[verb, "--version"].as_slice(), &["--version"]].iter().any(|args| {
        let said = Step::new(path).args(*args).read().unwrap_or_default();
        said.lines().next().is_some_and(|line| line.split_whitespace().any(|word| word == version))
    })
}
