// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `pipelines/component.yaml`: what the component is called, where a release goes, and what its descriptor says of the
//! image. Reads the file and refuses what cannot be meant; decides nothing.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Where it lies below the root.
pub(crate) const PATH: &str = "pipelines/component.yaml";

/// Where minor releases are cut from.
pub(crate) const MAIN: &str = "main";

/// The file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Component {
    /// Its name in the component model: a host and a path.
    pub(crate) name: String,
    pub(crate) provider: String,
    pub(crate) repositories: Repositories,
    /// Who answers for it, as the component model spells it.
    pub(crate) responsibles: Vec<serde_json::Value>,
    pub(crate) versions: Versions,
    pub(crate) image: ImageResource,
}

/// Where things lie.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Repositories {
    /// URL of the sources.
    pub(crate) source: String,
    /// The image's name, without a registry.
    pub(crate) image: String,
    /// Registries with the folder that images lie in there.
    #[serde(rename = "snapshots")]
    _snapshots: String,
    pub(crate) releases: String,
}

/// How versions and branches go together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Versions {
    #[serde(rename = "branch_fixes")]
    _branch_fixes: Fixes,
    /// With `$major` and `$minor`.
    pub(crate) branch_template: String,
    /// How many minor versions are looked after.
    pub(crate) supported: u64,
}

/// The part of a version that a release branch fixes. Others than `minor` exist elsewhere, and mean another policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fixes {
    Minor,
}

/// The image as a resource of the component.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImageResource {
    /// `linux/amd64` and so on.
    pub(crate) platforms: Vec<String>,
    pub(crate) labels: Vec<Label>,
}

/// A label of a component descriptor: a name and any value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) value: serde_json::Value,
}

impl Component {
    /// Reads the file of the clone at `root`.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let path = root.join(PATH);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("parse {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let component: Self = serde_saphyr::from_str(text)?;
        let Versions { branch_template, supported, .. } = &component.versions;
        if !branch_template.contains("$major") || !branch_template.contains("$minor") {
            bail!(
                "versions.branch_template {branch_template:?} lacks $major or $minor: two release branches would be one"
            );
        }
        if *supported == 0 {
            bail!("versions.supported is 0: no version would be looked after");
        }
        if component.repositories.image.contains([':', '@']) {
            bail!(
                "repositories.image {:?} has a tag or a digest: it is a name",
                component.repositories.image
            );
        }
        if component.responsibles.is_empty() {
            bail!("responsibles is empty: nobody would answer for a release");
        }
        component.slug()?;
        Ok(component)
    }

    /// The repository of released images, without a tag.
    pub(crate) fn image_repository(&self) -> String {
        format!("{}/{}", self.repositories.releases, self.repositories.image)
    }

    /// `owner/name` at the source's host.
    pub(crate) fn slug(&self) -> Result<&str> {
        let source = &self.repositories.source;
        let path = source.strip_prefix("https://").and_then(|rest| rest.split_once('/'));
        match path {
            Some((_, slug)) if slug.split('/').filter(|part| !part.is_empty()).count() == 2 => Ok(slug),
            _ => bail!("repositories.source {source:?} is not https://HOST/OWNER/NAME"),
        }
    }

    /// The last part of the component's name, which files and images bear.
    pub(crate) fn short(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> String {
        std::fs::read_to_string(crate::repo::root().join(PATH)).unwrap()
    }

    #[test]
    fn the_clones_own_component_can_be_read() {
        let component = Component::parse(&ours()).unwrap();
        assert_eq!(component.slug().unwrap(), "gardener/etcd-wrapper");
        assert_eq!(component.short(), "etcd-wrapper");
        let platforms = crate::arch::Arch::ALL.map(|arch| format!("linux/{arch}"));
        assert_eq!(component.image.platforms, platforms);
        let labels = &component.image.labels;
        let label = labels.iter().find(|l| l.name == "gardener.cloud/cve-categorisation").unwrap();
        assert_eq!(label.value["network_exposure"], "protected");
        assert_eq!(label.value["authentication_enforced"], true);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (from, to, named) in [
            ("release-v$major.$minor", "release-v$major", "branch_template"),
            ("supported: 2", "supported: 0", "supported"),
            ("image: gardener/etcd-wrapper", "image: gardener/etcd-wrapper:v1", "image"),
            ("source: https://github.com/gardener/etcd-wrapper", "source: git@github.com:a/b", "source"),
            ("branch_fixes: minor", "branch_fixes: patch", "patch"),
        ] {
            let text = ours().replace(from, to);
            assert_ne!(text, ours(), "{from}");
            let error = format!("{:#}", Component::parse(&text).unwrap_err());
            assert!(error.contains(named), "{from}: {error}");
        }
    }
}
