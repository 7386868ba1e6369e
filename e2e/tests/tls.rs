// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! TLS in a cluster: every combination that etcd-druid can ask for, switched on while members serve, and certificates that
//! are replaced under them.
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::case::Case;
use e2e::druid::Etcd;
use e2e::load::Load;
use e2e::member::{Member, brief};
use e2e::pki::Use;
use e2e::scenario;
use e2e::scenario::Scenario;
use e2e::toolbox::Toolbox;
use e2e::wait::{self, Poll};

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario!(
        a6_d13_every_combination_of_tls_gets_ready,
        "client TLS and the sidecar's, each alone, both, none"
    )
    .within(Duration::from_secs(420)),
    scenario!(d13_a_member_as_root_serves, "runAsRoot: another HOME, another owner of the data")
        .within(Duration::from_secs(300)),
    scenario!(
        e1_peer_tls_is_switched_on_in_a_running_cluster,
        "three members go from http to https among themselves"
    )
    .within(Duration::from_secs(900)),
    scenario!(
        client_tls_is_switched_on_in_a_running_cluster,
        "three members go from http to https for their clients"
    )
    .within(Duration::from_secs(900)),
    scenario!(
        g1_g3_replaced_certificates_are_used_without_a_restart,
        "a renewed certificate is served within minutes"
    )
    .within(Duration::from_secs(600)),
];

const BOOTSTRAP: Duration = Duration::from_secs(300);
const SOON: Duration = Duration::from_secs(60);
/// A roll of three pods, each with two starts of etcd.
const ROLL: Duration = Duration::from_secs(600);
/// The kubelet looks at secrets about once a minute, with a cache of about another; the wrapper every 10 s.
const CARRIED: Duration = Duration::from_secs(240);

async fn a6_d13_every_combination_of_tls_gets_ready(case: &Case) -> Result<()> {
    let plain = case.etcd("plain").create().await?;
    let client = case.etcd("client").client_tls().create().await?;
    let backup = case.etcd("backup").backup_tls().create().await?;
    let both = case.etcd("both").client_tls().backup_tls().create().await?;
    for etcd in [&plain, &client, &backup, &both] {
        etcd.ready(BOOTSTRAP).await.with_context(|| format!("Etcd {}", etcd.name()))?;
        healthy(&etcd.member(0)).await?;
    }
    Toolbox::start(&both).await?.put_and_get("key", "value").await
}

async fn d13_a_member_as_root_serves(case: &Case) -> Result<()> {
    let etcd = case.etcd("root").run_as_root().client_tls().create().await?;
    etcd.all_members_ready(BOOTSTRAP).await?;
    healthy(&etcd.member(0)).await?;
    Toolbox::start(&etcd).await?.put_and_get("key", "value").await
}

async fn e1_peer_tls_is_switched_on_in_a_running_cluster(case: &Case) -> Result<()> {
    let mut etcd = case.etcd("peers").replicas(3).create().await?;
    etcd.all_members_ready(BOOTSTRAP).await?;
    let toolbox = Toolbox::start(&etcd).await?;
    let load = Load::start(&etcd).await?;
    announce_roll(case, &etcd);
    etcd.switch_peer_tls_on().await?;
    let members = ["member", "list", "--write-out=simple"];
    wait::until(ROLL, "https among all members", async || {
        let list = toolbox.etcdctl(&members).await?;
        let moved = list.lines().count() == 3 && list.lines().all(|line| line.contains("https://peers-"));
        Ok(Poll::when(moved, || list))
    })
    .await?;
    etcd.all_members_ready(ROLL).await?;
    for member in etcd.members() {
        member
            .status_until(ROLL, "no peer URL to wait for", |status| {
                healthy_status(status) && !warns(status, "peer_urls_differ")
            })
            .await?;
    }
    load.served(SOON).await?;
    load.judge().await.map(drop)
}

