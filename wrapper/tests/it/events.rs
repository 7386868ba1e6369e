// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Streams of the real wrapper: the whole life of a member as events, cuts, comments, and leadership in a cluster.
mod cluster;
mod webhook;

use std::time::Duration;

use doubles::etcd::{Leader, OnSignal, Script, Standing};
use rustix::process::Signal;

use crate::scene::{LONG, SECOND, Scene};
use crate::subscriber::{Message, Subscriber};

fn phases(messages: &[Message]) -> Vec<String> {
    let phase = |message: &Message| message.data["phase"].as_str().map(str::to_owned);
    messages.iter().filter(|message| message.event == "phase").filter_map(phase).collect()
}

/// Positions grow, and a message bears its own.
#[track_caller]
fn assert_in_order(messages: &[Message]) {
    let mut before = 0;
    for message in messages {
        let index = message.data["index"].as_u64().unwrap();
        assert_eq!(message.id, format!("{}:{index}", message.data["epoch"].as_str().unwrap()));
        let grows =
            if matches!(message.event.as_str(), "bye" | "gap") { index >= before } else { index > before };
        assert!(grows, "{index} after {before}: {message:?}");
        before = index;
    }
}

#[test]
fn the_whole_life_of_a_member_is_told_in_order() {
    let scene = Scene::scripted(Script::default()).flag("--hold");
    let mut wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let mut events = Subscriber::open(scene.api_addr(), "", None);
    let mut all = vec![events.next(LONG).unwrap()];
    assert_eq!(all[0].event, "snapshot");
    assert_eq!(all[0].data["status"]["wrapper"]["phase"], "held");
    assert_eq!(wrapper.caller().post("/v1/etcd/start?wait=30s").json()["status"], "succeeded");
    all.push(events.until(LONG, "leadership", |message| message.data["leader"]["isLeader"] == true));
    let etcd = wrapper.etcd_pid();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.stage().signals(etcd), [15]);
    events.rest(LONG);

    let all = events.seen();
    assert_in_order(all);
    assert_eq!(phases(all), ["initializing", "configuring", "starting", "running", "exiting"]);
    let operations: Vec<_> =
        all.iter().filter_map(|message| message.data["operation"]["status"].as_str()).collect();
    assert_eq!(operations.last(), Some(&"succeeded"), "{operations:?}");
    let leaders: Vec<_> = all
        .iter()
        .filter(|message| message.event == "leader")
        .map(|message| {
            (message.data["leader"]["isLeader"] == true, message.data["leader"]["leaving"] == true)
        })
        .collect();
    // Led, began to leave, and is gone.
    assert_eq!(leaders[leaders.len() - 3..], [(true, false), (false, true), (false, false)]);
    let ready: Vec<_> =
        all.iter().filter_map(|message| message.data["readiness"]["ready"].as_bool()).collect();
    assert!(ready.contains(&true) && ready.last() == Some(&false), "{ready:?}");
    assert_eq!(all.last().unwrap().event, "bye");
}

#[test]
fn bye_comes_at_a_stop_by_http_too_and_does_not_hold_it_up() {
    let scene = Scene::scripted(Script { on_term: OnSignal::takes(SECOND / 2), ..Script::default() });
    let mut wrapper = scene.start_ready();
    let mut readers: Vec<_> = (0..4).map(|_| Subscriber::open(scene.api_addr(), "phase", None)).collect();
    assert_eq!(wrapper.caller().post("/stop").status, 200);
    for events in &mut readers {
        let messages = events.rest(LONG);
        let told: Vec<_> = messages.iter().map(|message| message.event.as_str()).collect();
        assert_eq!(told, ["snapshot", "phase", "bye"]);
    }
    assert_eq!(wrapper.wait_exit(5 * SECOND), 0);
}

#[test]
fn a_crash_is_told_before_the_stream_ends() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    let mut events = Subscriber::open(scene.api_addr(), "leader,phase", None);
    events.next(LONG).unwrap();
    crate::scene::signal(wrapper.etcd_pid(), Signal::KILL);
    let messages = events.rest(LONG);
    let told: Vec<_> = messages.iter().map(|message| message.event.as_str()).collect();
    assert_eq!(told.last(), Some(&"bye"), "{messages:?}");
    // The first answer of Status may come after the snapshot, and is an event too.
    let leader = messages.iter().rfind(|message| message.event == "leader").unwrap();
    assert_eq!(
        (&leader.data["leader"]["isLeader"], &leader.data["leader"]["memberId"]),
        (&false.into(), &serde_json::Value::Null)
    );
    assert_eq!(phases(&messages), ["exiting"]);
    assert_eq!(wrapper.wait_exit(LONG), 10);
}

#[test]
fn a_silent_stream_has_a_comment_every_fifteen_seconds() {
    let scene = Scene::scripted(Script::default()).flag("--hold");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let mut events = Subscriber::open(scene.api_addr(), "phase", None);
    let first = events.block(LONG).unwrap();
    let comment = events.block(20 * SECOND).unwrap();
    assert_eq!(comment.event, "", "{comment:?}");
    let waited = comment.at - first.at;
    assert!((14 * SECOND..19 * SECOND).contains(&waited), "{waited:?}");
}

/// A leader that changes this often, and comes back to itself.
const EVERY: Duration = Duration::from_millis(40);
const CHANGES: u32 = 80;

#[test]
fn invariant_10_a_subscriber_cut_off_at_random_misses_nothing() {
    let standing = |round: u32| Standing {
        at: doubles::span::Span(EVERY * round),
        leader: if round.is_multiple_of(2) { Leader::Member(u64::from(round) + 7) } else { Leader::Nobody },
        term: u64::from(round) + 3,
        ..Standing::default()
    };
    let scene = Scene::scripted(Script::default()).flag("--status-interval=10ms");
    let wrapper = scene.start_ready();
    let mut whole = Subscriber::open(scene.api_addr(), "leader", None);
    let snapshot = whole.next(LONG).unwrap();
    scene
        .stage()
        .write(Script { standing: (1..=CHANGES).map(standing).collect(), ..Script::default() })
        .unwrap();

    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    eprintln!("seed {seed}");
    let mut random = seed;
    let (mut id, mut pieces, mut cuts) = (snapshot.id, Vec::new(), 0);
    let is_last = |message: &Message| message.data["leader"]["term"] == u64::from(CHANGES) + 3;
    while !pieces.last().is_some_and(is_last) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut events = Subscriber::open(scene.api_addr(), "leader", Some(&id));
        for _ in 0..(random >> 33) % 5 {
            let message = events.next(LONG).unwrap();
            assert_eq!(message.event, "leader", "the position is known: {message:?}");
            id.clone_from(&message.id);
            pieces.push(message);
            if pieces.last().is_some_and(is_last) {
                break;
            }
        }
        cuts += 1;
    }
    assert!(cuts > 10, "{cuts}");
    let mut all = Vec::new();
    while !all.last().is_some_and(is_last) {
        all.push(whole.next(LONG).unwrap());
    }
    let ids = |messages: &[Message]| messages.iter().map(|message| message.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&pieces), ids(&all));
    assert!(all.len() > 20, "{}", all.len());
    assert_in_order(&all);
    let terms: Vec<_> = all.iter().filter_map(|message| message.data["leader"]["term"].as_u64()).collect();
    assert!(terms.is_sorted(), "invariant 9: {terms:?}");
    drop(wrapper);
}
