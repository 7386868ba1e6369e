// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The verbs in a real cluster of three: guards, turns, leadership.
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Instant;

use doubles::wait::{self, Poll};
use rstest::rstest;
use serde_json::{Value, json};

use crate::cluster::{Cluster, freeze, leader, thaw};
use crate::http::{Answer, Caller};
use crate::scene::{LONG, SECOND, Scene, Wrapper};

const JSON: &[(&str, &str)] = &[("Content-Type", "application/json")];

fn post(wrapper: &Wrapper<'_>, path: &str, body: &Value) -> Answer {
    post_by(&wrapper.caller(), path, body)
}

/// Without a body when it is null.
fn post_by(caller: &Caller, path: &str, body: &Value) -> Answer {
    let caller = caller.clone().within(4 * LONG);
    if body.is_null() { caller.post(path) } else { caller.call("POST", path, JSON, &body.to_string()) }
}

/// The document of a verb that was waited for, and succeeded.
#[track_caller]
fn done(answer: &Answer) -> Value {
    let document = answer.json();
    assert_eq!((answer.status, &document["status"]), (200, &json!("succeeded")), "{document}");
    document
}

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str) -> Value {
    let document = answer.json();
    assert_eq!((answer.status, document["code"].as_str()), (status, Some(code)), "{document}");
    document
}

fn phase(caller: &Caller) -> String {
    caller.get("/v1/status").json()["wrapper"]["phase"].as_str().unwrap().to_owned()
}

fn leads(wrapper: &Wrapper<'_>) -> bool {
    wrapper.caller().get("/v1/leader").json()["isLeader"] == true
}

/// A client that holds a stream open, as a sidecar's watch does: etcd waits for it when it stops, out of its clients' reach
/// and in its peers' sight. It asks for no leader, so that no change of leaders ends it.
#[track_caller]
fn watch(scene: &Scene) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", scene.client_port())).unwrap();
    let body = r#"{"create_request":{"key":"YQ=="}}"#;
    let head = format!("POST /v3/watch HTTP/1.1\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n", "the stream is open");
    stream
}

