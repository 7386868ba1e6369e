// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Namespaces of cases, and who may remove which. Every namespace bears its run's id as a label, and every living run
//! renews a Lease of that name. A sweep removes the namespaces of runs whose Lease has run out, and no others.
//!
//! A Lease, and not a process id with the machine's boot id: runs from several clones, containers and users share one
//! cluster, see different processes, and all see the Lease. What it costs is that a killed run's leftovers stay for the
//! time of a Lease; whoever runs next sweeps again each minute.
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::cluster::{Cluster, etcd_resource};
use crate::engine::Engine;
use crate::fault;
use crate::wait::{self, Poll};

/// The label on everything of a run outside its namespaces, and on the namespaces: the run's id.
pub const LABEL: &str = "etcd-wrapper.e2e/run";
/// The label that takes its place on a namespace that somebody wants to look at: no sweep removes it.
pub const KEPT: &str = "etcd-wrapper.e2e/kept";
/// Where the Leases lie.
const HOME: &str = "default";
/// A run that has not renewed for so long is over. Longer than any pause of the node that a scenario makes.
const LEASE: Duration = Duration::from_secs(120);
const RENEW: Duration = Duration::from_secs(10);
/// How long a namespace may take to go before finalizers are taken off what is left in it.
const GO: Duration = Duration::from_secs(90);

/// This run's claim on its namespaces.
#[derive(Clone, Debug)]
pub struct Claim {
    run: String,
}

impl Claim {
    /// Of the run with this id.
    pub fn new(run: &str) -> Self {
        Self { run: run.to_owned() }
    }

    fn lease(&self) -> Lease {
        Lease {
            metadata: ObjectMeta {
                name: Some(format!("e2e-{}", self.run)),
                labels: Some(BTreeMap::from([(LABEL.to_owned(), self.run.clone())])),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.run.clone()),
                lease_duration_seconds: Some(i32::try_from(LEASE.as_secs()).expect("a small constant")),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..LeaseSpec::default()
            }),
        }
    }

    /// Makes or renews the Lease.
    ///
    /// # Errors
    /// The API server's.
    pub async fn renew(&self, client: &Client) -> Result<()> {
        let leases = Api::<Lease>::namespaced(client.clone(), HOME);
        let lease = self.lease();
        let params = PatchParams::apply("e2e").force();
        let name = lease.name_any();
        leases.patch(&name, &params, &Patch::Apply(&lease)).await.context("renew the run's Lease").map(drop)
    }

    /// Renews for ever, and sweeps now and then. A failure is left to the next turn: the API server may be paused.
    pub async fn keep(&self, cluster: &Cluster) {
        let mut turn = tokio::time::interval(RENEW);
        turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for count in 1_u64.. {
            turn.tick().await;
            let _ = tokio::time::timeout(RENEW, self.renew(&cluster.client)).await;
            if count.is_multiple_of(6) {
                let _ = tokio::time::timeout(RENEW, sweep(cluster)).await;
            }
        }
    }

    /// Gives the claim up: what is left of the run may be swept at once.
    ///
    /// # Errors
    /// The API server's.
    pub async fn end(&self, client: &Client) -> Result<()> {
        let leases = Api::<Lease>::namespaced(client.clone(), HOME);
        leases
            .delete(&self.lease().name_any(), &DeleteParams::default())
            .await
            .context("end the Lease")
            .map(drop)
    }

    /// Makes a namespace of this run.
    ///
    /// # Errors
    /// The API server's; a name that is taken among them.
    pub async fn create(&self, client: &Client, name: &str) -> Result<()> {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(BTreeMap::from([(LABEL.to_owned(), self.run.clone())])),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let all = Api::<Namespace>::all(client.clone());
        all.create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("create namespace {name}"))?;
        // A pod that comes before the account is refused.
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), name);
        wait::until(Duration::from_secs(30), "the namespace's default ServiceAccount", async || {
            let found = accounts.get_opt("default").await?;
            Ok(Poll::when(found.is_some(), || "none".into()))
        })
        .await
    }
}

