// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What cargo needs to build for another architecture than this machine's: Rust's standard library for it, and a C
//! compiler that links for it and compiles what ring has in C. It looks and says what is missing; it installs nothing.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::arch::Arch;
use crate::machine;
use crate::repo;
use crate::sh::Step;

/// A build for an architecture that is not this machine's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cross {
    arch: Arch,
}

impl Cross {
    /// Refuses this machine's own architecture, which needs none of it.
    pub(crate) fn of(arch: Arch) -> Result<Self> {
        if arch == Arch::HERE {
            bail!("{arch} is this machine's own architecture");
        }
        Ok(Self { arch })
    }

    /// Lets a run of cargo find its tools, or says what is missing.
    pub(super) fn prepare(self, step: Step) -> Result<Step> {
        let compiler = machine::on_path(&self.compiler());
        if let Some(why) = self.lacking(compiler.as_deref(), self.library()?.as_deref()) {
            bail!("{why}");
        }
        let triple = self.arch.triple();
        let (upper, lower) = (triple.to_uppercase().replace('-', "_"), triple.replace('-', "_"));
        Ok(step
            .env(&format!("CARGO_TARGET_{upper}_LINKER"), self.compiler())
            .env(&format!("CC_{lower}"), self.compiler())
            .env(&format!("AR_{lower}"), format!("{}-linux-gnu-ar", self.arch.gnu())))
    }

    /// The C compiler that is looked for.
    pub(crate) fn compiler(self) -> String {
        format!("{}-linux-gnu-gcc", self.arch.gnu())
    }

    /// The command that brings it, on Debian.
    pub(crate) fn compiler_mend(self) -> String {
        let gnu = self.arch.gnu().replace('_', "-");
        format!("apt-get install -y gcc-{gnu}-linux-gnu libc6-dev-{}-cross", self.arch)
    }

    /// The folder of the toolchain's standard library, if it is installed.
    pub(crate) fn library(self) -> Result<Option<PathBuf>> {
        library(self.arch)
    }

    /// The command that brings it.
    pub(crate) fn library_mend(self) -> String {
        format!("rustup target add {}", self.arch.triple())
    }

    /// What is missing, with the commands that bring it.
    fn lacking(self, compiler: Option<&Path>, library: Option<&Path>) -> Option<String> {
        let mut parts = Vec::new();
        if compiler.is_none() {
            parts.push(format!("a C compiler for it ({})", self.compiler_mend()));
        }
        if library.is_none() {
            parts.push(format!("Rust's standard library for it ({})", self.library_mend()));
        }
        (!parts.is_empty()).then(|| {
            format!(
                "this machine cannot build for {arch}: it lacks {parts}; run: cargo xtask setup --image, or leave {arch} out with --arch {here}",
                arch = self.arch,
                parts = parts.join(" and "),
                here = Arch::HERE
            )
        })
    }
}

fn library(arch: Arch) -> Result<Option<PathBuf>> {
    let said = Step::new("rustc")
        .args(["--print", "target-libdir", "--target", arch.triple()])
        .dir(&repo::root())
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
        let arm64 = Cross { arch: Arch::Arm64 };
        assert_eq!(arm64.lacking(here, here), None);
        let both = arm64.lacking(None, None).unwrap();
        assert!(both.contains("apt-get install -y gcc-aarch64-linux-gnu libc6-dev-arm64-cross"), "{both}");
        assert!(both.contains("rustup target add aarch64-unknown-linux-gnu"), "{both}");
        let compiler = Cross { arch: Arch::Amd64 }.lacking(None, here).unwrap();
        assert!(compiler.contains("gcc-x86-64-linux-gnu") && !compiler.contains("rustup"), "{compiler}");
    }

    #[test]
    fn the_library_of_this_machine_is_found_and_is_no_cross_build() {
        assert!(library(Arch::HERE).unwrap().is_some());
        Cross::of(Arch::HERE).unwrap_err();
    }
}
