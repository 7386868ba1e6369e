// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The prober against real etcds of three versions: what it tells of a leader, a frozen member, a lost quorum, a
//! learner, an alarm, auth, TLS and a unix socket. The binaries are named by `E2E_ETCD_35`, `E2E_ETCD_36`, `E2E_ETCD_37`.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, here and in the scenery")]
mod etcd;
mod watcher;

use std::time::Duration;

use etcd::{Cluster, Etcd};
use rstest::rstest;
use watcher::Watcher;

use etcd_wrapper::member::client::Client;
use etcd_wrapper::member::guard::{self, Sight, Verdict};
use etcd_wrapper::member::scraper::Scraper;
use etcd_wrapper::member::transfer::transfer;
use etcd_wrapper::member::view::{MemberView, Source};

const SECOND: Duration = Duration::from_secs(1);

fn reads(view: &MemberView) -> bool {
    view.linearizable_read.as_ref().is_some_and(|probe| probe.ok)
}

fn leads(view: &MemberView) -> bool {
    view.leadership.as_ref().is_some_and(|leadership| leadership.is_leader)
}

fn has_leader(view: &MemberView) -> bool {
    view.leadership.as_ref().is_some_and(|leadership| leadership.has_leader)
}

#[rstest]
#[case("E2E_ETCD_35")]
#[case("E2E_ETCD_36")]
#[case("E2E_ETCD_37")]
#[tokio::test]
async fn d20_a_single_member_is_confirmed_right_after_ready(#[case] version: &str) {
    let etcd = Etcd::single(version).ready().await;
    let mut watcher = Watcher::of(&etcd);
    watcher.until(SECOND, "confirmed", |view| view.confirmed && reads(view)).await;
    let view = watcher.until(SECOND, "leading", leads).await;
    let leadership = view.leadership.clone().unwrap();
    assert!(leadership.term.unwrap() > 0 && leadership.leader_id == leadership.member_id);
    let view = watcher.until(SECOND, "members", |view| view.own_row().is_some()).await;
    assert_eq!(view.own_row().unwrap().peer_urls, [etcd.peer_url()]);
    assert!(view.db.unwrap().size > 0 && view.db.unwrap().quota == 2 << 30, "{:?}", view.db);
    assert!(etcd.version().starts_with(view.version.as_deref().unwrap()), "{:?}", view.version);
    watcher
        .until(5 * SECOND, "serializable", |view| view.serializable_read.as_ref().is_some_and(|p| p.ok))
        .await;
}

#[rstest]
#[case("E2E_ETCD_35")]
#[case("E2E_ETCD_36")]
#[case("E2E_ETCD_37")]
#[tokio::test]
async fn d9_a_frozen_member_is_known_within_8_s_and_comes_back(#[case] version: &str) {
    let etcd = Etcd::single(version).ready().await;
    let mut watcher = Watcher::of(&etcd);
    watcher.until(SECOND, "leading", |view| leads(view) && reads(view)).await;
    etcd.freeze();
    watcher.until(3 * SECOND, "leadership given up", |view| !leads(view)).await;
    watcher.until(5 * SECOND, "read failed", |view| !reads(view)).await;
    etcd.thaw();
    watcher.until(5 * SECOND, "reading and leading again", |view| reads(view) && leads(view)).await;
    assert_eq!(etcd.log_lines("rejected connection"), 0);
}

#[rstest]
#[case("E2E_ETCD_35")]
#[case("E2E_ETCD_37")]
#[tokio::test]
async fn d2_lost_quorum_is_seen_and_its_return_too(#[case] version: &str) {
    let mut cluster = Cluster::of_three(version).await;
    let mut watcher = Watcher::of(&cluster.members[0]);
    watcher.until(SECOND, "reading", |view| reads(view) && has_leader(view)).await;
    let client = watcher.client();
    let mut scraper = client.scraper();
    let seen = guard::look(&client, &mut scraper).await;
    assert_eq!(guard::quorum(&seen), Verdict::Ok, "{seen:?}");

    cluster.members[1].kill();
    watcher.until(10 * SECOND, "a leader among two", |view| reads(view) && has_leader(view)).await;
    let deadline = tokio::time::Instant::now() + 10 * SECOND;
    let verdict = loop {
        let verdict = guard::quorum(&guard::look(&client, &mut scraper).await);
        if verdict != Verdict::Ok || tokio::time::Instant::now() > deadline {
            break verdict;
        }
        tokio::task::yield_now().await;
    };
    assert!(matches!(verdict, Verdict::WouldBreak(_)), "{verdict:?}");

    cluster.members[2].kill();
    watcher.until(10 * SECOND, "no leader", |view| !has_leader(view)).await;
    let view = watcher.until(10 * SECOND, "read failed", |view| !reads(view)).await;
    assert!(view.status.as_ref().unwrap().ok, "the member itself answers: {view:?}");
    cluster.restart(1);
    watcher.until(10 * SECOND, "reading again", reads).await;
}

