// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The manifests of examples/, applied as they stand with the images of this run in the place of theirs.
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::case::Case;
use e2e::scenario;
use e2e::scenario::Scenario;
use e2e::stage::Role;
use e2e::toolbox::exec;
use e2e::wait::{self, Poll};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::Value;

pub(crate) const SCENARIOS: &[Scenario] = &[
    // Shows: H9
    scenario!(the_example_with_a_sidecar_serves, "examples/with-sidecar.yaml, applied as it stands")
        .within(Duration::from_secs(300)),
    scenario!(the_example_of_three_members_alone_serves, "examples/alone.yaml, applied as it stands")
        .within(Duration::from_secs(300)),
    scenario!(the_example_of_an_agent_restores, "examples/agent.yaml, applied as it stands")
        .within(Duration::from_secs(300)),
];

const START: Duration = Duration::from_secs(180);
/// Names of images in the examples, and what takes their place.
const IMAGES: [(&str, Role); 3] = [
    ("registry.example/etcd-wrapper:", Role::Wrapper),
    ("registry.example/agent:", Role::Toolbox),
    ("etcdbrctl:", Role::Sidecar),
];

async fn the_example_with_a_sidecar_serves(case: &Case) -> Result<()> {
    apply(case, "with-sidecar.yaml").await?;
    ready(case, &["etcd-main-0"]).await?;
    let status = run(case, "etcd-main-0", &["/etcd-wrapper", "status", "-o", "json"]).await?;
    let status: Value = serde_json::from_str(&status).context("the status is no JSON")?;
    let (source, validation) = (&status["etcd"]["configSource"], &status["bootstrap"]["validation"]);
    ensure!(source == "sidecar" && validation == "full", "started with {source} after {validation}");
    writes(case, "etcd-main-0", "etcd-main-0").await
}

async fn the_example_of_three_members_alone_serves(case: &Case) -> Result<()> {
    apply(case, "alone.yaml").await?;
    ready(case, &["etcd-0", "etcd-1", "etcd-2"]).await?;
    writes(case, "etcd-0", "etcd-2").await?;
    let members = run(case, "etcd-1", &["etcdctl", "member", "list"]).await?;
    ensure!(members.lines().count() == 3, "the cluster has these members:\n{members}");
    Ok(())
}

async fn the_example_of_an_agent_restores(case: &Case) -> Result<()> {
    apply(case, "agent.yaml").await?;
    ready(case, &["agent-0"]).await?;
    let get = ["etcdctl", "get", "--prefix", "restored/", "--print-value-only"];
    let values = run(case, "agent-0", &get).await?;
    ensure!(values == "one\ntwo\n", "the agent restored {values:?}");
    Ok(())
}

/// A key written through one member is read through another.
async fn writes(case: &Case, through: &str, from: &str) -> Result<()> {
    run(case, through, &["etcdctl", "put", "key", "value"]).await?;
    let value = run(case, from, &["etcdctl", "get", "key", "--print-value-only"]).await?;
    ensure!(value == "value\n", "{from} reads {value:?}");
    Ok(())
}

/// A command in the container `etcd` that must succeed; its stdout.
async fn run(case: &Case, pod: &str, command: &[&str]) -> Result<String> {
    let ran = exec(case.client(), case.namespace(), pod, "etcd", command).await?;
    if ran.code != 0 {
        bail!("{} in {pod}: exit {}: {}{}", command.join(" "), ran.code, ran.stdout, ran.stderr);
    }
    Ok(ran.stdout)
}

async fn ready(case: &Case, pods: &[&str]) -> Result<()> {
    let api = case.api::<Pod>();
    wait::until(START, "the pods of the example to be ready", async || {
        let mut shown = Vec::new();
        let mut all = true;
        for pod in pods {
            let pod = api.get_opt(pod).await?;
            all &= pod.as_ref().is_some_and(e2e::member::is_ready);
            shown.push(pod.as_ref().map_or_else(|| "none".to_owned(), e2e::member::shown));
        }
        Ok(Poll::when(all, || shown.join("; ")))
    })
    .await
}

/// Creates every object of a manifest in the case's namespace.
async fn apply(case: &Case, name: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    for document in text.split("\n---\n") {
        let mut object: Value =
            serde_saphyr::from_str(document).with_context(|| format!("{name}: no YAML: {document}"))?;
        let containers = object.pointer_mut("/spec/template/spec/containers").and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let image = container["image"].as_str().with_context(|| format!("{name}: no image"))?;
            container["image"] = ours(case, image)?.into();
        }
        let object: DynamicObject =
            serde_json::from_value(object).with_context(|| format!("{name}: no object"))?;
        let types = object.types.as_ref().with_context(|| format!("{name}: an object without a kind"))?;
        let kind = GroupVersionKind::try_from(types).with_context(|| format!("{name}: {types:?}"))?;
        let resource = ApiResource::from_gvk(&kind);
        let api = Api::<DynamicObject>::namespaced_with(case.client().clone(), case.namespace(), &resource);
        let created = api.create(&PostParams::default(), &object).await;
        created.with_context(|| format!("create {} of {name}", kind.kind))?;
    }
    Ok(())
}

/// The image of this run for one that an example names.
fn ours(case: &Case, image: &str) -> Result<String> {
    let role = IMAGES.iter().find(|(name, _)| image.contains(name)).map(|(_, role)| *role);
    let role = role.with_context(|| format!("nothing takes the place of {image}"))?;
    let found = case.cluster().stage.image(role);
    let found = found.with_context(|| format!("the stage has no image for {role}"))?;
    Ok(found.reference.clone())
}
