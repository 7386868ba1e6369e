// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Data that is damaged or gone, a volume that is full or gone, a member that was removed.
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::case::Case;
use e2e::fault::Damage;
use e2e::member::{ETCD, Member, is_ready, shown};
use e2e::scenario;
use e2e::scenario::Scenario;
use e2e::wait::{self, Poll};
use serde_json::Value;

use crate::started::{self, AGAIN, ONE, Started};

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario!(
        a_full_volume_is_warned_of_and_recovers,
        "no space left: warned of, and everything acknowledged is kept"
    ),
    scenario!(i8_a_member_whose_data_is_deleted_rejoins, "the data directory of one of three is deleted")
        .within(LONG),
    scenario!(i6_i8_a_member_whose_database_is_zeroed_rejoins, "the database of one of three has only zeros")
        .within(LONG),
    scenario!(
        i6_i8_a_member_whose_database_is_half_written_rejoins,
        "the database of one of three lacks its second half"
    )
    .within(LONG),
    scenario!(
        i6_a_member_that_lost_committed_entries_never_serves_until_it_is_emptied,
        "the log of one of three was cut: etcd refuses, the record says so, deleting the data mends it"
    )
    .within(LONG),
    scenario!(i8_a_member_whose_volume_is_lost_rejoins, "claim and pod of one of three are deleted")
        .within(LONG),
    scenario!(
        a_removed_member_says_so_in_its_last_words,
        "member remove: the record stands in the container's last state"
    )
    .within(LONG),
];

const SOON: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(900);
/// The sidecar takes a member out and adds it again, as a learner first.
const REJOIN: Duration = Duration::from_secs(300);

async fn a_full_volume_is_warned_of_and_recovers(case: &Case) -> Result<()> {
    let etcd = case.etcd("one").create().await?;
    etcd.ready(ONE).await?;
    let member = etcd.member(0);
    let uid = member.uid().await?;
    let _small = case.faults().shrink_volume(&member, 224).await?;
    member.replaced(&uid, ONE).await?;
    let started = Started { toolbox: e2e::toolbox::Toolbox::start(&etcd).await?, etcd, load: None };
    started.toolbox.put_and_get("kept", "since the start").await?;
    case.allow_restarts(member.pod(), 10);
    let before = member.restarts().await?;
    let full = case.faults().fill_volume(&member).await?;
    let warns = |status: &Value| has_warning(status, "volume_nearly_full");
    member.status_until(Duration::from_secs(60), "a warning of the volume", warns).await?;
    // The log's segment is there in full, so writes go on until the database has to grow.
    let client = e2e::load::client(&member)?;
    let value = vec![b'x'; 1_000_000];
    let mut acknowledged = 0;
    while acknowledged < 150 && client.put(&format!("fill-{acknowledged:03}"), value.clone()).await.is_ok() {
        acknowledged += 1;
    }
    case.measure("writes acknowledged on a full volume", acknowledged);
    // etcd gives up where it cannot write; the wrapper says so, and the kubelet tries again.
    let record = wait::until(SOON, "the end of an etcd without space", async || {
        let container = member.container(ETCD).await?;
        let ended = container.last.clone().filter(|last| last.code == 10);
        Ok(Poll::from_option(ended, || format!("{container:?}")))
    })
    .await?;
    ensure!(record.message.contains("etcd_ended"), "the record says {}", record.message);
    full.heal().await?;
    wait::until(REJOIN, "a ready member after the volume has space again", async || {
        let pod = member.get().await?;
        let ready = is_ready(&pod) && member.restarts().await? > before;
        Ok(Poll::when(ready, || shown(&pod)))
    })
    .await?;
    let keys = started.toolbox.etcdctl(&["get", "fill-", "--prefix", "--keys-only"]).await?;
    let kept = keys.lines().filter(|line| !line.is_empty()).count();
    ensure!(kept >= acknowledged, "{kept} of {acknowledged} acknowledged writes are there");
    started.serves("after").await
}

async fn i8_a_member_whose_data_is_deleted_rejoins(case: &Case) -> Result<()> {
    damaged(case, Damage::Deleted).await
}

async fn i6_i8_a_member_whose_database_is_zeroed_rejoins(case: &Case) -> Result<()> {
    damaged(case, Damage::DatabaseZeroed).await
}

async fn i6_i8_a_member_whose_database_is_half_written_rejoins(case: &Case) -> Result<()> {
    damaged(case, Damage::DatabaseHalved).await
}

