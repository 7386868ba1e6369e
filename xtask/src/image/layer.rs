// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One layer as a tar. Times, owners and modes are given and the order is the caller's, so the same entries are the same
//! bytes; compressing it and naming it is the business of whoever asked.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Write};

use anyhow::{Context, Result};

use super::{Entry, What};

/// Writes `entries` as a tar to `out`, with the folders above them, and hands `out` back.
pub(super) fn write<W: Write>(out: W, entries: &[Entry]) -> Result<W> {
    let mut out = tar::Builder::new(out);
    let mut folders: BTreeSet<String> = BTreeSet::new();
    let said: BTreeSet<&str> =
        entries.iter().filter(|e| matches!(e.what, What::Folder)).map(|e| e.path.as_str()).collect();
    for entry in entries {
        // Whoever unpacks makes a missing folder with modes of its own choosing.
        for (end, _) in entry.path.match_indices('/') {
            let above = &entry.path[..end];
            if !said.contains(above) && folders.insert(above.to_owned()) {
                let mut header = header(0o755, 0);
                header.set_entry_type(tar::EntryType::Directory);
                out.append_data(&mut header, format!("{above}/"), std::io::empty())?;
            }
        }
        let mut header = header(entry.mode, entry.owner);
        match &entry.what {
            What::Folder => {
                header.set_entry_type(tar::EntryType::Directory);
                out.append_data(&mut header, format!("{}/", entry.path), std::io::empty())?;
            }
            What::Bytes(bytes) => {
                header.set_size(bytes.len() as u64);
                out.append_data(&mut header, &entry.path, bytes.as_slice())?;
            }
            What::File(from) => {
                let source = File::open(from).with_context(|| format!("open {}", from.display()))?;
                header.set_size(source.metadata()?.len());
                out.append_data(&mut header, &entry.path, BufReader::new(source))?;
            }
            What::Symlink(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                out.append_link(&mut header, &entry.path, target)?;
            }
        }
    }
    Ok(out.into_inner()?)
}

/// The header of a file without size, of a time that says nothing.
pub(super) fn header(mode: u32, owner: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_uid(owner.into());
    header.set_gid(owner.into());
    header.set_mtime(0);
    header.set_size(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_above_a_file_are_there_once_and_those_that_are_described_keep_their_mode() {
        let entries = [
            Entry::folder("home/nonroot", 0o700, 65532),
            Entry::text("etc/deep/file", "x"),
            Entry::symlink("bin/sh", "busybox"),
        ];
        let bytes = write(Vec::new(), &entries).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let names: Vec<String> =
            archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().display().to_string()).collect();
        assert_eq!(names, ["home/", "home/nonroot/", "etc/", "etc/deep/", "etc/deep/file", "bin/", "bin/sh"]);
        let mut archive = tar::Archive::new(bytes.as_slice());
        let home = archive.entries().unwrap().nth(1).unwrap().unwrap();
        assert_eq!((home.header().mode().unwrap(), home.header().uid().unwrap()), (0o700, 65532));
    }
}
