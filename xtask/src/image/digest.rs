// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! SHA-256 of bytes and files, in the form in which images name their parts. What is read from outside is checked
//! before it becomes one, since it ends up in paths.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// `sha256:` and 64 hexadecimal digits in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Digest(String);

impl Digest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::from_hash(ring::digest::digest(&ring::digest::SHA256, bytes))
    }

    pub(crate) fn of_file(path: &Path) -> Result<Self> {
        let file = std::fs::File::open(path).with_context(|| format!("open {}", path.display()))?;
        let (digest, _) = Self::of_reader(file).with_context(|| format!("read {}", path.display()))?;
        Ok(digest)
    }

    /// Of all that is left to read, and how many bytes that were.
    pub(crate) fn of_reader(mut from: impl Read) -> std::io::Result<(Self, u64)> {
        let mut hashed = Hashed::new(std::io::sink());
        let size = std::io::copy(&mut from, &mut hashed)?;
        Ok((hashed.finish().1, size))
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let hex = text.strip_prefix("sha256:").unwrap_or_default();
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            bail!("{text:?} is not sha256: and 64 hexadecimal digits");
        }
        Ok(Self(text.to_owned()))
    }

    /// The digits alone.
    pub(crate) fn hex(&self) -> &str {
        &self.0["sha256:".len()..]
    }

    /// The first 12 digits, as people and tags use them.
    pub(crate) fn short(&self) -> &str {
        &self.hex()[..12]
    }

    fn from_hash(hash: ring::digest::Digest) -> Self {
        let digits: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Self(format!("sha256:{digits}"))
    }
}

impl TryFrom<String> for Digest {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

/// A writer that hashes and counts what goes through it.
pub(super) struct Hashed<W> {
    to: W,
    hash: ring::digest::Context,
    size: u64,
}

impl<W: Write> Hashed<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, hash: ring::digest::Context::new(&ring::digest::SHA256), size: 0 }
    }

    /// What was written to, the digest and the number of bytes.
    pub(super) fn finish(self) -> (W, Digest, u64) {
        (self.to, Digest::from_hash(self.hash.finish()), self.size)
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn bytes_files_and_streams_give_the_same_digest() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"abc").unwrap();
        assert_eq!(Digest::of_file(file.path()).unwrap(), Digest::of(b"abc"));
        assert_eq!(Digest::of_reader(&b"abc"[..]).unwrap(), (Digest::of(b"abc"), 3));
    }

    #[test]
    fn what_would_lead_out_of_a_folder_is_no_digest() {
        assert_eq!(Digest::parse(EMPTY).unwrap().short(), "e3b0c44298fc");
        for wrong in ["", "sha256:", "sha256:../../../etc/passwd", "sha512:00", &EMPTY.to_uppercase()] {
            Digest::parse(wrong).expect_err(wrong);
        }
    }
}
