// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An agent beside the member drives it over HTTP, in a StatefulSet of our own: etcd-druid owns the flags of its pods.
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::case::Case;
use e2e::scenario;
use e2e::scenario::Scenario;
use e2e::stage::Role;
use e2e::toolbox::{Ran, exec};
use e2e::wait::{self, Poll};
use e2e::wrapper::Wrapper;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

pub(crate) const SCENARIOS: &[Scenario] = &[scenario!(
    e20_an_agent_restores_a_member_that_nobody_is_sent_to_before,
    "hold, load, die in the middle, come back held, load again, release"
)
.within(Duration::from_secs(420))];

const POD: &str = "agent-0";
const START: Duration = Duration::from_secs(120);
/// The kubelet asks every second here, and endpoints follow.
const SEEN: Duration = Duration::from_secs(30);

const CONFIG: &str = "\
name: agent-0
data-dir: /var/etcd/data/new.etcd
listen-client-urls: http://0.0.0.0:2379
advertise-client-urls: http://agent:2379
listen-peer-urls: http://127.0.0.1:2380
initial-advertise-peer-urls: http://127.0.0.1:2380
initial-cluster: agent-0=http://127.0.0.1:2380
initial-cluster-state: new
";

async fn e20_an_agent_restores_a_member_that_nobody_is_sent_to_before(case: &Case) -> Result<()> {
    create(case).await?;
    let wrapper = Wrapper::new(case.client().clone(), case.namespace(), POD, case.client_tls(), "agent");
    phase(&wrapper, "held").await?;

    case.step("the agent starts etcd held, and loads half of the data");
    start(case).await?;
    agent(case, &["etcdctl", "put", "restored/1", "one"]).await?;
    ensure!(endpoints(case).await? == 0, "the service has an endpoint before the release");
    let refused = run(
        case,
        "client",
        &["etcdctl", "--endpoints=http://agent:2379", "--command-timeout=3s", "get", "restored/1"],
    )
    .await?;
    ensure!(refused.code != 0, "a client was served before the release: {}", refused.stdout);

    case.step("the wrapper is killed in the middle");
    case.expect_restarts(POD, 1);
    let pods = case.api::<Pod>();
    let kill = "for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" = etcd-wrapper ] && kill -9 ${p#/proc/}; done";
    let killed = run(case, "agent", &["/bin/sh", "-c", kill]).await?;
    ensure!(killed.code == 0, "kill -9 in the agent: {}", killed.stderr);
    wait::until(START, "the container to be started anew", async || {
        let pod = pods.get(POD).await?;
        let etcd = e2e::member::containers(&pod).into_iter().find(|container| container.name == "etcd");
        Ok(Poll::when(etcd.is_some_and(|etcd| etcd.restarts == 1 && etcd.running_since.is_some()), || {
            e2e::member::shown(&pod)
        }))
    })
    .await?;
    let status = phase(&wrapper, "held").await?;
    ensure!(status["readiness"]["ready"] == false, "ready while held: {}", e2e::member::brief(&status));
    ensure!(endpoints(case).await? == 0, "the service has an endpoint after the kill");

    case.step("the agent begins again, and releases");
    start(case).await?;
    agent(case, &["etcdctl", "put", "restored/1", "one"]).await?;
    agent(case, &["etcdctl", "put", "restored/2", "two"]).await?;
    ensure!(endpoints(case).await? == 0, "the service has an endpoint before the release");
    agent(case, &["etcd-wrapper", "ready", "--clear", "--owner", "restorer"]).await?;
    wait::until(SEEN, "an endpoint of the service", async || {
        let ready = endpoints(case).await?;
        Ok(Poll::when(ready == 1, || format!("{ready} endpoints")))
    })
    .await?;
    wait::until(SEEN, "a client to be served", async || {
        let read = run(
            case,
            "client",
            &[
                "etcdctl",
                "--endpoints=http://agent:2379",
                "--command-timeout=3s",
                "get",
                "--prefix",
                "restored/",
                "--print-value-only",
            ],
        )
        .await?;
        Ok(Poll::when(read.code == 0 && read.stdout == "one\ntwo\n", || format!("{read:?}")))
    })
    .await
}

async fn start(case: &Case) -> Result<()> {
    let words = [
        "etcd-wrapper",
        "start",
        "--config",
        "/config/etcd.yaml",
        "--ready",
        "hold",
        "--owner",
        "restorer",
        "--reason",
        "loading",
        "--wait",
        "60s",
    ];
    agent(case, &words).await.map(drop)
}

