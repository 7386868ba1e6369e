// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The files of an image out of its layers, for looking at and running them. Only plain files reach the disk, with modes
//! that are harmless, and none outside the given folder; everything else is told and not made.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::Layout;
use super::digest::{Digest, Hashed};
use super::oci::{Manifest, Settings};

/// The files of an image by path, from the root and without a leading slash.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: BTreeMap<String, Node>,
    /// Bytes of all layers, compressed.
    pub(crate) compressed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) what: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder,
    File {
        digest: Digest,
        size: u64,
    },
    Symlink(String),
    /// A device, a hard link or another thing that an image of ours never has.
    Other(String),
}

/// Unpacks the layers of an image into the folder `into`, and holds each against the digest that the settings name.
pub(crate) fn unpack(layout: &Layout, manifest: &Manifest, settings: &Settings, into: &Path) -> Result<Tree> {
    if manifest.layers.len() != settings.rootfs.diff_ids.len() {
        bail!("{} layers, and the settings name {}", manifest.layers.len(), settings.rootfs.diff_ids.len());
    }
    let mut tree = Tree::default();
    for (layer, content) in manifest.layers.iter().zip(&settings.rootfs.diff_ids) {
        layout.check(layer)?;
        tree.compressed += layer.size;
        let mut archive =
            tar::Archive::new(Tee { from: layout.layer(layer)?, to: Hashed::new(std::io::sink()) });
        for entry in archive.entries()? {
            let entry = entry.with_context(|| format!("read the layer {}", layer.digest))?;
            take(entry, into, &mut tree).with_context(|| format!("unpack the layer {}", layer.digest))?;
        }
        // What stands after the end of the tar counts too.
        let mut rest = archive.into_inner();
        std::io::copy(&mut rest, &mut std::io::sink())?;
        let (_, digest, _) = rest.to.finish();
        if digest != *content {
            bail!("the layer {} is {digest} uncompressed, and the settings say {content}", layer.digest);
        }
    }
    Ok(tree)
}

fn take(mut entry: tar::Entry<'_, impl Read>, into: &Path, tree: &mut Tree) -> Result<()> {
    let path = entry.path()?.into_owned();
    let parts: Option<Vec<String>> = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(name) => name.to_str().map(str::to_owned),
            _ => None,
        })
        .collect();
    let parts = parts.with_context(|| format!("a path leads out of the image: {}", path.display()))?;
    let name = parts.join("/");
    let header = entry.header();
    let (mode, uid, gid) = (header.mode()?, header.uid()?, header.gid()?);
    let what = match header.entry_type() {
        tar::EntryType::Directory => Kind::Folder,
        tar::EntryType::Symlink => {
            let target = entry.link_name()?.context("a symbolic link without target")?;
            Kind::Symlink(target.display().to_string())
        }
        tar::EntryType::Regular => {
            let place = place(into, &parts)?;
            let mut file =
                Hashed::new(File::create(&place).with_context(|| format!("write {}", place.display()))?);
            std::io::copy(&mut entry, &mut file).with_context(|| format!("write {}", place.display()))?;
            file.flush()?;
            let (_, digest, size) = file.finish();
            let harmless = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
            std::fs::set_permissions(&place, std::fs::Permissions::from_mode(harmless))?;
            Kind::File { digest, size }
        }
        other => Kind::Other(format!("{other:?}")),
    };
    tree.nodes.insert(name, Node { mode, uid, gid, what });
    Ok(())
}

/// Where a file shall lie. What a lower layer put there goes away; folders are plain, since no link is ever made.
fn place(into: &Path, parts: &[String]) -> Result<PathBuf> {
    let mut place = into.to_owned();
    place.extend(parts);
    let above = place.parent().context("a file without a name")?;
    std::fs::create_dir_all(above).with_context(|| format!("create {}", above.display()))?;
    if place.is_file() {
        std::fs::remove_file(&place)?;
    }
    Ok(place)
}

impl Tree {
    /// The plain files that can be run, by path, with digest and size.
    pub(crate) fn programs(&self) -> impl Iterator<Item = (&str, &Digest, u64)> {
        self.nodes.iter().filter_map(|(path, node)| match &node.what {
            Kind::File { digest, size } if node.mode & 0o111 != 0 => Some((path.as_str(), digest, *size)),
            _ => None,
        })
    }
}

/// Hashes what is read through it.
struct Tee<R, W> {
    from: R,
    to: W,
}

impl<R: Read, W: Write> Read for Tee<R, W> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(bytes)?;
        self.to.write_all(&bytes[..read])?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tar_of(name: &[u8], kind: tar::EntryType, mode: u32) -> Vec<u8> {
        let mut header = super::super::layer::header(mode, 0);
        header.set_entry_type(kind);
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.set_size(1);
        header.set_cksum();
        let mut out = tar::Builder::new(Vec::new());
        out.append(&header, &b"x"[..]).unwrap();
        out.into_inner().unwrap()
    }

    fn take_all(bytes: &[u8], into: &Path) -> Result<Tree> {
        let mut tree = Tree::default();
        for entry in tar::Archive::new(bytes).entries()? {
            take(entry?, into, &mut tree)?;
        }
        Ok(tree)
    }

    #[test]
    fn nothing_is_written_outside_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("in");
        for name in ["../out", "a/../../out", "/../out"] {
            let bytes = tar_of(name.as_bytes(), tar::EntryType::Regular, 0o644);
            take_all(&bytes, &into).expect_err(name);
            assert!(!folder.path().join("out").exists(), "{name}");
        }
    }

    #[test]
    fn a_mode_is_told_and_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = tar_of(b"su", tar::EntryType::Regular, 0o4755);
        let tree = take_all(&bytes, folder.path()).unwrap();
        assert_eq!(tree.nodes["su"].mode & 0o7777, 0o4755);
        let made = folder.path().join("su").metadata().unwrap().permissions().mode();
        assert_eq!(made & 0o7777, 0o755);
        assert_eq!(tree.programs().count(), 1);
        let tree = take_all(&tar_of(b"null", tar::EntryType::Char, 0o666), folder.path()).unwrap();
        assert!(matches!(tree.nodes["null"].what, Kind::Other(_)));
        assert!(!folder.path().join("null").exists());
    }
}