#[rstest]
#[case("E2E_ETCD_35")]
#[case("E2E_ETCD_36")]
#[case("E2E_ETCD_37")]
#[tokio::test]
async fn e19_a_peer_that_was_away_between_two_looks_is_known(#[case] version: &str) {
    let mut cluster = Cluster::of_three(version).await;
    let mut watcher = Watcher::of(&cluster.members[0]);
    watcher.until(SECOND, "reading", reads).await;
    let client = watcher.client();
    let mut scraper = client.scraper();
    let before = look_at_all(&client, &mut scraper).await;
    cluster.members[1].kill();
    cluster.restart(1);
    cluster.members[1].notified().await;
    let after = look_at_all(&client, &mut scraper).await;
    assert_eq!(after.breaks(), before.breaks() + 1, "{before:?}, {after:?}");
    let still = look_at_all(&client, &mut scraper).await;
    assert_eq!(still.breaks(), after.breaks(), "one that stays is not told again");
}

/// The first look that finds both peers there.
async fn look_at_all(client: &Client, scraper: &mut Scraper) -> Sight {
    let deadline = tokio::time::Instant::now() + 10 * SECOND;
    loop {
        let sight = guard::look(client, scraper).await.unwrap();
        if sight.others().1.len() == 2 {
            return sight;
        }
        assert!(tokio::time::Instant::now() < deadline, "{sight:?}");
    }
}

#[rstest]
#[case("E2E_ETCD_35")]
#[case("E2E_ETCD_36")]
#[case("E2E_ETCD_37")]
#[tokio::test]
async fn leadership_moves_to_an_active_voter(#[case] version: &str) {
    let cluster = Cluster::of_three(version).await;
    for etcd in &cluster.members {
        let mut watcher = Watcher::of(etcd);
        watcher.until(SECOND, "a leader", |view| has_leader(view) && view.confirmed).await;
        if leads(&watcher.view()) {
            let target = transfer(&watcher.client(), 5 * SECOND).await.unwrap();
            let is_target = |view: &MemberView| view.leadership.as_ref().unwrap().leader_id == Some(target);
            watcher.until(2 * SECOND, "the other leads", is_target).await;
            let told = watcher.client().confirmed_status(5 * SECOND).await.unwrap();
            assert_eq!(told.leader_id, Some(target));
            return;
        }
    }
    panic!("nobody led");
}

#[rstest]
#[case("E2E_ETCD_35")]
#[case("E2E_ETCD_36")]
#[case("E2E_ETCD_37")]
#[tokio::test]
async fn d6_a_learner_is_told_and_its_promotion_seen(#[case] version: &str) {
    let first = Etcd::single(version).ready().await;
    let learner = first.joined_by_learner().ready().await;
    let mut watcher = Watcher::of(&learner);
    let view = watcher.until(2 * SECOND, "a learner", |view| view.learner == Some(true)).await;
    assert!(view.confirmed && !reads(&view), "{view:?}");
    let is_told = |view: &MemberView| view.leadership.as_ref().is_some_and(|l| l.is_learner == Some(true));
    watcher.until(2 * SECOND, "told by Status", |view| is_told(view) && has_leader(view)).await;
    first.promote(&watcher.view().leadership.unwrap().member_id.unwrap()).await;
    watcher.until(2 * SECOND, "a voter that reads", |view| view.learner == Some(false) && reads(view)).await;
}

