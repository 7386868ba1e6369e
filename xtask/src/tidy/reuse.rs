// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The rules of REUSE 3.3 as far as this repository uses them: every file has a licence and a copyright, in itself or by
//! REUSE.toml; every licence that is named lies in LICENSES, and none lies there unused. Knows no `.license` files
//! and no .reuse/dep5, since there are none.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Finding;
use super::tree::Tree;

const PAGE: &str = "REUSE.toml";
const LICENCES: &str = "LICENSES/";
// In two parts each, so that these lines are not taken for the file's own.
const LICENCE: &str = concat!("SPDX-License-", "Identifier:");
const COPYRIGHT: &str = concat!("SPDX-FileCopyright", "Text:");
/// Lines at a file's head among which its own lines have to stand.
const HEAD: usize = 10;

/// REUSE.toml.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    version: u32,
    annotations: Vec<Annotation>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Annotation {
    path: Vec<String>,
    #[serde(rename = "SPDX-FileCopyrightText")]
    _copyright: String,
    #[serde(rename = "SPDX-License-Identifier")]
    licence: String,
}

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let page: Page = toml::from_str(tree.text(PAGE)?).with_context(|| format!("parse {PAGE}"))?;
    anyhow::ensure!(page.version == 1, "{PAGE}: version {} is not known here", page.version);
    let mut findings = Vec::new();
    let mut named: BTreeSet<String> = page.annotations.iter().map(|row| row.licence.clone()).collect();
    for path in tree.paths_of_files().filter(|path| !path.starts_with(LICENCES)) {
        // No text has no lines.
        let own = own(tree.text(path).unwrap_or_default());
        if let Some((licence, _)) = &own {
            named.insert(licence.clone());
        }
        let complete = own.is_some_and(|(_, copyright)| copyright);
        let annotated = page.annotations.iter().any(|row| row.path.iter().any(|glob| matches(glob, path)));
        if !complete && !annotated && tree.text(path).is_ok_and(|text| !text.is_empty()) {
            findings.push(Finding::new(
                path,
                0,
                format!("no licence: SPDX lines at its head, or a row in {PAGE}"),
            ));
        } else if !complete && !annotated && tree.text(path).is_err() {
            findings.push(Finding::new(
                path,
                0,
                format!("no licence, and no text: it needs a row in {PAGE}"),
            ));
        }
    }
    for row in &page.annotations {
        for glob in &row.path {
            if !tree.paths_of_files().any(|path| matches(glob, path)) {
                findings.push(Finding::new(PAGE, 0, format!("no file matches `{glob}`")));
            }
        }
    }
    let there = tree.paths_of_files().filter_map(|path| path.strip_prefix(LICENCES)?.strip_suffix(".txt"));
    let there: BTreeSet<String> = there.map(str::to_owned).collect();
    for licence in named.difference(&there) {
        findings.push(Finding::new(&format!("{LICENCES}{licence}.txt"), 0, "is named, and is not there"));
    }
    for licence in there.difference(&named) {
        findings.push(Finding::new(&format!("{LICENCES}{licence}.txt"), 0, "no file has this licence"));
    }
    Ok(findings)
}

/// The licence at a file's head, and whether there is a copyright beside it.
fn own(text: &str) -> Option<(String, bool)> {
    let head: Vec<&str> = text.lines().take(HEAD).collect();
    let licence = head.iter().find_map(|line| line.split_once(LICENCE))?.1;
    let word = licence.split_whitespace().next()?.to_owned();
    Some((word, head.iter().any(|line| line.contains(COPYRIGHT))))
}

/// A pattern of REUSE.toml: `*` is anything within a folder's name, `**` anything at all.
fn matches(glob: &str, path: &str) -> bool {
    if let Some(rest) = glob.strip_prefix("**") {
        return (0..=path.len()).filter(|at| path.is_char_boundary(*at)).any(|at| matches(rest, &path[at..]));
    }
    if let Some(rest) = glob.strip_prefix('*') {
        let end = path.find('/').unwrap_or(path.len());
        return (0..=end).filter(|at| path.is_char_boundary(*at)).any(|at| matches(rest, &path[at..]));
    }
    match (glob.chars().next(), path.chars().next()) {
        (None, None) => true,
        (Some(a), Some(b)) if a == b => matches(&glob[a.len_utf8()..], &path[b.len_utf8()..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(globs: &str) -> String {
        format!(
            "version = 1\n[[annotations]]\npath = [{globs}]\n\"{}\" = \"us\"\n\"{}\" = \"MIT\"\n",
            COPYRIGHT.trim_end_matches(':'),
            LICENCE.trim_end_matches(':')
        )
    }

    #[test]
    fn a_file_without_a_licence_is_told_and_so_is_a_licence_without_a_file() {
        let page = page("\"**.md\", \"gone/*\"");
        let good = format!("# {COPYRIGHT} us\n# {LICENCE} Apache-2.0\n");
        let half = format!("# {LICENCE} Apache-2.0\n");
        let tree = Tree::of(&[
            ("REUSE.toml", &page),
            ("docs/a.md", "x"),
            ("a.service", "x"),
            ("b.service", &good),
            ("c.service", &half),
            ("empty", ""),
            ("LICENSES/MIT.txt", "x"),
            ("LICENSES/0BSD.txt", "x"),
        ]);
        let lines: Vec<String> = check(&tree).unwrap().iter().map(ToString::to_string).collect();
        let of = |path: &str| lines.iter().filter(|line| line.starts_with(path)).count();
        assert_eq!(
            [of("a.service"), of("c.service"), of("b.service"), of("docs"), of("empty")],
            [1, 1, 0, 0, 0]
        );
        assert!(
            lines.contains(&"LICENSES/Apache-2.0.txt: is named, and is not there".to_owned()),
            "{lines:?}"
        );
        assert!(lines.contains(&"LICENSES/0BSD.txt: no file has this licence".to_owned()), "{lines:?}");
        assert!(lines.contains(&"REUSE.toml: no file matches `gone/*`".to_owned()), "{lines:?}");
    }

    #[test]
    fn patterns_match_as_reuse_says() {
        assert!(matches("**.md", "docs/a.md") && matches("**.md", "a.md"));
        assert!(matches("hack/*/go.mod", "hack/x/go.mod") && !matches("hack/*/go.mod", "hack/x/y/go.mod"));
        assert!(matches("w/**", "w/x/y") && !matches("w/**", "v/x"));
        assert!(!matches("Cargo.lock", "e2e/Cargo.lock"));
    }
}
