// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Images of others: `pipelines/images.yaml`, and where each comes from on this machine. It never falls back in
//! silence: what it took is told, with its digest.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;

/// `pipelines/images.yaml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Foreign {
    pub(crate) node: Reference,
    /// Nodes of older Kubernetes, by minor: `1.36`.
    pub(crate) older_nodes: BTreeMap<String, Reference>,
    pub(crate) druid: Reference,
    pub(crate) chown: Reference,
    pub(crate) sidecar: Reference,
    pub(crate) go_wrapper: Reference,
}

/// One image.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reference {
    pub(crate) reference: String,
}

/// Where an image came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum From {
    Engine,
    Pulled,
    Built,
    Double,
}

impl Foreign {
    /// Reads the page of the clone at `root`.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let path = root.join("pipelines/images.yaml");
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))
    }
}

impl Foreign {
    /// The node image for the Kubernetes of a minor, `1.36`; without one the newest.
    ///
    /// # Errors
    /// The page has none of this minor; the ones that it has are named.
    pub(crate) fn node_of(&self, kubernetes: Option<&str>) -> Result<Reference> {
        let Some(minor) = kubernetes else { return Ok(self.node.clone()) };
        if self.node.reference.contains(&format!(":v{minor}.")) {
            return Ok(self.node.clone());
        }
        self.older_nodes.get(minor).cloned().with_context(|| {
            let older: Vec<&str> = self.older_nodes.keys().map(String::as_str).collect();
            let newest = &self.node.reference;
            format!("no node image of Kubernetes {minor}; there are {newest} and {}", older.join(", "))
        })
    }
}

impl Reference {
    /// The image out of the engine, pulled first if need be: its digest and where it was; else why it is not to be had.
    pub(crate) fn find(&self, engine: &Engine) -> Result<std::result::Result<(String, From), String>> {
        if let Some(held) = engine.image(&self.reference)? {
            return Ok(Ok((held.digest, From::Engine)));
        }
        eprintln!("pulling {}", self.reference);
        if let Err(error) = engine.pull(&self.reference) {
            let why = error.to_string();
            return Ok(Err(why.lines().next_back().unwrap_or_default().trim().to_owned()));
        }
        let held = engine.image(&self.reference)?;
        let held =
            held.with_context(|| format!("{} was pulled, and the engine has no such image", self.reference))?;
        Ok(Ok((held.digest, From::Pulled)))
    }
}

impl std::fmt::Display for From {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Engine => "engine",
            Self::Pulled => "pulled",
            Self::Built => "built",
            Self::Double => "double",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    #[test]
    fn the_page_of_this_clone_can_be_read_and_pins_every_image() {
        let images = Foreign::read(&repo::root()).unwrap();
        let others = [images.node, images.druid, images.chown, images.sidecar, images.go_wrapper];
        for image in images.older_nodes.into_values().chain(others) {
            let (_, tag) = image.reference.rsplit_once(':').expect(&image.reference);
            assert!(!tag.is_empty() && tag != "latest", "{}", image.reference);
        }
    }

    #[test]
    fn a_node_is_chosen_by_its_minor() {
        let images = Foreign::read(&repo::root()).unwrap();
        let of = |minor| images.node_of(minor).map(|node| node.reference);
        assert_eq!(of(None).unwrap(), images.node.reference);
        for minor in images.older_nodes.keys() {
            assert!(of(Some(minor)).unwrap().contains(&format!(":v{minor}.")), "{minor}");
        }
        assert!(of(Some("1.3")).unwrap_err().to_string().contains("no node image of Kubernetes 1.3;"));
    }

    #[test]
    fn druids_image_and_module_are_of_one_version() {
        let images = Foreign::read(&repo::root()).unwrap();
        let pinned = crate::tools::Tool::Druid.pinned().unwrap().unwrap();
        assert!(images.druid.reference.ends_with(&format!(":{pinned}")), "{pinned}");
    }
}
