// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One member of an Etcd by its pod: what the kubelet says of its containers, what its wrapper says of itself, connections
//! to its ports. A handle is a name: it outlives the pod, and means the next one of that name then. Faults are `fault`'s.
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{ContainerStatus, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};
use serde_json::Value;

use crate::case::Case;
use crate::druid::Etcd;
use crate::forward::{self, Tunnel};
use crate::wait::{self, Poll};
use crate::wrapper::Wrapper;

/// The main container, in which the wrapper runs.
pub const ETCD: &str = "etcd";
/// The sidecar's container.
pub const SIDECAR: &str = "backup-restore";

/// A member, by its pod's name.
#[derive(Clone, Debug)]
pub struct Member {
    case: Case,
    etcd: String,
    pod: String,
    client_tls: bool,
}

/// What the kubelet says of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Of the container.
    pub name: String,
    /// As the kubelet sees it.
    pub ready: bool,
    /// Of this pod; a pod that is made anew begins at 0.
    pub restarts: u32,
    /// When the one that runs was started; None when none runs.
    pub running_since: Option<Timestamp>,
    /// Why it waits: `CrashLoopBackOff`, `ContainerCreating`, …
    pub waiting: Option<String>,
    /// How the last one ended.
    pub last: Option<Ended>,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Exit code of its last end.
    pub code: i32,
    /// What the process wrote to its termination log.
    pub message: String,
}

impl Member {
    pub(crate) fn new(etcd: &Etcd, pod: &str) -> Self {
        Self {
            case: etcd.case().clone(),
            etcd: etcd.name().to_owned(),
            pod: pod.to_owned(),
            client_tls: etcd.has_client_tls(),
        }
    }

    /// Its name.
    pub fn pod(&self) -> &str {
        &self.pod
    }

    /// Whose it is.
    pub fn case(&self) -> &Case {
        &self.case
    }

    /// Whether clients have to speak TLS to its etcd.
    pub fn has_client_tls(&self) -> bool {
        self.client_tls
    }

    /// The name that etcd's certificate is verified for.
    pub fn server_name(&self) -> String {
        format!("{}-local", self.etcd)
    }

    /// The pod as it is now.
    ///
    /// # Errors
    /// The API server's; there is none.
    pub async fn get(&self) -> Result<Pod> {
        self.case.api::<Pod>().get(&self.pod).await.with_context(|| format!("get pod {}", self.pod))
    }

    /// The uid of the pod: another one is another pod.
    ///
    /// # Errors
    /// As [`Member::get`].
    pub async fn uid(&self) -> Result<String> {
        self.get().await?.uid().with_context(|| format!("pod {} has no uid", self.pod))
    }

    /// What the kubelet says of one container.
    ///
    /// # Errors
    /// As [`Member::get`], or nothing is known of it yet.
    pub async fn container(&self, name: &str) -> Result<Container> {
        let pod = self.get().await?;
        let found = containers(&pod).into_iter().find(|container| container.name == name);
        found.with_context(|| format!("nothing known of container {name} of pod {}", self.pod))
    }

    /// How often the main container of this pod was started anew.
    ///
    /// # Errors
    /// As [`Member::container`].
    pub async fn restarts(&self) -> Result<u32> {
        Ok(self.container(ETCD).await?.restarts)
    }

    /// Waits for the kubelet to call the pod ready.
    ///
    /// # Errors
    /// Not within `limit`, with its containers as they were.
    pub async fn ready(&self, limit: Duration) -> Result<()> {
        wait::until(limit, &format!("pod {} to be ready", self.pod), async || {
            let pod = self.get().await?;
            if let Some(never) = never_starts(&pod) {
                return Ok(Poll::Never(never));
            }
            Ok(Poll::when(is_ready(&pod), || shown(&pod)))
        })
        .await
    }

    /// Waits for the kubelet to call the pod not ready, or for the pod to be gone.
    ///
    /// # Errors
    /// Not within `limit`.
    pub async fn unready(&self, limit: Duration) -> Result<()> {
        wait::until(limit, &format!("pod {} not to be ready", self.pod), async || {
            let pod = self.case.api::<Pod>().get_opt(&self.pod).await?;
            Ok(Poll::when(!pod.as_ref().is_some_and(is_ready), || {
                pod.as_ref().map_or_else(String::new, shown)
            }))
        })
        .await
    }

