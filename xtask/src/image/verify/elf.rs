// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Programs of an image: for the right processor, and needing nothing that the image lacks. Reads the headers of ELF
//! files only, and takes a file whose headers make no sense for a wrong one.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};

use super::super::unpack::Tree;
use super::all_well;
use crate::arch::Arch;

/// A segment that names the loader of a dynamic program.
const INTERPRETER: u32 = 3;

/// All programs are static ones for `arch`.
pub(super) fn programs(tree: &Tree, folder: &Path, arch: Arch) -> Result<String> {
    let (mut wrong, mut names) = (Vec::new(), Vec::new());
    for (path, ..) in tree.programs() {
        // What the headers need lies at the beginning.
        let mut head = Vec::new();
        let file = std::fs::File::open(folder.join(path)).with_context(|| format!("open {path}"))?;
        file.take(64 << 10).read_to_end(&mut head).with_context(|| format!("read {path}"))?;
        match Program::parse(&head) {
            None => wrong.push(format!("{path} is no ELF program of 64 bits")),
            Some(program) if program.machine != arch.elf_machine() => {
                wrong.push(format!("{path} is for the machine {} and not for {arch}", program.machine));
            }
            Some(program) if program.interpreted => wrong.push(format!("{path} is not static")),
            Some(_) => names.push(path.to_owned()),
        }
    }
    all_well(wrong, || format!("static, for {arch}: {}", names.join(", ")))
}

#[derive(Debug, PartialEq, Eq)]
struct Program {
    machine: u16,
    /// It needs a loader.
    interpreted: bool,
}

impl Program {
    fn parse(head: &[u8]) -> Option<Self> {
        // 64 bits, little-endian.
        if !head.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let u16_at = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
        let offset = u64::from_le_bytes(head.get(32..40)?.try_into().ok()?);
        let (size, count) = (usize::from(u16_at(54)?), usize::from(u16_at(56)?));
        let mut interpreted = false;
        for number in 0..count {
            let at = usize::try_from(offset).ok()?.checked_add(number * size)?;
            let kind = u32::from_le_bytes(head.get(at..at.checked_add(4)?)?.try_into().ok()?);
            interpreted |= kind == INTERPRETER;
        }
        Some(Self { machine: u16_at(18)?, interpreted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_is_told_from_a_text() {
        let ours = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let program = Program::parse(&ours[..64 << 10]).unwrap();
        assert_eq!(program, Program { machine: Arch::HERE.elf_machine(), interpreted: true });
        assert_eq!(Program::parse(b"#!/bin/sh\n"), None);
        // A header that leads nowhere.
        let mut cut = ours[..64].to_vec();
        cut[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(Program::parse(&cut), None);
    }
}
