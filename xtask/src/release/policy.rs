// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Which version may come next, and from which branch: minor releases from main, patch releases from the branch of their
//! minor. Pure: what clone and remote hold comes in as values.

use anyhow::{Result, bail};
use serde::Serialize;

use super::component::MAIN;
use super::version::Version;

/// What a release raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Bump {
    Minor,
    Patch,
}

/// A branch that releases are cut from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Main,
    Release { major: u64, minor: u64 },
}

impl Bump {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Minor => "minor",
            Self::Patch => "patch",
        }
    }
}

impl Line {
    /// What `branch` is, where release branches are named by `template`.
    ///
    /// # Errors
    /// Nothing is released from it.
    pub(crate) fn of(branch: &str, template: &str) -> Result<Self> {
        if branch == MAIN {
            return Ok(Self::Main);
        }
        match version_in(branch, template) {
            Some((major, minor)) => Ok(Self::Release { major, minor }),
            None => bail!(
                "wrong branch {branch:?}: minor releases are cut from {MAIN}, patch releases from {template}; change with: git switch {MAIN}"
            ),
        }
    }

    /// What a release of this branch raises.
    pub(crate) fn bump(&self) -> Bump {
        match self {
            Self::Main => Bump::Minor,
            Self::Release { .. } => Bump::Patch,
        }
    }
}

/// The version that comes next on `line`, where the manifests say `manifest` and `tags` are released.
///
/// # Errors
/// The bump is not that of the branch, or manifests and tags do not fit to it.
pub(crate) fn next(line: &Line, bump: Bump, manifest: Version, tags: &[Version]) -> Result<Version> {
    if bump != line.bump() {
        bail!(
            "wrong branch for a {} release: this one brings {} releases",
            bump.as_str(),
            line.bump().as_str()
        );
    }
    let next = manifest.released();
    match line {
        Line::Main if next.patch != 0 => {
            bail!("Cargo.toml says {manifest}, and main brings versions that end with .0")
        }
        Line::Release { major, minor } if (next.major, next.minor) != (*major, *minor) => {
            bail!("Cargo.toml says {manifest}, and this is the branch of {major}.{minor}")
        }
        Line::Release { .. } if next.patch == 0 => {
            bail!("Cargo.toml says {manifest}: the first release of a minor is cut from the main branch")
        }
        Line::Main | Line::Release { .. } => {}
    }
    // A prepared version may be tagged already, by a release that was begun.
    if let Some(newer) = tags.iter().filter(|tag| belongs(line, **tag)).max().filter(|tag| **tag > next) {
        bail!(
            "Cargo.toml says {manifest}, and v{newer} is released; bring this branch up to date, or set the next development version"
        );
    }
    if manifest.dev && tags.contains(&next) {
        bail!(
            "Cargo.toml says {manifest}, and v{next} is released; bring this branch up to date, or set the next development version"
        );
    }
    Ok(next)
}

/// The release before `next`, whose tag a changelog begins at.
pub(crate) fn before(line: &Line, next: Version, tags: &[Version]) -> Option<Version> {
    tags.iter().copied().filter(|tag| *tag < next && belongs(line, *tag)).max()
}

/// Minor versions that are looked after once `next` is out, newest first, as `(major, minor)`.
pub(crate) fn supported(next: Version, tags: &[Version], count: u64) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = tags.iter().chain([&next]).map(|v| (v.major, v.minor)).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().rev().take(usize::try_from(count).unwrap_or(usize::MAX)).collect()
}

/// Whether a release came from this line: main knows the first of each minor, a release branch its own.
fn belongs(line: &Line, tag: Version) -> bool {
    match line {
        Line::Main => tag.patch == 0,
        Line::Release { major, minor } => (tag.major, tag.minor) == (*major, *minor),
    }
}

/// The numbers in the places of `$major` and `$minor`.
fn version_in(branch: &str, template: &str) -> Option<(u64, u64)> {
    let (before, rest) = template.split_once("$major")?;
    let (between, after) = rest.split_once("$minor")?;
    let numbers = branch.strip_prefix(before)?.strip_suffix(after)?;
    let (major, minor) = numbers.split_once(between)?;
    let version: Version = format!("{major}.{minor}.0").parse().ok()?;
    Some((version.major, version.minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(texts: &[&str]) -> Vec<Version> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn next_of(branch: &str, bump: Bump, manifest: &str, tags: &[&str]) -> Result<String> {
        let line = Line::of(branch, "release-v$major.$minor")?;
        next(&line, bump, manifest.parse()?, &versions(tags)).map(|version| version.to_string())
    }

    #[test]
    fn main_brings_minors_and_a_release_branch_its_patches() {
        assert_eq!(next_of("main", Bump::Minor, "0.1.0-dev", &[]).unwrap(), "0.1.0");
        assert_eq!(next_of("main", Bump::Minor, "0.2.0-dev", &["0.1.0", "0.1.7"]).unwrap(), "0.2.0");
        assert_eq!(next_of("main", Bump::Minor, "1.0.0-dev", &["0.9.0"]).unwrap(), "1.0.0");
        assert_eq!(next_of("release-v0.1", Bump::Patch, "0.1.1-dev", &["0.1.0", "0.2.0"]).unwrap(), "0.1.1");
        // Prepared, and even tagged: a release that was begun goes on.
        assert_eq!(next_of("main", Bump::Minor, "0.1.0", &["0.1.0"]).unwrap(), "0.1.0");
    }

    #[test]
    fn what_does_not_fit_the_branch_is_refused() {
        for (branch, bump, manifest, tags, why) in [
            ("feature", Bump::Minor, "0.1.0-dev", &[][..], "wrong branch"),
            ("release-v0.1.2", Bump::Patch, "0.1.1-dev", &[], "wrong branch"),
            ("release-v0.x", Bump::Patch, "0.1.1-dev", &[], "wrong branch"),
            ("main", Bump::Patch, "0.1.0-dev", &[], "wrong branch"),
            ("release-v0.1", Bump::Minor, "0.1.1-dev", &[], "wrong branch"),
            ("main", Bump::Minor, "0.1.1-dev", &[], "end with .0"),
            ("release-v0.2", Bump::Patch, "0.1.1-dev", &[], "branch of 0.2"),
            ("release-v0.1", Bump::Patch, "0.1.0-dev", &[], "first release of a minor"),
            ("main", Bump::Minor, "0.1.0-dev", &["0.1.0"], "v0.1.0 is released"),
            ("main", Bump::Minor, "0.1.0-dev", &["0.2.0"], "v0.2.0 is released"),
            ("release-v0.1", Bump::Patch, "0.1.1-dev", &["0.1.2"], "v0.1.2 is released"),
        ] {
            let error = next_of(branch, bump, manifest, tags).unwrap_err().to_string();
            assert!(error.contains(why), "{branch} {manifest}: {error}");
        }
    }

    #[test]
    fn a_changelog_begins_at_the_release_before() {
        let tags = versions(&["0.1.0", "0.1.1", "0.2.0", "0.2.1"]);
        let patch = Line::Release { major: 0, minor: 1 };
        assert_eq!(before(&patch, "0.1.2".parse().unwrap(), &tags), Some("0.1.1".parse().unwrap()));
        assert_eq!(before(&Line::Main, "0.3.0".parse().unwrap(), &tags), Some("0.2.0".parse().unwrap()));
        assert_eq!(before(&Line::Main, "0.1.0".parse().unwrap(), &tags), None);
        assert_eq!(supported("0.3.0".parse().unwrap(), &tags, 2), [(0, 3), (0, 2)]);
    }
}
