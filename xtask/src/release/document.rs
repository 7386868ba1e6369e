// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Documents that a layout has beside its image: lists of contents and provenance, each a manifest that names its subject.
//! Finds and names them; what stands in one is the image's business.

use anyhow::{Context, Result};

use crate::image::oci::{Descriptor, INDEX, Manifest};
use crate::image::sbom::PLATFORM;
use crate::image::{Digest, Layout};

pub(crate) const CYCLONEDX: &str = "application/vnd.cyclonedx+json";
pub(crate) const SPDX: &str = "application/spdx+json";
pub(crate) const IN_TOTO: &str = "application/vnd.in-toto+json";

/// What every release has, by the type of the manifest, with the name of the resource.
pub(crate) const WANTED: [(&str, &str); 3] =
    [(CYCLONEDX, "sbom-cyclonedx"), (SPDX, "sbom-spdx"), (IN_TOTO, "provenance")];

/// One document.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// The name of its resource, such as `sbom-spdx-amd64`.
    pub(crate) name: String,
    /// The type of its resource.
    pub(crate) kind: &'static str,
    /// The type of its manifest.
    pub(crate) artifact_type: String,
    /// What a file of it ends with, such as `amd64.spdx.json`.
    pub(crate) ending: String,
    /// Of the index, or of the image of one architecture.
    pub(crate) subject: Digest,
    /// Itself.
    pub(crate) blob: Descriptor,
}

impl Document {
    /// All documents of a layout about its image, in the order of the layout.
    pub(crate) fn all(layout: &Layout) -> Result<Vec<Self>> {
        let index = layout.index()?;
        let mut found = Vec::new();
        for listed in layout.list()?.manifests {
            if listed.media_type == INDEX {
                continue;
            }
            let manifest: Manifest = layout.document(&listed)?;
            let (Some(subject), Some(kind)) = (manifest.subject, manifest.artifact_type) else { continue };
            // What is about one architecture hangs at the index too, where people look, and says so in a note.
            let note = manifest.annotations.get(PLATFORM);
            let part = index.manifests.iter().find(|one| match note {
                Some(note) => one.platform.as_ref().is_some_and(|platform| platform.to_string() == *note),
                None => one.digest == subject.digest,
            });
            let arch =
                part.and_then(|one| one.platform.as_ref()).map(|platform| platform.architecture.as_str());
            if arch.is_none() && (note.is_some() || subject.digest != layout.digest) {
                continue;
            }
            let subject = part.map_or(subject.digest, |part| part.digest.clone());
            let blob = manifest.layers.into_iter().next();
            let blob = blob.with_context(|| format!("the manifest {} has no document", listed.digest))?;
            let (name, kind_of, ending) = match kind.as_str() {
                CYCLONEDX => ("sbom-cyclonedx", "sbom", "cdx.json"),
                SPDX => ("sbom-spdx", "sbom", "spdx.json"),
                IN_TOTO => ("provenance", "blob", "intoto.json"),
                _ => continue,
            };
            found.push(Self {
                name: arch.map_or_else(|| name.to_owned(), |arch| format!("{name}-{arch}")),
                kind: kind_of,
                ending: arch.map_or_else(|| ending.to_owned(), |arch| format!("{arch}.{ending}")),
                artifact_type: kind,
                subject,
                blob,
            });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::arch::Arch;
    use crate::release::component::Component;
    use crate::release::planted::{self, Seed};

    #[test]
    fn lists_of_two_architectures_are_files_of_their_own_about_images_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let component = Component::read(&crate::repo::root()).unwrap();
        let archs = [Arch::Amd64, Arch::Arm64];
        let seed = Seed {
            component: &component,
            version: "1.2.3".parse().unwrap(),
            commit: "c",
            archs: &archs,
            without: &[],
        };
        let layout = planted::image(&seed, &folder.path().join("layout")).unwrap();
        let documents = Document::all(&layout).unwrap();
        let names: BTreeSet<&str> = documents.iter().map(|one| one.name.as_str()).collect();
        let wanted = [
            "sbom-cyclonedx-amd64",
            "sbom-cyclonedx-arm64",
            "sbom-spdx-amd64",
            "sbom-spdx-arm64",
            "provenance",
        ];
        assert_eq!(names, BTreeSet::from(wanted));
        let endings: BTreeSet<&str> = documents.iter().map(|one| one.ending.as_str()).collect();
        assert_eq!(endings.len(), documents.len(), "{endings:?}");
        let index = layout.index().unwrap();
        for one in &documents {
            let part = index.manifests.iter().find(|part| part.digest == one.subject);
            match part.and_then(|part| part.platform.as_ref()) {
                Some(platform) => assert!(one.name.ends_with(&platform.architecture), "{one:?}"),
                None => assert_eq!((one.name.as_str(), &one.subject), ("provenance", &layout.digest)),
            }
        }
    }
}
