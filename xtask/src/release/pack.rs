// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Archives that are the same bytes for the same files: order is the caller's, owners, times and modes are given.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result};

/// A tar that is being written.
pub(crate) struct Archive<W: Write>(tar::Builder<W>);

impl<W: Write> Archive<W> {
    pub(crate) fn new(out: W) -> Self {
        Self(tar::Builder::new(out))
    }

    pub(crate) fn bytes(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.0
            .append_data(&mut header(bytes.len() as u64), name, bytes)
            .with_context(|| format!("pack {name}"))
    }

    pub(crate) fn file(&mut self, name: &str, from: &Path) -> Result<()> {
        let source = File::open(from).with_context(|| format!("open {}", from.display()))?;
        let size = source.metadata().with_context(|| format!("look at {}", from.display()))?.len();
        self.0
            .append_data(&mut header(size), name, BufReader::new(source))
            .with_context(|| format!("pack {name}"))
    }

    pub(crate) fn finish(self) -> Result<W> {
        let mut out = self.0.into_inner()?;
        out.flush()?;
        Ok(out)
    }
}

/// An archive of one file, in memory.
pub(crate) fn one(name: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut archive = Archive::new(Vec::new());
    archive.bytes(name, bytes)?;
    archive.finish()
}

fn header(size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header
}