/// Waits for the wrapper to be in a phase.
async fn phase(wrapper: &Wrapper, phase: &str) -> Result<Value> {
    wait::until(START, &format!("phase {phase}"), async || {
        let status = wrapper.status().await?;
        Ok(if status["wrapper"]["phase"] == phase {
            Poll::Ready(status)
        } else {
            Poll::NotYet(e2e::member::brief(&status))
        })
    })
    .await
}

/// How many addresses the service sends traffic to.
async fn endpoints(case: &Case) -> Result<usize> {
    let params = ListParams::default().labels("kubernetes.io/service-name=agent");
    let slices = case.api::<EndpointSlice>().list(&params).await.context("list the service's endpoints")?;
    let endpoints = slices.items.iter().flat_map(|slice| slice.endpoints.iter());
    Ok(endpoints
        .filter(|endpoint| endpoint.conditions.as_ref().is_some_and(|c| c.ready == Some(true)))
        .count())
}

/// A command beside the member that must succeed; its stdout.
async fn agent(case: &Case, command: &[&str]) -> Result<String> {
    let ran = run(case, "agent", command).await?;
    if ran.code != 0 {
        bail!("{}: exit {}: {}{}", command.join(" "), ran.code, ran.stdout, ran.stderr);
    }
    Ok(ran.stdout)
}

async fn run(case: &Case, whose: &str, command: &[&str]) -> Result<Ran> {
    let pod = if whose == "agent" { POD } else { whose };
    exec(case.client(), case.namespace(), pod, whose, command).await
}

/// The pod with its agent, the service that clients use, and a client.
async fn create(case: &Case) -> Result<()> {
    let stage = &case.cluster().stage;
    let image = |role: Role| {
        stage
            .image(role)
            .map(|image| image.reference.clone())
            .with_context(|| format!("the stage has no image for {role}"))
    };
    let (wrapper, toolbox) = (image(Role::Wrapper)?, image(Role::Toolbox)?);
    let (post, labels) = (PostParams::default(), json!({"app": "agent"}));
    let config: ConfigMap = object(json!({"metadata": {"name": "config"}, "data": {"etcd.yaml": CONFIG}}))?;
    case.api().create(&post, &config).await.context("create the config map")?;
    let service: Service = object(json!({
        "metadata": {"name": "agent"},
        "spec": {"selector": labels, "ports": [{"port": 2379}]},
    }))?;
    case.api().create(&post, &service).await.context("create the service")?;
    let set: StatefulSet = object(json!({
        "metadata": {"name": "agent"},
        "spec": {
            "serviceName": "agent", "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "shareProcessNamespace": true,
                    "securityContext": {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532},
                    "containers": [
                        {
                            "name": "etcd", "image": wrapper, "imagePullPolicy": "IfNotPresent",
                            "args": ["start-etcd", "--hold"],
                            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 9095}, "periodSeconds": 1},
                            "volumeMounts": [{"name": "data", "mountPath": "/var/etcd/data"}],
                        },
                        {
                            "name": "agent", "image": toolbox, "imagePullPolicy": "IfNotPresent",
                            "volumeMounts": [{"name": "data", "mountPath": "/var/etcd/data"}, {"name": "config", "mountPath": "/config"}],
                        },
                    ],
                    "volumes": [{"name": "config", "configMap": {"name": "config"}}],
                },
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    }))?;
    case.api().create(&post, &set).await.context("create the stateful set")?;
    let client: Pod = object(json!({
        "metadata": {"name": "client"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "client", "image": toolbox, "imagePullPolicy": "IfNotPresent"}],
        },
    }))?;
    case.api().create(&post, &client).await.context("create the client pod")?;
    let pods = case.api::<Pod>();
    wait::until(START, "the client pod, and the agent's containers", async || {
        let client = pods.get("client").await?;
        let agent = pods.get(POD).await?;
        let running = e2e::member::containers(&agent)
            .iter()
            .filter(|container| container.running_since.is_some())
            .count();
        let shown = || format!("{}; {}", e2e::member::shown(&client), e2e::member::shown(&agent));
        Ok(Poll::when(e2e::member::is_ready(&client) && running == 2, shown))
    })
    .await
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> Result<K> {
    serde_json::from_value(value).context("an object of the scenario's own is none of Kubernetes'")
}
