// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Rows 10 and 11: what is shipped, in bytes. No run changes them.
use std::path::Path;

use anyhow::{Context, Result};

use crate::finding::Row;
use crate::stage::Stage;
use crate::verdict::Bar;

const MEBIBYTE: f64 = 1024.0 * 1024.0;
/// The type of a program header that names a dynamic linker (ELF).
const INTERPRETER: u32 = 3;

/// Row 10.
pub(super) fn binary(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    let size = mebibytes(&stage.wrapper)?;
    anyhow::ensure!(is_static(&stage.wrapper)?, "{} is not static", stage.wrapper.display());
    let peer = stage.peer.as_ref();
    let theirs = peer.map(|peer| mebibytes(&peer.path)).transpose()?;
    let name = peer.map_or("peer", |peer| peer.name.as_str());
    row.figure("stripped, static", "MiB", [("etcd-wrapper", &[size][..]), (name, theirs.as_slice())]);
    row.bar(Bar::plain("size", "MiB", size, 8.0));
    if theirs.is_none() {
        row.missing("the figure of a peer", "no --peer was given");
    }
    Ok(())
}

/// Row 11.
pub(super) fn image(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    let sizes = stage.image.as_ref().context("the image was not packed; name row 11 in --only")?;
    for (part, bytes) in sizes.iter().filter(|(part, _)| *part != "image") {
        row.figure(
            format!("{part}, compressed"),
            "MiB",
            [("etcd-wrapper's image", &[*bytes as f64 / MEBIBYTE][..])],
        );
    }
    let all = *sizes.get("image").context("no size of the image")? as f64 / MEBIBYTE;
    row.figure("image, compressed", "MiB", [("etcd-wrapper's image", &[all][..])]);
    row.bar(Bar::plain("image, compressed", "MiB", all, 20.0));
    Ok(())
}

fn mebibytes(path: &Path) -> Result<f64> {
    let size = std::fs::metadata(path).with_context(|| format!("look at {}", path.display()))?.len();
    Ok(size as f64 / MEBIBYTE)
}

/// A 64-bit little-endian ELF without a dynamic linker.
fn is_static(path: &Path) -> Result<bool> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let word = |at: usize, length: usize| -> Option<u64> {
        let mut word = [0; 8];
        word[..length].copy_from_slice(bytes.get(at..at + length)?);
        Some(u64::from_le_bytes(word))
    };
    let headers = || {
        let (first, size, count) = (word(0x20, 8)?, word(0x36, 2)?, word(0x38, 2)?);
        (0..count).map(|n| word(usize::try_from(first + n * size).ok()?, 4)).collect::<Option<Vec<_>>>()
    };
    anyhow::ensure!(bytes.starts_with(b"\x7fELF"), "{} is no program", path.display());
    let kinds = headers().with_context(|| format!("{}: a program header is cut", path.display()))?;
    Ok(!kinds.contains(&u64::from(INTERPRETER)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_needs_a_linker_is_told_from_a_static_one() {
        // What runs this test was linked as cargo's defaults have it.
        let own = std::env::current_exe().unwrap();
        assert_eq!(is_static(&own).unwrap(), cfg!(target_feature = "crt-static"));
        assert!(is_static(Path::new("/proc/self/status")).is_err());
    }
}
