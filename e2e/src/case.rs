// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One run of one scenario: its namespace, its certificates, its folder for evidence, its timeline, and the faults that
//! stand. A scenario gets one and makes everything through it. How it begins and ends is `case/life`'s.
mod life;
mod restarts;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use kube::{Api, Client};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::cluster::Cluster;
use crate::druid::Builder;
use crate::fault::{Faults, Ledger};
use crate::pki::Pki;
use crate::timeline::{Timeline, What};

pub use restarts::{Allowed, Restarts};

/// A scenario's own part of the cluster. A clone is the same case.
#[derive(Clone, Debug)]
pub struct Case {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    namespace: String,
    folder: PathBuf,
    seed: u64,
    cluster: Cluster,
    timeline: Timeline,
    pki: Pki,
    client_tls: Arc<rustls::ClientConfig>,
    ledger: Ledger,
    restarts: Restarts,
    measured: Mutex<Vec<(String, String)>>,
}

impl Case {
    /// A case with a new random name for its namespace, and an empty folder below the stage's report folder. Nothing is in
    /// the cluster yet.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new(cluster: &Cluster, name: &str, seed: u64) -> Result<Self> {
        let folder = cluster.stage.report.join(name);
        // What an earlier run of this scenario left there would pass for this one's.
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
        }
        fs::create_dir_all(folder.join("logs")).with_context(|| format!("make {}", folder.display()))?;
        let pki = Pki::new();
        let client_tls = Arc::new(pki.client_config(false)?);
        let inner = Inner {
            name: name.to_owned(),
            namespace: namespace_for(name, rand::random()),
            folder,
            // Each scenario has random numbers of its own, whatever else is selected.
            seed: seed ^ fnv(name),
            cluster: cluster.clone(),
            timeline: Timeline::default(),
            pki,
            client_tls,
            ledger: Ledger::default(),
            restarts: Restarts::default(),
            measured: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The scenario's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its own; gone when the case is over.
    pub fn namespace(&self) -> &str {
        &self.inner.namespace
    }

    /// Where everything of this case is kept: `logs/`, `scene/`, and what a scenario adds.
    pub fn folder(&self) -> &Path {
        &self.inner.folder
    }

    /// What was brought up for the run.
    pub fn cluster(&self) -> &Cluster {
        &self.inner.cluster
    }

    /// Of the cluster's API.
    pub fn client(&self) -> &Client {
        &self.inner.cluster.client
    }

    /// The resources of one kind in the case's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client().clone(), self.namespace())
    }

    /// What has happened so far.
    pub fn timeline(&self) -> &Timeline {
        &self.inner.timeline
    }

    /// The authorities behind all certificates of this case.
    pub fn pki(&self) -> &Pki {
        &self.inner.pki
    }

    /// TLS as a client without a certificate has it: what callers from within the pod use.
    pub fn client_tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.inner.client_tls)
    }

    /// This scenario's seed: the run's, mixed with the scenario's name.
    pub fn seed(&self) -> u64 {
        self.inner.seed
    }

    /// Random numbers that the run's seed decides. Each call begins anew.
    pub fn random(&self) -> StdRng {
        StdRng::seed_from_u64(self.inner.seed)
    }

    /// Begins an Etcd of this name.
    pub fn etcd(&self, name: &str) -> Builder {
        Builder::new(self, name)
    }

    /// What can be done to pods and the node.
    pub fn faults(&self) -> Faults<'_> {
        Faults::new(self)
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.inner.ledger
    }

    /// Marks a step of the scenario in the timeline; the last one is told when it hangs.
    pub fn step(&self, text: &str) {
        self.timeline().add(What::Step { text: text.to_owned() });
    }

    /// Keeps a value that was measured, for the report.
    pub fn measure(&self, what: &str, value: impl std::fmt::Display) {
        self.step(&format!("{what}: {value}"));
        self.inner
            .measured
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((what.into(), value.to_string()));
    }

    /// All that was measured so far.
    pub fn measured(&self) -> Vec<(String, String)> {
        self.inner.measured.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last step that was marked.
    pub fn last_step(&self) -> Option<String> {
        self.timeline().entries().into_iter().rev().find_map(|entry| match entry.what {
            What::Step { text } => Some(text),
            _ => None,
        })
    }

    /// How often main containers were started anew, and how often they may be.
    pub fn restarts(&self) -> &Restarts {
        &self.inner.restarts
    }

    /// Announces `more` restarts of the main container of pods of this name, beside those announced before. What is announced
    /// must happen; what happens without having been announced fails the case.
    pub fn expect_restarts(&self, pod: &str, more: u32) {
        self.inner.restarts.expect(pod, Allowed { at_least: more, at_most: more });
    }

    /// Announces that there may be up to `more`, and need not be any.
    pub fn allow_restarts(&self, pod: &str, more: u32) {
        self.inner.restarts.expect(pod, Allowed { at_least: 0, at_most: more });
    }
}

/// `e2e-`, the beginning of the scenario's name, and a random end; fit for a namespace and for labels of pods in it.
fn namespace_for(name: &str, random: u32) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let short: String = plain.to_lowercase().chars().take(24).collect();
    format!("e2e-{}-{random:08x}", short.trim_matches('-'))
}

/// FNV-1a: the same on every machine and in every version, so that shards and seeds stay what they were.
pub(crate) fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_a_label() {
        let name = namespace_for("i9_each_pod_killed_in_turn_comes_back_again", 0xabc);
        assert_eq!(name, "e2e-i9-each-pod-killed-in-tu-00000abc");
        assert_eq!(namespace_for("i9_each_pod_killed_in___x", 1), "e2e-i9-each-pod-killed-in-00000001");
        assert!(name.len() < 63);
    }

    #[test]
    fn the_hash_is_the_one_that_everybody_computes() {
        assert_eq!(fnv(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
