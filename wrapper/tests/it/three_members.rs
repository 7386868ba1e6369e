// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the wrappers of a cluster tell and do when members go: frozen, stopped, killed, removed.
use std::time::Instant;

use doubles::wait::{self, Poll};
use rstest::rstest;
use rustix::process::Signal;

use crate::cluster::{Cluster, freeze, leader, thaw};
use crate::scene::{LONG, SECOND, Wrapper, signal};

/// The two other places than `place`.
fn others(place: usize) -> [usize; 2] {
    [(place + 1) % 3, (place + 2) % 3]
}

/// Takes two wrappers out by their place.
fn two<'w, 's>(wrappers: &'w [Wrapper<'s>], places: [usize; 2]) -> [&'w Wrapper<'s>; 2] {
    places.map(|place| &wrappers[place])
}

#[rstest]
#[case::v3_5_leader_stays("3.5", false, true)]
#[case::v3_5_tls("3.5", true, false)]
#[case::v3_6("3.6", false, false)]
#[case::v3_7("3.7", false, false)]
fn d2_d8_quorum_lost_by_frozen_members_is_told_and_its_return_too(
    #[case] line: &'static str,
    #[case] tls: bool,
    #[case] leader_stays: bool,
) {
    let cluster = Cluster::of(line, tls);
    let wrappers = cluster.start_ready();
    let leads = leader(&wrappers);
    let alone = if leader_stays { leads } else { others(leads)[0] };
    let frozen = two(&wrappers, others(alone));
    let etcds = frozen.map(Wrapper::etcd_pid);
    let own = wrappers[alone].etcd_pid();

    freeze(&etcds);
    let began = Instant::now();
    let answer = wrappers[alone].wait_readyz(10 * SECOND, 503);
    assert_eq!(answer.header("etcd-wrapper-reason"), Some("linearizable_read"));
    for wrapper in frozen {
        // Frozen for as long as the survivor took to notice.
        wrapper.wait_readyz((8 * SECOND).saturating_sub(began.elapsed()), 503);
    }
    let diagnosed = |wrapper: &Wrapper<'_>, word: &str| {
        wrapper.wait_status(3 * SECOND, word, |status| status["health"]["diagnosis"] == word)
    };
    let status = diagnosed(&wrappers[alone], "quorum_lost_member_alive");
    assert_eq!(status["health"]["quorum"], "lost");
    assert_eq!(status["health"]["member"], "healthy");
    assert_eq!(status["leader"]["isLeader"], false);
    for wrapper in frozen {
        let status = diagnosed(wrapper, "member_down");
        assert_eq!(status["health"]["process"], "alive");
        assert_eq!(status["health"]["member"], "unresponsive");
        assert_eq!(status["leader"]["isLeader"], false);
    }
    for wrapper in &wrappers {
        assert_eq!(wrapper.caller().get("/livez").status, 200);
        assert_eq!(wrapper.caller().get("/startupz").status, 200, "it was ready once");
    }

    thaw(&etcds);
    let began = Instant::now();
    for wrapper in &wrappers {
        wrapper.wait_readyz((10 * SECOND).saturating_sub(began.elapsed()), 200);
    }
    assert_eq!(frozen.map(Wrapper::etcd_pid), etcds, "nobody was restarted");
    assert_eq!(wrappers[alone].etcd_pid(), own);
}

#[rstest]
#[case::plain(false)]
#[case::tls(true)]
fn d2_quorum_lost_by_stopped_wrappers_is_told_and_its_return_too(#[case] tls: bool) {
    let cluster = Cluster::of("3.5", tls);
    let mut wrappers = cluster.start_ready();
    cluster.members[0].etcdctl(&["put", "a", "1"]);
    for wrapper in &mut wrappers[1..] {
        wrapper.terminate();
        assert_eq!(wrapper.wait_exit(LONG), 0);
    }
    wrappers[0].wait_readyz(10 * SECOND, 503);
    wrappers[0].wait_status(3 * SECOND, "quorum lost", |status| {
        status["health"]["diagnosis"] == "quorum_lost_member_alive"
    });
    assert_eq!(
        wrappers[0].caller().get("/readyz/serializable_read").status,
        200,
        "the member itself answers"
    );

    let again = cluster.members[1].start();
    again.wait_log(LONG, "etcd says READY");
    wrappers[0].wait_readyz(10 * SECOND, 200);
    again.wait_readyz(10 * SECOND, 200);
    assert!(cluster.members[1].etcdctl(&["get", "a"]).contains('1'));
}

