// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Follows the running member: its peer URLs once a process, then whether it leads or learns, and its leases. Starts
//! and validates nothing.
use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::Context;
use doubles::sidecar::StopCall;
use tokio::time::{MissedTickBehavior, interval};

use crate::arguments::Endpoint;
use crate::etcd::Status;
use crate::member::LocalMember;
use crate::{Teller, tell};

/// The port is hard-coded in the real one.
const WRAPPER_PORT: u16 = 9095;
const PAUSE: Duration = Duration::from_secs(1);
/// How long a member may take to tell its peer URLs and to change them.
const UPDATE_LIMIT: Duration = Duration::from_secs(30);

/// Never ends unless something happens that is fatal to the real one.
///
/// # Errors
/// When the wrapper could not be told to stop after a change of peer URLs.
pub(crate) async fn watch(member: &LocalMember) -> anyhow::Result<Infallible> {
    let status = led(member).await;
    tell(&format!(
        "member {:x} of cluster {:x} is led by {:x}",
        status.member, status.cluster, status.leader
    ));
    if status.learner {
        tell("peer URLs are not looked at: a learner has just got them");
    } else {
        match update_peer_urls(member, status.member).await {
            Ok(false) => {}
            Ok(true) if member.options().use_etcd_wrapper => stop_wrapper(member).await?,
            Ok(true) => tell("nobody restarts etcd: --use-etcd-wrapper is false"),
            // As the real one: the member keeps its URLs until the next start.
            Err(error) => tell(&format!("peer URLs are not updated: {error:#}")),
        }
    }
    let (never, _) = tokio::join!(follow(member), renew(member));
    match never {}
}

/// Waits for a member that knows a leader: before that, the cluster can tell nothing.
async fn led(member: &LocalMember) -> Status {
    let mut teller = Teller::default();
    loop {
        match status(member).await {
            Ok(status) if status.leader != 0 => return status,
            Ok(_) => teller.tell("etcd runs, and knows no leader".into()),
            Err(_) => teller.tell("etcd does not answer yet".into()),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn status(member: &LocalMember) -> anyhow::Result<Status> {
    member.own_etcd().status(member.options().etcd_connection_timeout_leader_election).await
}

/// True when the cluster knew other peer URLs than the config's, and has the config's now.
async fn update_peer_urls(member: &LocalMember, id: u64) -> anyhow::Result<bool> {
    let wanted = member.config()?.peer_urls;
    let etcd = member.own_etcd();
    let begun = Instant::now();
    loop {
        let attempt = async {
            let members = etcd.members().await?;
            let own = members.iter().find(|one| one.id == id).context("etcd does not list itself")?;
            if wanted.iter().all(|url| own.peer_urls.contains(url)) {
                return Ok(false);
            }
            etcd.update(id, &wanted).await?;
            tell(&format!("peer URLs were {}, are {}", own.peer_urls.join(","), wanted.join(",")));
            anyhow::Ok(true)
        };
        match attempt.await {
            Err(_) if begun.elapsed() < UPDATE_LIMIT => tokio::time::sleep(PAUSE).await,
            done => return done,
        }
    }
}

/// The scheme is etcd's, the CA is taken by our own TLS flag: with only one of the two the call must fail.
async fn stop_wrapper(member: &LocalMember) -> anyhow::Result<()> {
    let Endpoint { tls, host, .. } = member.options().member_endpoint()?.clone();
    let ca = match (&member.options().server_cert, &member.options().cacert) {
        (Some(_), Some(ca)) => {
            Some(std::fs::read_to_string(ca).with_context(|| format!("read the CA {}", ca.display()))?)
        }
        _ => None,
    };
    let scheme = if tls { "https" } else { "http" };
    let call = StopCall { url: format!("{scheme}://{host}:{WRAPPER_PORT}"), ca, hang_up: false };
    let url = call.url.clone();
    let code = tokio::task::spawn_blocking(move || call.send()).await?;
    let code = code.with_context(|| format!("POST /stop to the wrapper at {url}"))?;
    tell(&format!("the wrapper at {url} was told to stop, answer {code:?}"));
    Ok(())
}

/// Promotes a learner, and beside the leader renews the snapshot leases.
async fn follow(member: &LocalMember) -> Infallible {
    let mut ticks = interval(member.options().reelection_period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut teller = Teller::default();
    let mut stored: Option<Instant> = None;
    loop {
        ticks.tick().await;
        let role = match status(member).await {
            Err(error) => Err(format!("the member does not answer: {error:#}")),
            Ok(status) if status.leader == 0 => Err("the member knows no leader".into()),
            Ok(status) => Ok(status),
        };
        let status = match role {
            Ok(status) => status,
            Err(why) => {
                stored = None;
                teller.tell(why);
                continue;
            }
        };
        if status.leader == status.member {
            teller.tell("the member leads".into());
            let due = stored.is_none_or(|at| at.elapsed() >= member.options().delta_snapshot_period);
            if due && snapshot(member, status.revision, &mut teller).await {
                stored = Some(Instant::now());
            }
        } else {
            stored = None;
            if status.learner {
                promote(member, status.member, &mut teller).await;
            } else {
                teller.tell("the member follows".into());
            }
        }
    }
}

/// As if a snapshot were taken now. Both leases get the same revision: else druid would compact a store some day.
async fn snapshot(member: &LocalMember, revision: i64, teller: &mut Teller) -> bool {
    let options = member.options();
    if !options.has_store() || !options.enable_snapshot_lease_renewal {
        return false;
    }
    for lease in [&options.full_snapshot_lease_name, &options.delta_snapshot_lease_name] {
        if let Err(error) = member.kubernetes().renew_snapshot(lease, revision).await {
            teller.tell(format!("snapshot leases are not renewed: {error:#}"));
            return false;
        }
    }
    true
}

async fn promote(member: &LocalMember, id: u64, teller: &mut Teller) {
    let attempt = async { member.cluster(&member.config()?)?.promote(id).await };
    match attempt.await {
        Ok(()) => teller.tell("the learner was promoted".into()),
        Err(error) => teller.tell(format!("the learner is not promoted yet: {error:#}")),
    }
}

/// Renews the member's lease as long as the member knows a leader.
async fn renew(member: &LocalMember) {
    if !member.options().enable_member_lease_renewal {
        return;
    }
    let mut ticks = interval(member.options().k8s_heartbeat_duration);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut teller = Teller::default();
    // What the running etcd was started with: the file may change below it, and druid acts on what is told here.
    let mut peer_tls = None;
    loop {
        ticks.tick().await;
        let Some(status) = status(member).await.ok().filter(|status| status.leader != 0) else {
            peer_tls = None;
            continue;
        };
        let renewal = async {
            let config = member.config()?;
            let peer_tls = *peer_tls.get_or_insert_with(|| config.peer_tls());
            member.kubernetes().renew_member(&config.name, &status, peer_tls).await
        };
        match renewal.await {
            Ok(()) => teller.tell(format!("the member lease is renewed, peer TLS {peer_tls:?}")),
            Err(error) => teller.tell(format!("the member lease is not renewed: {error:#}")),
        }
    }
}
