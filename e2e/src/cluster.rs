// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The cluster of the stage: a client for it, the engine below it, and whether it is fit to begin. Changes nothing in it.
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ApiResource, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config};

use crate::engine::Engine;
use crate::stage::Stage;
use crate::wait::{self, Poll};

/// How long a cluster that has just come up may still settle.
const SETTLE: Duration = Duration::from_secs(60);

/// A cluster that answers. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    /// Of its API.
    pub client: Client,
    /// Drives the node's container.
    pub engine: Engine,
    /// What was brought up.
    pub stage: Arc<Stage>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Cluster").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// The resource that etcd-druid reconciles.
pub fn etcd_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("druid.gardener.cloud", "v1alpha1", "Etcd");
    ApiResource::from_gvk_with_plural(&kind, "etcds")
}

impl Cluster {
    /// A client by the stage's kubeconfig. Calls nobody yet.
    ///
    /// # Errors
    /// The kubeconfig cannot be read or used.
    pub async fn new(stage: Stage) -> Result<Self> {
        let path = &stage.kubeconfig;
        let read = || format!("use the kubeconfig {}", path.display());
        let kubeconfig = Kubeconfig::read_from(path).with_context(read)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .with_context(read)?;
        let client = Client::try_from(config).with_context(read)?;
        Ok(Self { client, engine: Engine::new(&stage), stage: Arc::new(stage) })
    }

    /// Looks whether scenarios can begin: the node runs and is ready, and an etcd-druid is there to do the work.
    ///
    /// # Errors
    /// What is missing, with the command that mends it.
    pub async fn check(&self) -> Result<()> {
        let node = self.engine.node_name();
        let state = self.engine.node_state().await.context(
            "look at the node's container: is the engine up (`cargo xtask e2e doctor`), and the cluster \
             (`cargo xtask kind up`)?",
        )?;
        match state.as_str() {
            "running" => {}
            "paused" => {
                bail!("the node {node} is paused, perhaps by a run that was killed: `docker unpause {node}`")
            }
            _ => bail!("the node {node} is {state}: `cargo xtask kind down`, then `cargo xtask kind up`"),
        }
        wait::until(SETTLE, "a ready node and etcd-druid", async || self.settled().await)
            .await
            .context("the cluster is not fit; `cargo xtask kind status` shows more")
    }

    async fn settled(&self) -> Result<Poll<()>> {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?;
        let ready = |node: &Node| {
            let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        if !nodes.items.iter().any(ready) {
            return Ok(Poll::NotYet("no node is ready".into()));
        }
        // A CRD that is not there: the list itself is refused.
        let etcds = Api::<kube::api::DynamicObject>::all_with(self.client.clone(), &etcd_resource());
        etcds.list(&ListParams::default().limit(1)).await.context("list Etcd resources")?;
        let all = Api::<Deployment>::all(self.client.clone()).list(&ListParams::default()).await?;
        let druid = all.items.iter().find(|found| found.metadata.name.as_deref() == Some("etcd-druid"));
        let Some(druid) = druid else {
            return Ok(Poll::NotYet("no deployment called etcd-druid in any namespace".into()));
        };
        let available = druid.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
        Ok(Poll::when(available > 0, || "etcd-druid is not available".into()))
    }
}
