// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The sidecar's part of the Kubernetes API: leases that druid has made and reads, and the StatefulSet of this pod.
//! Needs no more than druid's role for `<etcd>` grants. Creates and deletes nothing.
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::decide::Held;
use crate::etcd::Status;

/// An API server that is away shall not hold up who asks: a wrapper waits for `/config`.
const LIMIT: Duration = Duration::from_secs(10);

/// druid reads here whether a member's peer URLs are https.
const PEER_TLS: &str = "member.etcd.gardener.cloud/tls-enabled";

/// The API server, for one namespace.
#[derive(Clone)]
pub(crate) struct Kubernetes {
    leases: Api<Lease>,
    sets: Api<StatefulSet>,
}

impl std::fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The client holds a token.
        f.debug_struct("Kubernetes").finish_non_exhaustive()
    }
}

impl Kubernetes {
    pub(crate) fn new(client: kube::Client, namespace: &str) -> Self {
        Self { leases: Api::namespaced(client.clone(), namespace), sets: Api::namespaced(client, namespace) }
    }

    /// Whether any of the leases was ever held. One that does not exist was not.
    pub(crate) async fn held(&self, leases: &[&str]) -> Held {
        let mut held = Held::Never;
        for name in leases {
            match limited("get", name, self.leases.get_opt(name)).await {
                Ok(lease) if lease.as_ref().and_then(holder).is_some() => return Held::Once,
                Ok(_) => {}
                Err(_) => held = Held::Unknown,
            }
        }
        held
    }

    /// Renews a member's lease.
    ///
    /// # Errors
    /// When the API server is away, or the lease does not exist.
    pub(crate) async fn renew_member(
        &self,
        lease: &str,
        status: &Status,
        peer_tls: bool,
    ) -> anyhow::Result<()> {
        self.patch(lease, &member_renewal(status, peer_tls, SystemTime::now())).await
    }

    /// Renews a snapshot lease, as if all up to `revision` were stored now.
    ///
    /// # Errors
    /// As [`Kubernetes::renew_member`].
    pub(crate) async fn renew_snapshot(&self, lease: &str, revision: i64) -> anyhow::Result<()> {
        let now = limited("get", lease, self.leases.get(lease)).await?;
        let stored = holder(&now).and_then(|text| text.parse().ok());
        self.patch(lease, &snapshot_renewal(stored, revision, SystemTime::now())).await
    }

    /// Whether the StatefulSet has more pods to come than it has brought up to its newest template.
    ///
    /// # Errors
    /// When the API server is away, or the set does not exist.
    pub(crate) async fn growing(&self, set: &str) -> anyhow::Result<bool> {
        Ok(is_growing(&limited("get", set, self.sets.get(set)).await?))
    }

    async fn patch(&self, lease: &str, change: &Value) -> anyhow::Result<()> {
        let change = Patch::Merge(change);
        limited("patch", lease, self.leases.patch(lease, &PatchParams::default(), &change)).await.map(drop)
    }
}

