// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A leader that is moved, frozen and killed: every member's subscriber hears of it.
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::cluster::{Cluster, freeze, leader, thaw};
use crate::scene::{LONG, SECOND, Wrapper, signal};
use crate::subscriber::{Message, Subscriber};

fn subscribe(cluster: &Cluster) -> Vec<Subscriber> {
    let open = |scene: &crate::scene::Scene| {
        let mut events = Subscriber::open(scene.api_addr(), "leader", None);
        assert_eq!(events.next(LONG).unwrap().event, "snapshot");
        events
    };
    cluster.members.iter().map(open).collect()
}

fn id(wrapper: &Wrapper<'_>) -> String {
    let status = wrapper.wait_status(LONG, "its id", |status| status["leader"]["memberId"].is_string());
    status["leader"]["memberId"].as_str().unwrap().to_owned()
}

/// Somebody leads, in a later term than this.
fn is_led_after(term: u64) -> impl Fn(&Message) -> bool {
    move |message| {
        let leader = &message.data["leader"];
        leader["leaderId"].is_string() && leader["term"].as_u64().is_some_and(|now| now > term)
    }
}

fn term(wrapper: &Wrapper<'_>) -> u64 {
    wrapper.status()["leader"]["term"].as_u64().unwrap()
}

#[test]
fn a_leader_that_is_moved_is_heard_of_at_every_member_at_once() {
    const MOVES: usize = 12;
    let cluster = Cluster::plain("3.5");
    let wrappers = cluster.start_ready();
    let ids: Vec<_> = wrappers.iter().map(id).collect();
    let mut leads = leader(&wrappers);
    let mut subscribers = subscribe(&cluster);
    let mut delays = Vec::new();
    for _ in 0..MOVES {
        let next = (leads + 1) % 3;
        let began = Instant::now();
        cluster.members[leads].etcdctl(&["move-leader", &ids[next]]);
        let moved = Instant::now();
        for (place, events) in subscribers.iter_mut().enumerate() {
            let message = events.until(5 * SECOND, "the new leader", |message| {
                message.data["leader"]["leaderId"] == ids[next].as_str()
            });
            assert_eq!(message.data["leader"]["isLeader"], place == next);
            assert!(message.at > began);
            delays.push(message.at.saturating_duration_since(moved));
        }
        leads = next;
    }
    delays.sort();
    let (p50, p99) = (delays[delays.len() / 2], delays[delays.len() - 1]);
    eprintln!(
        "from the end of move-leader to the subscriber: p50 {p50:?}, worst of {} {p99:?}",
        delays.len()
    );
    // The figures are 150 and 400 ms, for a machine that does nothing else.
    assert!(p50 < SECOND / 2 && p99 < 2 * SECOND, "{delays:?}");
}

#[test]
fn invariant_9_a_frozen_leader_is_given_up_by_its_own_wrapper_and_replaced_at_the_others() {
    let cluster = Cluster::plain("3.5");
    let wrappers = cluster.start_ready();
    let leads = leader(&wrappers);
    let before = term(&wrappers[leads]);
    let mut subscribers = subscribe(&cluster);
    let etcd = wrappers[leads].etcd_pid();
    freeze(&[etcd]);
    let began = Instant::now();
    let told = |message: &Message, what: &str| eprintln!("{what} after {:?}", message.at - began);
    // Two polls of 1 s each.
    let given_up = subscribers[leads]
        .until(10 * SECOND, "leadership given up", |message| message.data["leader"]["isLeader"] == false);
    told(&given_up, "given up");
    assert!(given_up.at - began < 5 * SECOND);
    for place in [(leads + 1) % 3, (leads + 2) % 3] {
        let message = subscribers[place].until(15 * SECOND, "a new leader", is_led_after(before));
        told(&message, "replaced");
    }
    thaw(&[etcd]);
    let message = subscribers[leads].until(15 * SECOND, "the new leader", is_led_after(before));
    assert_eq!(message.data["leader"]["isLeader"], false);
}

#[test]
fn a_killed_leader_is_told_with_bye_and_replaced_at_the_others() {
    let cluster = Cluster::plain("3.5");
    let mut wrappers = cluster.start_ready();
    let leads = leader(&wrappers);
    let before = term(&wrappers[leads]);
    let mut subscribers = subscribe(&cluster);
    let began = Instant::now();
    signal(wrappers[leads].etcd_pid(), Signal::KILL);
    let rest = subscribers[leads].rest(LONG);
    let (first, last) = (&rest[0], rest.last().unwrap());
    assert_eq!(
        (first.event.as_str(), &first.data["leader"]["isLeader"]),
        ("leader", &false.into()),
        "{rest:?}"
    );
    assert_eq!(last.event, "bye");
    eprintln!("its end after {:?}", first.at - began);
    assert!(first.at - began < 2 * SECOND);
    assert_eq!(wrappers[leads].wait_exit(LONG), 10);
    let mut slowest = Duration::ZERO;
    for place in [(leads + 1) % 3, (leads + 2) % 3] {
        let message = subscribers[place].until(15 * SECOND, "a new leader", is_led_after(before));
        slowest = slowest.max(message.at - began);
    }
    eprintln!("replaced after {slowest:?}");
}
