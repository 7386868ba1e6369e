// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The neighbours of a member: a sidecar that fails while etcd serves, the Go image on the same volume, and etcds of other
//! lines on it.
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::case::Case;
use e2e::druid::Etcd;
use e2e::fault::Process;
use e2e::member::{Member, brief};
use e2e::scenario;
use e2e::scenario::{Need, Scenario};
use e2e::stage::Role;
use e2e::toolbox::Toolbox;
use e2e::wait::{self, Poll};
use http::Method;
use serde_json::json;

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario!(
        a10_a_frozen_sidecar_touches_neither_etcd_nor_readiness,
        "SIGSTOP of the sidecar for a minute and a half"
    )
    .within(Duration::from_secs(420)),
    scenario!(
        a10_a_sidecar_that_answers_500_touches_neither_etcd_nor_readiness,
        "500 to everything for a minute and a half"
    )
    .needs(&[Need::Double])
    .within(Duration::from_secs(420)),
    scenario!(
        b1_the_marker_of_the_go_wrapper_is_understood,
        "a volume as the Go image leaves it: checked in short, and served"
    )
    .within(Duration::from_secs(420)),
    scenario!(b1_the_go_wrapper_and_ours_take_turns_on_one_volume, "Go, ours, Go, ours: nothing is lost")
        .needs(&[Need::GoImage])
        .within(Duration::from_secs(900)),
    scenario!(i4_one_volume_goes_through_the_lines_of_etcd, "3.4, 3.5, 3.6 on one volume")
        .needs(&[Need::Etcd34, Need::Etcd36])
        .within(Duration::from_secs(900)),
    scenario!(
        i5_a_directory_that_is_too_new_is_refused_and_kept,
        "3.5 on the volume of 3.6: a clear record, and 3.6 serves it again"
    )
    .needs(&[Need::Etcd36])
    .within(Duration::from_secs(900)),
];

const BOOTSTRAP: Duration = Duration::from_secs(300);
const ROLL: Duration = Duration::from_secs(300);
/// More than any of the wrapper's own limits for a call to the sidecar.
const MEANWHILE: Duration = Duration::from_secs(90);

async fn a10_a_frozen_sidecar_touches_neither_etcd_nor_readiness(case: &Case) -> Result<()> {
    let (etcd, toolbox) = serving(case).await?;
    let member = etcd.member(0);
    let frozen = case.faults().freeze(&member, Process::Sidecar).await?;
    untouched(&member, &toolbox).await?;
    frozen.heal().await
}

async fn a10_a_sidecar_that_answers_500_touches_neither_etcd_nor_readiness(case: &Case) -> Result<()> {
    let etcd = case.etcd("one").backup_image(&image(case, Role::SidecarDouble)?).create().await?;
    etcd.ready(BOOTSTRAP).await?;
    let toolbox = Toolbox::start(&etcd).await?;
    let member = etcd.member(0);
    let sidecar = member.wrapper().on_port(8080);
    let limit = Duration::from_secs(10);
    let reply = Some(("application/yaml", b"{code: 500}".to_vec()));
    let told = sidecar.call(limit, Method::PUT, "/double/fault?route=all", reply).await?;
    ensure!(told.status.is_success(), "{}: {}", told.status, String::from_utf8_lossy(&told.body));
    let broken = sidecar.get("/initialization/status").await?;
    ensure!(broken.status == 500, "the double answers {}", broken.status);
    untouched(&member, &toolbox).await?;
    let healed = sidecar.call(limit, Method::DELETE, "/double/fault", None).await?;
    ensure!(healed.status.is_success(), "{}", healed.status);
    Ok(())
}

/// While a neighbour fails: every look is ready, every write is taken, and etcd is the one it was.
async fn untouched(member: &Member, toolbox: &Toolbox) -> Result<()> {
    let before = member.status().await?;
    wait::throughout(MEANWHILE, "readiness and the same etcd", async || {
        let status = member.status().await?;
        let same = status["etcd"]["pid"] == before["etcd"]["pid"] && status["readiness"]["ready"] == true;
        toolbox.put_and_get("meanwhile", "1").await?;
        Ok(Poll::when(same, || brief(&status)))
    })
    .await?;
    ensure!(e2e::member::is_ready(&member.get().await?), "the kubelet calls the pod not ready");
    Ok(())
}