async fn client_tls_is_switched_on_in_a_running_cluster(case: &Case) -> Result<()> {
    let mut etcd = case.etcd("clients").replicas(3).create().await?;
    etcd.all_members_ready(BOOTSTRAP).await?;
    Toolbox::start(&etcd).await?.put_and_get("before", "1").await?;
    announce_roll(case, &etcd);
    etcd.switch_client_tls_on().await?;
    wait::until(ROLL, "https for clients on all members", async || {
        for member in etcd.members() {
            let status = member.status().await?;
            if !healthy_status(&status) {
                return Ok(Poll::NotYet(brief(&status)));
            }
            let certificates = member.wrapper().get("/metrics").await?;
            let metrics = String::from_utf8_lossy(&certificates.body).into_owned();
            if not_after(&metrics, "server").is_none() {
                return Ok(Poll::NotYet(format!("{} has no server certificate", member.pod())));
            }
        }
        Ok(Poll::Ready(()))
    })
    .await?;
    etcd.all_members_ready(ROLL).await?;
    let toolbox = Toolbox::start(&etcd).await?;
    let kept = toolbox.etcdctl(&["get", "before", "--print-value-only"]).await?;
    ensure!(kept.trim() == "1", "what was written before reads as {kept:?}");
    toolbox.put_and_get("after", "2").await
}

async fn g1_g3_replaced_certificates_are_used_without_a_restart(case: &Case) -> Result<()> {
    let etcd = case.etcd("tls").client_tls().peer_tls().backup_tls().create().await?;
    etcd.ready(BOOTSTRAP).await?;
    let member = etcd.member(0);
    let metrics = async || -> Result<String> {
        Ok(String::from_utf8_lossy(&member.wrapper().get("/metrics").await?.body).into_owned())
    };
    let before = not_after(&metrics().await?, "server").context("no metric for the server certificate")?;
    let valid = Duration::from_secs(400 * 24 * 3600);
    case.faults().rotate(&etcd, &[Use::Server, Use::Client, Use::Peer, Use::Sidecar], valid).await?;
    let begun = std::time::Instant::now();
    wait::until(CARRIED, "the renewed server certificate", async || {
        let now = not_after(&metrics().await?, "server").context("no metric for the server certificate")?;
        // Readiness must not waver while certificates are exchanged.
        let status = member.status().await?;
        if status["readiness"]["ready"] != true {
            return Ok(Poll::Never(brief(&status)));
        }
        Ok(Poll::when((now - before).abs() > 1.0, || format!("still valid until {now}")))
    })
    .await?;
    case.measure("a replaced certificate is served after", format!("{:.0} s", begun.elapsed().as_secs_f64()));
    ensure!(member.restarts().await? == 0, "the container was restarted");
    healthy(&member).await?;
    // Another connection, by everybody: the kubelet's probe, and a client.
    member.ready(Duration::from_secs(30)).await?;
    Toolbox::start(&etcd).await?.put_and_get("key", "value").await
}

/// A change of TLS rolls every pod, and the sidecar restarts a member whose peer URL it changed.
fn announce_roll(case: &Case, etcd: &Etcd) {
    for pod in etcd.pods() {
        case.allow_restarts(&pod, 4);
    }
}

async fn healthy(member: &Member) -> Result<()> {
    member.status_until(Duration::from_secs(60), "health", healthy_status).await.map(drop)
}

fn healthy_status(status: &serde_json::Value) -> bool {
    status["health"]["diagnosis"] == "healthy" && status["readiness"]["ready"] == true
}

fn warns(status: &serde_json::Value, code: &str) -> bool {
    status["warnings"].as_array().is_some_and(|all| all.iter().any(|warning| warning["code"] == code))
}

/// End of validity of a certificate in use, in Unix seconds, out of the wrapper's metrics.
fn not_after(metrics: &str, name: &str) -> Option<f64> {
    let line = format!("etcd_wrapper_certificate_not_after_timestamp_seconds{{cert=\"{name}\"}}");
    metrics.lines().find_map(|text| text.strip_prefix(&line)?.trim().parse().ok())
}