async fn limited<T>(
    verb: &str,
    name: &str,
    asking: impl Future<Output = Result<T, kube::Error>>,
) -> anyhow::Result<T> {
    match tokio::time::timeout(LIMIT, asking).await {
        Ok(Ok(answer)) => Ok(answer),
        // The rest of the answer says the same again.
        Ok(Err(kube::Error::Api(refusal))) => Err(anyhow!("{verb} {name}: {}", refusal.message)),
        Ok(Err(error)) => Err(error).with_context(|| format!("{verb} {name} at the API server")),
        Err(_) => Err(anyhow!("{verb} {name}: no answer from the API server within {LIMIT:?}")),
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// The merge patch for a member's lease: `<member id>:<cluster id>:<Leader|Member>`, ids in hex.
fn member_renewal(status: &Status, peer_tls: bool, now: SystemTime) -> Value {
    let role = if status.member == status.leader { "Leader" } else { "Member" };
    json!({
        "metadata": {"annotations": {PEER_TLS: peer_tls.to_string()}},
        "spec": {
            "holderIdentity": format!("{:x}:{:x}:{role}", status.member, status.cluster),
            "renewTime": micro_time(now),
        },
    })
}

/// The merge patch for a snapshot lease, whose holder is a revision that never goes back.
fn snapshot_renewal(stored: Option<i64>, revision: i64, now: SystemTime) -> Value {
    let holder = stored.map_or(revision, |stored| stored.max(revision));
    json!({"spec": {"holderIdentity": holder.to_string(), "renewTime": micro_time(now)}})
}

/// As the API writes times of leases.
fn micro_time(now: SystemTime) -> String {
    humantime::format_rfc3339_micros(now).to_string()
}

fn is_growing(set: &StatefulSet) -> bool {
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let updated = set.status.as_ref().and_then(|status| status.updated_replicas).unwrap_or(0);
    wanted > 1 && wanted > updated
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use tonic::codegen::http::{Request, Response};

    use super::*;

    const STATUS: Status =
        Status { member: 0xABC, cluster: 0xDEF0, revision: 7, leader: 0xABC, learner: false };

    fn then() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(1_767_225_600_000_001)
    }

    #[test]
    fn a_members_lease_names_member_cluster_and_role() {
        let leader = member_renewal(&STATUS, true, then());
        assert_eq!(
            leader,
            json!({
                "metadata": {"annotations": {"member.etcd.gardener.cloud/tls-enabled": "true"}},
                "spec": {"holderIdentity": "abc:def0:Leader", "renewTime": "2026-01-01T00:00:00.000001Z"},
            })
        );
        let follower = member_renewal(&Status { leader: 1, ..STATUS }, false, then());
        assert_eq!(follower["spec"]["holderIdentity"], "abc:def0:Member");
        assert_eq!(follower["metadata"]["annotations"][PEER_TLS], "false");
    }

    #[test]
    fn a_snapshots_lease_never_goes_back() {
        for (stored, wanted) in [(None, "7"), (Some(3), "7"), (Some(9), "9")] {
            assert_eq!(snapshot_renewal(stored, 7, then())["spec"]["holderIdentity"], wanted);
        }
    }

    #[test]
    fn a_set_grows_while_pods_of_its_newest_template_are_missing() {
        let set = |replicas, updated| -> StatefulSet {
            serde_json::from_value(json!({
                "metadata": {},
                "spec": {"replicas": replicas, "selector": {}, "serviceName": "a", "template": {}},
                "status": {"replicas": replicas, "updatedReplicas": updated},
            }))
            .unwrap()
        };
        assert!(is_growing(&set(3, 2)));
        assert!(!is_growing(&set(3, 3)) && !is_growing(&set(1, 0)));
    }

    type Seen = Arc<Mutex<Vec<(String, String)>>>;

    /// An API server with the leases `held` (held), `free` (not held) and none else; notes what it is asked.
    fn server() -> (Kubernetes, Seen) {
        let seen: Seen = Arc::default();
        let notes = Arc::clone(&seen);
        let service = tower::service_fn(move |request: Request<Body>| {
            let notes = Arc::clone(&notes);
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let kind = head.headers.get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
                let line = format!("{} {} {}", head.method, head.uri.path(), kind.unwrap_or_default());
                notes.lock().unwrap().push((line, String::from_utf8_lossy(&body).into_owned()));
                let (code, answer) = match head.uri.path().rsplit('/').next().unwrap() {
                    "held" => (200, json!({"metadata": {}, "spec": {"holderIdentity": "5"}})),
                    "free" => (200, json!({"metadata": {}})),
                    "broken" => {
                        (500, json!({"code": 500, "message": "no", "reason": "x", "status": "Failure"}))
                    }
                    _ => (
                        404,
                        json!({"code": 404, "message": "none", "reason": "NotFound", "status": "Failure"}),
                    ),
                };
                let answer = Body::from(answer.to_string().into_bytes());
                Response::builder().status(code).body(answer).map_err(anyhow::Error::from)
            }
        });
        let service = tower::ServiceExt::map_err(service, Box::<dyn std::error::Error + Send + Sync>::from);
        (Kubernetes::new(kube::Client::new(service, "x"), "x"), seen)
    }

    #[tokio::test]
    async fn leases_tell_whether_anybody_was_there() {
        let (kubernetes, _) = server();
        assert_eq!(kubernetes.held(&["free", "gone"]).await, Held::Never);
        assert_eq!(kubernetes.held(&["free", "broken", "held"]).await, Held::Once);
        assert_eq!(kubernetes.held(&["free", "broken"]).await, Held::Unknown);
    }

    #[tokio::test]
    async fn renewals_are_merge_patches_of_existing_leases() {
        let (kubernetes, seen) = server();
        kubernetes.renew_member("free", &STATUS, false).await.unwrap();
        kubernetes.renew_snapshot("held", 7).await.unwrap();
        let seen = seen.lock().unwrap().clone();
        let lines: Vec<&str> = seen.iter().map(|(line, _)| line.trim()).collect();
        let lease = "/apis/coordination.k8s.io/v1/namespaces/x/leases";
        let merge = "application/merge-patch+json";
        assert_eq!(
            lines,
            [
                format!("PATCH {lease}/free {merge}"),
                format!("GET {lease}/held"),
                format!("PATCH {lease}/held {merge}")
            ]
        );
        assert!(seen[0].1.contains("abc:def0:Leader"), "{}", seen[0].1);
        assert!(kubernetes.renew_member("gone", &STATUS, false).await.is_err());
        assert!(kubernetes.growing("gone").await.is_err(), "no set, no config");
    }
}
