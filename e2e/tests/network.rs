// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Members that do not hear each other, and a node that stands still.
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::case::Case;
use e2e::member::{self, Member};
use e2e::scenario;
use e2e::scenario::Scenario;
use e2e::wait::{self, Poll};
use futures_util::future::try_join_all;

use crate::started::{self, AGAIN, Started};

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario!(
        one_member_cut_off_is_unready_and_the_others_serve,
        "a partition of one of three, for a minute; no restart"
    )
    .within(Duration::from_secs(600)),
    scenario!(
        two_members_cut_off_are_quorum_lost_and_recover,
        "three members that hear nobody: all say so, and recover"
    )
    .within(Duration::from_secs(600)),
    scenario!(
        a_node_that_was_paused_goes_on,
        "the node stands still for 30 s: every member is ready again, no restart"
    )
    .within(Duration::from_secs(600))
    .alone(),
];

/// Longer than the 10 s at which a read is too old, and the 25 s that the kubelet wants to see failures.
const PARTITION: Duration = Duration::from_secs(45);

async fn one_member_cut_off_is_unready_and_the_others_serve(case: &Case) -> Result<()> {
    let started = started::three(case).await?;
    let generations = generations(&started).await?;
    let members = started.etcd.members();
    let cut = &members[case.seed() as usize % 3];
    let rest: Vec<&Member> = members.iter().filter(|member| member.pod() != cut.pod()).collect();
    let partition = case.faults().partition(&[&[cut], &rest]).await?;
    let begun = Instant::now();
    cut.status_until(Duration::from_secs(20), "not ready", |status| status["readiness"]["ready"] == false)
        .await?;
    case.measure("unready after it was cut off", format!("{:.1} s", begun.elapsed().as_secs_f64()));
    cut.unready(Duration::from_secs(60)).await?;
    // From here on the service names the other two alone.
    wait::throughout(PARTITION.saturating_sub(begun.elapsed()), "the others are ready", async || {
        let statuses = try_join_all(rest.iter().map(|member| member.status())).await?;
        let ready = statuses.iter().all(|status| status["readiness"]["ready"] == true);
        Ok(Poll::when(ready, || statuses.iter().map(member::brief).collect::<Vec<_>>().join("; ")))
    })
    .await?;
    started.serves("meanwhile").await?;
    partition.heal().await?;
    recovers(&started, &generations).await?;
    started.judge().await
}

async fn two_members_cut_off_are_quorum_lost_and_recover(case: &Case) -> Result<()> {
    let started = started::three(case).await?;
    let generations = generations(&started).await?;
    let members = started.etcd.members();
    let partition = case.faults().partition(&[&[&members[0]], &[&members[1]], &[&members[2]]]).await?;
    let lost = |status: &serde_json::Value| {
        status["readiness"]["ready"] == false && status["health"]["diagnosis"] == "quorum_lost_member_alive"
    };
    for member in &members {
        member.status_until(Duration::from_secs(30), "quorum lost, member alive", lost).await?;
    }
    let refused = started.toolbox.try_etcdctl(&["put", "meanwhile", "1"]).await?;
    ensure!(refused.code != 0, "a write was taken without a quorum");
    partition.heal().await?;
    recovers(&started, &generations).await?;
    started.judge().await
}

async fn a_node_that_was_paused_goes_on(case: &Case) -> Result<()> {
    let started = started::three(case).await?;
    let generations = generations(&started).await?;
    let paused = case.faults().pause_node().await?;
    let engine = &case.cluster().engine;
    let begun = Instant::now();
    wait::until(Duration::from_secs(60), "30 s of pause", async || {
        let state = engine.node_state().await?;
        ensure!(state == "paused", "the node is {state}");
        Ok(Poll::when(begun.elapsed() >= Duration::from_secs(30), || format!("{:.0?}", begun.elapsed())))
    })
    .await?;
    paused.heal().await?;
    recovers(&started, &generations).await?;
    started.judge().await
}

/// What each member's etcd is the how-manieth of its wrapper.
async fn generations(started: &Started) -> Result<Vec<serde_json::Value>> {
    let members = started.etcd.members();
    let statuses = try_join_all(members.iter().map(Member::status)).await?;
    Ok(statuses.into_iter().map(|status| status["etcd"]["generation"].clone()).collect())
}

/// Everybody is ready again, with the same etcds as before, and what was written is there.
async fn recovers(started: &Started, before: &[serde_json::Value]) -> Result<()> {
    let begun = Instant::now();
    for member in started.etcd.members() {
        let ready = |status: &serde_json::Value| status["readiness"]["ready"] == true;
        member.status_until(AGAIN, "ready", ready).await?;
    }
    let took = format!("{:.1} s", begun.elapsed().as_secs_f64());
    started.etcd.case().measure("ready again after the fault", took);
    started.etcd.all_members_ready(AGAIN).await?;
    let after = generations(started).await?;
    ensure!(after == before, "generations {after:?} after {before:?}: an etcd was started anew");
    started.serves("after").await
}
