// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The file format: a tar with the layers, the settings, and the page that names them (`docker load`, `ctr images
//! import` and `podman load` read it). The same input gives the same bytes, and so the same image id.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::{Entry, Image, Layer, What};

/// The time that all files and the image itself carry: there is nothing to learn from when something was built.
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// A packed layer and what names it.
struct Packed {
    file: PathBuf,
    digest: String,
}

/// An image whose layers are packed and whose id is known.
pub(crate) struct Ready {
    layers: Vec<Packed>,
    config: Vec<u8>,
    /// SHA-256 of the settings, which name the layers by theirs: 64 hexadecimal digits.
    pub(crate) id: String,
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
            let file = match layer {
                Layer::Tar(path) => path.clone(),
                Layer::Entries(entries) => {
                    let path = folder.path().join(format!("{index}.tar"));
                    write_layer(&path, entries).with_context(|| format!("write {}", path.display()))?;
                    path
                }
            };
            let digest = digest(&file)?;
            layers.push(Packed { file, digest });
        }
        let config = serde_json::to_vec(&self.config(&layers))?;
        let id = hex(ring::digest::digest(&ring::digest::SHA256, &config).as_ref());
        Ok(Ready { layers, config, id, _work: folder })
    }

    fn config(&self, layers: &[Packed]) -> serde_json::Value {
        let labels: serde_json::Map<String, serde_json::Value> =
            self.labels.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        let diffs: Vec<String> = layers.iter().map(|layer| format!("sha256:{}", layer.digest)).collect();
        let history: Vec<_> = layers.iter().map(|_| json!({"created": EPOCH})).collect();
        let mut config = json!({ "Env": self.env, "Entrypoint": self.entrypoint, "Labels": labels });
        if !self.user.is_empty() {
            config["User"] = self.user.clone().into();
        }
        if let Some(signal) = &self.stop_signal {
            config["StopSignal"] = signal.clone().into();
        }
        json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "created": EPOCH,
            "config": config,
            "history": history,
            "rootfs": { "type": "layers", "diff_ids": diffs },
        })
    }
}

impl Ready {
    /// The first 12 digits of the id, as people and tags use it.
    pub(crate) fn short(&self) -> &str {
        &self.id[..12]
    }

    /// Writes the archive to `path`, which appears whole or not at all, under the name `reference`.
    pub(crate) fn write(&self, reference: &str, path: &Path) -> Result<()> {
        let folder = path.parent().context("an archive has no folder")?;
        let mut file = tempfile::NamedTempFile::new_in(folder)
            .with_context(|| format!("make a file in {}", folder.display()))?;
        let mut out = tar::Builder::new(BufWriter::new(file.as_file_mut()));
        let layers: Vec<String> = self.layers.iter().map(|layer| format!("{}.tar", layer.digest)).collect();
        for (layer, name) in self.layers.iter().zip(&layers) {
            let source = File::open(&layer.file).with_context(|| format!("open {}", layer.file.display()))?;
            let mut header = header(0o644, 0);
            header.set_size(source.metadata()?.len());
            out.append_data(&mut header, name, BufReader::new(source))?;
        }
        let config = format!("{}.json", self.id);
        let page = json!([{ "Config": config, "RepoTags": [reference], "Layers": layers }]);
        for (name, bytes) in
            [(config.as_str(), self.config.as_slice()), ("manifest.json", &serde_json::to_vec(&page)?)]
        {
            let mut header = header(0o644, 0);
            header.set_size(bytes.len() as u64);
            out.append_data(&mut header, name, bytes)?;
        }
        out.into_inner()?.flush()?;
        file.persist(path).with_context(|| format!("write {}", path.display()))?;
        Ok(())
    }
}

fn write_layer(path: &Path, entries: &[Entry]) -> Result<()> {
    let mut out = tar::Builder::new(BufWriter::new(File::create(path)?));
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
    out.into_inner()?.flush()?;
    Ok(())
}

fn header(mode: u32, owner: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_uid(owner.into());
    header.set_gid(owner.into());
    header.set_mtime(0);
    header.set_size(0);
    header
}

fn digest(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
    let mut block = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut block).with_context(|| format!("read {}", path.display()))?;
        if read == 0 {
            return Ok(hex(hash.finish().as_ref()));
        }
        hash.update(&block[..read]);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(text: &str) -> Image {
        Image {
            env: vec!["PATH=/".into()],
            entrypoint: vec!["/a".into()],
            user: "65532:65532".into(),
            layers: vec![Layer::Entries(vec![
                Entry::folder("home/nonroot", 0o700, 65532),
                Entry::text("etc/deep/file", text),
                Entry::symlink("bin/sh", "busybox"),
            ])],
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
        assert_eq!(config, format!("{}.json", ready.id));
        assert_eq!(page, "manifest.json");
        let layer_digest = digest(&ready.layers[0].file).unwrap();
        assert_eq!(layer, format!("{layer_digest}.tar"));
        let config: serde_json::Value = serde_json::from_slice(&ready.config).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{layer_digest}"));
        assert_eq!(config["config"]["User"], "65532:65532");
    }

    #[test]
    fn folders_above_a_file_are_there_once_and_those_that_are_described_keep_their_mode() {
        let work = tempfile::tempdir().unwrap();
        let ready = image("x").pack(work.path()).unwrap();
        let file = &ready.layers[0].file;
        assert_eq!(
            names(file),
            ["home/", "home/nonroot/", "etc/", "etc/deep/", "etc/deep/file", "bin/", "bin/sh"]
        );
        let mut archive = tar::Archive::new(File::open(file).unwrap());
        let home = archive.entries().unwrap().nth(1).unwrap().unwrap();
        assert_eq!((home.header().mode().unwrap(), home.header().uid().unwrap()), (0o700, 65532));
    }
}
