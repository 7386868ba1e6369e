// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The repository's own rules, as far as a program can check them: edges between the stages, headers, links, commands, and
//! tables that must say what the sources say. `cargo xtask tidy` and the tests share this; it starts no process and judges
//! no style.
mod code;
mod commands;
mod edges;
mod headers;
mod knows;
mod links;
mod operations;
mod pipelines;
mod requirements;
mod reuse;
mod test_names;
mod tree;
mod workflows;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(crate) use code::bare;
use tree::Tree;

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Below the clone's root.
    path: String,
    /// From 1; 0: the file as a whole.
    line: usize,
    what: String,
    /// `--fix` puts it right.
    fixable: bool,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), fixable: false }
    }

    fn fixable(self) -> Self {
        Self { fixable: true, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what, fixable } = self;
        write!(out, "{path}:")?;
        if *line > 0 {
            write!(out, "{line}:")?;
        }
        write!(out, " {what}")?;
        if *fixable { write!(out, " (mended by: cargo xtask tidy --fix)") } else { Ok(()) }
    }
}

/// What a look at the clone brought.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) findings: Vec<Finding>,
    /// Ids of requirements that no test names; known, and not a finding.
    pub(crate) untested: Vec<String>,
}

/// Looks at the clone at `root`.
///
/// # Errors
/// A file cannot be read, or one that a rule is about is missing.
pub(crate) fn check(root: &Path) -> Result<Report> {
    let tree = Tree::read(root)?;
    let mut findings = headers::check(&tree);
    findings.extend(edges::check(&tree)?);
    findings.extend(knows::check(&tree)?);
    findings.extend(links::check(&tree));
    findings.extend(reuse::check(&tree)?);
    findings.extend(pipelines::check(&tree)?);
    findings.extend(workflows::check(&tree)?);
    findings.extend(commands::check(&tree, &crate::cmd::command()));
    findings.extend(operations::check(&tree)?);
    let table = requirements::Table::read(&tree)?;
    findings.extend(table.check(&tree));
    findings.sort();
    Ok(Report { findings, untested: table.untested(&tree) })
}

/// The findings about licences alone.
///
/// # Errors
/// As for [`check`].
pub(crate) fn licences(root: &Path) -> Result<Vec<Finding>> {
    let tree = Tree::read(root)?;
    let mut findings = headers::licences(&tree);
    findings.extend(reuse::check(&tree)?);
    findings.sort();
    Ok(findings)
}

/// The paths of all shell scripts of the clone, by their first line.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn shell_scripts(root: &Path) -> Result<Vec<String>> {
    let tree = Tree::read(root)?;
    let is_shell = |text: &str| {
        let first = text.lines().next().unwrap_or_default();
        first.starts_with("#!") && first.split(['/', ' ']).any(|word| matches!(word, "sh" | "bash" | "dash"))
    };
    Ok(tree.files().filter(|(_, text)| is_shell(text)).map(|(path, _)| path.to_owned()).collect())
}

/// Mends what can be mended without a thought, and returns the files that changed.
///
/// # Errors
/// As for [`check`], and a file that cannot be written.
pub(crate) fn fix(root: &Path) -> Result<Vec<PathBuf>> {
    let tree = Tree::read(root)?;
    let mut mended = headers::mended(&tree);
    let table = requirements::Table::read(&tree)?;
    mended.extend(table.mended(&tree));
    mended.extend(knows::mended(&tree)?);
    let mut changed = Vec::new();
    for (path, text) in mended {
        let path = root.join(path);
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        changed.push(path);
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clone_keeps_its_own_rules() {
        let report = check(&crate::repo::root()).unwrap();
        let lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }

    #[test]
    fn a_finding_reads_like_a_compilers() {
        let finding = Finding::new("docs/a.md", 3, "no such file: b.md");
        assert_eq!(finding.to_string(), "docs/a.md:3: no such file: b.md");
        let finding = Finding::new("a.rs", 0, "no header").fixable();
        assert_eq!(finding.to_string(), "a.rs: no header (mended by: cargo xtask tidy --fix)");
    }
}
