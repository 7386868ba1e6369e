// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What cargo builds out of this workspace for others to run: static programs, free of the paths of whoever built them,
//! so that the same commit gives the same bytes in every folder.

mod cross;

pub(crate) use self::cross::Cross;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::arch::Arch;
use crate::machine;
use crate::repo;
use crate::sh::Step;

/// Where the workspace, the target folder and the crates seem to lie in what is built.
const SOURCE: &str = "/src";
const TARGET: &str = "/target";
pub(crate) const CRATES: &str = "/crates";

pub(crate) fn target_folder(root: &Path) -> Result<PathBuf> {
    let said =
        Step::new("cargo").args(["metadata", "--no-deps", "--format-version", "1"]).dir(root).read()?;
    let metadata: serde_json::Value = serde_json::from_str(&said).context("parse cargo metadata")?;
    Ok(metadata["target_directory"].as_str().context("cargo metadata: no target_directory")?.into())
}

/// A static binary of a package of this workspace for this machine, built as it is shipped (`release`) or quickly.
pub(crate) fn build(package: &str, binary: &str, release: bool) -> Result<PathBuf> {
    build_for(Arch::HERE, package, binary, release)
}

/// The same for an architecture.
pub(crate) fn build_for(arch: Arch, package: &str, binary: &str, release: bool) -> Result<PathBuf> {
    machine::require_linker()?;
    let root = repo::root();
    let target = target_folder(&root)?;
    let triple = arch.triple();
    let mut step = Step::new("cargo")
        .args(["build", "--locked", "--target", triple, "--package", package, "--bin", binary])
        .dir(&root)
        // With a target named, build scripts and macros keep the flags of the machine.
        .env("CARGO_ENCODED_RUSTFLAGS", flags(&root, &target, &Toolchain::of(&root)?)?);
    if arch != Arch::HERE {
        step = Cross::of(arch)?.prepare(step)?;
    }
    if release {
        step = step.arg("--release");
    }
    let kind = if release { "release" } else { "debug" };
    step.watch(&format!("building {binary} for {arch}, static, {kind}"))?;
    Ok(target.join(triple).join(kind).join(binary))
}

/// The rustc of a clone.
struct Toolchain {
    sysroot: PathBuf,
    /// Its own commit.
    commit: String,
}

impl Toolchain {
    fn of(root: &Path) -> Result<Self> {
        let ask = |args: &[&str]| Step::new("rustc").args(args).dir(root).read();
        let said = ask(&["--version", "--verbose"])?;
        let commit = said.lines().find_map(|line| line.strip_prefix("commit-hash: "));
        let sysroot = PathBuf::from(ask(&["--print", "sysroot"])?.trim());
        Ok(Self {
            // rustc follows links before it writes a path.
            sysroot: std::fs::canonicalize(&sysroot).unwrap_or(sysroot),
            commit: commit.context("rustc --version --verbose: no commit-hash")?.to_owned(),
        })
    }
}

/// Flags for rustc: static, and with neutral paths in panic messages. Cargo leaves the latter out of the names it gives
/// to crates and symbols.
fn flags(root: &Path, target: &Path, toolchain: &Toolchain) -> Result<OsString> {
    let mut remaps = vec![(root.to_owned(), SOURCE.to_owned()), (target.to_owned(), TARGET.to_owned())];
    // With the component rust-src, rustc names the standard library's files where they lie, else as they were built.
    let library = toolchain.sysroot.join("lib/rustlib/src/rust");
    remaps.push((library, format!("/rustc/{}", toolchain.commit)));
    let crates = cargo_home()?.join("registry/src");
    remaps.push((crates.clone(), CRATES.to_owned()));
    // A folder a registry; its name differs where a mirror stands in for it.
    if crates.is_dir() {
        let read = std::fs::read_dir(&crates).with_context(|| format!("read {}", crates.display()))?;
        for folder in read {
            remaps.push((folder?.path(), CRATES.to_owned()));
        }
    }
    let mut flags = OsString::from("-Ctarget-feature=+crt-static");
    // Of several that fit, rustc takes the last.
    for (from, to) in remaps {
        flags.push("\u{1f}--remap-path-prefix=");
        flags.push(from);
        flags.push("=");
        flags.push(to);
    }
    Ok(flags)
}

fn cargo_home() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = set("CARGO_HOME").or_else(|| Some(set("HOME")?.join(".cargo")));
    let home = home.context("no place for cargo's crates: set HOME or CARGO_HOME")?;
    Ok(std::path::absolute(home)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_builders_folders_is_left_to_see() {
        let toolchain = Toolchain { sysroot: "/opt/rust".into(), commit: "abc".into() };
        let flags = flags(Path::new("/home/me/clone"), Path::new("/fast/target"), &toolchain).unwrap();
        let flags = flags.into_string().unwrap();
        let flags: Vec<&str> = flags.split('\u{1f}').collect();
        assert_eq!(flags[0], "-Ctarget-feature=+crt-static");
        assert_eq!(flags[1], "--remap-path-prefix=/home/me/clone=/src");
        assert_eq!(flags[2], "--remap-path-prefix=/fast/target=/target");
        assert_eq!(flags[3], "--remap-path-prefix=/opt/rust/lib/rustlib/src/rust=/rustc/abc");
        assert!(flags[4..].iter().all(|flag| flag.ends_with("=/crates")), "{flags:?}");
    }
}