async fn b1_the_marker_of_the_go_wrapper_is_understood(case: &Case) -> Result<()> {
    let (mut etcd, toolbox) = serving(case).await?;
    toolbox.put_and_get("before", "1").await?;
    let member = etcd.member(0);
    let volume = member.volume().await?;
    etcd.scale(0).await?;
    wait::until(ROLL, "no pod", async || {
        let pod = case.api::<k8s_openapi::api::core::v1::Pod>().get_opt(member.pod()).await?;
        Ok(Poll::when(pod.is_none(), || "it is there".into()))
    })
    .await?;
    case.step("exit_code as the Go image writes it, and the marker of an older image");
    let leave = r#"printf interrupt > "$1/exit_code"; : > "$1/validation_marker"; chown 65532:65532 "$1"/exit_code "$1"/validation_marker"#;
    case.cluster().engine.node(leave, &[&volume]).await.context("write the marker")?;
    etcd.scale(1).await?;
    etcd.ready(BOOTSTRAP).await?;
    let mode = member.status().await?["bootstrap"]["validation"].clone();
    ensure!(mode == "sanity", "the sidecar was asked for {mode}");
    let left = case.cluster().engine.node(r#"ls "$1""#, &[&volume]).await.context("list the volume")?;
    ensure!(!left.contains("validation_marker"), "the older image's marker is still there: {left}");
    let kept = toolbox.etcdctl(&["get", "before", "--print-value-only"]).await?;
    ensure!(kept.trim() == "1", "what was written before reads as {kept:?}");
    Ok(())
}

async fn b1_the_go_wrapper_and_ours_take_turns_on_one_volume(case: &Case) -> Result<()> {
    let (go, ours) = (image(case, Role::GoWrapper)?, image(case, Role::Wrapper)?);
    let etcd = case.etcd("turns").etcd_image(&go).create().await?;
    etcd.ready(BOOTSTRAP).await?;
    let toolbox = Toolbox::start(&etcd).await?;
    toolbox.put_and_get("turn/0", "go").await?;
    for (turn, image) in [&ours, &go, &ours].into_iter().enumerate() {
        case.step(&format!("turn {}: {image}", turn + 1));
        replace(&etcd, image).await?;
        toolbox.put_and_get(&format!("turn/{}", turn + 1), image).await?;
    }
    let all = toolbox.etcdctl(&["get", "--prefix", "turn/", "--print-value-only"]).await?;
    ensure!(all.lines().count() == 4, "four keys were written, and these are there: {all}");
    Ok(())
}

async fn i4_one_volume_goes_through_the_lines_of_etcd(case: &Case) -> Result<()> {
    let lines = [Role::Wrapper34, Role::Wrapper, Role::Wrapper36];
    let [first, rest @ ..] = lines;
    let etcd = case.etcd("lines").etcd_image(&image(case, first)?).create().await?;
    etcd.ready(BOOTSTRAP).await?;
    let toolbox = Toolbox::start(&etcd).await?;
    toolbox.put_and_get("line/0", "3.4").await?;
    for (place, role) in rest.into_iter().enumerate() {
        replace(&etcd, &image(case, role)?).await?;
        let status = etcd.member(0).status().await?;
        case.step(&format!("etcd {}", status["etcd"]["version"]));
        toolbox.put_and_get(&format!("line/{}", place + 1), "here").await?;
    }
    let all = toolbox.etcdctl(&["get", "--prefix", "line/", "--print-value-only"]).await?;
    ensure!(all.lines().count() == 3, "three keys were written, and these are there: {all}");
    Ok(())
}

async fn i5_a_directory_that_is_too_new_is_refused_and_kept(case: &Case) -> Result<()> {
    let (older, newer) = (image(case, Role::Wrapper)?, image(case, Role::Wrapper36)?);
    let etcd = case.etcd("newer").etcd_image(&newer).create().await?;
    etcd.ready(BOOTSTRAP).await?;
    let toolbox = Toolbox::start(&etcd).await?;
    toolbox.put_and_get("before", "1").await?;
    let member = etcd.member(0);
    case.allow_restarts(member.pod(), 20);
    etcd.patch(json!({"spec": {"etcd": {"image": older}}})).await?;
    let record = wait::until(ROLL, "a record of the refusal", async || {
        let last = member.container("etcd").await?.last;
        Ok(match last {
            Some(end) if end.code == 10 && end.message.contains("refused this data directory") => {
                Poll::Ready(end.message)
            }
            other => Poll::NotYet(format!("{other:?}")),
        })
    })
    .await?;
    case.step(&record);
    // A StatefulSet waits for a pod that does not get ready before it takes the next image.
    etcd.patch(json!({"spec": {"etcd": {"image": newer}}})).await?;
    case.faults().delete_pod(&member).await?;
    etcd.ready(ROLL).await?;
    let kept = toolbox.etcdctl(&["get", "before", "--print-value-only"]).await?;
    ensure!(kept.trim() == "1", "what was written before reads as {kept:?}");
    Ok(())
}

async fn serving(case: &Case) -> Result<(Etcd, Toolbox)> {
    let etcd = case.etcd("one").create().await?;
    etcd.ready(BOOTSTRAP).await?;
    let toolbox = Toolbox::start(&etcd).await?;
    Ok((etcd, toolbox))
}

fn image(case: &Case, role: Role) -> Result<String> {
    let image =
        case.cluster().stage.image(role).with_context(|| format!("the stage has no image for {role}"))?;
    Ok(image.reference.clone())
}

/// Another image for the one member, and until its new pod is ready.
async fn replace(etcd: &Etcd, image: &str) -> Result<()> {
    let member = etcd.member(0);
    let uid = member.uid().await?;
    etcd.patch(json!({"spec": {"etcd": {"image": image}}})).await?;
    member.replaced(&uid, ROLL).await.with_context(|| format!("a pod of {image}"))
}
