// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A small image in the place of the real one, and reports in the place of real ones, for tests and rehearsals: shaped like
//! them, made in no time, and worth nothing. What is planted says so.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use super::component::Component;
use super::document::{CYCLONEDX, IN_TOTO, SPDX};
use super::version::Version;
use crate::arch::Arch;
use crate::image::oci::{self, Annotations, Descriptor, Index, Manifest, Platform};
use crate::image::sbom::PLATFORM;
use crate::image::{Blobs, Digest, Entry, Image, Layer, Layout, What};

/// What an image is planted for.
#[derive(Debug)]
pub(crate) struct Seed<'a> {
    pub(crate) component: &'a Component,
    pub(crate) version: Version,
    pub(crate) commit: &'a str,
    pub(crate) archs: &'a [Arch],
    /// Types of documents that are left out.
    pub(crate) without: &'a [&'a str],
}

/// Writes a layout to `place`: for each architecture a shell script that says its version.
pub(crate) fn image(seed: &Seed<'_>, place: &Path) -> Result<Layout> {
    let blobs = Blobs::begin(place)?;
    let labels = labels(seed);
    let script = format!("#!/bin/sh\necho etcd-wrapper {}\n", seed.version);
    let mut manifests = Vec::new();
    for arch in seed.archs.iter().copied() {
        let mut program = Entry::text("etcd-wrapper", &*script);
        program.mode = 0o755;
        let mut ballast = Entry::text("etc/planted", "");
        ballast.what = What::Bytes(noise(arch.as_str()));
        let entries = vec![program, ballast];
        let (layer, content) = blobs.layer(&entries)?;
        let image = Image {
            arch,
            entrypoint: vec!["/etcd-wrapper".into()],
            user: "65532:65532".into(),
            labels: labels.clone(),
            layers: vec![Layer::Entries(entries)],
            ..Image::default()
        };
        let config = blobs.json(oci::CONFIG, &image.config(&[&content]))?;
        let manifest = Manifest::image(config, vec![layer], labels.clone());
        let mut described = blobs.json(oci::MANIFEST, &manifest)?;
        described.platform = Some(Platform::linux(arch));
        manifests.push(described);
    }
    let index = blobs.json(oci::INDEX, &Index::new(manifests, labels))?;
    let mut listed = vec![index.clone()];
    let empty = blobs.bytes(oci::EMPTY, b"{}")?;
    for (kind, document) in documents(seed, &index)? {
        // As in an image that ships: a list for each architecture, provenance of the whole, all of them at the index.
        let about = |arch: &Arch| Annotations::from([(PLATFORM.into(), Platform::linux(*arch).to_string())]);
        let notes =
            if kind == IN_TOTO { vec![Annotations::new()] } else { seed.archs.iter().map(about).collect() };
        for notes in notes.into_iter().filter(|_| !seed.without.contains(&kind)) {
            let document = blobs.json(kind, &document)?;
            let manifest = Manifest::referrer(kind, document, index.clone(), notes);
            debug_assert_eq!(manifest.config, empty);
            let mut described = blobs.json(oci::MANIFEST, &manifest)?;
            described.artifact_type = Some(kind.into());
            listed.push(described);
        }
    }
    blobs.publish(listed)?;
    Layout::open(place)
}

/// Reports of all kinds below `place`; that of the suite was made with doubles, and says so.
pub(crate) fn evidence(place: &Path, commit: &str, image: &str) -> Result<()> {
    let write = |path: &str, text: &str| {
        let path = place.join(path);
        let folder = path.parent().context("a report has a folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    };
    write("tests/junit.xml", "<testsuites name=\"planted\" tests=\"0\"></testsuites>\n")?;
    write("sast/report.sarif", "{\"version\": \"2.1.0\", \"runs\": []}\n")?;
    let of = |role: &str, from: &str, digest: &str| json!({"role": role, "reference": format!("localhost/{role}:planted"), "digest": digest, "from": from});
    let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let results = json!({
        "run": "planted", "seed": 1, "commit": commit, "cluster": "none", "kubernetes": "none", "double": true,
        "started": 1, "finished": 2, "interrupted": false, "host": [], "selection": "",
        "images": [of("wrapper", "built", image), of("druid", "double", empty), of("sidecar", "double", empty)],
        "outcomes": [{
            "name": "planted", "about": "nothing ran", "verdict": "passed", "reason": null, "started": 1, "took": 1,
            "namespace": "", "evidence": null, "timeline": [], "measured": [],
        }],
    });
    write("e2e/results.json", &serde_json::to_string_pretty(&results)?)
}

/// Half a megabyte that does not compress, so that a push of it can break in its middle; always the same.
fn noise(seed: &str) -> Vec<u8> {
    (0..8192).flat_map(|n| Digest::of(format!("{seed} {n}").as_bytes()).to_string().into_bytes()).collect()
}

fn labels(seed: &Seed<'_>) -> Annotations {
    [
        ("title", seed.component.short().to_owned()),
        ("version", seed.version.to_string()),
        ("revision", seed.commit.to_owned()),
        ("source", source(seed).to_owned()),
        ("licenses", "Apache-2.0".to_owned()),
        ("description", "planted for a rehearsal".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (format!("org.opencontainers.image.{name}"), value))
    .collect()
}

fn documents(seed: &Seed<'_>, index: &Descriptor) -> Result<[(&'static str, serde_json::Value); 3]> {
    let (name, version) = (seed.component.short(), seed.version.to_string());
    let subject = json!([{"name": name, "digest": {"sha256": index.digest.hex()}}]);
    let cyclonedx = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "components": [{"type": "application", "name": name, "version": version}],
    });
    let spdx = json!({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "documentNamespace": format!("{}/planted/{}", source(seed), seed.commit),
        "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": ["Tool: planted"]},
        "packages": [{"SPDXID": "SPDXRef-1", "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION"}],
    });
    let provenance = json!({
        "_type": "https://in-toto.io/Statement/v1", "subject": subject,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{}/planted", source(seed)),
                "externalParameters": {"source": source(seed), "commit": seed.commit},
            },
            "runDetails": {"builder": {"id": "planted"}},
        },
    });
    Ok([(CYCLONEDX, cyclonedx), (SPDX, spdx), (IN_TOTO, provenance)])
}

fn source<'a>(seed: &Seed<'a>) -> &'a str {
    &seed.component.repositories.source
}
