// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A layout in other forms: a copy elsewhere, or one tar. Neither changes a digest; both appear whole or not at all.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::oci::Manifest;
use super::{Layout, layer};
use crate::arch::Arch;

/// Writes a copy of the layout to the folder `place`, which must not be there or be a layout.
pub(crate) fn copy(layout: &Layout, place: &Path) -> Result<()> {
    if place.exists() && !place.join("oci-layout").is_file() {
        bail!("{} is there and no image layout; name another folder", place.display());
    }
    let staging = super::blobs::Blobs::begin(place)?;
    for path in files(layout)? {
        let to = staging.folder().join(&path);
        std::fs::copy(layout.path.join(&path), &to).with_context(|| format!("write {}", to.display()))?;
    }
    staging.settle()
}

/// Writes the layout as one tar. It also has the page that engines without layouts read, for the image of this machine's
/// architecture under the name `reference`, if there is one.
pub(crate) fn archive(layout: &Layout, reference: &str, path: &Path) -> Result<()> {
    let page = page(layout, Arch::HERE, reference)?;
    pack(layout, &files(layout)?, page.map(|(page, _)| page), path)
}

/// Writes the image of one architecture as one tar that every engine loads.
pub(crate) fn loadable(layout: &Layout, arch: Arch, reference: &str, path: &Path) -> Result<()> {
    let page = page(layout, arch, reference)?;
    let (page, files) = page.with_context(|| format!("{} has no image for {arch}", layout.path.display()))?;
    pack(layout, &files, Some(page), path)
}

/// All files of a layout, from its folder, sorted.
fn files(layout: &Layout) -> Result<Vec<PathBuf>> {
    let blobs = layout.path.join("blobs/sha256");
    let mut files = BTreeSet::from([PathBuf::from("index.json"), PathBuf::from("oci-layout")]);
    for entry in std::fs::read_dir(&blobs).with_context(|| format!("read {}", blobs.display()))? {
        files.insert(Path::new("blobs/sha256").join(entry?.file_name()));
    }
    Ok(files.into_iter().collect())
}

/// The page `manifest.json` for one architecture, and the files that it names.
fn page(layout: &Layout, arch: Arch, reference: &str) -> Result<Option<(serde_json::Value, Vec<PathBuf>)>> {
    let Some(image) = layout.index()?.manifests.into_iter().find(|one| one.is_of(arch)) else {
        return Ok(None);
    };
    let manifest: Manifest = layout.document(&image)?;
    let name = |hex: &str| format!("blobs/sha256/{hex}");
    let config = name(manifest.config.digest.hex());
    let layers: Vec<String> = manifest.layers.iter().map(|layer| name(layer.digest.hex())).collect();
    let files = layers.iter().chain([&config]).map(PathBuf::from).collect();
    Ok(Some((json!([{ "Config": config, "RepoTags": [reference], "Layers": layers }]), files)))
}

fn pack(layout: &Layout, files: &[PathBuf], page: Option<serde_json::Value>, path: &Path) -> Result<()> {
    let folder = path.parent().context("an archive has no folder")?;
    let mut file = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("make a file in {}", folder.display()))?;
    let mut out = tar::Builder::new(BufWriter::new(file.as_file_mut()));
    for name in files {
        let from = layout.path.join(name);
        let source = File::open(&from).with_context(|| format!("open {}", from.display()))?;
        let mut header = layer::header(0o644, 0);
        header.set_size(source.metadata()?.len());
        out.append_data(&mut header, name, BufReader::new(source))
            .with_context(|| format!("write {}", path.display()))?;
    }
    if let Some(page) = page {
        let bytes = serde_json::to_vec(&page)?;
        let mut header = layer::header(0o644, 0);
        header.set_size(bytes.len() as u64);
        out.append_data(&mut header, "manifest.json", bytes.as_slice())?;
    }
    let done = out.into_inner().and_then(|mut out| out.flush());
    done.with_context(|| format!("write {}", path.display()))?;
    // As any file that a program writes for its user; a temporary file is for its owner alone.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(file.path(), mode)?;
    file.persist(path).with_context(|| format!("write {}", path.display()))?;
    Ok(())
}