#[rstest]
#[case::v3_5("3.5", true)]
#[case::v3_6("3.6", false)]
fn e19_three_serial_restarts_at_once_never_have_two_members_down(
    #[case] line: &'static str,
    #[case] watched: bool,
) {
    let cluster = Cluster::plain(line);
    let wrappers = cluster.start_ready();
    let _watches: Vec<_> = cluster.members.iter().filter(|_| watched).map(watch).collect();
    let callers: Vec<_> = wrappers.iter().map(Wrapper::caller).collect();
    let mut most_down = 0;
    let results = std::thread::scope(|scope| {
        let restart = |caller| post_by(caller, "/v1/etcd/restart?wait=3m", &json!({"guard": "serial"}));
        let restarts: Vec<_> = callers.iter().map(|caller| scope.spawn(move || restart(caller))).collect();
        // Watched for as long as one of them is under way.
        wait::until(4 * LONG, "three restarts", || {
            let phases: Vec<_> = callers.iter().map(phase).collect();
            let down = phases.iter().filter(|phase| *phase != "running").count();
            most_down = most_down.max(down);
            assert!(down <= 1, "two members are down at once: {phases:?}");
            Poll::when(restarts.iter().all(std::thread::ScopedJoinHandle::is_finished), || {
                format!("{phases:?}")
            })
        });
        restarts.into_iter().map(|restart| restart.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(most_down, 1, "nobody was seen down: the watch was blind");
    for answer in &results {
        assert_eq!(done(answer)["result"]["generation"], 2);
    }
    for (wrapper, scene) in wrappers.iter().zip(&cluster.members) {
        wrapper.wait_ready();
        scene.etcdctl(&["endpoint", "health"]);
    }
}

#[rstest]
#[case::plain("3.5", false)]
#[case::tls("3.7", true)]
fn e19_the_last_healthy_voters_refuse_to_go_unless_told_otherwise(
    #[case] line: &'static str,
    #[case] tls: bool,
) {
    let cluster = Cluster::of(line, tls);
    let wrappers = cluster.start_ready();
    done(&post(&wrappers[0], "/v1/etcd/stop?wait=30s", &json!({})));
    wrappers[0].wait_status(SECOND, "stopped", |status| status["health"]["diagnosis"] == "stopped");
    // A peer that is gone counts as active until etcd notices.
    let (etcds, began) = ([wrappers[1].etcd_pid(), wrappers[2].etcd_pid()], Instant::now());
    for verb in ["stop", "restart"] {
        let problem = wait::until(6 * SECOND, "a refusal", || {
            let answer = post(&wrappers[1], &format!("/v1/etcd/{verb}"), &json!({}));
            Poll::from_option((answer.status == 409).then(|| answer.json()), || answer.body.clone())
        });
        assert_eq!(problem["code"], "would_break_quorum");
        assert!(problem["detail"].as_str().unwrap().contains("1 of 3 voters"), "{problem}");
    }
    refused(&post(&wrappers[1], "/v1/etcd/stop", &json!({"force": true})), 409, "would_break_quorum");
    assert_eq!(
        [wrappers[1].etcd_pid(), wrappers[2].etcd_pid()],
        etcds,
        "refused after {:?}",
        began.elapsed()
    );

    done(&post(&wrappers[1], "/v1/etcd/stop?wait=30s", &json!({"guard": "none"})));
    wrappers[2].wait_status(10 * SECOND, "quorum lost", |status| {
        status["health"]["diagnosis"] == "quorum_lost_member_alive"
    });
    let confirmed = wrappers[2].caller().within(LONG).get("/v1/leader?confirm=true");
    assert!([503, 504].contains(&confirmed.status), "{confirmed:?}");
    refused(&post(&wrappers[2], "/v1/etcd/stop", &json!({})), 409, "would_break_quorum");

    for wrapper in &wrappers[..2] {
        done(&post(wrapper, "/v1/etcd/start?wait=60s", &Value::Null));
    }
    for wrapper in &wrappers {
        wrapper.wait_ready();
    }
}

#[test]
fn leadership_in_a_cluster_moves_when_it_is_asked_for_and_before_a_stop() {
    let cluster = Cluster::plain("3.5");
    let wrappers = cluster.start_ready();
    let first = leader(&wrappers);
    let confirmed = wrappers[first].caller().get("/v1/leader?confirm=true").json();
    assert_eq!(
        (&confirmed["confirmed"], &confirmed["isLeader"]),
        (&json!(true), &json!(true)),
        "{confirmed}"
    );

    let follower = (first + 1) % 3;
    let unchanged = done(&post(&wrappers[follower], "/v1/etcd/transfer-leadership", &Value::Null));
    assert_eq!(unchanged["changed"], false);
    let moved = done(&post(&wrappers[first], "/v1/etcd/transfer-leadership?wait=10s", &Value::Null));
    assert_eq!(moved["changed"], true);
    let second = wait::until(LONG, "the next leader", || {
        let places: Vec<_> = (0..3).filter(|place| leads(&wrappers[*place])).collect();
        Poll::from_option(places.iter().copied().find(|place| *place != first), || format!("{places:?}"))
    });

    // Handed over before SIGTERM: nobody has to wait for an election.
    let term = wrappers[second].caller().get("/v1/leader").json()["term"].clone();
    done(&post(&wrappers[second], "/v1/etcd/stop?wait=30s", &json!({"transferLeadership": true})));
    assert!(wrappers[second].log().contains("leadership handed over"), "{}", wrappers[second].log());
    let third = leader(&wrappers);
    assert_ne!(third, second);
    let told = wrappers[third].caller().get("/v1/leader").json();
    assert_eq!(told["term"].as_u64(), term.as_u64().map(|term| term + 1), "one election, called for: {told}");

    done(&post(&wrappers[second], "/v1/etcd/start?wait=60s", &Value::Null));
    for wrapper in &wrappers {
        wrapper.wait_ready();
    }
    let before = wrappers[third].log().matches("leadership handed over").count();
    done(&post(&wrappers[third], "/v1/etcd/restart?wait=60s", &json!({"transferLeadership": false})));
    assert_eq!(wrappers[third].log().matches("leadership handed over").count(), before);
}

#[test]
fn leadership_in_a_cluster_stays_where_nobody_could_take_it() {
    let cluster = Cluster::plain("3.5");
    let wrappers = cluster.start_ready();
    let place = leader(&wrappers);
    let frozen = [1, 2].map(|step| wrappers[(place + step) % 3].etcd_pid());
    freeze(&frozen);
    // Peers count as active until etcd has noticed; what is tried before that fails as an operation.
    wait::until(LONG, "a failed transfer", || {
        let answer = post(&wrappers[place], "/v1/etcd/transfer-leadership?wait=10s", &Value::Null);
        let document = answer.json();
        let failed = document["status"] == "failed" && document["problem"]["code"] == "no_candidate";
        Poll::when(failed || document["changed"] == false, || document.to_string())
    });
    thaw(&frozen);
    for wrapper in &wrappers {
        wrapper.wait_readyz(10 * SECOND, 200);
    }

    let alone = Scene::real("3.5");
    let single = alone.start_ready();
    single.wait_status(LONG, "its members", |status| status["member"]["id"].is_string());
    refused(&post(&single, "/v1/etcd/transfer-leadership", &Value::Null), 422, "no_candidate");
    // A cluster of one is exempt from the guard.
    done(&post(&single, "/v1/etcd/stop?wait=30s", &json!({})));
}
