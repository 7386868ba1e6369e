// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Pods and containers as they come and go. Each new container gets somebody who copies its log, each pod with a main
//! container somebody who listens to its wrapper.
use std::collections::BTreeMap;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use tokio::task::JoinSet;

use super::{logs, wrappers};
use crate::case::Case;
use crate::member::{self, ETCD};
use crate::timeline::What;

/// What is known of one pod, by uid.
#[derive(Debug, Default)]
struct Known {
    state: String,
    /// By container: its state, and the count of its restarts.
    containers: BTreeMap<String, (String, u32)>,
    /// Containers whose log somebody copies, as `name-restarts`.
    copied: Vec<String>,
    /// How many pods of this name were there before.
    earlier: u32,
    /// Somebody listens to its wrapper.
    heard: bool,
}

/// Watches until it is dropped.
pub(super) async fn watch(case: Case) {
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    let config = watcher::Config::default();
    let mut pods = std::pin::pin!(watcher::watcher(case.api::<Pod>(), config).default_backoff());
    while let Some(event) = pods.next().await {
        while tasks.try_join_next().is_some() {}
        match event {
            Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                let uid = pod.uid().unwrap_or_default();
                let seen = known.entry(uid).or_insert_with(|| {
                    let count = names.entry(pod.name_any()).or_default();
                    *count += 1;
                    Known { earlier: *count - 1, ..Known::default() }
                });
                note(&case, &pod, seen, &mut tasks);
            }
            Ok(Event::Delete(pod)) => {
                case.timeline().add(What::Pod { pod: pod.name_any(), state: "deleted".into() });
            }
            // The API server is away: the stream begins anew by itself, and lists what was missed.
            Ok(Event::Init | Event::InitDone) | Err(_) => {}
        }
    }
}

fn note(case: &Case, pod: &Pod, known: &mut Known, tasks: &mut JoinSet<()>) {
    let name = pod.name_any();
    let state = state(pod);
    if known.state != state {
        case.timeline().add(What::Pod { pod: name.clone(), state: state.clone() });
        known.state = state;
    }
    let status = pod.status.clone().unwrap_or_default();
    let all = [status.init_container_statuses, status.container_statuses];
    for container in all.into_iter().flatten().flatten() {
        let restarts = u32::try_from(container.restart_count).unwrap_or(0);
        let now = (container_state(&container), restarts);
        if known.containers.get(&container.name) != Some(&now) {
            case.timeline().add(What::Container {
                pod: name.clone(),
                container: container.name.clone(),
                state: now.0.clone(),
                restarts,
            });
            known.containers.insert(container.name.clone(), now);
        }
        if container.name == ETCD {
            case.restarts().saw(&name, &pod.uid().unwrap_or_default(), restarts);
        }
        let copy = format!("{}-{restarts}", container.name);
        if has_begun(&container) && !known.copied.contains(&copy) {
            let source = logs::Source::new(pod, &container.name, restarts, known.earlier);
            tasks.spawn(logs::copy(case.clone(), source));
            known.copied.push(copy);
        }
    }
    let has_wrapper = known.containers.get(ETCD).is_some_and(|(state, _)| state == "running");
    if has_wrapper && !known.heard {
        known.heard = true;
        tasks.spawn(wrappers::listen(case.clone(), pod.clone()));
    }
}

fn state(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    if pod.metadata.deletion_timestamp.is_some() {
        return "going".into();
    }
    match status.phase.as_deref() {
        Some("Running") if member::is_ready(pod) => "ready".into(),
        Some("Running") => "not ready".into(),
        Some(phase) => phase.to_lowercase(),
        None => "created".into(),
    }
}

fn container_state(status: &ContainerStatus) -> String {
    let state = status.state.clone().unwrap_or_default();
    if state.running.is_some() {
        return "running".into();
    }
    if let Some(ended) = state.terminated {
        return format!("exit {}", ended.exit_code);
    }
    state.waiting.and_then(|waiting| waiting.reason).unwrap_or_else(|| "waiting".into())
}

fn has_begun(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(state: Value) -> ContainerStatus {
        let status = json!({"name": "etcd", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn a_log_is_there_once_a_container_ran() {
        assert!(!has_begun(&container(json!({"waiting": {"reason": "PodInitializing"}}))));
        assert!(has_begun(&container(json!({"running": {}}))));
        assert!(has_begun(&container(json!({"terminated": {"exitCode": 3}}))));
        assert_eq!(container_state(&container(json!({"terminated": {"exitCode": 3}}))), "exit 3");
    }

    #[test]
    fn a_pod_that_goes_is_told_as_such() {
        let pod = |metadata: Value| -> Pod {
            serde_json::from_value(json!({"metadata": metadata, "status": {"phase": "Running"}})).unwrap()
        };
        assert_eq!(state(&pod(json!({}))), "not ready");
        assert_eq!(state(&pod(json!({"deletionTimestamp": "2026-12-01T10:00:00Z"}))), "going");
    }
}
