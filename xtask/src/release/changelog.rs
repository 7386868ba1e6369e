// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `CHANGELOG.md`: its sections, and how Unreleased becomes a version. Judges no wording.

use anyhow::{Result, bail};

use super::version::Version;

/// Where it lies below the root.
pub(crate) const PATH: &str = "CHANGELOG.md";

const UNRELEASED: &str = "## [Unreleased]";

/// A section of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    /// `YYYY-MM-DD`.
    pub(crate) date: &'a str,
    /// What stands below the heading, without blank lines at the ends.
    pub(crate) body: &'a str,
}

/// What is not released yet.
///
/// # Errors
/// There is no such heading.
pub(crate) fn unreleased(text: &str) -> Result<&str> {
    match section(text, |heading| heading.trim_end() == UNRELEASED) {
        Some((_, body)) => Ok(body),
        None => bail!("{PATH} has no heading `{UNRELEASED}`"),
    }
}

/// The section of `version`, if there is one.
pub(crate) fn released(text: &str, version: Version) -> Option<Section<'_>> {
    let prefix = format!("## [{version}] - ");
    let (heading, body) = section(text, |heading| heading.starts_with(&prefix))?;
    Some(Section { date: heading[prefix.len()..].trim(), body })
}

/// The entries of a section: lists, each with the lines that belong to it.
pub(crate) fn entries(body: &str) -> usize {
    body.lines().filter(|line| line.starts_with("- ") || line.starts_with("* ")).count()
}

/// The text with all that is unreleased under `version`, and nothing unreleased.
///
/// # Errors
/// Nothing is unreleased, or the version has its section already.
pub(crate) fn cut(text: &str, version: Version, date: &str) -> Result<String> {
    let body = unreleased(text)?;
    if entries(body) == 0 {
        bail!("{PATH}: nothing stands under `{UNRELEASED}`; write for operators what changed, one `- ` each");
    }
    if released(text, version).is_some() {
        bail!("{PATH} has a section for {version} already");
    }
    Ok(text.replacen(UNRELEASED, &format!("{UNRELEASED}\n\n## [{version}] - {date}"), 1))
}

/// Heading and body of the first section that is meant.
fn section(text: &str, meant: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
    let mut at = 0;
    let mut found: Option<(&str, usize)> = None;
    for line in text.split_inclusive('\n') {
        if line.starts_with("## ") {
            match found {
                Some((heading, from)) => return Some((heading, text[from..at].trim())),
                None if meant(line.trim_end()) => found = Some((line.trim_end(), at + line.len())),
                None => {}
            }
        }
        at += line.len();
    }
    found.map(|(heading, from)| (heading, text[from..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Changelog\n\nWords.\n\n## [Unreleased]\n\n### Added\n- one\n  more of one\n- two\n\n## [0.1.0] - 2026-01-02\n\n- first\n";

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn unreleased_becomes_a_version_with_a_date_and_is_empty_then() {
        let cut = cut(TEXT, version("0.2.0"), "2026-03-04").unwrap();
        assert_eq!(unreleased(&cut).unwrap(), "");
        let section = released(&cut, version("0.2.0")).unwrap();
        assert_eq!(section.date, "2026-03-04");
        assert_eq!(section.body, "### Added\n- one\n  more of one\n- two");
        assert_eq!(entries(section.body), 2);
        assert_eq!(released(&cut, version("0.1.0")).unwrap().body, "- first");
    }

    #[test]
    fn nothing_is_cut_twice_or_out_of_nothing() {
        let once = cut(TEXT, version("0.2.0"), "2026-03-04").unwrap();
        let error = cut(&once, version("0.3.0"), "2026-03-04").unwrap_err().to_string();
        assert!(error.contains("nothing stands under"), "{error}");
        let error = cut(TEXT, version("0.1.0"), "2026-03-04").unwrap_err().to_string();
        assert!(error.contains("already"), "{error}");
        let error = cut("# Changelog\n", version("0.1.0"), "2026-03-04").unwrap_err().to_string();
        assert!(error.contains("no heading"), "{error}");
    }
}
