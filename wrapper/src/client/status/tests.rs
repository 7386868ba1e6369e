// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The picture of a member, whole, as a person sees it.
use serde_json::{Value, json};

use super::*;

fn document() -> Value {
    let since = "2026-12-01T10:00:00.000Z";
    json!({
        "epoch": "3f9a1c", "index": 41, "time": "2026-12-01T10:03:12.000Z",
        "wrapper": {"version": "0.1.0", "pid": 7, "startedAt": since, "intent": "up", "phase": "running",
            "phaseSince": since, "holdReason": null},
        "etcd": {"version": "3.5.35", "generation": 2, "pid": 19, "startedAt": since, "readySince": since,
            "configDigest": "sha256:0123456789abcdef0123", "configSource": "sidecar",
            "effective": {"name": "etcd-main-0", "dataDir": "/var/etcd/data/new.etcd", "listenPeerUrls": [],
                "advertisePeerUrls": [], "peerTls": true, "clientTls": true},
            "db": {"size": 25_600_000, "inUse": 9_400_000, "quota": 8_589_934_592_u64},
            "lastExit": {"generation": 1, "kind": "signaled", "code": null, "signal": "SIGTERM", "requested": true,
                "clean": true, "at": since, "cause": "restart"}},
        "bootstrap": {"state": "done", "validation": "sanity", "rounds": 1, "sidecarState": "Successful",
            "since": since, "lastError": null},
        "member": {"id": "8e9e", "peerUrls": []},
        "volume": {"freeBytes": 4_200_000_000_u64, "freeInodes": 650_000},
        "readiness": {"ready": true, "since": since, "reason": null, "override": null, "checks": [
            {"name": "linearizable_read", "ok": true, "required": true, "at": since, "detail": "3 ms"},
            {"name": "serializable_read", "ok": false, "required": false, "at": null, "detail": "not asked yet"}]},
        "leader": {"epoch": "3f9a1c", "index": 41, "memberId": "8e9e", "memberName": "etcd-main-0",
            "leaderId": "8e9e", "isLeader": true, "isLearner": false, "leaving": false, "term": 4, "generation": 2,
            "since": since, "confirmed": false, "age": "120ms", "source": "status"},
        "health": {"process": "alive", "member": "healthy", "quorum": "ok", "role": "leader", "diagnosis": "healthy"},
        "operation": null, "warnings": [],
    })
}

fn shown(document: Value, paint: Paint) -> String {
    picture(&serde_json::from_value(document).unwrap(), paint)
}

#[test]
fn a_healthy_member_fits_a_few_lines() {
    let expected = "\
etcd-main-0  READY
phase       running for 3m12s
readiness   ready for 3m12s
diagnosis   healthy
            quorum ok, member healthy, process alive
leader      etcd-main-0 leads (member 8e9e, term 4) for 3m12s
etcd        3.5.35, pid 19, generation 2 for 3m12s
            config from sidecar, sha256:0123456789ab
database    24.4 MiB, 9.0 MiB in use, 0 % of 8.0 GiB
volume      3.9 GiB free
";
    assert_eq!(shown(document(), Paint::never()), expected);
}

#[test]
fn what_is_wrong_says_why() {
    let mut document = document();
    document["readiness"] = json!({"ready": false, "since": "2026-12-01T10:03:00.000Z", "reason": "linearizable_read",
        "checks": [
            {"name": "linearizable_read", "ok": false, "required": true, "at": null, "detail": "no quorum \u{1b}[2J"},
            {"name": "nospace", "ok": false, "required": false, "at": null, "detail": null}],
        "override": {"mode": "unready", "owner": "backup-restore", "reason": "restore", "expiresAt": null, "durable": true}});
    document["health"]["diagnosis"] = "quorum_lost_member_alive".into();
    document["warnings"] = json!([{"code": "db_near_quota", "since": "…", "detail": "80 %"}]);
    document["operation"] = json!({"id": "op-17", "kind": "restart", "status": "failed", "phase": "fetching",
        "changed": false, "startedAt": "…", "finishedAt": "…", "result": null, "lastError": "refused",
        "problem": {"type": "urn:x", "title": "The sidecar does not answer", "status": 503, "detail": "tried for 45s",
            "code": "sidecar_unavailable", "retryable": true}});
    let text = shown(document, Paint::never());
    for line in [
        "etcd-main-0  NOT READY",
        "readiness   not ready for 12s",
        "            ✗ linearizable_read: no quorum  [2J",
        "            ! nospace (does not count)",
        "            override unready by backup-restore: restore (until it is ended, also beyond this process)",
        "diagnosis   quorum_lost_member_alive",
        "operation   restart op-17: failed",
        "            The sidecar does not answer: tried for 45s (sidecar_unavailable)",
        "            last error: refused",
        "warnings    db_near_quota: 80 %",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn a_member_that_waits_says_for_what() {
    let mut document = document();
    document["wrapper"]["phase"] = "initializing".into();
    document["wrapper"]["holdReason"] = "ask Ada".into();
    document["etcd"]["pid"] = Value::Null;
    document["bootstrap"] = json!({"state": "initializing", "validation": "full", "rounds": 1,
        "sidecarState": "Progress", "since": "2026-12-01T10:03:10.000Z", "lastError": null});
    for key in ["member", "volume"] {
        document[key] = Value::Null;
    }
    let text = shown(document, Paint::never());
    for line in [
        "            held: ask Ada",
        "bootstrap   initializing for 2s, validation full, the sidecar says Progress",
        "            last end 3m12s ago: SIGTERM, asked for (restart)",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn colours_change_no_word() {
    let plain = shown(document(), Paint::never());
    let painted = shown(document(), Paint::always());
    let mut bare = String::new();
    let mut rest = painted.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        bare.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    bare.push_str(rest);
    assert!(painted != plain && bare == plain, "{painted}");
}
