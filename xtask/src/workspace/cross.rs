// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What cargo needs to build for another architecture than this machine's: Rust's standard library for it, and a C
//! compiler that links for it and compiles what ring has in C. It looks and says what is missing; it installs nothing.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::arch::Arch;
use crate::machine;
use crate::sh::Step;

/// Lets a run of cargo for `arch` find its tools, or says what is missing.
pub(super) fn prepare(step: Step, arch: Arch) -> Result<Step> {
    let gcc = format!("{}-linux-gnu-gcc", arch.gnu());
    let linker = machine::on_path(&gcc);
    let library = standard_library(arch)?;
    if let Some(why) = lacking(arch, linker.as_deref(), library.as_deref()) {
        bail!("{why}");
    }
    let triple = arch.triple();
    let upper = triple.to_uppercase().replace('-', "_");
    let lower = triple.replace('-', "_");
    Ok(step
        .env(&format!("CARGO_TARGET_{upper}_LINKER"), &gcc)
        .env(&format!("CC_{lower}"), &gcc)
        .env(&format!("AR_{lower}"), format!("{}-linux-gnu-ar", arch.gnu())))
}

/// What is missing for a build for `arch`, with the commands that bring it.
fn lacking(arch: Arch, linker: Option<&Path>, library: Option<&Path>) -> Option<String> {
    let (name, triple) = (arch.as_str(), arch.triple());
    let mut parts = Vec::new();
    if linker.is_none() {
        parts.push(format!(
            "a C compiler for it (apt-get install -y gcc-{}-linux-gnu libc6-dev-{name}-cross)",
            arch.gnu().replace('_', "-")
        ));
    }
    if library.is_none() {
        parts.push(format!("Rust's standard library for it (rustup target add {triple})"));
    }
    (!parts.is_empty())
        .then(|| format!("this machine cannot build for {name}: it lacks {}", parts.join(" and ")))
}

/// The folder of the toolchain's standard library for `arch`, if it is installed.
fn standard_library(arch: Arch) -> Result<Option<PathBuf>> {
    let said = Step::new("rustc")
        .args(["--print", "target-libdir", "--target", arch.triple()])
        .dir(&crate::repo::root())
        .read()?;
    let folder = PathBuf::from(said.trim());
    let is_std = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libstd-") && name.ends_with(".rlib")
    };
    let held = std::fs::read_dir(&folder)
        .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|entry| is_std(&entry.path()))));
    Ok(held.then_some(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cross_build_lacks_is_named_with_the_commands_that_bring_it() {
        let here = Some(Path::new("/x"));
        assert_eq!(lacking(Arch::Arm64, here, here), None);
        let both = lacking(Arch::Arm64, None, None).unwrap();
        assert!(both.contains("apt-get install -y gcc-aarch64-linux-gnu libc6-dev-arm64-cross"), "{both}");
        assert!(both.contains("rustup target add aarch64-unknown-linux-gnu"), "{both}");
        let compiler = lacking(Arch::Amd64, None, here).unwrap();
        assert!(compiler.contains("gcc-x86-64-linux-gnu") && !compiler.contains("rustup"), "{compiler}");
    }

    #[test]
    fn the_library_of_this_machine_is_found() {
        assert!(standard_library(Arch::HERE).unwrap().is_some());
    }
}
