// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the scenarios' program is told about the place it runs in: a JSON file in the folder of the report. The two
//! crates share this file and nothing else.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::Serialize;

use super::images::Found;
use crate::cluster::Cluster;
use crate::repo;

/// The file's content; the crate `e2e` reads it.
#[derive(Debug, Serialize)]
pub(super) struct Stage<'a> {
    /// Names the run in labels and folders.
    run: String,
    seed: u64,
    /// Of this tree; `-dirty` behind it when the tree has changes.
    commit: String,
    engine: &'static str,
    cluster: &'a str,
    /// The container of the node.
    node: String,
    kubeconfig: &'a Path,
    /// Version of Kubernetes.
    kubernetes: &'a str,
    images: &'a [Found],
    /// Absolute path of the folder for the report and all evidence.
    report: PathBuf,
}

/// What every run has, in whatever tier.
pub(super) struct Run {
    pub(super) name: String,
    pub(super) seed: u64,
    pub(super) commit: String,
    pub(super) report: PathBuf,
}

impl Run {
    pub(super) fn new(seed: Option<u64>, report: Option<PathBuf>, target: &Path) -> Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
        let name = format!("{:x}-{:x}", now.as_secs(), std::process::id());
        let report = match report {
            Some(report) => {
                std::path::absolute(&report).with_context(|| format!("find {}", report.display()))?
            }
            None => target.join("e2e").join(&name),
        };
        // Any number will do, as long as it is told.
        let seed = seed.unwrap_or(u64::from(now.subsec_nanos()));
        Ok(Self { name, seed, commit: repo::commit(&repo::root()), report })
    }
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        seed: Option<u64>,
        report: Option<PathBuf>,
        target: &Path,
        cluster: &'a Cluster,
        kubernetes: &'a str,
        images: &'a [Found],
    ) -> Result<Self> {
        let Run { name: run, seed, commit, report } = Run::new(seed, report, target)?;
        Ok(Self {
            run,
            seed,
            commit,
            engine: "docker",
            cluster: &cluster.name,
            node: cluster.node(),
            kubeconfig: &cluster.kubeconfig,
            kubernetes,
            images,
            report,
        })
    }

    /// Writes it into the report's folder and says where.
    pub(super) fn write(&self) -> Result<PathBuf> {
        std::fs::create_dir_all(&self.report).with_context(|| format!("create {}", self.report.display()))?;
        let path = self.report.join("stage.json");
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }
}
