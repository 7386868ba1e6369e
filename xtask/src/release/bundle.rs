// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The folder of a release, `target/release-VERSION`: which files it has, what they are called, and the sums over them.
//! Writes none but the sums; what stands in the files is the business of whoever makes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::evidence::Kind;
use super::version::Version;
use crate::image::{Digest, Layout};

/// The sums, as `sha256sum` writes and checks them.
pub(crate) const SUMS: &str = "SHA256SUMS";
/// The signature of the sums; no part of what `build` makes, because it is never twice the same.
pub(crate) const SIGNATURE: &str = "SHA256SUMS.sigstore.json";
pub(crate) const DESCRIPTOR: &str = "component-descriptor.yaml";
pub(crate) const NOTES: &str = "release-notes.md";
const SUMMARY: &str = "release.json";
const IMAGE: &str = "image";
const EVIDENCE: &str = "evidence";

/// The folder.
#[derive(Debug, Clone)]
pub(crate) struct Bundle {
    pub(crate) path: PathBuf,
    pub(crate) version: Version,
    /// The component's short name, with which file names begin.
    pub(crate) name: String,
}

/// `release.json`: what was built from what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Summary {
    pub(crate) component: String,
    pub(crate) version: String,
    pub(crate) commit: String,
    /// Of the index over the architectures.
    pub(crate) image: String,
    pub(crate) architectures: Vec<String>,
    /// Reports that were not there, by name.
    pub(crate) absent: Vec<String>,
}

impl Bundle {
    /// The folder of `version` below the target folder; it need not be there.
    pub(crate) fn of(target: &Path, name: &str, version: Version) -> Self {
        Self { path: target.join(format!("release-{version}")), version, name: name.to_owned() }
    }

    /// `NAME-VERSION.ENDING`.
    pub(crate) fn file_name(&self, ending: &str) -> String {
        format!("{}-{}.{ending}", self.name, self.version)
    }

    /// The common transport archive.
    pub(crate) fn transport(&self) -> PathBuf {
        self.path.join(self.file_name("ctf.tar"))
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.path.join(IMAGE)
    }

    pub(crate) fn layout(&self) -> Result<Layout> {
        Layout::open(&self.image())
    }

    /// The folder with reports of one kind.
    pub(crate) fn evidence(&self, kind: Kind) -> PathBuf {
        self.path.join(EVIDENCE).join(kind.folder())
    }

    /// The same reports as one file.
    pub(crate) fn evidence_archive(&self, kind: Kind) -> String {
        self.file_name(&format!("{}.tar", kind.folder()))
    }

    pub(crate) fn summary(&self) -> Result<Summary> {
        let path = self.path.join(SUMMARY);
        let text = std::fs::read(&path).with_context(|| {
            format!("read {}; it is made by: cargo xtask release build --evidence DIR", path.display())
        })?;
        serde_json::from_slice(&text).with_context(|| format!("parse {}", path.display()))
    }

    pub(crate) fn write_summary(&self, summary: &Summary) -> Result<()> {
        let mut text = serde_json::to_string_pretty(summary)?;
        text.push('\n');
        self.write(SUMMARY, text.as_bytes())
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))
    }

    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.path.join(name);
        std::fs::read(&path).with_context(|| format!("read {}", path.display()))
    }

    /// What is attached to the release, by file name, sorted. The image goes to a registry; it and the reports are in
    /// the archives too.
    pub(crate) fn assets(&self) -> Result<Vec<String>> {
        Ok(names(&self.path)?.into_iter().filter(|name| self.path.join(name).is_file()).collect())
    }

    /// Writes the sums over all files but the layout's, whose digests name each other.
    pub(crate) fn write_sums(&self) -> Result<()> {
        let mut text = String::new();
        for (name, digest) in self.sums()? {
            text.push_str(&format!("{}  {name}\n", digest.hex()));
        }
        self.write(SUMS, text.as_bytes())
    }

    /// Files that are not what the sums say, are not in them, or are not there.
    pub(crate) fn against_sums(&self) -> Result<Vec<String>> {
        let text = String::from_utf8(self.read(SUMS)?).context("SHA256SUMS is no text")?;
        let mut said = BTreeMap::new();
        for line in text.lines() {
            let (digest, name) =
                line.split_once("  ").with_context(|| format!("{SUMS}: cannot read {line:?}"))?;
            said.insert(name.to_owned(), Digest::parse(&format!("sha256:{digest}"))?);
        }
        let mut wrong = Vec::new();
        let found = self.sums()?;
        for (name, digest) in &found {
            match said.get(name) {
                Some(said) if said == digest => {}
                Some(_) => wrong.push(format!("{name} was changed")),
                None => wrong.push(format!("{name} is not in {SUMS}")),
            }
        }
        wrong.extend(
            said.keys().filter(|name| !found.contains_key(*name)).map(|name| format!("{name} is missing")),
        );
        Ok(wrong)
    }

    fn sums(&self) -> Result<BTreeMap<String, Digest>> {
        let mut sums = BTreeMap::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for name in names(&self.path.join(&folder))? {
                let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                let path = self.path.join(&name);
                if path.is_dir() {
                    if name != IMAGE {
                        folders.push(name);
                    }
                } else if name != SUMS && name != SIGNATURE {
                    sums.insert(name, Digest::of_file(&path)?);
                }
            }
        }
        Ok(sums)
    }
}

/// Names in a folder, sorted; one that begins with a dot is nobody's.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let name = entry.with_context(|| format!("read {}", folder.display()))?.file_name();
        let Some(name) = name.to_str().map(str::to_owned) else {
            bail!("{}: the file name {name:?} is no text", folder.display());
        };
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
