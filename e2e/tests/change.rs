// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Planned changes of members that serve: restarts in turn, the sidecar's own stop call, peer URLs.
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::case::Case;
use e2e::druid::Etcd;
use e2e::load::Load;
use e2e::member::{Member, brief};
use e2e::scenario;
use e2e::scenario::Scenario;
use e2e::toolbox::Toolbox;
use e2e::wait::{self, Poll};
use futures_util::future::try_join_all;
use serde_json::{Value, json};

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario!(
        e19_three_restarts_at_once_go_in_turn,
        "`guard: serial` on all members at once: never two are down"
    )
    .within(Duration::from_secs(600)),
    scenario!(
        e1_e2_a_stop_call_ends_the_process_once,
        "POST /stop, twice: one restart of the container, exit code 0"
    )
    .within(Duration::from_secs(420)),
    scenario!(
        e19_where_the_sidecars_call_fails_restarts_in_turn_finish_the_change,
        "peer TLS with client TLS alone: the sidecar cannot stop the member"
    )
    .within(Duration::from_secs(1200)),
];

const BOOTSTRAP: Duration = Duration::from_secs(300);
const SOON: Duration = Duration::from_secs(60);
const ROLL: Duration = Duration::from_secs(600);
/// Three turns, each with a start of etcd; by api.md a turn of three voters may wait 162 s.
const TURNS: Duration = Duration::from_secs(240);

async fn e19_three_restarts_at_once_go_in_turn(case: &Case) -> Result<()> {
    let etcd = case.etcd("tri").replicas(3).create().await?;
    etcd.all_members_ready(BOOTSTRAP).await?;
    let load = Load::start(&etcd).await?;
    restart_all_in_turn(&etcd).await?;
    for member in etcd.members() {
        ensure!(member.restarts().await? == 0, "container of {} was restarted", member.pod());
    }
    etcd.all_members_ready(BOOTSTRAP).await?;
    load.served(SOON).await?;
    load.judge().await.map(drop)
}

async fn e1_e2_a_stop_call_ends_the_process_once(case: &Case) -> Result<()> {
    let etcd = case.etcd("one").create().await?;
    etcd.ready(BOOTSTRAP).await?;
    let toolbox = Toolbox::start(&etcd).await?;
    toolbox.put_and_get("before", "1").await?;
    let member = etcd.member(0);
    case.expect_restarts(member.pod(), 1);
    let wrapper = member.wrapper();
    let begun = std::time::Instant::now();
    // The sidecar may call twice; both calls mean the same stop.
    let (first, second) = tokio::join!(
        wrapper.post(Duration::from_secs(10), "/stop", None),
        wrapper.post(Duration::from_secs(10), "/stop", None),
    );
    ensure!(first.is_ok() || second.is_ok(), "no answer to /stop: {first:?}, {second:?}");
    member.restarted(1, Duration::from_secs(120)).await?;
    case.measure("ready again after /stop", format!("{:.1} s", begun.elapsed().as_secs_f64()));
    let last =
        member.container("etcd").await?.last.context("nothing is known of the process that was stopped")?;
    ensure!(last.code == 0, "a stop that was asked for ended with {}: {}", last.code, last.message);
    let validation = member.status().await?["bootstrap"]["validation"].clone();
    ensure!(validation == "sanity", "validation {validation} after a clean end");
    let kept = toolbox.etcdctl(&["get", "before", "--print-value-only"]).await?;
    ensure!(kept.trim() == "1", "what was written before reads as {kept:?}");
    Ok(())
}

async fn e19_where_the_sidecars_call_fails_restarts_in_turn_finish_the_change(case: &Case) -> Result<()> {
    // The sidecar takes the scheme of its call from etcd and its trust from its own TLS: with one of the two it cannot call.
    let mut etcd = case.etcd("half").replicas(3).client_tls().create().await?;
    etcd.all_members_ready(BOOTSTRAP).await?;
    let toolbox = Toolbox::start(&etcd).await?;
    toolbox.put_and_get("before", "1").await?;
    for pod in etcd.pods() {
        case.allow_restarts(&pod, 4);
    }
    etcd.switch_peer_tls_on().await?;
    wait::until(ROLL, "new peer URLs of all members", async || {
        let list = toolbox.etcdctl(&["member", "list", "--write-out=simple"]).await?;
        let moved = list.lines().count() == 3 && list.lines().all(|line| line.contains("https://half-"));
        Ok(Poll::when(moved, || list))
    })
    .await?;
    etcd.ready(ROLL).await?;
    restart_all_in_turn(&etcd).await?;
    for member in etcd.members() {
        let calm = |status: &Value| {
            status["health"]["diagnosis"] == "healthy"
                && !status["warnings"].to_string().contains("peer_urls_differ")
        };
        member.status_until(ROLL, "no peer URL to wait for", calm).await?;
    }
    let kept = toolbox.etcdctl(&["get", "before", "--print-value-only"]).await?;
    ensure!(kept.trim() == "1", "what was written before reads as {kept:?}");
    toolbox.put_and_get("after", "2").await
}

/// Asks all members at the same moment, and looks meanwhile that no two are down.
async fn restart_all_in_turn(etcd: &Etcd) -> Result<()> {
    let members = etcd.members();
    let before: Vec<u64> = try_join_all(members.iter().map(generation)).await?;
    let body = json!({"guard": "serial", "reason": "a scenario"});
    let answers = try_join_all(members.iter().map(async |member| {
        member.wrapper().post(Duration::from_secs(10), "/v1/etcd/restart", Some(&body)).await
    }))
    .await?;
    for answer in &answers {
        ensure!(answer.status == 202, "{}: {}", answer.status, String::from_utf8_lossy(&answer.body));
    }
    let mut most_down = 0;
    wait::until_every(Duration::from_millis(200), TURNS, "a new generation of every member", async || {
        let statuses: Vec<Option<Value>> =
            futures_util::future::join_all(members.iter().map(async |member| member.status().await.ok()))
                .await;
        // Whoever does not answer is not down for that: the way to it is long.
        let down = statuses.iter().flatten().filter(|status| status["wrapper"]["phase"] != "running").count();
        most_down = most_down.max(down);
        let over = statuses.iter().zip(&before).all(|(status, before)| {
            status.as_ref().is_some_and(|status| {
                status["etcd"]["generation"] == before + 1 && status["readiness"]["ready"] == true
            })
        });
        let seen = || statuses.iter().flatten().map(brief).collect::<Vec<_>>().join("; ");
        Ok(Poll::when(over, seen))
    })
    .await?;
    ensure!(most_down <= 1, "{most_down} members were down at the same moment");
    Ok(())
}

async fn generation(member: &Member) -> Result<u64> {
    member.status().await?["etcd"]["generation"].as_u64().context("no generation")
}