/// An election takes one or two seconds; a read waits longer than that.
#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn f7_e10_a_killed_leader_ends_its_wrapper_and_the_others_serve_without_a_flap(#[case] line: &'static str) {
    let mut cluster = Cluster::plain(line);
    for member in &mut cluster.members {
        // So that a read is under way at every moment of the election.
        member.flags.push("--readiness-interval=50ms".to_owned());
    }
    let mut wrappers = cluster.start_ready();
    let place = leader(&wrappers);
    let etcd = wrappers[place].etcd_pid();

    signal(etcd, Signal::KILL);
    assert_eq!(wrappers[place].wait_exit(SECOND), 10);
    assert_eq!(cluster.members[place].marker(), None);
    let record = wrappers[place].record();
    assert_eq!(record["cause"], "etcd_ended");
    assert_eq!(record["etcd"]["signal"], "SIGKILL", "{record}");

    let rest = others(place);
    let mut led = false;
    wait::until(LONG, "a new leader", || {
        for wrapper in two(&wrappers, rest) {
            let answer = wrapper.readyz().expect("the others' port is open");
            assert_eq!(answer.status, 200, "{:?} during an election", answer.headers);
            led |= wrapper.caller().get("/v1/leader").json()["isLeader"] == true;
        }
        Poll::when(led, || "nobody leads".into())
    });
    cluster.members[rest[0]].etcdctl(&["put", "a", "1"]);
    assert!(cluster.members[rest[1]].etcdctl(&["get", "a"]).contains('1'));
}

#[rstest]
#[case::at_once(false)]
#[case::after_it_was_noticed(true)]
fn e6_the_last_of_three_stops_in_time_and_cleanly(#[case] noticed: bool) {
    let cluster = Cluster::plain("3.5");
    let mut wrappers = cluster.start_ready();
    let leads = leader(&wrappers);
    for place in others(leads) {
        wrappers[place].signal(Signal::KILL);
        wrappers[place].wait_exit(SECOND);
    }
    if noticed {
        wrappers[leads].wait_readyz(10 * SECOND, 503);
    }
    wrappers[leads].terminate();
    let code = wrappers[leads].wait_exit(25 * SECOND);
    assert_eq!((code, cluster.members[leads].marker().as_deref()), (0, Some("terminated")));
}

#[rstest]
#[case::v3_5("3.5", None)]
#[case::v3_6("3.6", None)]
#[case::v3_7_restart_policy("3.7", Some("--on-etcd-exit=restart"))]
fn e16_a_removed_member_says_so_and_keeps_its_data(
    #[case] line: &'static str,
    #[case] flag: Option<&'static str>,
) {
    let mut cluster = Cluster::plain(line);
    for member in &mut cluster.members {
        member.flags.extend(flag.map(str::to_owned));
    }
    let mut wrappers = cluster.start_ready();
    let leads = leader(&wrappers);
    let gone = others(leads)[0];
    let status = wrappers[gone].wait_status(LONG, "its id", |status| status["member"]["id"].is_string());
    let id = status["member"]["id"].as_str().unwrap().to_owned();
    cluster.members[leads].etcdctl(&["put", "a", "1"]);

    cluster.members[leads].etcdctl(&["member", "remove", &id]);
    wrappers[gone].wait_log(LONG, "etcd ended");
    // A request that comes in at that very moment makes etcd panic instead of ending with 0; nothing tells that from
    // another crash.
    if wrappers[gone].log().contains("panic: failed to find local ID in cluster members") {
        wrappers[gone].wait_log(LONG, "etcd ended status=Exited(2) requested=false");
        match flag {
            None => assert_eq!(wrappers[gone].wait_exit(LONG), 10),
            Some(_) => wrappers[gone].wait_log(LONG, "phase=\"backoff\""),
        }
    } else {
        assert_eq!(wrappers[gone].wait_exit(LONG), 20);
        let record = wrappers[gone].record();
        assert_eq!((record["code"].as_i64(), record["cause"].as_str()), (Some(20), Some("member_removed")));
        assert!(record["hint"].as_str().unwrap().contains("removed from its cluster"), "{record}");
        assert_eq!(record["etcd"]["requested"], false);
    }
    assert_eq!(cluster.members[gone].marker(), None, "not an end that somebody here asked for");
    let data = cluster.members[gone].data_dir().join("member");
    assert!(data.join("snap/db").metadata().unwrap().len() > 0);
    assert!(std::fs::read_dir(data.join("wal")).unwrap().count() > 0);
    let other = others(leads)[1];
    assert_eq!(wrappers[other].readyz().unwrap().status, 200);
    assert!(cluster.members[other].etcdctl(&["get", "a"]).contains('1'));
}
