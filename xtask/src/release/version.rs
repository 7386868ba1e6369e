// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A version of this component: three numbers, with `-dev` while it is worked on. Knows no other pre-release, because
//! nothing here is released under one.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use serde::{Serialize, Serializer};

/// `1.2.3` or `1.2.3-dev`; what is worked on comes before what is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pub(crate) dev: bool,
}

impl Version {
    /// The version that this one is worked on for.
    pub(crate) fn released(self) -> Self {
        Self { dev: false, ..self }
    }

    /// What a release branch works on after this release.
    pub(crate) fn next_patch(self) -> Self {
        Self { patch: self.patch + 1, dev: true, ..self }
    }

    /// What the main branch works on after this release.
    pub(crate) fn next_minor(self) -> Self {
        Self { minor: self.minor + 1, patch: 0, dev: true, ..self }
    }

    /// The tag in git and on images, `v1.2.3`.
    pub(crate) fn tag(self) -> String {
        format!("v{self}")
    }

    /// Reads a tag; none for a tag that is no release of ours.
    pub(crate) fn of_tag(tag: &str) -> Option<Self> {
        tag.strip_prefix('v')?.parse().ok().filter(|version: &Self| !version.dev)
    }

    /// Fills `$major` and `$minor` of a template.
    pub(crate) fn fill(self, template: &str) -> String {
        template.replace("$major", &self.major.to_string()).replace("$minor", &self.minor.to_string())
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |v: &Self| (v.major, v.minor, v.patch, !v.dev);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch, dev } = self;
        write!(out, "{major}.{minor}.{patch}{}", if *dev { "-dev" } else { "" })
    }
}

impl FromStr for Version {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (core, dev) = match text.strip_suffix("-dev") {
            Some(core) => (core, true),
            None => (text, false),
        };
        let number = |part: &str| -> Result<u64> {
            if part.is_empty()
                || !part.bytes().all(|b| b.is_ascii_digit())
                || (part.len() > 1 && part.starts_with('0'))
            {
                bail!("version {text:?}: {part:?} is no number");
            }
            part.parse().with_context(|| format!("version {text:?}"))
        };
        let [major, minor, patch] = core.split('.').map(number).collect::<Result<Vec<_>>>()?[..] else {
            bail!("version {text:?} is not MAJOR.MINOR.PATCH or MAJOR.MINOR.PATCH-dev");
        };
        Ok(Self { major, minor, patch, dev })
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_it_is_written_and_nothing_else_is_read() {
        for text in ["0.1.0-dev", "1.22.333", "0.0.0"] {
            assert_eq!(text.parse::<Version>().unwrap().to_string(), text);
        }
        for text in
            ["", "1.2", "1.2.3.4", "01.2.3", "1.2.3-rc1", "v1.2.3", "1.2.3-dev-dev", "1.+2.3", "1. 2.3"]
        {
            text.parse::<Version>().expect_err(text);
        }
        assert_eq!(Version::of_tag("v1.2.3").unwrap().tag(), "v1.2.3");
        assert_eq!(Version::of_tag("v1.2.3-dev"), None);
        assert_eq!(Version::of_tag("1.2.3"), None);
    }

    #[test]
    fn what_is_worked_on_comes_before_its_release_and_after_the_one_before() {
        let order: Vec<Version> =
            ["0.9.9", "0.10.0-dev", "0.10.0", "0.10.1-dev", "1.0.0-dev"].map(|v| v.parse().unwrap()).into();
        assert!(order.is_sorted());
        let released: Version = "0.10.0".parse().unwrap();
        assert_eq!(released.next_patch().to_string(), "0.10.1-dev");
        assert_eq!(released.next_minor().to_string(), "0.11.0-dev");
        assert_eq!(released.fill("release-v$major.$minor"), "release-v0.10");
    }
}
