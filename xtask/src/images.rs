// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Images of others: `pipelines/images.yaml`, and where each comes from on this machine. It never falls back in
//! silence: what it took is told, with its digest.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;

/// `pipelines/images.yaml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Foreign {
    pub(crate) node: Reference,
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
        for image in [images.node, images.druid, images.chown, images.sidecar, images.go_wrapper] {
            let (_, tag) = image.reference.rsplit_once(':').expect(&image.reference);
            assert!(!tag.is_empty() && tag != "latest", "{}", image.reference);
        }
    }

    #[test]
    fn druids_image_and_module_are_of_one_version() {
        let images = Foreign::read(&repo::root()).unwrap();
        let pinned = crate::tools::Tool::Druid.pinned().unwrap().unwrap();
        assert!(images.druid.reference.ends_with(&format!(":{pinned}")), "{pinned}");
    }
}
