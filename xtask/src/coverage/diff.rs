// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The lines that a change adds: those of the work tree that its merge base with a revision has not. Reads git, and
//! judges nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use crate::sh::Step;

/// Added or changed lines, by file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Added {
    /// The commit that the change begins at.
    pub(crate) base: String,
    /// Path below the clone's root → numbers of lines from 1, as the work tree has them.
    pub(crate) files: BTreeMap<String, BTreeSet<usize>>,
}

impl Added {
    /// Since the work tree's branch left `revision`; what is not committed yet belongs to it, new files too.
    ///
    /// # Errors
    /// No such revision, or no common history with it.
    pub(crate) fn since(root: &Path, revision: &str) -> Result<Self> {
        let git = || Step::new("git").args(["-c", "core.quotePath=false"]).dir(root);
        let base = git().args(["merge-base", revision, "HEAD"]).read();
        let base = base.with_context(|| {
            format!("find where this branch left {revision}; a shallow clone needs: git fetch --unshallow")
        })?;
        let base = base.trim().to_owned();
        let diff = git()
            .args(["diff", "--unified=0", "--no-color", "--no-ext-diff", "--no-renames", "--src-prefix=a/"])
            .args(["--dst-prefix=b/", &base, "--"])
            .read()?;
        let mut files = parse(&diff);
        for path in git().args(["ls-files", "--others", "--exclude-standard"]).read()?.lines() {
            // What is no text has no lines.
            if let Ok(text) = std::fs::read_to_string(root.join(path)) {
                files.insert(path.to_owned(), (1..=text.lines().count()).collect());
            }
        }
        Ok(Self { base, files })
    }
}

/// Reads a diff without context.
fn parse(diff: &str) -> BTreeMap<String, BTreeSet<usize>> {
    let mut files: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    let mut file = None;
    // Lines of the hunk that are still to come: an added line may look like a header.
    let mut left = 0_usize;
    for line in diff.lines() {
        if left > 0 {
            // A remark on the end of the file counts as no line.
            left -= usize::from(!line.starts_with('\\'));
        } else if let Some(path) = line.strip_prefix("+++ ") {
            // Behind a path with a blank git puts a tabulator.
            file = path.trim_end_matches('\t').strip_prefix("b/").map(str::to_owned);
        } else if let Some((removed, from, added)) = line.strip_prefix("@@ ").and_then(hunk) {
            left = removed + added;
            if let Some(file) = file.as_ref().filter(|_| added > 0) {
                files.entry(file.clone()).or_default().extend(from..from + added);
            }
        }
    }
    files
}

/// Removed lines, the first added one, and how many are added, out of `-3,2 +4,0 @@ …`.
fn hunk(text: &str) -> Option<(usize, usize, usize)> {
    let mut words = text.split(' ');
    let range = |word: Option<&str>, sign: char| -> Option<(usize, usize)> {
        let word = word?.strip_prefix(sign)?;
        let (start, count) = word.split_once(',').unwrap_or((word, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    let (_, removed) = range(words.next(), '-')?;
    let (from, added) = range(words.next(), '+')?;
    Some((removed, from, added))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_added_lines_count_whatever_they_look_like() {
        let diff = "diff --git a/x.rs b/x.rs\nindex 1..2 100644\n--- a/x.rs\n+++ b/x.rs\n@@ -3,2 +3,3 @@ fn a() {\n-old\n-old\n+new\n\
                    +++ b/trap.rs\n+@@ -1 +1 @@\n@@ -9 +10,0 @@\n-gone\n@@ -20,0 +20 @@\n+one\n\\ No newline at end of file\n\
                    diff --git a/gone.rs b/gone.rs\n--- a/gone.rs\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n\
                    diff --git a/a b.rs b/a b.rs\n--- /dev/null\n+++ b/a b.rs\t\n@@ -0,0 +1,2 @@\n+a\n+b\n";
        let files = parse(diff);
        assert_eq!(files.keys().collect::<Vec<_>>(), ["a b.rs", "x.rs"]);
        assert_eq!(files["x.rs"], BTreeSet::from([3, 4, 5, 20]));
        assert_eq!(files["a b.rs"], BTreeSet::from([1, 2]));
    }

    #[test]
    fn a_change_begins_where_the_branch_left_and_ends_with_what_is_not_committed() {
        let clone = tempfile::tempdir().unwrap();
        let root = clone.path();
        let git = |args: &[&str]| {
            let who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"];
            Step::new("git").args(who).args(args).dir(root).read().unwrap()
        };
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
        git(&["init", "--quiet", "--initial-branch=main"]);
        write("a", "1\n2\n");
        git(&["add", "a"]);
        git(&["commit", "--quiet", "-m", "one"]);
        git(&["switch", "--quiet", "-c", "work"]);
        write("a", "1\n2\n3\n");
        git(&["commit", "--quiet", "-a", "-m", "two"]);
        git(&["switch", "--quiet", "main"]);
        write("b", "of main\n");
        git(&["add", "b"]);
        git(&["commit", "--quiet", "-m", "three"]);
        git(&["switch", "--quiet", "work"]);
        write("a", "1\n2\n3\n4\n");
        write("new", "x\ny\n");
        let added = Added::since(root, "main").unwrap();
        assert_eq!(added.files.keys().collect::<Vec<_>>(), ["a", "new"]);
        assert_eq!(added.files["a"], BTreeSet::from([3, 4]));
        assert_eq!(added.files["new"].len(), 2);
        assert!(Added::since(root, "no-such").is_err());
    }
}
