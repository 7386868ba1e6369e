// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Writes a layout: blobs under their digests, and the list of what there is. A layout is put together beside its final
//! place and moved there when it is whole; what was interrupted or ran out of space leaves the old one as it was.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::Serialize;

use super::digest::{Digest, Hashed};
use super::oci::{self, Annotations, Descriptor, Index};
use super::{Entry, layer};
use crate::cache;

/// A layout that is being put together.
#[derive(Debug)]
pub(crate) struct Blobs {
    staging: PathBuf,
    place: PathBuf,
    /// Kept until the end: two runs for one place wait for each other.
    _held: File,
}

impl Blobs {
    /// Begins a layout that shall lie at `place`.
    pub(crate) fn begin(place: &Path) -> Result<Self> {
        let name = place.file_name().context("a layout has no name")?.to_string_lossy().into_owned();
        let above = place.parent().context("a layout has no folder above it")?;
        std::fs::create_dir_all(above).with_context(|| format!("create {}", above.display()))?;
        let held = cache::lock(&above.join(format!(".{name}.lock")), &name)?;
        let staging = above.join(format!(".{name}.new"));
        // Whoever held the lock before us and was interrupted left this.
        remove(&staging)?;
        let blobs = staging.join("blobs/sha256");
        std::fs::create_dir_all(&blobs).with_context(|| format!("create {}", blobs.display()))?;
        Ok(Self { staging, place: place.to_owned(), _held: held })
    }

    /// A document.
    pub(crate) fn json(&self, media_type: &str, document: &impl Serialize) -> Result<Descriptor> {
        self.bytes(media_type, &serde_json::to_vec(document)?)
    }

    pub(crate) fn bytes(&self, media_type: &str, bytes: &[u8]) -> Result<Descriptor> {
        let digest = Digest::of(bytes);
        let path = self.path(&digest);
        std::fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
        Ok(Descriptor::new(media_type, digest, bytes.len() as u64))
    }

    /// A layer, compressed, and the digest of what it is uncompressed.
    pub(crate) fn layer(&self, entries: &[Entry]) -> Result<(Descriptor, Digest)> {
        let path = self.staging.join("layer");
        let packed = pack(&path, entries).with_context(|| format!("write {}", path.display()));
        let (digest, size, content) = packed?;
        let blob = self.path(&digest);
        std::fs::rename(&path, &blob).with_context(|| format!("rename to {}", blob.display()))?;
        Ok((Descriptor::new(oci::LAYER, digest, size), content))
    }

    /// Writes the list of what there is, and moves the layout to its place.
    pub(crate) fn publish(self, manifests: Vec<Descriptor>) -> Result<()> {
        let list = serde_json::to_vec(&Index::new(manifests, Annotations::new()))?;
        for (name, bytes) in
            [("index.json", list.as_slice()), ("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)]
        {
            let path = self.staging.join(name);
            std::fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
        }
        self.settle()
    }

    /// The folder that is being filled.
    pub(crate) fn folder(&self) -> &Path {
        &self.staging
    }

    /// Moves what lies in the folder to its place as it is.
    pub(crate) fn settle(self) -> Result<()> {
        let moved = if self.place.exists() {
            renameat_with(CWD, &self.staging, CWD, &self.place, RenameFlags::EXCHANGE).map_err(Into::into)
        } else {
            std::fs::rename(&self.staging, &self.place)
        };
        moved.with_context(|| format!("move {} to {}", self.staging.display(), self.place.display()))
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.staging.join("blobs/sha256").join(digest.hex())
    }
}

impl Drop for Blobs {
    /// Takes away what was not published, or what a published layout took the place of.
    fn drop(&mut self) {
        if let Err(error) = remove(&self.staging) {
            eprintln!("{error:#}");
        }
    }
}

/// Digest and size of the compressed layer, and digest of the uncompressed one.
fn pack(path: &Path, entries: &[Entry]) -> Result<(Digest, u64, Digest)> {
    let file = Hashed::new(BufWriter::new(File::create(path)?));
    // No time, no name, no operating system: nothing of the machine that compressed it.
    let compressed = GzBuilder::new().mtime(0).operating_system(255).write(file, Compression::best());
    let (compressed, content, _) = layer::write(Hashed::new(compressed), entries)?.finish();
    let (mut file, digest, size) = compressed.finish()?.finish();
    file.flush()?;
    Ok((digest, size, content))
}

fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_layer_is_named_by_its_compressed_and_by_its_plain_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::begin(&folder.path().join("x")).unwrap();
        let entries = [Entry::text("a", "text")];
        let (layer, content) = blobs.layer(&entries).unwrap();
        let bytes = std::fs::read(blobs.path(&layer.digest)).unwrap();
        assert_eq!((Digest::of(&bytes), bytes.len() as u64), (layer.digest.clone(), layer.size));
        assert_eq!(&bytes[4..8], [0; 4], "a time");
        assert_eq!(bytes[9], 255, "an operating system");
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).unwrap();
        assert_eq!(Digest::of(&plain), content);
        assert_eq!(plain, super::layer::write(Vec::new(), &entries).unwrap());
        assert_eq!(blobs.layer(&entries).unwrap(), (layer, content));
    }

    #[test]
    fn a_layout_appears_whole_and_takes_the_place_of_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("x");
        let make = |text: &[u8]| {
            let blobs = Blobs::begin(&place).unwrap();
            let one = blobs.bytes("text/plain", text).unwrap();
            blobs.publish(vec![one.clone()]).unwrap();
            one.digest
        };
        let (first, second) = (make(b"one"), make(b"two"));
        assert!(!place.join("blobs/sha256").join(first.hex()).exists());
        assert_eq!(std::fs::read(place.join("blobs/sha256").join(second.hex())).unwrap(), b"two");
        assert!(!folder.path().join(".x.new").exists());
    }

    #[test]
    fn what_was_not_finished_changes_nothing_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("x");
        Blobs::begin(&place).unwrap().bytes("text/plain", b"half").unwrap();
        assert!(!place.exists() && !folder.path().join(".x.new").exists());
        // As after a kill.
        std::fs::create_dir_all(folder.path().join(".x.new/blobs/sha256/left")).unwrap();
        Blobs::begin(&place).unwrap().publish(Vec::new()).unwrap();
        assert!(!place.join("blobs/sha256/left").exists());
    }
}