    /// Waits for another pod of this name than the one with `uid`, and for that to be ready.
    ///
    /// # Errors
    /// Not within `limit`.
    pub async fn replaced(&self, uid: &str, limit: Duration) -> Result<()> {
        let begun = Instant::now();
        wait::until(limit, &format!("another pod {}", self.pod), async || {
            let pod = self.case.api::<Pod>().get_opt(&self.pod).await?;
            let other = pod.as_ref().is_some_and(|pod| pod.uid().is_some_and(|other| other != uid));
            Ok(Poll::when(other, || pod.as_ref().map_or_else(|| "no pod".into(), shown)))
        })
        .await?;
        self.ready(limit.saturating_sub(begun.elapsed())).await
    }

    /// Waits until the main container was started anew `restarts` times in this pod, and the pod is ready.
    ///
    /// # Errors
    /// Not within `limit`, or it was started more often.
    pub async fn restarted(&self, restarts: u32, limit: Duration) -> Result<()> {
        let what = format!("restart {restarts} of pod {}, and that it is ready", self.pod);
        wait::until(limit, &what, async || {
            let pod = self.get().await?;
            let etcd = containers(&pod).into_iter().find(|container| container.name == ETCD);
            let count = etcd.map_or(0, |etcd| etcd.restarts);
            if count > restarts {
                return Ok(Poll::Never(format!("{count} restarts; {}", shown(&pod))));
            }
            Ok(Poll::when(count == restarts && is_ready(&pod), || shown(&pod)))
        })
        .await
    }

    /// A caller of this pod's wrapper, with the rights of the pod itself.
    pub fn wrapper(&self) -> Wrapper {
        let (client, tls) = (self.case.client().clone(), self.case.client_tls());
        Wrapper::new(client, self.case.namespace(), &self.pod, tls, &self.server_name())
    }

    /// What the wrapper says of itself.
    ///
    /// # Errors
    /// Nobody answered, or not with a document.
    pub async fn status(&self) -> Result<Value> {
        self.wrapper().status().await
    }

    /// Waits for the wrapper's status to be as wanted.
    ///
    /// # Errors
    /// Not within `limit`, with phase, generation, readiness and diagnosis as they were.
    pub async fn status_until(
        &self,
        limit: Duration,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        wait::until(limit, &format!("{what} of the wrapper in {}", self.pod), async || {
            let status = self.status().await?;
            Ok(if wanted(&status) { Poll::Ready(status) } else { Poll::NotYet(brief(&status)) })
        })
        .await
    }

    /// A connection to a port of the pod, from loopback: 2379 is etcd's.
    ///
    /// # Errors
    /// As [`forward::connect`].
    pub async fn connect(&self, port: u16) -> Result<Tunnel> {
        forward::connect(self.case.client(), self.case.namespace(), &self.pod, port).await
    }

    /// The name of its claim for a volume.
    pub fn claim(&self) -> String {
        format!("{}-{}", self.etcd, self.pod)
    }

    /// The volume's folder on the node, as the pod's volume mounts have it.
    ///
    /// # Errors
    /// There is no claim or no volume, or it lies in no folder of the node.
    pub async fn volume(&self) -> Result<String> {
        let claims = self.case.api::<PersistentVolumeClaim>();
        let claim = self.claim();
        let bound = claims.get(&claim).await.with_context(|| format!("get claim {claim}"))?;
        let Some(volume) = bound.spec.and_then(|spec| spec.volume_name) else {
            bail!("claim {claim} has no volume");
        };
        let volumes = Api::<PersistentVolume>::all(self.case.client().clone());
        let spec = volumes.get(&volume).await.with_context(|| format!("get volume {volume}"))?.spec;
        let path = spec.and_then(|spec| {
            spec.local.map(|local| local.path).or_else(|| spec.host_path.map(|path| path.path))
        });
        path.with_context(|| format!("volume {volume} lies in no folder of the node"))
    }
}

/// What the kubelet says of the containers of a pod, init containers left out.
pub fn containers(pod: &Pod) -> Vec<Container> {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().map(container).collect()
}

