// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The first things that anybody would try: one member, three members, a kill, a restart in place.
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::case::Case;
use e2e::druid::Etcd;
use e2e::fault::Process;
use e2e::scenario;
use e2e::scenario::Scenario;
use e2e::toolbox::Toolbox;
use e2e::wait::{self, Poll};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::jiff::Timestamp;

use crate::started::{self, AGAIN, THREE};

/// What etcd waits at most for open streams when it is stopped: 5 s and two election timeouts of druid's 1 s.
const STREAMS: Duration = Duration::from_secs(7);

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario!(a_single_member_serves, "one member: ready, lease, claim, a key through the client service")
        .smoke()
        .within(Duration::from_secs(300)),
    scenario!(three_members_serve, "three members: ready, leases, claims, a key through the client service")
        .smoke()
        .within(Duration::from_secs(480)),
    scenario!(an_etcd_that_is_killed_comes_back, "kill -9 of etcd: the container is started anew and serves")
        .smoke()
        .within(Duration::from_secs(300)),
    scenario!(
        a_restart_in_place_takes_three_seconds,
        "`/v1/etcd/restart`: ready within 3 s and what etcd waits for open streams, the container stays"
    )
    .smoke()
    .within(Duration::from_secs(300)),
];

async fn a_single_member_serves(case: &Case) -> Result<()> {
    let etcd = case.etcd("one").create().await?;
    serves(&etcd).await
}

async fn three_members_serve(case: &Case) -> Result<()> {
    let etcd = case.etcd("tri").replicas(3).create().await?;
    serves(&etcd).await
}

async fn an_etcd_that_is_killed_comes_back(case: &Case) -> Result<()> {
    let started = started::one(case).await?.under_load().await?;
    let member = started.etcd.member(0);
    case.expect_restarts(member.pod(), 1);
    case.faults().kill(&member, Process::Etcd).await?;
    member.restarted(1, AGAIN).await?;
    started.serves("after").await?;
    started.judge().await
}

async fn a_restart_in_place_takes_three_seconds(case: &Case) -> Result<()> {
    let started = started::one(case).await?;
    let member = started.etcd.member(0);
    let before = member.status().await?;
    let wrapper = member.wrapper();
    let (posted, posted_at) = (Instant::now(), Timestamp::now());
    let answer = wrapper.post(Duration::from_secs(10), "/v1/etcd/restart", None).await?;
    ensure!(answer.status == 202, "{}: {}", answer.status, String::from_utf8_lossy(&answer.body));
    let next = before["etcd"]["generation"].as_u64().context("no generation")? + 1;
    let pause = Duration::from_millis(100);
    wait::until_every(pause, Duration::from_secs(30), "the next generation to be ready", async || {
        let status = member.status().await?;
        let ready = status["etcd"]["generation"] == next && status["readiness"]["ready"] == true;
        Ok(Poll::when(ready, || e2e::member::brief(&status)))
    })
    .await?;
    let took = posted.elapsed();
    let after = member.status().await?;
    let ended: Timestamp = after["etcd"]["lastExit"]["at"].as_str().context("no exit is told")?.parse()?;
    let stop: Duration = ended.duration_since(posted_at).try_into().context("etcd ended before it was to")?;
    case.measure("ready again after a restart in place", format!("{:.2} s", took.as_secs_f64()));
    case.measure("of it etcd's own stop", format!("{:.2} s", stop.as_secs_f64()));
    // A watch of the sidecar that is open by then: etcd waits for it until its own limit, whoever stops it.
    ensure!(stop <= STREAMS + Duration::from_secs(1), "etcd's stop took {stop:.1?}");
    let waited = if stop > Duration::from_secs(1) { stop } else { Duration::ZERO };
    ensure!(
        took <= Duration::from_secs(3) + waited,
        "ready again after {took:.1?}, {waited:.1?} of it stopping"
    );
    ensure!(after["wrapper"]["pid"] == before["wrapper"]["pid"], "another wrapper answers");
    ensure!(member.restarts().await? == 0, "the container was restarted");
    ensure!(e2e::member::is_ready(&member.get().await?), "the pod is not ready");
    started.serves("after").await
}

/// What a user of etcd-druid looks at: conditions, leases, claims, and a key.
async fn serves(etcd: &Etcd) -> Result<()> {
    etcd.all_members_ready(THREE).await?;
    let claims = etcd.case().api::<PersistentVolumeClaim>();
    for member in etcd.members() {
        let lease = etcd.lease(member.pod()).await?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        ensure!(!holder.is_empty(), "nobody holds the lease of {}", member.pod());
        let claim = claims.get(&member.claim()).await.context("get the claim")?;
        let phase = claim.status.and_then(|status| status.phase);
        ensure!(phase.as_deref() == Some("Bound"), "claim {} is {phase:?}", member.claim());
        let status = member.status().await?;
        ensure!(status["health"]["diagnosis"] == "healthy", "{}", e2e::member::brief(&status));
    }
    Toolbox::start(etcd).await?.put_and_get("key", "value").await
}
