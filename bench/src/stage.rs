// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the program is told about the place it runs in: a JSON file that `cargo xtask bench` writes. The two share this
//! file and nothing else.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

/// The file's content.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stage {
    /// Of this tree; `-dirty` behind it when the tree has changes.
    pub(crate) commit: String,
    /// What was typed, for the report.
    pub(crate) command: String,
    /// The wrapper of this tree, as it is shipped.
    pub(crate) wrapper: PathBuf,
    pub(crate) etcd: PathBuf,
    /// Its line, such as `3.5`.
    pub(crate) line: String,
    pub(crate) peer: Option<Peer>,
    /// A real etcd-backup-restore.
    pub(crate) sidecar: Option<PathBuf>,
    /// The parts of the image, compressed, in bytes; None: it was not asked for.
    pub(crate) image: Option<BTreeMap<String, u64>>,
    /// Ids of rows; empty: all.
    pub(crate) only: Vec<String>,
    /// Interleaved runs of a row.
    pub(crate) runs: usize,
    /// Draw the phases of every start.
    pub(crate) trace: bool,
    /// A missed bar is a failure.
    pub(crate) check: bool,
    /// What is too noisy for a verdict is no failure.
    pub(crate) allow_noise: bool,
    /// The folder of the report.
    pub(crate) report: PathBuf,
    /// Another place for the JSON.
    pub(crate) json: Option<PathBuf>,
}

/// Another wrapper with Go's nine flags.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl Stage {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("parse {}", path.display()))
    }

    pub(crate) fn wants(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|one| one == id)
    }
}