fn container(status: &ContainerStatus) -> Container {
    let state = status.state.clone().unwrap_or_default();
    let last = status.last_state.clone().unwrap_or_default();
    let ended = state.terminated.or(last.terminated);
    Container {
        name: status.name.clone(),
        ready: status.ready,
        restarts: u32::try_from(status.restart_count).unwrap_or(0),
        running_since: state.running.and_then(|running| running.started_at).map(|time| time.0),
        waiting: state.waiting.and_then(|waiting| waiting.reason),
        last: ended.map(|ended| Ended { code: ended.exit_code, message: ended.message.unwrap_or_default() }),
    }
}

/// Whether the kubelet calls the pod ready; never while it goes.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True")
}

/// The pod in a few words.
pub fn shown(pod: &Pod) -> String {
    let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    let going = if pod.metadata.deletion_timestamp.is_some() { ", going" } else { "" };
    let one = |it: Container| {
        let state = match (&it.running_since, &it.waiting, &it.last) {
            (Some(_), _, _) if it.ready => "ready".to_owned(),
            (Some(_), _, _) => "running".to_owned(),
            (None, Some(reason), Some(last)) => format!("{reason} after exit {}", last.code),
            (None, Some(reason), None) => reason.clone(),
            (None, None, Some(last)) => format!("exit {}", last.code),
            (None, None, None) => "unknown".to_owned(),
        };
        format!("{} {state}, {} restarts", it.name, it.restarts)
    };
    let containers: Vec<String> = containers(pod).into_iter().map(one).collect();
    format!("{} {phase}{going} [{}]", pod.name_any(), containers.join(", "))
}

/// Why a pod can never start, where waiting for it is vain: an image that cannot be had.
pub fn never_starts(pod: &Pod) -> Option<String> {
    const VAIN: [&str; 4] = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"];
    let status = pod.status.as_ref()?;
    let all = [&status.init_container_statuses, &status.container_statuses];
    all.into_iter().flatten().flatten().find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref().filter(|reason| VAIN.contains(reason))?;
        let message = waiting.message.as_deref().unwrap_or_default();
        Some(format!("pod {}, image {}: {reason}: {message}", pod.name_any(), container.image))
    })
}

/// A wrapper's status in a few words.
pub fn brief(status: &Value) -> String {
    let text = |pointer: &str| match status.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "?".to_owned(),
    };
    format!(
        "phase {}, generation {}, ready {} ({}), {}",
        text("/wrapper/phase"),
        text("/etcd/generation"),
        text("/readiness/ready"),
        text("/readiness/reason"),
        text("/health/diagnosis"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "tri-0"}, "status": status})).unwrap()
    }

    fn with(state: Value, last: Value) -> Pod {
        pod(json!({"phase": "Running", "containerStatuses": [{
            "name": "etcd", "image": "i", "imageID": "", "ready": false, "restartCount": 2,
            "state": state, "lastState": last,
        }]}))
    }

    #[test]
    fn a_pod_in_a_few_words() {
        let crashed = json!({"terminated": {"exitCode": 10, "message": "{}"}});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        assert_eq!(
            shown(&with(waiting, crashed)),
            "tri-0 Running [etcd CrashLoopBackOff after exit 10, 2 restarts]"
        );
        let running = json!({"running": {"startedAt": "2026-12-01T10:00:00Z"}});
        assert_eq!(shown(&with(running, json!({}))), "tri-0 Running [etcd running, 2 restarts]");
    }

    #[test]
    fn an_image_that_cannot_be_had_ends_a_wait_and_a_crash_does_not() {
        let pull = json!({"waiting": {"reason": "ErrImagePull", "message": "no such host"}});
        assert_eq!(
            never_starts(&with(pull, json!({}))).unwrap(),
            "pod tri-0, image i: ErrImagePull: no such host"
        );
        assert_eq!(never_starts(&with(json!({"waiting": {"reason": "CrashLoopBackOff"}}), json!({}))), None);
    }

    #[test]
    fn a_pod_that_goes_is_not_ready() {
        let mut pod = pod(json!({"conditions": [{"type": "Ready", "status": "True"}]}));
        assert!(is_ready(&pod));
        pod.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::now()));
        assert!(!is_ready(&pod));
    }

    #[test]
    fn a_status_in_a_few_words() {
        let status = json!({"wrapper": {"phase": "running"}, "etcd": {"generation": 2},
            "readiness": {"ready": false, "reason": "fresh"}, "health": {"diagnosis": "member_down"}});
        assert_eq!(brief(&status), "phase running, generation 2, ready false (fresh), member_down");
    }
}
