// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `pipelines/matrix.yaml`, and its combinations as a workflow's matrix takes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Matrix {
    small: Vec<Entry>,
    wide: Vec<Entry>,
    release: Vec<Entry>,
    /// Architecture → the hosted runner of it.
    runners: BTreeMap<String, String>,
}

/// Which runs there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    /// For a change.
    Small,
    /// For a night.
    Wide,
    /// What a release has to show.
    Release,
}

/// All combinations of these.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    etcd: Vec<String>,
    kubernetes: Vec<String>,
    arch: Vec<String>,
    scenarios: String,
}

/// One run.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Run<'a> {
    etcd: &'a str,
    kubernetes: &'a str,
    arch: &'a str,
    runner: &'a str,
    scenarios: &'a str,
}

impl Matrix {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let path = root.join("pipelines/matrix.yaml");
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))
    }

    fn set(&self, set: Set) -> &[Entry] {
        match set {
            Set::Small => &self.small,
            Set::Wide => &self.wide,
            Set::Release => &self.release,
        }
    }

    /// The runs of a set.
    pub(super) fn combined(&self, set: Set) -> Result<Value> {
        let mut runs = Vec::new();
        for Entry { etcd, kubernetes, arch, scenarios } in self.set(set) {
            for arch in arch {
                let runner = self.runners.get(arch);
                let runner =
                    runner.with_context(|| format!("pipelines/matrix.yaml: no runner for {arch}"))?;
                for kubernetes in kubernetes {
                    for etcd in etcd {
                        runs.push(Run { etcd, kubernetes, arch, runner, scenarios });
                    }
                }
            }
        }
        Ok(json!({ "include": runs }))
    }

    /// The images that a set is about: one for each line of etcd, of both architectures.
    pub(super) fn images(&self, set: Set) -> Value {
        let lines: BTreeSet<&String> = self.set(set).iter().flat_map(|entry| &entry.etcd).collect();
        let images: Vec<Value> = lines.into_iter().map(|line| json!({ "etcd": line })).collect();
        json!({ "include": images })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "small:\n  - {etcd: ['3.5'], kubernetes: ['1.37'], arch: [amd64], scenarios: smoke}\n\
                        wide:\n  - {etcd: ['3.5', '3.6'], kubernetes: ['1.37', '1.36'], arch: [amd64, arm64], scenarios: all}\n\
                        release: []\n\
                        runners: {amd64: a, arm64: b}\n";

    #[test]
    fn every_combination_is_a_run_on_its_own_runner() {
        let matrix: Matrix = serde_saphyr::from_str(PAGE).unwrap();
        let small = matrix.combined(Set::Small).unwrap();
        let one = json!({"etcd": "3.5", "kubernetes": "1.37", "arch": "amd64", "runner": "a", "scenarios": "smoke"});
        assert_eq!(small, json!({ "include": [one] }));
        let wide = matrix.combined(Set::Wide).unwrap();
        let runs = wide["include"].as_array().unwrap();
        assert_eq!(runs.len(), 8);
        assert!(runs.iter().all(|run| (run["arch"] == "arm64") == (run["runner"] == "b")));
        assert_eq!(matrix.images(Set::Wide)["include"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn an_architecture_without_a_runner_is_an_error() {
        let matrix: Matrix = serde_saphyr::from_str(&PAGE.replace(", arm64: b", "")).unwrap();
        assert!(matrix.combined(Set::Small).is_ok());
        assert!(matrix.combined(Set::Wide).unwrap_err().to_string().contains("arm64"));
    }
}
