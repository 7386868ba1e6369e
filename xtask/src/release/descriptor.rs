// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The component descriptor of the Open Component Model, schema v2: what belongs to a release, where it lies, and what is
//! said of it. Makes the document and reads it; whether it is complete is judged by `check`.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::component::{Component, Label};
use super::version::Version;
use crate::image::Digest;

pub(crate) const RESPONSIBLES: &str = "cloud.gardener.cnudie/responsibles";
pub(crate) const CVE: &str = "gardener.cloud/cve-categorisation";
const SOURCE: &str = "cloud.gardener/cicd/source";
const PURPOSES: &str = "gardener.cloud/purposes";

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Descriptor {
    pub(crate) meta: Meta,
    pub(crate) component: Body,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Meta {
    pub(crate) schema_version: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Body {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) provider: String,
    pub(crate) creation_time: String,
    #[serde(default)]
    pub(crate) labels: Vec<Label>,
    pub(crate) repository_contexts: Vec<Value>,
    pub(crate) sources: Vec<Source>,
    pub(crate) component_references: Vec<Value>,
    pub(crate) resources: Vec<Resource>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) version: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) labels: Vec<Label>,
    pub(crate) access: Access,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Resource {
    pub(crate) name: String,
    pub(crate) version: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) relation: String,
    #[serde(default)]
    pub(crate) labels: Vec<Label>,
    pub(crate) access: Access,
    pub(crate) digest: Sum,
}

/// Where something lies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Access {
    /// An image in a registry, by tag and digest.
    OciArtifact {
        image_reference: String,
    },
    /// A blob that goes with the descriptor, by digest.
    LocalBlob {
        local_reference: String,
        media_type: String,
    },
    GitHub {
        repo_url: String,
        commit: String,
        r#ref: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sum {
    pub(crate) hash_algorithm: String,
    pub(crate) normalisation_algorithm: String,
    pub(crate) value: String,
}

/// A blob that goes with the descriptor.
#[derive(Debug, Clone)]
pub(crate) struct Blob {
    /// The name of the resource.
    pub(crate) name: String,
    /// Its type in the model, such as `sbom`.
    pub(crate) kind: String,
    pub(crate) media_type: String,
    /// The file in the release's folder.
    pub(crate) file: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) purposes: Vec<String>,
}

/// What a descriptor is made of.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) component: &'a Component,
    pub(crate) version: Version,
    pub(crate) commit: &'a str,
    /// RFC 3339, of the commit.
    pub(crate) created: &'a str,
    /// Of the index over the architectures.
    pub(crate) image: &'a Digest,
    pub(crate) blobs: &'a [Blob],
}

impl Descriptor {
    pub(crate) fn make(parts: &Parts<'_>) -> Self {
        let Parts { component, version, commit, created, image, blobs } = parts;
        let tag = version.tag();
        let label = |name: &str, value: Value| Label { name: name.into(), value };
        let mut resources = vec![Resource {
            name: component.short().into(),
            version: tag.clone(),
            kind: "ociImage".into(),
            relation: "local".into(),
            labels: component.image.labels.clone(),
            access: Access::OciArtifact {
                image_reference: format!("{}:{tag}@{image}", component.image_repository()),
            },
            digest: sum("ociArtifactDigest/v1", image),
        }];
        resources.extend(blobs.iter().map(|blob| Resource {
            name: blob.name.clone(),
            version: tag.clone(),
            kind: blob.kind.clone(),
            relation: "local".into(),
            labels: if blob.purposes.is_empty() {
                Vec::new()
            } else {
                vec![label(PURPOSES, json!(blob.purposes))]
            },
            access: Access::LocalBlob {
                local_reference: blob.digest.to_string(),
                media_type: blob.media_type.clone(),
            },
            digest: sum("genericBlobDigest/v1", &blob.digest),
        }));
        let source = Source {
            name: component.short().into(),
            version: tag.clone(),
            kind: "git".into(),
            labels: vec![label(SOURCE, json!({"repository-classification": "main"}))],
            access: Access::GitHub {
                repo_url: component.repositories.source.trim_start_matches("https://").into(),
                commit: (*commit).into(),
                r#ref: format!("refs/tags/{tag}"),
            },
        };
        Self {
            meta: Meta { schema_version: "v2".into() },
            component: Body {
                name: component.name.clone(),
                version: tag,
                provider: component.provider.clone(),
                creation_time: (*created).into(),
                labels: vec![label(RESPONSIBLES, json!(component.responsibles))],
                repository_contexts: Vec::new(),
                sources: vec![source],
                component_references: Vec::new(),
                resources,
            },
        }
    }

    pub(crate) fn to_yaml(&self) -> Result<String> {
        // By way of JSON: a label's value is JSON, and both have to come out alike.
        let value = serde_json::to_value(self).context("write the descriptor as JSON")?;
        serde_saphyr::to_string(&value).context("write the descriptor as YAML")
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        serde_saphyr::from_str(text).context("parse the component descriptor")
    }

    /// The resource of this name.
    pub(crate) fn resource(&self, name: &str) -> Option<&Resource> {
        self.component.resources.iter().find(|resource| resource.name == name)
    }
}

fn sum(normalisation: &str, digest: &Digest) -> Sum {
    Sum {
        hash_algorithm: "SHA-256".into(),
        normalisation_algorithm: normalisation.into(),
        value: digest.hex().into(),
    }
}
