// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An OCI image layout on disk, read. Every blob is held against its digest and size when it is opened: a layout that was
//! tampered with, or cut off, is an error and never a surprise later.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

use super::digest::Digest;
use super::oci::{self, Descriptor, Index, Manifest};

/// A document must fit into memory with ease; ours have some hundred kilobytes.
const DOCUMENT_LIMIT: u64 = 32 << 20;

/// A layout with one image.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) path: PathBuf,
    /// Of the image's index, which names the images of all architectures.
    pub(crate) digest: Digest,
    /// What the list of the layout calls the image, such as `0.1.0`.
    pub(crate) tag: Option<String>,
}

impl Layout {
    /// Opens a layout and finds its one index.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let marker = path.join("oci-layout");
        let text = std::fs::read_to_string(&marker)
            .with_context(|| format!("read {}: no OCI image layout", marker.display()))?;
        let version: serde_json::Value =
            serde_json::from_str(&text).with_context(|| format!("parse {}", marker.display()))?;
        if version["imageLayoutVersion"] != "1.0.0" {
            bail!("{}: not a layout of version 1.0.0", marker.display());
        }
        let list = list(path)?;
        let mut indexes = list.manifests.iter().filter(|one| one.media_type == oci::INDEX);
        let (Some(index), None) = (indexes.next(), indexes.next()) else {
            bail!("{}/index.json: not one image index but {}", path.display(), {
                list.manifests.iter().filter(|one| one.media_type == oci::INDEX).count()
            });
        };
        let tag = index.annotations.get(oci::REF_NAME).cloned();
        Ok(Self { path: path.to_owned(), digest: index.digest.clone(), tag })
    }

    /// All that the layout lists.
    pub(crate) fn list(&self) -> Result<Index> {
        list(&self.path)
    }

    /// The descriptor of the index.
    pub(crate) fn descriptor(&self) -> Result<Descriptor> {
        let found = self.list()?.manifests.into_iter().find(|one| one.digest == self.digest);
        found.with_context(|| format!("{}/index.json no longer lists {}", self.path.display(), self.digest))
    }

    /// The index over the architectures.
    pub(crate) fn index(&self) -> Result<Index> {
        self.document(&self.descriptor()?)
    }

    /// The documents that belong to the index, such as its lists of contents.
    pub(crate) fn referrers(&self) -> Result<Vec<Manifest>> {
        let mut found = Vec::new();
        for one in self.list()?.manifests.iter().filter(|one| one.media_type == oci::MANIFEST) {
            let manifest: Manifest = self.document(one)?;
            if manifest.subject.as_ref().is_some_and(|subject| subject.digest == self.digest) {
                found.push(manifest);
            }
        }
        Ok(found)
    }

    /// A document of JSON.
    pub(crate) fn document<T: DeserializeOwned>(&self, what: &Descriptor) -> Result<T> {
        serde_json::from_slice(&self.bytes(what)?)
            .with_context(|| format!("parse the {} {}", what.media_type, what.digest))
    }

    pub(crate) fn bytes(&self, what: &Descriptor) -> Result<Vec<u8>> {
        if what.size > DOCUMENT_LIMIT {
            bail!("the {} {} has {} bytes", what.media_type, what.digest, what.size);
        }
        let mut bytes = Vec::new();
        let file = self.file(&what.digest)?;
        file.take(DOCUMENT_LIMIT).read_to_end(&mut bytes).with_context(|| format!("read {}", what.digest))?;
        same(what, &Digest::of(&bytes), bytes.len() as u64)?;
        Ok(bytes)
    }

    /// Holds a blob of any size against its descriptor.
    pub(crate) fn check(&self, what: &Descriptor) -> Result<()> {
        let read = Digest::of_reader(self.file(&what.digest)?);
        let (digest, size) = read.with_context(|| format!("read {}", what.digest))?;
        same(what, &digest, size)
    }

    /// A layer, uncompressed.
    pub(crate) fn layer(&self, what: &Descriptor) -> Result<impl Read> {
        if what.media_type != oci::LAYER {
            bail!("the layer {} is of type {}", what.digest, what.media_type);
        }
        Ok(flate2::read::GzDecoder::new(BufReader::new(self.file(&what.digest)?)))
    }

    pub(crate) fn blob(&self, digest: &Digest) -> PathBuf {
        self.path.join("blobs/sha256").join(digest.hex())
    }

    fn file(&self, digest: &Digest) -> Result<File> {
        let path = self.blob(digest);
        File::open(&path).with_context(|| format!("open {}", path.display()))
    }
}

fn list(path: &Path) -> Result<Index> {
    let path = path.join("index.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("parse {}", path.display()))
}

fn same(what: &Descriptor, digest: &Digest, size: u64) -> Result<()> {
    if *digest != what.digest || size != what.size {
        bail!(
            "the {} {} of {} bytes was changed: it is {digest} of {size} bytes",
            what.media_type,
            what.digest,
            what.size
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::blobs::Blobs;
    use super::super::oci::Annotations;
    use super::*;

    fn layout(folder: &Path, indexes: usize) -> PathBuf {
        let place = folder.join("x");
        let blobs = Blobs::begin(&place).unwrap();
        let list = (0..indexes).map(|n| {
            let notes = Annotations::from([("n".into(), n.to_string())]);
            blobs.json(oci::INDEX, &Index::new(Vec::new(), notes)).unwrap()
        });
        let list: Vec<_> = list.collect();
        blobs.publish(list).unwrap();
        place
    }

    #[test]
    fn a_blob_with_one_other_byte_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::open(&layout(folder.path(), 1)).unwrap();
        assert_eq!(layout.index().unwrap().annotations["n"], "0");
        let path = layout.blob(&layout.digest);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"0\"", "\"1\"")).unwrap();
        let error = layout.index().unwrap_err().to_string();
        assert!(error.contains("was changed"), "{error}");
        layout.check(&layout.descriptor().unwrap()).unwrap_err();
    }

    #[test]
    fn what_is_no_layout_or_has_no_single_image_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = format!("{:#}", Layout::open(folder.path()).unwrap_err());
        assert!(error.contains("no OCI image layout"), "{error}");
        for count in [0, 2] {
            let error = Layout::open(&layout(folder.path(), count)).unwrap_err().to_string();
            assert!(error.ends_with(&format!("not one image index but {count}")), "{error}");
        }
    }
}
