// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `pipelines/component.yaml`: what the component is called, where a release goes, and what its descriptor says of the
//! image. Reads the file and refuses what cannot be meant; decides nothing.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Where it lies below the root.
pub(crate) const PATH: &str = "pipelines/component.yaml";

/// The file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Component {
    /// Its name in the component model: a host and a path.
    pub(crate) name: String,
    pub(crate) provider: String,
    /// URL of the source repository.
    pub(crate) source: String,
    /// Repository of the images, without a tag.
    pub(crate) image: String,
    /// Teams, as `organisation/team` at the source's host.
    pub(crate) responsibles: Vec<String>,
    pub(crate) release: Branches,
    /// Labels of the image resource.
    pub(crate) labels: Vec<Label>,
}

/// Which branches releases are cut from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Branches {
    pub(crate) main: String,
    /// With `$major` and `$minor`.
    pub(crate) branch: String,
    pub(crate) fixes: Fixes,
    /// How many minor versions are looked after.
    pub(crate) supported: u64,
}

/// The part of a version that a release branch fixes. Others than `minor` exist elsewhere, and mean another policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fixes {
    Minor,
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
        let Branches { branch, supported, .. } = &component.release;
        if !branch.contains("$major") || !branch.contains("$minor") {
            bail!("release.branch {branch:?} lacks $major or $minor: two release branches would be one");
        }
        if *supported == 0 {
            bail!("release.supported is 0: no version would be looked after");
        }
        if component.image.rsplit('/').next().is_none_or(|last| last.contains([':', '@'])) {
            bail!("image {:?} has a tag or a digest: it is a repository", component.image);
        }
        if component.responsibles.is_empty() {
            bail!("responsibles is empty: nobody would answer for a release");
        }
        component.slug()?;
        Ok(component)
    }

    /// `owner/name` at the source's host.
    pub(crate) fn slug(&self) -> Result<&str> {
        let path = self.source.strip_prefix("https://").and_then(|rest| rest.split_once('/'));
        match path {
            Some((_, slug)) if slug.split('/').filter(|part| !part.is_empty()).count() == 2 => Ok(slug),
            _ => bail!("source {:?} is not https://HOST/OWNER/NAME", self.source),
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
        let label = component.labels.iter().find(|l| l.name == "gardener.cloud/cve-categorisation").unwrap();
        assert_eq!(label.value["network_exposure"], "protected");
        assert_eq!(label.value["authentication_enforced"], true);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (from, to, named) in [
            ("release-v$major.$minor", "release-v$major", "release.branch"),
            ("supported: 2", "supported: 0", "release.supported"),
            ("gardener/etcd-wrapper\n# Who", "gardener/etcd-wrapper:v1\n# Who", "image"),
            ("  - gardener/etcd-druid-maintainers\n", "  []\n", "responsibles"),
            ("https://github.com/gardener/etcd-wrapper", "git@github.com:gardener/etcd-wrapper", "source"),
            ("fixes: minor", "fixes: patch", "fixes"),
        ] {
            let text = ours().replace(from, to);
            assert_ne!(text, ours(), "{from}");
            let error = format!("{:#}", Component::parse(&text).unwrap_err());
            assert!(error.contains(named), "{from}: {error}");
        }
    }
}
