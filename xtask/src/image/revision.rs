// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the tree at hand is called: its commit, the time that stands for it, and what Cargo.toml says of the wrapper. The
//! time is that of the commit or `SOURCE_DATE_EPOCH`, never that of the build.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::sh::Step;

/// The tree of a build.
#[derive(Debug, Clone)]
pub(crate) struct Revision {
    /// The commit; with `-dirty` where files of the tree are not those of the commit.
    pub(crate) commit: String,
    pub(crate) dirty: bool,
    /// In RFC 3339.
    pub(crate) created: String,
    pub(crate) package: Package,
}

/// The wrapper, as Cargo.toml describes it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Package {
    pub(crate) version: String,
    pub(crate) description: String,
    pub(crate) license: String,
    pub(crate) repository: String,
}

impl Revision {
    /// Looks at the clone at `root`.
    pub(crate) fn of(root: &Path) -> Result<Self> {
        let git = |args: &[&str]| Step::new("git").args(args).dir(root).mend("apt-get install -y git").read();
        let no_clone = "the image names the commit it was made from: build it in a git clone";
        let commit = git(&["rev-parse", "HEAD"]).context(no_clone)?.trim().to_owned();
        let dirty = !git(&["status", "--porcelain"]).context(no_clone)?.trim().is_empty();
        let said = git(&["log", "-1", "--format=%ct"]).context(no_clone)?;
        let created = created(std::env::var("SOURCE_DATE_EPOCH").ok().as_deref(), &said)?;
        let commit = if dirty { format!("{commit}-dirty") } else { commit };
        Ok(Self { commit, dirty, created, package: package(root)? })
    }

    /// What images, indexes and documents say of themselves, under the names that OCI gives.
    pub(crate) fn labels(&self, title: &str) -> BTreeMap<String, String> {
        let package = &self.package;
        let values = [
            ("title", title),
            ("description", &package.description),
            ("version", &package.version),
            ("revision", &self.commit),
            ("source", &package.repository),
            ("licenses", &package.license),
            ("created", &self.created),
        ];
        let label = |(name, value): (&str, &str)| (format!("org.opencontainers.image.{name}"), value.into());
        values.into_iter().map(label).collect()
    }
}

fn created(wish: Option<&str>, commit: &str) -> Result<String> {
    let (name, text) = match wish.filter(|wish| !wish.is_empty()) {
        Some(wish) => ("SOURCE_DATE_EPOCH", wish),
        None => ("the time of the commit", commit),
    };
    let seconds: u64 =
        text.trim().parse().with_context(|| format!("{name} is {text:?} and not seconds since 1970"))?;
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    // The last second that has a date of four digits for its year.
    let time = time
        .filter(|_| seconds < 253_402_300_800)
        .with_context(|| format!("{name}: {seconds} is too late"))?;
    Ok(humantime::format_rfc3339_seconds(time).to_string())
}

fn package(root: &Path) -> Result<Package> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<serde_json::Value>,
    }
    let said =
        Step::new("cargo").args(["metadata", "--no-deps", "--format-version", "1"]).dir(root).read()?;
    let metadata: Metadata = serde_json::from_str(&said).context("parse cargo metadata")?;
    let ours = metadata.packages.into_iter().find(|package| package["name"] == "etcd-wrapper");
    let ours = ours.context("cargo metadata: no package etcd-wrapper")?;
    serde_json::from_value(ours).context("wrapper/Cargo.toml: read what describes the package")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    #[test]
    fn the_time_is_the_wish_or_the_commits_and_never_now() {
        assert_eq!(created(None, "1700000000\n").unwrap(), "2023-11-14T22:13:20Z");
        assert_eq!(created(Some(""), "0").unwrap(), "1970-01-01T00:00:00Z");
        assert_eq!(created(Some("1"), "1700000000").unwrap(), "1970-01-01T00:00:01Z");
        for wrong in ["tomorrow", "-1", "99999999999999"] {
            let error = created(Some(wrong), "0").unwrap_err().to_string();
            assert!(error.contains("SOURCE_DATE_EPOCH"), "{error}");
        }
    }

    #[test]
    fn the_labels_say_what_cargo_says() {
        let package = package(&repo::root()).unwrap();
        let revision = Revision { commit: "c".into(), dirty: false, created: "t".into(), package };
        let labels = revision.labels("etcd-wrapper");
        assert_eq!(labels["org.opencontainers.image.version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(labels["org.opencontainers.image.revision"], "c");
        assert!(labels.values().all(|value| !value.is_empty()), "{labels:?}");
        assert_eq!(labels.len(), 7);
    }
}
