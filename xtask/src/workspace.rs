// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What cargo builds out of this workspace for others to run.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::machine;
use crate::repo;
use crate::sh::Step;

pub(crate) fn target_folder(root: &Path) -> Result<PathBuf> {
    let said =
        Step::new("cargo").args(["metadata", "--no-deps", "--format-version", "1"]).dir(root).read()?;
    let metadata: serde_json::Value = serde_json::from_str(&said).context("parse cargo metadata")?;
    Ok(metadata["target_directory"].as_str().context("cargo metadata: no target_directory")?.into())
}

/// A static binary of a package of this workspace, built as it is shipped (`release`) or quickly.
pub(crate) fn build(package: &str, binary: &str, release: bool) -> Result<PathBuf> {
    machine::require_linker()?;
    let root = repo::root();
    let triple =
        if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };
    let mut step = Step::new("cargo")
        .args(["build", "--locked", "--target", triple, "--package", package, "--bin", binary])
        .dir(&root)
        // With a target named, build scripts and macros keep the flags of the machine.
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    if release {
        step = step.arg("--release");
    }
    let kind = if release { "release" } else { "debug" };
    step.watch(&format!("building {binary}, static, {kind}"))?;
    Ok(target_folder(&root)?.join(triple).join(kind).join(binary))
}