/// The leader knows that this member had those entries, so etcd refuses for good; the sidecar finds nothing wrong with what
/// is left. Only somebody who gives this copy up can help.
async fn i6_a_member_that_lost_committed_entries_never_serves_until_it_is_emptied(case: &Case) -> Result<()> {
    let started = started::three(case).await?;
    let member = follower(&started, case.seed() as usize).await?;
    case.expect_restarts(member.pod(), 2);
    case.allow_restarts(member.pod(), 8);
    let id = id(&member).await?;
    case.faults().damage(&member, Damage::LogHalved).await?;
    started.serves("meanwhile").await?;
    let record = wait::until(REJOIN, "the record of a start that etcd refuses", async || {
        let container = member.container(ETCD).await?;
        // The first end is the kill's.
        let refused =
            container.last.clone().filter(|_| container.restarts >= 1 && container.waiting.is_some());
        Ok(Poll::from_option(refused, || format!("{container:?}")))
    })
    .await?;
    let told: Value = serde_json::from_str(record.message.trim())
        .with_context(|| format!("no record in the termination message: {:?}", record.message))?;
    ensure!(record.code == 10 && told["phase"] == "starting", "exit {}: {told}", record.code);
    ensure!(told["hint"].as_str().is_some_and(|hint| hint.contains("refused")), "{told}");
    case.faults().give_data_up(&member).await?;
    rejoined(&started, &member, Instant::now(), &id).await?;
    started.judge().await
}

/// A new leader knows nothing of what a member had, so the one that leads must go on leading.
async fn follower(started: &Started, place: usize) -> Result<Member> {
    let mut followers = Vec::new();
    for member in started.etcd.members() {
        if member.status().await?["leader"]["isLeader"] == false {
            followers.push(member);
        }
    }
    ensure!(!followers.is_empty(), "nobody follows");
    let place = place % followers.len();
    Ok(followers.swap_remove(place))
}

async fn i8_a_member_whose_volume_is_lost_rejoins(case: &Case) -> Result<()> {
    let started = started::three(case).await?;
    let member = started.etcd.member(1);
    let (uid, id) = (member.uid().await?, id(&member).await?);
    // The sidecar may end the container once, after it has told the member its new place.
    case.allow_restarts(member.pod(), 2);
    let begun = Instant::now();
    case.faults().lose_volume(&member).await?;
    started.serves("meanwhile").await?;
    member.replaced(&uid, REJOIN).await?;
    rejoined(&started, &member, begun, &id).await?;
    started.judge().await
}

async fn a_removed_member_says_so_in_its_last_words(case: &Case) -> Result<()> {
    let started = started::three(case).await?;
    let member = started.etcd.member(2);
    let id = id(&member).await?;
    case.allow_restarts(member.pod(), 4);
    started.toolbox.etcdctl(&["member", "remove", &id]).await?;
    case.step(&format!("{} was removed from the cluster", member.pod()));
    let record = wait::until(AGAIN, "the record of the end in the container's last state", async || {
        let container = member.container(ETCD).await?;
        Ok(Poll::from_option(container.last.clone(), || format!("{container:?}")))
    })
    .await?;
    case.measure("exit code of a removed member", record.code);
    let told: Value = serde_json::from_str(record.message.trim())
        .with_context(|| format!("no record in the termination message: {:?}", record.message))?;
    // etcd may panic at that moment instead of ending in order.
    ensure!(record.code == 20 || record.code == 10, "exit {}: {told}", record.code);
    ensure!(told["code"] == record.code, "exit {}, and the record says {told}", record.code);
    started.serves("meanwhile").await?;
    started.judge().await
}

/// Three members, of which one's data is damaged in the moment in which its etcd is killed.
async fn damaged(case: &Case, damage: Damage) -> Result<()> {
    let started = started::three(case).await?;
    let member = started.etcd.member(case.seed() as u32 % 3);
    // By the kill; the sidecar may end the container once more.
    case.expect_restarts(member.pod(), 1);
    case.allow_restarts(member.pod(), 2);
    let (begun, id) = (Instant::now(), id(&member).await?);
    case.faults().damage(&member, damage).await?;
    started.serves("meanwhile").await?;
    wait::until(REJOIN, &format!("{} to be started anew", member.pod()), async || {
        let restarts = member.restarts().await?;
        Ok(Poll::when(restarts > 0, || format!("{restarts} restarts")))
    })
    .await?;
    rejoined(&started, &member, begun, &id).await?;
    started.judge().await
}

/// As the cluster knows a member.
async fn id(member: &Member) -> Result<String> {
    let told = |status: &Value| status["member"]["id"].is_string();
    let status = member.status_until(SOON, "a member id", told).await?;
    status["member"]["id"].as_str().map(str::to_owned).context("no member id")
}

/// The member is ready under another id, since it left with its data and came as a learner; there are three that vote, and
/// what was written is there.
async fn rejoined(started: &Started, member: &Member, begun: Instant, before: &str) -> Result<()> {
    member.ready(REJOIN).await?;
    let case = started.etcd.case();
    case.measure("ready again with its data", format!("{:.1} s", begun.elapsed().as_secs_f64()));
    started.etcd.all_members_ready(REJOIN).await?;
    started.three_vote().await?;
    let after = id(member).await?;
    ensure!(after != before, "{} is still member {before}: its data was not missed", member.pod());
    started.serves("after").await
}

fn has_warning(status: &Value, code: &str) -> bool {
    status["warnings"].as_array().is_some_and(|all| all.iter().any(|warning| warning["code"] == code))
}
