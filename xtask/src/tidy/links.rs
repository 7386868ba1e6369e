// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Links between the Markdown files: the file is there, and so is the heading. Opens no network: addresses of others
//! are not looked at.

use super::Finding;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension("md") {
        for (line, target) in targets(text) {
            if let Some(wrong) = wrong(tree, path, text, target) {
                findings.push(Finding::new(path, line, wrong));
            }
        }
    }
    findings
}

/// What is wrong with one link.
fn wrong(tree: &Tree, path: &str, text: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let (at, there) = if file.is_empty() {
        (path.to_owned(), text)
    } else {
        let Some(at) = resolved(path, file).filter(|at| tree.holds(at)) else {
            return Some(format!("link to {target}: no such file in the clone"));
        };
        let there = tree.text(&at).unwrap_or_default();
        (at, there)
    };
    let anchor = anchor.filter(|_| at.ends_with(".md"))?;
    (!anchors(there).any(|known| known == anchor))
        .then(|| format!("link to {target}: {at} has no such heading"))
}

/// A relative path from a file's folder; none if it leaves the clone or begins at the root of something.
fn resolved(from: &str, file: &str) -> Option<String> {
    if file.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Lines outside of fenced code, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((number + 1, line))
    })
}

/// Targets of `[text](target)`, not those in `code`.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    for (number, line) in prose(text) {
        for (at, _) in line.match_indices("](") {
            let in_code = line[..at].matches('`').count() % 2 == 1;
            let rest = &line[at + 2..];
            if let Some(end) = rest.find(')').filter(|_| !in_code) {
                let target = rest[..end].split(' ').next().unwrap_or_default();
                targets.push((number, target.trim_matches(['<', '>'])));
            }
        }
    }
    targets
}

/// The names that GitHub gives to headings.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_named() {
        let readme = "# A b: `c`\n[x](docs/x.md) [y](docs/x.md#two-words) [z](#a-b-c) [w](https://e.org/q) `[v](no.md)`\n\
                      [1](docs/y.md)\n```\n[2](gone.md)\n```\n[3](docs/x.md#three) [4](../out.md) [5](#d)\n";
        let tree = Tree::of(&[
            ("README.md", readme),
            ("docs/x.md", "## Two words\n[r](../README.md) [d](../docs)\n"),
        ]);
        let lines: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "README.md:3: link to docs/y.md: no such file in the clone",
                "README.md:7: link to docs/x.md#three: docs/x.md has no such heading",
                "README.md:7: link to ../out.md: no such file in the clone",
                "README.md:7: link to #d: README.md has no such heading",
            ]
        );
    }
}
