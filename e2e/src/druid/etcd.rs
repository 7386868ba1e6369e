// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An Etcd that was made: changing it, waiting until etcd-druid and the sidecars have done their part, and its members. What
//! is waited for is what a user of etcd-druid sees: the Etcd's own status, its pods, its leases.
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::EtcdSpec;
use crate::case::Case;
use crate::cluster::etcd_resource;
use crate::member::{self, Member};
use crate::pki::Use;
use crate::wait::{self, Poll};

/// How long throw-away certificates live.
const VALID: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// An Etcd in a case's namespace.
#[derive(Clone, Debug)]
pub struct Etcd {
    case: Case,
    spec: EtcdSpec,
}

/// One condition of the Etcd's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Of the condition.
    pub name: String,
    /// `True`, `False`, `Unknown`, `Progressing`, …
    pub status: String,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Etcd {
    pub(super) async fn create(case: Case, spec: EtcdSpec) -> Result<Self> {
        let secrets = case.api::<Secret>();
        // All of them, so that TLS can be switched on later.
        for of in Use::ALL {
            let secret = case.pki().secret(of, &spec.name, case.namespace(), VALID);
            let what = || format!("create secret {}", secret.name_any());
            secrets.create(&PostParams::default(), &secret).await.with_context(what)?;
        }
        let etcd = Self { case, spec };
        let object = serde_json::from_value(etcd.spec.object(etcd.case.namespace()))?;
        let what = || format!("create Etcd {}", etcd.spec.name);
        etcd.api().create(&PostParams::default(), &object).await.with_context(what)?;
        etcd.case.step(&format!("Etcd {} with {} members was created", etcd.spec.name, etcd.spec.replicas));
        Ok(etcd)
    }

    /// Of the Etcd; pods are called `NAME-0` and so on.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Whose it is.
    pub fn case(&self) -> &Case {
        &self.case
    }

    /// What was asked for at first, and changed since by the verbs here.
    pub fn spec(&self) -> &EtcdSpec {
        &self.spec
    }

    /// Whether clients have to speak TLS.
    pub fn has_client_tls(&self) -> bool {
        self.spec.client_tls
    }

    /// Where clients reach ready members, as etcdctl wants it.
    pub fn endpoint(&self) -> String {
        let scheme = if self.spec.client_tls { "https" } else { "http" };
        format!("{scheme}://{}-client.{}.svc:2379", self.spec.name, self.case.namespace())
    }

    /// The names of its pods, whether they are there or not.
    pub fn pods(&self) -> Vec<String> {
        (0..self.spec.replicas).map(|place| format!("{}-{place}", self.spec.name)).collect()
    }

    /// The member in one pod.
    ///
    /// # Panics
    /// When there are fewer members.
    pub fn member(&self, place: u32) -> Member {
        assert!(place < self.spec.replicas, "member {place} of {}", self.spec.replicas);
        Member::new(self, &format!("{}-{place}", self.spec.name))
    }

    /// All that its spec asks for, in their order.
    pub fn members(&self) -> Vec<Member> {
        (0..self.spec.replicas).map(|place| self.member(place)).collect()
    }

    /// The object as it is now.
    ///
    /// # Errors
    /// The API server's.
    pub async fn get(&self) -> Result<Value> {
        let object = self.api().get(&self.spec.name).await;
        Ok(serde_json::to_value(object.with_context(|| format!("get Etcd {}", self.spec.name))?)?)
    }

    /// A merge patch; etcd-druid reconciles by itself.
    ///
    /// # Errors
    /// The API server's; a change that etcd-druid's rules forbid among them.
    pub async fn patch(&self, patch: Value) -> Result<()> {
        let what = || format!("patch Etcd {} with {patch}", self.spec.name);
        let sent = Patch::Merge(&patch);
        self.api().patch(&self.spec.name, &PatchParams::default(), &sent).await.with_context(what)?;
        self.case.step(&format!("Etcd {} was patched: {patch}", self.spec.name));
        Ok(())
    }

    /// Another number of members: more, or none.
    ///
    /// # Errors
    /// As [`Etcd::patch`].
    pub async fn scale(&mut self, replicas: u32) -> Result<()> {
        self.patch(json!({"spec": {"replicas": replicas}})).await?;
        self.spec.replicas = replicas;
        Ok(())
    }

    /// Switches TLS on for clients.
    ///
    /// # Errors
    /// As [`Etcd::patch`].
    pub async fn switch_client_tls_on(&mut self) -> Result<()> {
        self.patch(json!({"spec": {"etcd": {"clientUrlTls": self.spec.client_tls_block()}}})).await?;
        self.spec.client_tls = true;
        Ok(())
    }

    /// Switches TLS on among the members.
    ///
    /// # Errors
    /// As [`Etcd::patch`].
    pub async fn switch_peer_tls_on(&mut self) -> Result<()> {
        self.patch(json!({"spec": {"etcd": {"peerUrlTls": self.spec.peer_tls_block()}}})).await?;
        self.spec.peer_tls = true;
        Ok(())
    }

    /// Waits until every member is ready in the eyes of the kubelet, and the StatefulSet has rolled out what was asked for.
    ///
    /// # Errors
    /// Not within `limit`, with conditions and pods as they were; or an image that does not exist.
    pub async fn ready(&self, limit: Duration) -> Result<()> {
        let what = format!("{} ready members of Etcd {}", self.spec.replicas, self.spec.name);
        wait::until(limit, &what, async || self.look(&[]).await).await?;
        self.case.step(&format!("all of Etcd {} are ready", self.spec.name));
        Ok(())
    }

    /// As [`Etcd::ready`], and until the sidecars' leases have made etcd-druid say `AllMembersReady` too.
    ///
    /// # Errors
    /// As [`Etcd::ready`].
    pub async fn all_members_ready(&self, limit: Duration) -> Result<()> {
        let what = format!("AllMembersReady of Etcd {} with {}", self.spec.name, self.spec.replicas);
        wait::until(limit, &what, async || self.look(&["AllMembersReady"]).await).await?;
        self.case.step(&format!("Etcd {}: AllMembersReady", self.spec.name));
        Ok(())
    }

    /// The conditions that etcd-druid keeps.
    ///
    /// # Errors
    /// The API server's.
    pub async fn conditions(&self) -> Result<Vec<Condition>> {
        Ok(conditions(&self.get().await?))
    }

    /// Waits for a condition to have a status.
    ///
    /// # Errors
    /// Not within `limit`.
    pub async fn condition(&self, limit: Duration, name: &str, status: &str) -> Result<Condition> {
        let what = format!("condition {name}={status} of Etcd {}", self.spec.name);
        wait::until(limit, &what, async || {
            let all = self.conditions().await?;
            let found = all.iter().find(|condition| condition.name == name && condition.status == status);
            Ok(Poll::from_option(found.cloned(), || shown(&all)))
        })
        .await
    }

    /// The lease by which a member says that it lives: holder, `<member id>:<role>`, and whether it was ever renewed.
    ///
    /// # Errors
    /// The API server's; there is none.
    pub async fn lease(&self, pod: &str) -> Result<Lease> {
        self.case.api::<Lease>().get(pod).await.with_context(|| format!("get lease {pod}"))
    }

    async fn look(&self, wanted: &[&str]) -> Result<Poll<()>> {
        let pods = self.case.api::<Pod>().list(&ListParams::default().labels(&self.selector())).await?.items;
        if let Some(never) = pods.iter().find_map(member::never_starts) {
            return Ok(Poll::Never(never));
        }
        let object = self.get().await?;
        let all = conditions(&object);
        let seen = || {
            let pods: Vec<String> = pods.iter().map(member::shown).collect();
            format!("{}; {}", shown(&all), pods.join("; "))
        };
        let generation = &object["metadata"]["generation"];
        if object["status"]["observedGeneration"] != *generation {
            return Ok(Poll::NotYet(format!("etcd-druid has not seen generation {generation}; {}", seen())));
        }
        let sets = self.case.api::<StatefulSet>();
        let Some(set) = sets.get_opt(&self.spec.name).await? else {
            return Ok(Poll::NotYet(format!("no StatefulSet; {}", seen())));
        };
        let wants = i32::try_from(self.spec.replicas).map_err(|_| anyhow!("too many replicas"))?;
        let status = set.status.clone().unwrap_or_default();
        let rolled_out = status.observed_generation == set.metadata.generation
            && set.spec.as_ref().and_then(|spec| spec.replicas) == Some(wants)
            && status.updated_replicas == Some(wants)
            && status.replicas == wants
            && status.ready_replicas.unwrap_or(0) == wants;
        let holds = |name: &&str| all.iter().any(|is| is.name == **name && is.status == "True");
        if !rolled_out || !wanted.iter().all(holds) {
            let (ready, updated) = (status.ready_replicas.unwrap_or(0), status.updated_replicas.unwrap_or(0));
            return Ok(Poll::NotYet(format!("{ready} ready, {updated} updated of {wants}; {}", seen())));
        }
        Ok(Poll::Ready(()))
    }

    fn selector(&self) -> String {
        format!("app.kubernetes.io/part-of={},app.kubernetes.io/component=etcd-statefulset", self.spec.name)
    }

    fn api(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.case.client().clone(), self.case.namespace(), &etcd_resource())
    }
}

fn conditions(object: &Value) -> Vec<Condition> {
    let text = |condition: &Value, key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = |it: &Value| Condition {
        name: text(it, "type"),
        status: text(it, "status"),
        reason: text(it, "reason"),
        message: text(it, "message"),
    };
    all.iter().map(condition).collect()
}

fn shown(conditions: &[Condition]) -> String {
    if conditions.is_empty() {
        return "no conditions".into();
    }
    let one = |it: &Condition| match it.status.as_str() {
        "True" => format!("{}=True", it.name),
        _ => format!("{}={} ({})", it.name, it.status, it.reason),
    };
    conditions.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_told_with_their_reasons() {
        let object = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "Quorate", "message": "m"},
            {"type": "AllMembersReady", "status": "False", "reason": "NotAllMembersReady"},
        ]}});
        let all = conditions(&object);
        assert_eq!(shown(&all), "Ready=True, AllMembersReady=False (NotAllMembersReady)");
        assert_eq!(shown(&conditions(&json!({}))), "no conditions");
    }
}
