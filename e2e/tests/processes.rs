// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Processes and pods that die or freeze.
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::case::Case;
use e2e::fault::Process;
use e2e::member::{self, SIDECAR};
use e2e::scenario;
use e2e::scenario::Scenario;
use e2e::wait::{self, Poll};
use rand::seq::SliceRandom;

use crate::started::{self, AGAIN};

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario!(
        a_wrapper_that_is_killed_takes_etcd_along,
        "kill -9 of the wrapper: no orphan, a full validation, ready"
    ),
    scenario!(
        a10_a_sidecar_that_is_killed_touches_nothing,
        "kill -9 of the sidecar: etcd and readiness untouched"
    ),
    scenario!(
        a_frozen_etcd_is_unready_and_recovers,
        "SIGSTOP of one etcd of three: unready, the others serve, no restart"
    )
    .within(Duration::from_secs(600)),
    scenario!(
        a_deleted_pod_comes_back_after_sanity,
        "a pod that is deleted gracefully is validated shortly and rejoins"
    )
    .within(Duration::from_secs(600)),
    scenario!(
        i9_each_pod_killed_in_turn_comes_back,
        "ten rounds over three pods, killed and deleted by turns"
    )
    .within(Duration::from_secs(45 * 60)),
];

async fn a_wrapper_that_is_killed_takes_etcd_along(case: &Case) -> Result<()> {
    let started = started::one(case).await?.under_load().await?;
    let member = started.etcd.member(0);
    case.expect_restarts(member.pod(), 1);
    let etcd = case.faults().pid(&member, Process::Etcd).await?;
    case.faults().kill(&member, Process::Wrapper).await?;
    // A zombie is nobody's owner; its parent reaps it when it can.
    let alive =
        r#"read -r _ _ state _ < /proc/"$1"/stat 2>/dev/null || exit 0; [ "$state" = Z ] || echo alive"#;
    wait::until(Duration::from_secs(5), "the end of the killed wrapper's etcd", async || {
        let seen = case.cluster().engine.node(alive, &[&etcd.to_string()]).await?;
        Ok(Poll::when(seen.is_empty(), || format!("process {etcd} lives")))
    })
    .await?;
    member.restarted(1, AGAIN).await?;
    let status = member.status().await?;
    let validation = &status["bootstrap"]["validation"];
    ensure!(validation == "full", "validation {validation} after a kill");
    started.serves("after").await?;
    started.judge().await
}

async fn a10_a_sidecar_that_is_killed_touches_nothing(case: &Case) -> Result<()> {
    let started = started::one(case).await?.under_load().await?;
    let member = started.etcd.member(0);
    let before = member.status().await?;
    case.faults().kill(&member, Process::Sidecar).await?;
    wait::throughout(Duration::from_secs(30), "the member is ready without its sidecar", async || {
        let status = member.status().await?;
        let same = status["etcd"]["pid"] == before["etcd"]["pid"] && status["readiness"]["ready"] == true;
        Ok(Poll::when(same, || member::brief(&status)))
    })
    .await?;
    started.serves("meanwhile").await?;
    let restarts = member.container(SIDECAR).await?.restarts;
    ensure!(restarts == 1, "the sidecar was restarted {restarts} times");
    started.etcd.all_members_ready(AGAIN).await?;
    started.judge().await
}

async fn a_frozen_etcd_is_unready_and_recovers(case: &Case) -> Result<()> {
    let started = started::three(case).await?;
    let member = started.etcd.member(1);
    let generation = member.status().await?["etcd"]["generation"].clone();
    let frozen = case.faults().freeze(&member, Process::Etcd).await?;
    let begun = Instant::now();
    let unready = |status: &serde_json::Value| status["readiness"]["ready"] == false;
    member.status_until(Duration::from_secs(20), "not ready", unready).await?;
    case.measure("unready after SIGSTOP", format!("{:.1} s", begun.elapsed().as_secs_f64()));
    member.unready(Duration::from_secs(60)).await?;
    started.serves("meanwhile").await?;
    frozen.heal().await?;
    member.ready(AGAIN).await?;
    let after = member.status().await?["etcd"]["generation"].clone();
    ensure!(after == generation, "generation {after} after {generation}: etcd was started anew");
    started.serves("after").await?;
    started.etcd.all_members_ready(AGAIN).await?;
    started.judge().await
}

async fn a_deleted_pod_comes_back_after_sanity(case: &Case) -> Result<()> {
    let started = started::three(case).await?;
    let member = started.etcd.member(2);
    let begun = Instant::now();
    let uid = case.faults().delete_pod(&member).await?;
    started.serves("meanwhile").await?;
    member.replaced(&uid, AGAIN).await?;
    case.measure("ready again after a pod was deleted", format!("{:.1} s", begun.elapsed().as_secs_f64()));
    let status = member.status().await?;
    let validation = &status["bootstrap"]["validation"];
    ensure!(validation == "sanity", "validation {validation} after a clean end");
    started.serves("after").await?;
    started.etcd.all_members_ready(AGAIN).await?;
    started.judge().await
}

async fn i9_each_pod_killed_in_turn_comes_back(case: &Case) -> Result<()> {
    let started = started::three(case).await?;
    let mut random = case.random();
    for round in 1..=10 {
        let mut members = started.etcd.members();
        members.shuffle(&mut random);
        for member in members {
            let faults = case.faults();
            let gone = if round % 2 == 1 {
                faults.kill_pod(&member).await
            } else {
                faults.delete_pod(&member).await
            };
            let what = || format!("round {round}, pod {}", member.pod());
            let uid = gone.with_context(what)?;
            started.serves(&format!("{round}-{}", member.pod())).await.with_context(what)?;
            member.replaced(&uid, AGAIN).await.with_context(what)?;
            case.step(&format!("{} is back", what()));
        }
    }
    started.etcd.all_members_ready(AGAIN).await?;
    let keys = started.toolbox.etcdctl(&["get", "", "--prefix", "--keys-only"]).await?;
    let kept = keys.lines().filter(|key| key.contains("-tri-")).count();
    ensure!(kept == 30, "{kept} of the 30 keys that were written meanwhile are there");
    started.judge().await
}
