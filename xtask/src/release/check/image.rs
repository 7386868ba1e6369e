// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The image in the release's folder: both architectures, every blob what its digest says, labels and annotations that
//! name this release, and the documents about it.

use anyhow::Result;

use super::super::bundle::Bundle;
use super::super::component::Component;
use super::super::document::{Document, WANTED};
use super::Findings;
use crate::arch::Arch;
use crate::image::Layout;
use crate::image::oci::{Annotations, Manifest, Settings};

const PART: &str = "image";

pub(super) fn look(bundle: &Bundle, component: &Component, commit: &str, findings: &mut Findings) {
    let Some(layout) = findings.take(PART, bundle.layout()) else { return };
    let looked = architectures(bundle, component, commit, &layout, findings);
    findings.take(PART, looked);
    let looked = documents(&layout, findings);
    findings.take("documents", looked);
}

fn architectures(
    bundle: &Bundle,
    component: &Component,
    commit: &str,
    layout: &Layout,
    findings: &mut Findings,
) -> Result<()> {
    let index = layout.index()?;
    let wanted = labels(bundle, component, commit);
    lacking("index", &index.annotations, &wanted, findings);
    for platform in &component.image.platforms {
        let part = format!("image {platform}");
        let Some(arch) = platform.strip_prefix("linux/").and_then(Arch::from_name) else {
            findings.add(&part, "pipelines/component.yaml names it, and nothing builds it");
            continue;
        };
        let Some(one) = index.manifests.iter().find(|one| one.is_of(arch)) else {
            findings.add(&part, "it is missing; build it: cargo xtask release build --arch amd64,arm64");
            continue;
        };
        let manifest: Manifest = layout.document(one)?;
        let settings: Settings = layout.document(&manifest.config)?;
        if (settings.os.as_str(), settings.architecture.as_str()) != ("linux", arch.as_str()) {
            findings.add(&part, format!("its settings say {}/{}", settings.os, settings.architecture));
        }
        lacking(&part, &settings.config.labels, &wanted, findings);
        for layer in &manifest.layers {
            findings.take(&part, layout.check(layer));
        }
    }
    Ok(())
}

fn documents(layout: &Layout, findings: &mut Findings) -> Result<()> {
    let documents = Document::all(layout)?;
    let index = layout.index()?;
    for (kind, name) in WANTED {
        let of = |subject| documents.iter().any(|one| one.artifact_type == kind && one.subject == subject);
        let each = !index.manifests.is_empty() && index.manifests.iter().all(|one| of(one.digest.clone()));
        if !of(layout.digest.clone()) && !each {
            findings.add(name, "it is missing from the image; build it anew: cargo xtask release build");
        }
    }
    for document in &documents {
        findings.take(&document.name, layout.check(&document.blob));
    }
    Ok(())
}

/// What an image of this release has to say of itself.
fn labels(bundle: &Bundle, component: &Component, commit: &str) -> Annotations {
    [
        ("version", bundle.version.to_string()),
        ("revision", commit.to_owned()),
        ("source", component.repositories.source.clone()),
        ("title", component.short().to_owned()),
        ("licenses", "Apache-2.0".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (format!("org.opencontainers.image.{name}"), value))
    .collect()
}

fn lacking(part: &str, has: &Annotations, wanted: &Annotations, findings: &mut Findings) {
    for (name, value) in wanted {
        match has.get(name) {
            Some(is) if is == value => {}
            Some(is) => findings.add(&format!("label {name}"), format!("{part} says {is:?}, not {value:?}")),
            None => findings.add(&format!("label {name}"), format!("{part} lacks it")),
        }
    }
}
