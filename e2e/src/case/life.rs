// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! How a case begins and ends: namespace and observer first, whatever still stands healed last. The runner calls this;
//! scenarios do not.
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;

use super::Case;
use crate::member::{self, ETCD};
use crate::namespace::{self, Claim};
use crate::observe::Observer;
use crate::scene;

/// For all the evidence of a failure together.
const SCENE: Duration = Duration::from_secs(90);

impl Case {
    /// Makes the namespace and begins to watch it.
    ///
    /// # Errors
    /// The API server's.
    pub async fn begin(&self, claim: &Claim) -> Result<Observer> {
        claim.create(self.client(), self.namespace()).await?;
        Ok(Observer::start(self))
    }

    /// Collects what a stranger needs to tell why it failed. Returns a digest of some lines; what could not be had is told
    /// in it.
    pub async fn scene(&self) -> String {
        let standing = self.ledger().standing();
        if standing.iter().any(|fault| fault == "node paused") {
            // Nothing can be asked of a cluster that is frozen.
            self.heal_all().await;
        }
        let digest = match tokio::time::timeout(SCENE, scene::collect(self)).await {
            Ok(digest) => digest,
            Err(_) => format!("the scene was not complete within {SCENE:?}"),
        };
        if standing.is_empty() {
            digest
        } else {
            format!("faults that stood: {}\n{digest}", standing.join(", "))
        }
    }

    /// Heals all faults that stand. Returns what could not be healed.
    pub async fn heal_all(&self) -> Vec<String> {
        self.ledger().heal_all(&self.cluster().engine, self.timeline()).await
    }

    /// A line for each main container whose restarts are not those that the scenario announced.
    ///
    /// # Errors
    /// The API server's.
    pub async fn unannounced_restarts(&self) -> Result<Vec<String>> {
        // The observer may be a moment behind.
        for pod in self.api::<Pod>().list(&ListParams::default()).await?.items {
            let etcd = member::containers(&pod).into_iter().find(|container| container.name == ETCD);
            if let Some(etcd) = etcd {
                self.restarts().saw(&pod.name_any(), &pod.uid().unwrap_or_default(), etcd.restarts);
            }
        }
        Ok(self.restarts().differences())
    }

    /// Removes the namespace with all that is in it, and the bucket's folder on the node. Waits for the end of it.
    ///
    /// # Errors
    /// The namespace does not go; what is left of it stays for the next sweep.
    pub async fn remove(&self) -> Result<()> {
        namespace::delete(self.client(), self.namespace()).await?;
        namespace::clean_node(&self.cluster().engine, self.namespace()).await
    }

    /// Asks for the removal and does not wait for its end: for a run that is being interrupted.
    ///
    /// # Errors
    /// The API server's, or the engine's.
    pub async fn begin_remove(&self) -> Result<()> {
        namespace::begin_delete(self.client(), self.namespace()).await?;
        namespace::clean_node(&self.cluster().engine, self.namespace()).await
    }
}
