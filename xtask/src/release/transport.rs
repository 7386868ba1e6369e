// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The common transport archive: a release as one file that a registry can be filled from. It is a tar of
//! `artifact-index.json` and `blobs/sha256.…`; the component is an artifact whose first layer is the descriptor, the image
//! lies beside it with all its blobs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::descriptor::Blob;
use super::{bundle, pack};
use crate::image::{Digest, Layout};

const CONFIG: &str = "application/vnd.ocm.software.component.config.v1+json";
const DESCRIPTOR: &str = "application/vnd.ocm.software.component-descriptor.v2+yaml+tar";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// What goes into one.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    /// The component's name and the tag of the release.
    pub(crate) component: &'a str,
    pub(crate) tag: &'a str,
    /// The descriptor's text.
    pub(crate) descriptor: &'a str,
    /// The release's folder with the blobs' files.
    pub(crate) folder: &'a Path,
    pub(crate) blobs: &'a [Blob],
    /// The image's repository, without a tag.
    pub(crate) repository: &'a str,
    pub(crate) layout: &'a Layout,
}

enum Source {
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// Writes the archive to `path`.
pub(crate) fn write(contents: &Contents<'_>, path: &Path) -> Result<()> {
    let mut blobs: BTreeMap<String, Source> = BTreeMap::new();
    let mut add = |media_type: &str, bytes: Vec<u8>| -> Value {
        let digest = Digest::of(&bytes);
        let described = json!({"mediaType": media_type, "digest": digest, "size": bytes.len()});
        blobs.insert(digest.hex().to_owned(), Source::Bytes(bytes));
        described
    };
    let first = add(DESCRIPTOR, pack::one(bundle::DESCRIPTOR, contents.descriptor.as_bytes())?);
    let config = add(CONFIG, serde_json::to_vec(&json!({"componentDescriptorLayer": first}))?);
    let mut layers = vec![first];
    for blob in contents.blobs {
        layers.push(json!({"mediaType": blob.media_type, "digest": blob.digest, "size": blob.size}));
    }
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config,
        "layers": layers,
    });
    let manifest = add(MANIFEST, serde_json::to_vec(&manifest)?);
    for blob in contents.blobs {
        let file = contents.folder.join(&blob.file);
        blobs.insert(blob.digest.hex().to_owned(), Source::File(file));
    }
    let repository = contents.repository.split_once('/').map_or(contents.repository, |(_, path)| path);
    let mut artifacts = vec![
        json!({
            "repository": format!("component-descriptors/{}", contents.component),
            "tag": contents.tag,
            "digest": manifest["digest"],
        }),
        json!({"repository": repository, "tag": contents.tag, "digest": contents.layout.digest}),
    ];
    let listed = contents.layout.list()?.manifests;
    let others = listed.iter().filter(|one| one.digest != contents.layout.digest);
    artifacts.extend(others.map(|one| json!({"repository": repository, "digest": one.digest})));
    let folder = contents.layout.path.join("blobs/sha256");
    for name in bundle::names(&folder)? {
        blobs.insert(name.clone(), Source::File(folder.join(name)));
    }

    let index = serde_json::to_vec(&json!({"schemaVersion": 1, "artifacts": artifacts}))?;
    let out = File::create(path).with_context(|| format!("create {}", path.display()))?;
    let mut out = pack::Archive::new(BufWriter::new(out));
    out.bytes("artifact-index.json", &index)?;
    for (hex, source) in &blobs {
        let name = format!("blobs/sha256.{hex}");
        match source {
            Source::Bytes(bytes) => out.bytes(&name, bytes)?,
            Source::File(file) => out.file(&name, file)?,
        }
    }
    out.finish().map(drop).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::scene::Scene;
    use super::*;

    #[test]
    fn an_archive_names_its_blobs_by_what_they_are_and_has_all_that_it_names() {
        let scene = Scene::built();
        let mut archive = tar::Archive::new(File::open(scene.bundle().transport()).unwrap());
        let mut files = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            files.push((name, bytes));
        }
        assert_eq!(files[0].0, "artifact-index.json");
        let index: Value = serde_json::from_slice(&files[0].1).unwrap();
        let blobs: BTreeMap<String, Vec<u8>> = files.into_iter().skip(1).collect();
        for (name, bytes) in &blobs {
            assert_eq!(*name, format!("blobs/sha256.{}", Digest::of(bytes).hex()));
        }
        let blob = |digest: &Value| {
            let digest = Digest::parse(digest.as_str().unwrap()).unwrap();
            blobs.get(&format!("blobs/sha256.{}", digest.hex())).unwrap_or_else(|| panic!("no {digest}"))
        };
        for artifact in index["artifacts"].as_array().unwrap() {
            blob(&artifact["digest"]);
        }
        let component = &index["artifacts"][0];
        assert_eq!(component["repository"], "component-descriptors/github.com/gardener/etcd-wrapper");
        assert_eq!(component["tag"], "v0.1.0");
        assert_eq!(index["artifacts"][1]["repository"], "gardener-project/releases/gardener/etcd-wrapper");
        let manifest: Value = serde_json::from_slice(blob(&component["digest"])).unwrap();
        for layer in manifest["layers"].as_array().unwrap() {
            assert_eq!(blob(&layer["digest"]).len() as u64, layer["size"].as_u64().unwrap());
        }
        let config: Value = serde_json::from_slice(blob(&manifest["config"]["digest"])).unwrap();
        assert_eq!(config["componentDescriptorLayer"], manifest["layers"][0]);
        let mut packed = tar::Archive::new(&**blob(&manifest["layers"][0]["digest"]));
        let mut text = String::new();
        packed.entries().unwrap().next().unwrap().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text.as_bytes(), scene.bundle().read(bundle::DESCRIPTOR).unwrap());
    }
}
