// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The documents of the OCI image specification 1.1, as far as we write and read them. Maps are sorted and absent fields
//! are left out, so that one value is always the same bytes; foreign fields are passed over when reading.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use crate::arch::Arch;

pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
pub(crate) const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// The name of an image in the list of a layout.
pub(crate) const REF_NAME: &str = "org.opencontainers.image.ref.name";

pub(crate) type Annotations = BTreeMap<String, String>;

/// What names a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    /// In bytes.
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: Annotations,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Platform {
    pub(crate) architecture: String,
    pub(crate) os: String,
}

/// A list of images: one image for several architectures, or all that a layout has.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    pub(crate) schema_version: u32,
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) manifests: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: Annotations,
}

/// An image of one architecture, or a document that belongs to one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    #[serde(default)]
    pub(crate) media_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: Annotations,
}

/// The page of settings, as far as it is read back.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Settings {
    pub(crate) architecture: String,
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) config: Execution,
    pub(crate) rootfs: RootFs,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Execution {
    pub(crate) user: String,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) labels: Annotations,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RootFs {
    pub(crate) diff_ids: Vec<Digest>,
}

impl Descriptor {
    pub(crate) fn new(media_type: &str, digest: Digest, size: u64) -> Self {
        Self {
            media_type: media_type.into(),
            digest,
            size,
            platform: None,
            artifact_type: None,
            annotations: Annotations::new(),
        }
    }

    /// The descriptor of the two bytes that stand for no settings.
    pub(crate) fn empty() -> Self {
        Self::new(EMPTY, Digest::of(b"{}"), 2)
    }

    pub(crate) fn is_of(&self, arch: Arch) -> bool {
        self.platform.as_ref().is_some_and(|p| p.os == "linux" && p.architecture == arch.as_str())
    }
}

impl std::fmt::Display for Platform {
    /// `linux/amd64`
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.os, self.architecture)
    }
}

impl Platform {
    pub(crate) fn linux(arch: Arch) -> Self {
        Self { architecture: arch.as_str().into(), os: "linux".into() }
    }
}

impl Index {
    pub(crate) fn new(manifests: Vec<Descriptor>, annotations: Annotations) -> Self {
        Self { schema_version: 2, media_type: INDEX.into(), manifests, annotations }
    }
}

impl Manifest {
    /// Of an image.
    pub(crate) fn image(config: Descriptor, layers: Vec<Descriptor>, annotations: Annotations) -> Self {
        let media_type = MANIFEST.into();
        Self {
            schema_version: 2,
            media_type,
            artifact_type: None,
            config,
            layers,
            subject: None,
            annotations,
        }
    }

    /// Of a document that belongs to `subject`.
    pub(crate) fn referrer(
        kind: &str,
        document: Descriptor,
        subject: Descriptor,
        annotations: Annotations,
    ) -> Self {
        Self {
            artifact_type: Some(kind.into()),
            subject: Some(subject),
            ..Self::image(Descriptor::empty(), vec![document], annotations)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_written_as_the_specification_spells_it_and_without_absent_fields() {
        let mut one = Descriptor::new(MANIFEST, Digest::of(b""), 7);
        one.platform = Some(Platform::linux(Arch::Arm64));
        let index =
            Index::new(vec![one], Annotations::from([("b".into(), "2".into()), ("a".into(), "1".into())]));
        let digest = Digest::of(b"");
        assert_eq!(
            serde_json::to_string(&index).unwrap(),
            format!(
                r#"{{"schemaVersion":2,"mediaType":"{INDEX}","manifests":[{{"mediaType":"{MANIFEST}","digest":"{digest}","size":7,"platform":{{"architecture":"arm64","os":"linux"}}}}],"annotations":{{"a":"1","b":"2"}}}}"#
            )
        );
    }

    #[test]
    fn a_digest_that_names_a_path_makes_a_document_unreadable() {
        let text = r#"{"mediaType":"x","digest":"sha256:../x","size":1}"#;
        let error = serde_json::from_str::<Descriptor>(text).unwrap_err().to_string();
        assert!(error.contains("64 hexadecimal digits"), "{error}");
    }
}
