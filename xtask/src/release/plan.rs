// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the next release would be: its version, what came since the one before, and what would be published. Reads the
//! clone alone, and changes nothing.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::changelog;
use super::component::Component;
use super::git::Git;
use super::manifest;
use super::policy::{self, Bump, Line};
use super::version::Version;

/// The plan, as `--json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plan {
    pub(crate) component: String,
    pub(crate) version: Version,
    pub(crate) bump: Bump,
    /// Where it is cut from.
    pub(crate) branch: String,
    /// The commit that is checked out.
    pub(crate) commit: String,
    /// The manifests name the version already.
    pub(crate) prepared: bool,
    /// The tag of the release before.
    pub(crate) since: Option<String>,
    /// Newest first: a short name and a subject.
    pub(crate) commits: Vec<(String, String)>,
    /// The section of the changelog for it.
    pub(crate) changelog: String,
    pub(crate) publishes: Vec<(String, String)>,
    /// `major.minor`, newest first.
    pub(crate) supported: Vec<String>,
    /// What stands in the way of `prepare`.
    pub(crate) obstacles: Vec<String>,
}

impl Plan {
    /// Looks at the clone at `root`; without `bump`, it is what the branch brings.
    ///
    /// # Errors
    /// The branch brings no such release, or manifests and tags do not fit.
    pub(crate) fn make(root: &Path, bump: Option<Bump>) -> Result<Self> {
        let component = Component::read(root)?;
        let git = Git::new(root);
        let branch = git.branch()?;
        let line = Line::of(&branch, &component.versions.branch_template)?;
        let bump = bump.unwrap_or(line.bump());
        let tags: Vec<Version> = git.tags()?.iter().filter_map(|tag| Version::of_tag(tag)).collect();
        let manifest = manifest::version(root)?;
        let version = policy::next(&line, bump, manifest, &tags)?;
        let since = policy::before(&line, version, &tags).map(Version::tag);
        let range = since.as_ref().map_or_else(|| "HEAD".to_owned(), |tag| format!("{tag}..HEAD"));
        let log = git.ask(["log", "--format=%h%x09%s", &range])?;
        let commits = log.lines().filter_map(|line| line.split_once('\t'));
        let path = root.join(changelog::PATH);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let section = match changelog::released(&text, version) {
            Some(section) => section.body,
            None => changelog::unreleased(&text)?,
        };
        let mut obstacles = Vec::new();
        if changelog::entries(section) == 0 {
            obstacles.push(format!("{} has no entry for it", changelog::PATH));
        }
        let changes = git.changes()?;
        if !changes.is_empty() {
            obstacles.push(format!("the tree is dirty: {} files", changes.len()));
        }
        Ok(Self {
            version,
            bump,
            commit: git.head()?,
            prepared: !manifest.dev,
            since,
            commits: commits.map(|(name, subject)| (name.to_owned(), subject.to_owned())).collect(),
            changelog: section.to_owned(),
            publishes: publishes(&component, &branch, bump, version)?,
            supported: policy::supported(version, &tags, component.versions.supported)
                .into_iter()
                .map(|(major, minor)| format!("{major}.{minor}"))
                .collect(),
            obstacles,
            component: component.name,
            branch,
        })
    }
}

fn publishes(
    component: &Component,
    branch: &str,
    bump: Bump,
    version: Version,
) -> Result<Vec<(String, String)>> {
    let tag = version.tag();
    let own = version.fill(&component.versions.branch_template);
    let mut all = Vec::new();
    let mut add = |what: &str, value: String| all.push((what.to_owned(), value));
    match bump {
        Bump::Minor => add("branch", own.clone()),
        Bump::Patch => {}
    }
    add("tag", tag.clone());
    add(
        "image",
        format!(
            "{}:{tag} for linux/amd64 and linux/arm64, signed, with SBOM and provenance",
            component.image_repository()
        ),
    );
    add("release", format!("{tag} of {} at its host", component.slug()?));
    add("component", format!("{}:{tag}, descriptor and transport archive", component.name));
    add("next", format!("{} on {own}", version.next_patch()));
    match bump {
        Bump::Minor => add("next", format!("{} on {branch}", version.next_minor())),
        Bump::Patch => {}
    }
    Ok(all)
}
