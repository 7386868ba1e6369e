// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Status, leader, long-polls, metrics.
use tokio::io::AsyncWriteExt;

use super::rig::{Rig, read_reply, request, running_core, within};
use crate::api::wire;
use crate::supervise::view::Phase;

/// The status once the publisher has seen what the test sent.
async fn status_at(rig: &Rig, phase: &str) -> serde_json::Value {
    within(async {
        loop {
            let status = rig.get("/v1/status").await.json();
            let (epoch, index) = (status["epoch"].as_str().unwrap(), status["index"].as_u64().unwrap());
            let poll = rig.get(&format!("/v1/status?after={epoch}:{}&wait=1s", index - 1)).await.json();
            if poll["wrapper"]["phase"] == phase {
                return poll;
            }
        }
    })
    .await
}

#[tokio::test]
async fn the_status_is_complete_and_readable_by_a_client() {
    let rig = Rig::ready();
    let reply = rig.get("/v1/status").await;
    let status: wire::Status = serde_json::from_str(&reply.body).unwrap();
    assert_eq!((status.epoch.as_str(), status.wrapper.phase.as_ref()), ("3f9a1c", "running"));
    assert_eq!(status.leader.leader_id.as_deref(), Some("8e9e05c52164694d"));
    assert!(status.leader.is_leader && status.readiness.ready && status.member.is_none());
    assert_eq!(status.health.diagnosis, "healthy");
    let json = reply.json();
    // What cannot be known is null, never absent.
    assert!(json["etcd"]["db"].is_null() && json["etcd"].get("lastExit").is_some(), "{json}");
    assert_eq!(json["etcd"]["configSource"], "sidecar");
    assert_eq!(json["etcd"]["effective"]["dataDir"], "/var/etcd/data/new.etcd");
    assert_eq!(json["warnings"], serde_json::json!([]));
    assert!(json.get("changed").is_none());
}

#[tokio::test]
async fn without_a_child_ids_term_and_role_are_null() {
    let rig = Rig::ready();
    rig.core.send_modify(|core| core.child = None);
    let leader = rig.get("/v1/leader").await.json();
    for key in ["memberId", "leaderId", "term", "isLearner", "age", "source"] {
        assert!(leader[key].is_null(), "{key}: {leader}");
    }
    assert_eq!(leader["isLeader"], false);
}

#[tokio::test]
async fn invariant_9_a_stop_that_begins_ends_leadership_before_sigterm() {
    let rig = Rig::ready();
    rig.core.send_modify(|core| core.draining = true);
    let leader = rig.get("/v1/leader").await.json();
    assert_eq!((&leader["isLeader"], &leader["leaving"]), (&false.into(), &true.into()));
    // An answer of an earlier generation says nothing of this one.
    rig.core.send_replace(running_core());
    rig.member(|member| member.generation = Some(0));
    assert_eq!(rig.get("/v1/leader").await.json()["isLeader"], false);
}

#[tokio::test]
async fn a_long_poll_returns_when_something_changed() {
    let rig = Rig::ready();
    let index = status_at(&rig, "running").await["index"].as_u64().unwrap();
    let mut poll = rig.connect().await;
    let target = format!("/v1/status?after=3f9a1c:{index}&wait=5m");
    within(poll.write_all(request("GET", &target, "").as_bytes())).await.unwrap();
    rig.core.send_modify(|core| core.phase = Phase::Stopped);
    let status = read_reply(&mut poll).await.json();
    assert_eq!((&status["changed"], &status["wrapper"]["phase"]), (&true.into(), &"stopped".into()));
    assert!(status["index"].as_u64().unwrap() > index, "{status}");
}

#[tokio::test]
async fn what_changes_all_the_time_is_no_news() {
    let rig = Rig::ready();
    let index = status_at(&rig, "running").await["index"].as_u64().unwrap();
    rig.core.send_modify(|core| core.ticked = std::time::Instant::now());
    rig.member(|member| {
        member.linearizable_read.as_mut().unwrap().detail = "4 ms".into();
        member.db = Some(crate::member::view::Db { size: 10, in_use: 5, quota: 2 << 30 });
    });
    let status = rig.get(&format!("/v1/status?after=3f9a1c:{index}&wait=100ms")).await.json();
    assert_eq!((&status["changed"], &status["index"]), (&false.into(), &index.into()));
    assert_eq!(status["etcd"]["db"]["size"], 10, "the document itself is always the newest");
}

#[tokio::test]
async fn a_leader_poll_sleeps_through_other_news() {
    let rig = Rig::ready();
    let index = status_at(&rig, "running").await["index"].as_u64().unwrap();
    rig.core.send_modify(|core| core.hold_reason = Some("x".into()));
    let poll = rig.get(&format!("/v1/leader?after=3f9a1c:{index}&wait=100ms")).await.json();
    assert_eq!(poll["changed"], false);
    rig.member(|member| {
        let leadership = member.leadership.as_mut().unwrap();
        leadership.is_leader = false;
        leadership.leader_id = Some(0xab);
        leadership.term = Some(5);
    });
    let poll = rig.get(&format!("/v1/leader?after=3f9a1c:{index}&wait=5m")).await.json();
    assert_eq!((&poll["changed"], &poll["leaderId"], &poll["term"]), (&true.into(), &"ab".into(), &5.into()));
}

#[tokio::test]
async fn a_foreign_or_future_position_is_reset_and_a_broken_one_refused() {
    let rig = Rig::ready();
    for after in ["other:1", "3f9a1c:99999"] {
        let status = rig.get(&format!("/v1/status?after={after}&wait=5m")).await.json();
        assert_eq!(status["reset"], true, "{after}");
    }
    for target in ["/v1/status?after=x", "/v1/leader?after=3f9a1c:-1", "/v1/status?wait=soon"] {
        assert_eq!(rig.get(target).await.code(), "invalid_value", "{target}");
    }
    let reply = rig.get("/v1/status?aftr=3f9a1c:1").await;
    assert_eq!(reply.code(), "unknown_field");
    assert_eq!(reply.json()["errors"][0]["suggestion"], "after");
}

#[tokio::test]
async fn the_version_is_open() {
    let rig = Rig::start();
    let version = rig.call("GET", "/v1/version", "Via: 1.1 proxy\r\n").await.json();
    assert_eq!((&version["etcdVersion"], &version["revision"]), (&"3.5.35".into(), &"abc".into()));
}

#[tokio::test]
async fn metrics_come_in_the_format_asked_for() {
    let rig = Rig::ready();
    rig.get("/nowhere/of/a/stranger").await;
    let text = rig.get("/metrics").await;
    assert_eq!(text.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "etcd_wrapper_phase{phase=\"running\"} 1",
        "etcd_wrapper_ready 1",
        "etcd_wrapper_http_requests_total{route=\"other\",code=\"404\"} 1",
        "etcd_wrapper_child_starts_total 1",
        "etcd_wrapper_is_leader 1",
    ] {
        assert!(text.body.lines().any(|known| known == line), "{line} not in\n{}", text.body);
    }
    let open = rig.call("GET", "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n").await;
    assert!(open.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(open.body.ends_with("# EOF\n"));
}
