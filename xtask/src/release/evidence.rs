// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Reports that go into a release as they are: those of tests, of static analysis, and of the end-to-end suite. Copies
//! them and packs them; what a report says is judged by `check`.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::bundle::{self, Bundle};
use super::pack;

/// A kind of report, by the folder that it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tests,
    Sast,
    E2e,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Tests, Self::Sast, Self::E2e];

    /// The name of the folder, in the given one and in the release.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Tests => "tests",
            Self::Sast => "sast",
            Self::E2e => "e2e",
        }
    }

    /// What people call it, and the resource in the descriptor.
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::Tests => "test-results",
            Self::Sast => "sast-report",
            Self::E2e => "e2e-report",
        }
    }

    /// What the descriptor says that it is for.
    pub(crate) fn purposes(self) -> &'static [&'static str] {
        match self {
            Self::Tests => &["test"],
            Self::Sast => &["lint", "sast"],
            Self::E2e => &["test", "integration-test"],
        }
    }

    /// The command that makes such a report.
    pub(crate) fn mend(self) -> &'static str {
        match self {
            Self::Tests => "cargo xtask test, then copy target/nextest/default/junit.xml to DIR/tests/",
            Self::Sast => "cargo xtask lint, with its report in DIR/sast/",
            Self::E2e => "cargo xtask e2e --report DIR/e2e",
        }
    }
}

/// Copies what `from` has into the release; the kinds that it lacks are returned. Without `from` all are lacking.
pub(crate) fn copy(from: Option<&Path>, bundle: &Bundle) -> Result<Vec<Kind>> {
    if let Some(from) = from.filter(|from| !from.is_dir()) {
        bail!("--evidence {}: no such folder", from.display());
    }
    let mut absent = Vec::new();
    for kind in Kind::ALL {
        let place = bundle.evidence(kind);
        for (source, below) in from.map(|from| sources(from, kind)).transpose()?.unwrap_or_default() {
            let mut files = Vec::new();
            list(&source, Path::new(""), &mut files)?;
            for file in &files {
                let to = place.join(&below).join(file);
                let folder = to.parent().context("a report has a folder")?;
                std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
                std::fs::copy(source.join(file), &to).with_context(|| format!("copy to {}", to.display()))?;
            }
        }
        if !place.is_dir() {
            absent.push(kind);
            continue;
        }
        let mut files = Vec::new();
        list(&place, Path::new(""), &mut files)?;
        archive(&place, &files, &bundle.path.join(bundle.evidence_archive(kind)))?;
    }
    Ok(absent)
}

/// Folders with reports of one kind, and where each goes below the kind's own: `e2e` itself, and `e2e-…`, as hosted CI
/// names what several jobs made.
fn sources(from: &Path, kind: Kind) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut found = Vec::new();
    for name in bundle::names(from)? {
        let of_several = name.starts_with(&format!("{}-", kind.folder()));
        if (name == kind.folder() || of_several) && from.join(&name).is_dir() {
            let below = if of_several { PathBuf::from(&name) } else { PathBuf::new() };
            found.push((from.join(&name), below));
        }
    }
    Ok(found)
}

fn archive(folder: &Path, files: &[PathBuf], path: &Path) -> Result<()> {
    let out = File::create(path).with_context(|| format!("create {}", path.display()))?;
    let mut out = pack::Archive::new(BufWriter::new(out));
    for file in files {
        out.file(&file.display().to_string(), &folder.join(file))?;
    }
    out.finish().map(drop).with_context(|| format!("write {}", path.display()))
}

/// Files below a folder, sorted by path.
pub(crate) fn list(folder: &Path, below: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for name in bundle::names(&folder.join(below))? {
        let path = below.join(name);
        let meta = std::fs::symlink_metadata(folder.join(&path))
            .with_context(|| format!("look at {}", folder.join(&path).display()))?;
        if meta.is_dir() {
            list(folder, &path, files)?;
        } else if meta.is_file() {
            files.push(path);
        } else {
            bail!(
                "{} is neither a file nor a folder; a report is copied as it is",
                folder.join(&path).display()
            );
        }
    }
    Ok(())
}
