// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The probes in all their forms.
use std::time::{Duration, Instant};

use super::rig::{Rig, answering_member};
use crate::supervise::view::Phase;

#[tokio::test]
async fn d11_bootstrap_answers_503_with_reason_and_phase() {
    let rig = Rig::start();
    let reply = rig.get("/readyz").await;
    assert_eq!((reply.status, reply.body.as_str()), (503, ""));
    assert_eq!(reply.header("etcd-wrapper-reason"), Some("process"));
    assert_eq!(reply.header("etcd-wrapper-phase"), Some("initializing"));
    assert_eq!(rig.get("/startupz").await.status, 503);
    assert_eq!(rig.get("/livez").await.status, 200);
}

#[tokio::test]
async fn a_ready_member_answers_200_with_an_empty_body_and_no_reason() {
    let rig = Rig::ready();
    let reply = rig.get("/readyz").await;
    assert_eq!((reply.status, reply.body.as_str(), reply.header("content-length")), (200, "", Some("0")));
    assert_eq!((reply.header("etcd-wrapper-reason"), reply.header("etcd-wrapper-phase")), (None, None));
    assert_eq!(rig.get("/startupz").await.status, 200);
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let rig = Rig::ready();
    let reply = rig.call("HEAD", "/readyz?verbose", "").await;
    assert_eq!((reply.status, reply.body.as_str()), (200, ""));
    assert_eq!(rig.call("HEAD", "/livez", "").await.status, 200);
}

#[tokio::test]
async fn verbose_lists_the_checks_and_json_gives_the_document() {
    let rig = Rig::ready();
    let text = rig.get("/readyz?verbose").await;
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    assert!(
        text.body.contains("[+]process ok\n") && text.body.ends_with("readyz check passed\n"),
        "{text:?}"
    );

    rig.core.send_modify(|core| core.draining = true);
    let text = rig.get("/readyz?verbose=1").await;
    assert!(
        text.body.contains("[-]draining failed: ") && text.body.ends_with("readyz check failed\n"),
        "{text:?}"
    );
    let json = rig.call("GET", "/readyz", "Accept: application/json;q=0.9, */*\r\n").await;
    assert_eq!((json.status, json.header("content-type")), (503, Some("application/json")));
    let document = json.json();
    assert_eq!((&document["ready"], &document["reason"]), (&false.into(), &"draining".into()));
    assert!(document["override"].is_null());
    // curl's own Accept is no wish for JSON.
    assert_eq!(rig.call("GET", "/readyz", "Accept: */*\r\n").await.body, "");
}

#[tokio::test]
async fn checks_can_be_excluded_and_asked_for_one_by_one() {
    let rig = Rig::ready();
    rig.core.send_modify(|core| core.draining = true);
    assert_eq!(rig.get("/readyz?exclude=draining").await.status, 200);
    let reply = rig.get("/readyz?exclude=process").await;
    assert_eq!((reply.status, reply.header("etcd-wrapper-reason")), (503, Some("draining")));
    assert_eq!(rig.get("/readyz/process").await.status, 200);
    let reply = rig.get("/readyz/draining?verbose").await;
    assert_eq!(reply.status, 503);
    assert!(reply.body.starts_with("[-]draining failed: "), "{reply:?}");
    assert_eq!(rig.get("/readyz/nonsense").await.code(), "not_found");
}

#[tokio::test]
async fn d16_a_stuck_prober_turns_readiness_red() {
    let rig = Rig::ready();
    rig.member(|member| {
        let old = Instant::now() - Duration::from_secs(11);
        for probe in [&mut member.linearizable_read, &mut member.status, &mut member.serializable_read] {
            let probe = probe.as_mut().unwrap();
            probe.at = old;
            probe.last_success = Some(old);
        }
    });
    let reply = rig.get("/readyz").await;
    assert_eq!((reply.status, reply.header("etcd-wrapper-reason")), (503, Some("fresh")));
}

#[tokio::test]
async fn d8_livez_looks_at_nothing_but_the_loop() {
    let rig = Rig::ready();
    rig.core.send_modify(|core| {
        core.child = None;
        core.phase = Phase::Backoff;
    });
    assert_eq!(rig.get("/livez").await.status, 200);
    rig.core.send_modify(|core| core.ticked = Instant::now() - Duration::from_secs(11));
    assert_eq!(rig.get("/livez").await.status, 503);
}

#[tokio::test]
async fn d9_d10_a_thousand_probes_are_answered_while_the_supervisor_sleeps() {
    // Nobody reads the mailbox and nobody writes a view: a probe needs neither.
    let rig = Rig::ready();
    for _ in 0..10 {
        // On a busy machine the answers of etcd would grow old meanwhile.
        rig.member(|member| *member = answering_member());
        for _ in 0..100 {
            assert_eq!(rig.get("/readyz").await.status, 200);
        }
    }
}
