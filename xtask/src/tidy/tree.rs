// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The clone's text files, read once. Judges none of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

/// Folders that hold nothing of the repository, whatever lies in them.
const NOT_OURS: [&str; 2] = ["target", ".git"];
/// Folders whose name begins with a dot and that belong to the repository all the same.
const DOTTED: [&str; 4] = [".cargo", ".ci", ".config", ".github"];

/// Paths below the root, with `/` between their parts.
#[derive(Debug, Default)]
pub(super) struct Tree {
    texts: BTreeMap<String, String>,
    /// Files that are no text.
    others: BTreeSet<String>,
    /// Everything that is there, folders and what is no text included.
    paths: BTreeSet<String>,
}

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.descend(root, "")?;
        Ok(tree)
    }

    /// A tree that a test makes up.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            for (at, _) in path.match_indices('/') {
                tree.paths.insert(path[..at].to_owned());
            }
            tree.paths.insert((*path).to_owned());
            tree.texts.insert((*path).to_owned(), (*text).to_owned());
        }
        tree
    }

    fn descend(&mut self, folder: &Path, below: &str) -> Result<()> {
        let entries = std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("read {}", folder.display()))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let kind = entry.file_type().with_context(|| format!("look at {}", entry.path().display()))?;
            let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            if kind.is_dir() {
                if NOT_OURS.contains(&&*name) || (name.starts_with('.') && !DOTTED.contains(&&*name)) {
                    continue;
                }
                self.descend(&entry.path(), &path)?;
            } else if kind.is_file() {
                let bytes = std::fs::read(entry.path())
                    .with_context(|| format!("read {}", entry.path().display()))?;
                match String::from_utf8(bytes) {
                    Ok(text) => drop(self.texts.insert(path.clone(), text)),
                    Err(_) => drop(self.others.insert(path.clone())),
                }
            }
            self.paths.insert(path);
        }
        Ok(())
    }

    /// The text of a file that a rule needs.
    pub(super) fn text(&self, path: &str) -> Result<&str> {
        self.texts.get(path).map(String::as_str).with_context(|| format!("{path}: not in the clone"))
    }

    /// All text files, in the order of their paths.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (&**path, &**text))
    }

    /// The paths of all files, also of those that are no text.
    pub(super) fn paths_of_files(&self) -> impl Iterator<Item = &str> {
        self.texts.keys().chain(&self.others).map(String::as_str)
    }

    /// Those whose name ends with `.` and this.
    pub(super) fn with_extension(&self, extension: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(move |(path, _)| {
            path.strip_suffix(extension).is_some_and(|stem| stem.ends_with('.') && !stem.ends_with("/."))
        })
    }

    /// Whether a file or folder lies there.
    pub(super) fn holds(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path)
    }
}
