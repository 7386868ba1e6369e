// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The scene of a failure: everything that helps a stranger to tell why, in the case's folder, and the most telling lines of
//! it as a digest. What cannot be had is told in its place; nothing here fails, and nothing changes the scene.
mod digest;
mod objects;

use std::fs;
use std::path::Path;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, LogParams};

use crate::case::Case;
use crate::member::ETCD;
use crate::toolbox;
use crate::wrapper::Wrapper;

/// Lines of the node's journals.
const JOURNAL: &str = "600";

/// Collects all of it, the quick things first. Returns the digest.
pub async fn collect(case: &Case) -> String {
    let folder = case.folder().join("scene");
    if let Err(error) = fs::create_dir_all(&folder) {
        return format!("no scene: make {}: {error}", folder.display());
    }
    let pods = match case.api::<Pod>().list(&ListParams::default()).await {
        Ok(pods) => pods.items,
        Err(error) => {
            write(&folder, "pods.txt", &format!("{error:#}"));
            Vec::new()
        }
    };
    let members: Vec<&Pod> = pods.iter().filter(|pod| has_container(pod, ETCD)).collect();
    join_all(members.iter().map(|pod| status(case, &folder, pod))).await;
    objects::write_all(case, &folder).await;
    join_all(pods.iter().map(|pod| previous_logs(case, pod))).await;
    join_all(members.iter().map(|pod| report(case, &folder, pod))).await;
    if pods.iter().any(|pod| pod.name_any() == toolbox::POD) {
        members_as_clients_see_them(case, &folder, &members).await;
    }
    node(case, &folder).await;
    digest::digest(case, &pods)
}

async fn status(case: &Case, folder: &Path, pod: &Pod) {
    let name = pod.name_any();
    let server_name = name.rsplit_once('-').map_or(&*name, |(etcd, _)| etcd);
    let wrapper = Wrapper::new(
        case.client().clone(),
        case.namespace(),
        &name,
        case.client_tls(),
        &format!("{server_name}-local"),
    );
    let text = match wrapper.status().await {
        Ok(status) => serde_json::to_string_pretty(&status).unwrap_or_default(),
        Err(error) => format!("{error:#}"),
    };
    write(folder, &format!("status-{name}.json"), &text);
}

/// The wrapper's own report for bug reports: it has the members and the last ends, and no secrets.
async fn report(case: &Case, folder: &Path, pod: &Pod) {
    let name = pod.name_any();
    let ran = toolbox::exec(case.client(), case.namespace(), &name, ETCD, &["/etcd-wrapper", "report"]).await;
    let text = match ran {
        Ok(ran) => format!("{}{}", ran.stdout, ran.stderr),
        Err(error) => format!("{error:#}"),
    };
    write(folder, &format!("report-{name}.txt"), &text);
}

async fn previous_logs(case: &Case, pod: &Pod) {
    let name = pod.name_any();
    let status = pod.status.clone().unwrap_or_default();
    for container in status.container_statuses.into_iter().flatten().filter(|it| it.restart_count > 0) {
        let params = LogParams {
            container: Some(container.name.clone()),
            previous: true,
            tail_lines: Some(2000),
            ..LogParams::default()
        };
        let text = match case.api::<Pod>().logs(&name, &params).await {
            Ok(text) => text,
            Err(error) => format!("{error:#}"),
        };
        let file = format!("{name}-{}-previous.log", container.name);
        write(&case.folder().join("logs"), &file, &text);
    }
}

/// Asks each member by the toolbox, so that those which no service names are asked too.
async fn members_as_clients_see_them(case: &Case, folder: &Path, members: &[&Pod]) {
    let mut text = String::new();
    let address = |pod: &&Pod| pod.status.as_ref()?.pod_ip.clone().map(|ip| (pod.name_any(), ip));
    for (name, ip) in members.iter().filter_map(address) {
        // One of the two schemes answers.
        let script = r#"
            for scheme in http https; do
                tls=
                [ $scheme = http ] || tls="--insecure-skip-tls-verify --insecure-transport=false \
                    --cert /tls/client/tls.crt --key /tls/client/tls.key"
                for what in "endpoint status -w json" "member list -w table"; do
                    etcdctl --endpoints=$scheme://$1:2379 --command-timeout=3s $tls $what 2>&1
                done
            done
        "#;
        let command = ["/bin/sh", "-c", script, "sh", &ip];
        let ran = toolbox::exec(case.client(), case.namespace(), toolbox::POD, toolbox::POD, &command).await;
        let said = ran.map_or_else(|error| format!("{error:#}"), |ran| ran.stdout + &ran.stderr);
        text.push_str(&format!("== {name} ({ip})\n{said}\n"));
    }
    write(folder, "members.txt", &text);
}

async fn node(case: &Case, folder: &Path) {
    let engine = &case.cluster().engine;
    let parts = [
        ("kubelet.log", r#"journalctl --no-pager -u kubelet -n "$2""#),
        ("containerd.log", r#"journalctl --no-pager -u containerd -n "$2""#),
        ("node.txt", "free -m; df -h; uptime; crictl pods; crictl ps -a"),
        ("volumes.txt", VOLUMES),
    ];
    for (file, script) in parts {
        let text = engine.node(script, &[case.namespace(), JOURNAL]).await;
        write(folder, file, &text.unwrap_or_else(|error| format!("{error:#}")));
    }
}

/// The volumes of namespace `$1`, as the kubelet has mounted them.
const VOLUMES: &str = r#"
for sandbox in $(crictl pods -q --namespace "^$1\$"); do
  uid=$(crictl inspectp -o go-template --template '{{.status.metadata.uid}}' "$sandbox")
  for volume in /var/lib/kubelet/pods/"$uid"/volumes/kubernetes.io~local-volume/* \
      /var/lib/kubelet/pods/"$uid"/volumes/kubernetes.io~host-path/*; do
    [ -d "$volume" ] || continue
    echo "== $volume"; df -h "$volume" | tail -1
    find "$volume" -maxdepth 6 -printf '%M %u:%g %s %TY-%Tm-%TdT%TH:%TM:%TS %P\n' | head -300
  done
done
"#;

fn has_container(pod: &Pod, name: &str) -> bool {
    pod.spec.iter().flat_map(|spec| &spec.containers).any(|container| container.name == name)
}

fn write(folder: &Path, file: &str, text: &str) {
    // A disk that is full has no place for a complaint either.
    let _ = fs::write(folder.join(file), text);
}
