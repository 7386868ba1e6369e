// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An image of one architecture as a single tar with the layers, the settings, and the page that names them (`docker
//! load`, `ctr images import` and `podman load` read it): for engines and nodes. What is shipped is a layout instead.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::digest::{Digest, Hashed};
use super::{Image, Layer, layer};

/// A packed layer and what names it.
struct Packed {
    file: PathBuf,
    digest: Digest,
}

/// An image whose layers are packed and whose id is known.
pub(crate) struct Ready {
    layers: Vec<Packed>,
    config: Vec<u8>,
    /// Digest of the settings, which name the layers by theirs.
    pub(crate) id: Digest,
    /// The layers lie here until it is dropped.
    _work: tempfile::TempDir,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Ready").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Image {
    /// Packs the layers, in a temporary folder below `work`.
    pub(crate) fn pack(&self, work: &Path) -> Result<Ready> {
        std::fs::create_dir_all(work).with_context(|| format!("create {}", work.display()))?;
        let folder =
            tempfile::tempdir_in(work).with_context(|| format!("make a folder in {}", work.display()))?;
        let mut layers = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            layers.push(match layer {
                Layer::Tar(path) => Packed { file: path.clone(), digest: Digest::of_file(path)? },
                Layer::Entries(entries) => {
                    let file = folder.path().join(format!("{index}.tar"));
                    let digest =
                        pack_layer(&file, entries).with_context(|| format!("write {}", file.display()))?;
                    Packed { file, digest }
                }
            });
        }
        let digests: Vec<&Digest> = layers.iter().map(|layer| &layer.digest).collect();
        let config = serde_json::to_vec(&self.config(&digests))?;
        let id = Digest::of(&config);
        Ok(Ready { layers, config, id, _work: folder })
    }
}

impl Ready {
    /// The first 12 digits of the id, as people and tags use it.
    pub(crate) fn short(&self) -> &str {
        self.id.short()
    }

    /// Writes the archive to `path`, which appears whole or not at all, under the name `reference`.
    pub(crate) fn write(&self, reference: &str, path: &Path) -> Result<()> {
        let folder = path.parent().context("an archive has no folder")?;
        let mut file = tempfile::NamedTempFile::new_in(folder)
            .with_context(|| format!("make a file in {}", folder.display()))?;
        let mut out = tar::Builder::new(BufWriter::new(file.as_file_mut()));
        let layers: Vec<String> =
            self.layers.iter().map(|layer| format!("{}.tar", layer.digest.hex())).collect();
        for (layer, name) in self.layers.iter().zip(&layers) {
            let source = File::open(&layer.file).with_context(|| format!("open {}", layer.file.display()))?;
            let mut header = layer::header(0o644, 0);
            header.set_size(source.metadata()?.len());
            out.append_data(&mut header, name, BufReader::new(source))?;
        }
        let config = format!("{}.json", self.id.hex());
        let page = json!([{ "Config": config, "RepoTags": [reference], "Layers": layers }]);
        for (name, bytes) in
            [(config.as_str(), self.config.as_slice()), ("manifest.json", &serde_json::to_vec(&page)?)]
        {
            let mut header = layer::header(0o644, 0);
            header.set_size(bytes.len() as u64);
            out.append_data(&mut header, name, bytes)?;
        }
        out.into_inner()?.flush()?;
        file.persist(path).with_context(|| format!("write {}", path.display()))?;
        Ok(())
    }
}

fn pack_layer(path: &Path, entries: &[super::Entry]) -> Result<Digest> {
    let out = Hashed::new(BufWriter::new(File::create(path)?));
    let (mut file, digest, _) = layer::write(out, entries)?.finish();
    file.flush()?;
    Ok(digest)
}

#[cfg(test)]
mod tests {
    use super::super::Entry;
    use super::*;

    fn image(text: &str) -> Image {
        Image {
            env: vec!["PATH=/".into()],
            entrypoint: vec!["/a".into()],
            user: "65532:65532".into(),
            layers: vec![Layer::Entries(vec![Entry::text("etc/deep/file", text)])],
            ..Image::default()
        }
    }

    fn names(path: &Path) -> Vec<String> {
        let mut archive = tar::Archive::new(File::open(path).unwrap());
        archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().display().to_string()).collect()
    }

    #[test]
    fn the_same_files_give_the_same_archive_and_other_files_another_id() {
        let work = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let ready = image(text).pack(work.path()).unwrap();
            let path = work.path().join(name);
            ready.write("localhost/x:1", &path).unwrap();
            (ready.id, std::fs::read(path).unwrap())
        };
        let (a, b, c) = (write("a.tar", "one"), write("b.tar", "one"), write("c.tar", "two"));
        assert_eq!(a, b);
        assert_ne!(a.0, c.0);
    }

    #[test]
    fn an_archive_names_its_layers_by_what_they_are() {
        let work = tempfile::tempdir().unwrap();
        let ready = image("x").pack(work.path()).unwrap();
        let path = work.path().join("image.tar");
        ready.write("localhost/x:1", &path).unwrap();
        let [layer, config, page] = <[String; 3]>::try_from(names(&path)).unwrap();
        assert_eq!(config, format!("{}.json", ready.id.hex()));
        assert_eq!(page, "manifest.json");
        let layer_digest = Digest::of_file(&ready.layers[0].file).unwrap();
        assert_eq!(layer, format!("{}.tar", layer_digest.hex()));
        let config: serde_json::Value = serde_json::from_slice(&ready.config).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], layer_digest.to_string());
        assert_eq!(config["config"]["User"], "65532:65532");
    }
}