/// Removes a namespace and waits until it is gone; takes the finalizers off an Etcd that nobody finishes.
///
/// # Errors
/// It does not go, with what is left in it.
pub async fn delete(client: &Client, name: &str) -> Result<()> {
    begin_delete(client, name).await?;
    // From here on nobody makes new ones, and nobody needs the pods' last words.
    let pods = Api::<Pod>::namespaced(client.clone(), name);
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete_collection(&at_once, &ListParams::default()).await.context("delete the pods")?;
    let all = Api::<Namespace>::all(client.clone());
    let gone = async || {
        let left = all.get_opt(name).await?;
        let said = |left: Namespace| {
            let conditions = left.status.and_then(|status| status.conditions).unwrap_or_default();
            let messages = conditions.into_iter().filter(|condition| condition.status == "True");
            messages.filter_map(|condition| condition.message).collect::<Vec<_>>().join("; ")
        };
        Ok(left.map_or(Poll::Ready(()), |left| Poll::NotYet(said(left))))
    };
    let what = format!("the end of namespace {name}");
    if wait::until(GO, &what, gone).await.is_ok() {
        return Ok(());
    }
    let etcds = Api::<DynamicObject>::namespaced_with(client.clone(), name, &etcd_resource());
    for etcd in etcds.list(&ListParams::default()).await?.items {
        let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        etcds.patch(&etcd.name_any(), &PatchParams::default(), &bare).await?;
    }
    wait::until(GO, &what, gone).await
}

/// Asks for the removal, and does not wait for it.
///
/// # Errors
/// The API server's; none when it is gone already.
pub async fn begin_delete(client: &Client, name: &str) -> Result<()> {
    let all = Api::<Namespace>::all(client.clone());
    match all.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error).with_context(|| format!("delete namespace {name}")),
    }
}

/// Leaves a namespace to people: no sweep removes it any more. Returns the command that does.
///
/// # Errors
/// The API server's.
pub async fn keep(client: &Client, name: &str) -> Result<String> {
    let labels = json!({"metadata": {"labels": {LABEL: null, KEPT: "true"}}});
    let all = Api::<Namespace>::all(client.clone());
    let patch = Patch::Merge(labels);
    all.patch(name, &PatchParams::default(), &patch)
        .await
        .with_context(|| format!("keep namespace {name}"))?;
    Ok(format!("kubectl delete namespace {name}"))
}

/// Takes away what a case may have made on the node beside its pods: the bucket of its backups, and small file systems in
/// the place of volumes.
///
/// # Errors
/// The engine's.
pub async fn clean_node(engine: &Engine, name: &str) -> Result<()> {
    let bucket = format!("/etc/gardener/local-backupbuckets/{name}");
    engine.node(r#"rm -rf "$1""#, &[&bucket]).await?;
    fault::clean_volumes(engine, name).await
}

/// Asks for the removal of every namespace whose run is over, with what it left on the node, and returns their names.
///
/// # Errors
/// The API server's, or the engine's.
pub async fn sweep(cluster: &Cluster) -> Result<Vec<String>> {
    let client = &cluster.client;
    let ours = ListParams::default().labels(LABEL);
    let leases = Api::<Lease>::namespaced(client.clone(), HOME);
    let all = Api::<Namespace>::all(client.clone());
    // Namespaces first: a run claims before it makes one, so the claim of each that is seen is seen too.
    let namespaces = all.list(&ours).await.context("list namespaces of runs")?.items;
    let claims = leases.list(&ours).await.context("list Leases of runs")?.items;
    let now = Timestamp::now();
    let (alive, over): (Vec<&Lease>, Vec<&Lease>) = claims.iter().partition(|lease| is_alive(lease, now));
    let alive: BTreeSet<&String> = alive.iter().filter_map(|lease| lease.labels().get(LABEL)).collect();
    let mut swept = Vec::new();
    for namespace in &namespaces {
        let run = namespace.labels().get(LABEL);
        if namespace.metadata.deletion_timestamp.is_none() && !run.is_some_and(|run| alive.contains(run)) {
            begin_delete(client, &namespace.name_any()).await?;
            clean_node(&cluster.engine, &namespace.name_any()).await?;
            swept.push(namespace.name_any());
        }
    }
    for lease in over {
        // Somebody else's sweep may have been quicker.
        let _ = leases.delete(&lease.name_any(), &DeleteParams::default()).await;
    }
    Ok(swept)
}

fn is_alive(lease: &Lease, now: Timestamp) -> bool {
    let spec = lease.spec.as_ref();
    let renewed = spec.and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0.as_second());
    let duration = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
    renewed.is_some_and(|renewed| renewed + i64::from(duration) >= now.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_lives_as_long_as_its_lease() {
        let lease = Claim::new("r-1").lease();
        let after = |seconds: u64| Timestamp::now() + Duration::from_secs(seconds);
        assert!(is_alive(&lease, after(0)));
        assert!(is_alive(&lease, after(LEASE.as_secs() - 2)));
        assert!(!is_alive(&lease, after(LEASE.as_secs() + 2)));
        assert!(!is_alive(&Lease::default(), after(0)));
    }
}
