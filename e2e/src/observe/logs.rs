// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The log of one run of one container, copied to the case's folder while it is written. What the API server drops in
//! between is asked for again from the last second on: lines may then stand twice, and none is missing.
use std::time::Duration;

use anyhow::Result;
use futures_util::AsyncReadExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::LogParams;

use super::append;
use crate::case::Case;

/// Before asking again, so that an API server that is away is not asked without pause.
const AGAIN: Duration = Duration::from_secs(1);

/// Which log.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pod: String,
    uid: String,
    container: String,
    restarts: u32,
    file: String,
}

impl Source {
    /// The log of `container` after `restarts`, in the pod that had `earlier` ones of its name before it.
    pub(super) fn new(pod: &Pod, container: &str, restarts: u32, earlier: u32) -> Self {
        let name = pod.name_any();
        let again = if earlier == 0 { String::new() } else { format!(".{}", earlier + 1) };
        Self {
            file: format!("{name}{again}-{container}-{restarts}.log"),
            uid: pod.uid().unwrap_or_default(),
            container: container.to_owned(),
            restarts,
            pod: name,
        }
    }

    /// Whether the kubelet still has this pod, with this run of the container as its last one.
    async fn is_last(&self, case: &Case) -> bool {
        let Ok(Some(pod)) = case.api::<Pod>().get_opt(&self.pod).await else { return false };
        let status = pod.status.clone().unwrap_or_default();
        let all = [status.init_container_statuses, status.container_statuses];
        let mut running = all.into_iter().flatten().flatten().filter(|it| {
            it.name == self.container && it.state.as_ref().is_some_and(|state| state.running.is_some())
        });
        pod.uid().as_ref() == Some(&self.uid)
            && running.any(|it| u32::try_from(it.restart_count) == Ok(self.restarts))
    }
}

/// Copies until the container has ended, or is another one.
pub(super) async fn copy(case: Case, source: Source) {
    let path = case.folder().join("logs").join(&source.file);
    let mut since = None;
    loop {
        let begun = Timestamp::now();
        let ended = follow(&case, &source, since, &path).await;
        if let Err(error) = &ended {
            let _ = append(&path, format!("--- the copy broke off: {error:#}\n").as_bytes());
        }
        // A node that is paused answers nothing; this question waits for it.
        if !source.is_last(&case).await {
            return;
        }
        since = Some(begun);
        tokio::time::sleep(AGAIN).await;
    }
}

async fn follow(
    case: &Case,
    source: &Source,
    since: Option<Timestamp>,
    path: &std::path::Path,
) -> Result<()> {
    let params = LogParams {
        container: Some(source.container.clone()),
        follow: true,
        since_time: since,
        ..LogParams::default()
    };
    let mut stream = std::pin::pin!(case.api::<Pod>().log_stream(&source.pod, &params).await?);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            read => append(path, &buffer[..read])?,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_run_of_each_container_has_a_file_of_its_own() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "tri-0", "uid": "x"}})).unwrap();
        assert_eq!(Source::new(&pod, "etcd", 0, 0).file, "tri-0-etcd-0.log");
        assert_eq!(Source::new(&pod, "etcd", 2, 1).file, "tri-0.2-etcd-2.log");
    }
}
