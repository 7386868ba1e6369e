// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The two architectures that are shipped, and what Rust, Go and others call each. It knows names only; how to build for
//! one stands in `workspace` and `tools`.

/// An architecture of an image. Linux is meant throughout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
pub(crate) enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    /// All that are shipped, in the order of an index.
    pub(crate) const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// That of this machine.
    pub(crate) const HERE: Self = if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::Amd64 };

    /// As Go, OCI and Debian spell it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As kernels, GNU and qemu spell it.
    pub(crate) fn gnu(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// Rust's target for static programs: with glibc, whose resolver and allocator the tests have seen.
    pub(crate) fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The machine of an ELF file, `e_machine`.
    pub(crate) fn elf_machine(self) -> u16 {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.as_str() == name)
    }
}

impl std::fmt::Display for Arch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.as_str())
    }
}