#[rstest]
#[case("E2E_ETCD_35")]
#[case("E2E_ETCD_36")]
#[case("E2E_ETCD_37")]
#[tokio::test]
async fn d3_nospace_stays_readable_and_is_told_with_auth_off_and_on(#[case] version: &str) {
    let etcd = Etcd::single(version).with("--quota-backend-bytes=1000000").ready().await;
    let mut watcher = Watcher::of(&etcd);
    watcher.until(SECOND, "no alarm", |view| view.alarms.is_some_and(|alarms| !alarms.nospace)).await;
    etcd.fill_up();
    let view = watcher.until(2 * SECOND, "the alarm", |view| view.alarms.unwrap().nospace).await;
    assert!(reads(&view), "{view:?}");
    etcd.enable_auth();
    watcher.until(2 * SECOND, "auth hides status", |view| view.auth_hides_status).await;
    let told = |view: &MemberView| view.leadership.as_ref().is_some_and(|l| l.source == Source::Metrics);
    watcher.until(2 * SECOND, "told by metrics", |view| told(view) && leads(view) && reads(view)).await;
    // Seen anew by a prober that has never had a Status answer.
    let mut anew = Watcher::of(&etcd);
    anew.until(3 * SECOND, "the alarm", |view| view.alarms.is_some_and(|alarms| alarms.nospace)).await;
    anew.until(2 * SECOND, "leading", |view| leads(view) && told(view)).await;
}

#[rstest]
#[case("E2E_ETCD_35")]
#[case("E2E_ETCD_36")]
#[case("E2E_ETCD_37")]
#[tokio::test]
async fn d5_d17_tls_and_auth_need_two_connections_and_make_no_noise(#[case] version: &str) {
    let etcd = Etcd::single(version).with_tls().ready().await;
    let mut watcher = Watcher::of(&etcd);
    watcher.until(2 * SECOND, "leading", |view| leads(view) && reads(view)).await;
    assert_eq!(etcd.connections(), 1);
    etcd.enable_auth();
    watcher.until(2 * SECOND, "told by metrics", |view| view.auth_hides_status && leads(view)).await;
    // Not kept: a view holds the connection it was made with.
    let read = watcher.until(5 * SECOND, "read again", is_refused_read).await.linearizable_read.unwrap();
    assert!(read.ok, "{read:?}");
    assert_eq!(etcd.connections(), 2);
    // A reloaded certificate replaces the connections without a failure in between.
    watcher.reload(&etcd);
    let is_later = |view: &MemberView| view.linearizable_read.as_ref().unwrap().at > read.at;
    watcher.until(5 * SECOND, "a read later", |view| is_later(view) && reads(view) && leads(view)).await;
    watcher.until(5 * SECOND, "on two connections", |_| etcd.connections() == 2).await;
    assert_eq!(etcd.log_lines("rejected connection"), 0);
}

#[rstest]
#[case("E2E_ETCD_35")]
#[case("E2E_ETCD_36")]
#[case("E2E_ETCD_37")]
#[tokio::test]
async fn d5_d19_a_client_certificate_keeps_status_open_under_auth(#[case] version: &str) {
    // etcd's own gateway would offer the server certificate, which is for servers only, and be rejected noisily.
    let etcd =
        Etcd::single(version).with_tls().with_client_certificates().with("--enable-grpc-gateway=false");
    let etcd = etcd.ready().await;
    let mut watcher = Watcher::of(&etcd);
    watcher.until(2 * SECOND, "leading", |view| leads(view) && reads(view)).await;
    etcd.enable_auth();
    let view = watcher.until(5 * SECOND, "read refused", is_refused_read).await;
    assert!(reads(&view) && leads(&view) && !view.auth_hides_status, "{view:?}");
    assert_eq!(etcd.connections(), 1);
    assert_eq!(etcd.log_lines("rejected connection"), 0);
}

fn is_refused_read(view: &MemberView) -> bool {
    view.linearizable_read.as_ref().is_some_and(|probe| probe.detail.contains("auth: "))
}

#[tokio::test]
async fn a_unix_socket_serves_as_well() {
    let etcd = Etcd::single("E2E_ETCD_35").on_unix_socket().ready().await;
    let mut watcher = Watcher::of(&etcd);
    watcher.until(SECOND, "leading", |view| leads(view) && reads(view)).await;
    let gauges = Client::new(etcd.dial(), etcd.dial()).scraper().gauges(SECOND).await.unwrap();
    assert!(gauges.is_leader);
}

#[tokio::test]
async fn the_view_is_emptied_with_the_child_and_starts_anew_with_the_next() {
    let etcd = Etcd::single("E2E_ETCD_35").ready().await;
    let mut watcher = Watcher::of(&etcd);
    watcher.until(SECOND, "leading", leads).await;
    watcher.aim(None);
    watcher.until(SECOND, "empty", |view| view.generation.is_none() && view.leadership.is_none()).await;
    watcher.aim(Some((&etcd, 2, false)));
    watcher.until(SECOND, "the next", |view| view.generation == Some(2) && view.client.is_none()).await;
    watcher.aim(Some((&etcd, 2, true)));
    watcher.until(SECOND, "leading", leads).await;
}
