// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Bodies of the verbs, readiness overrides, operations, validation: what reaches the supervisor, and what is refused
//! before it.
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::rig::{Recorded, Reply, Rig, read_reply, request, within};
use crate::supervise::command::{Accepted, Command, Guard, Seat};
use crate::supervise::view::{
    OperationKind, OperationPhase, OperationStatus, OperationView, OverrideMode, OverrideView,
};

const CONFIG: &str =
    "name: a\ndata-dir: /d\nlisten-client-urls: http://0.0.0.0:2379\ninitial-cluster: a=http://h:2380\n";
const DONE: Accepted = Accepted { operation: None, changed: true };

async fn send(rig: &Rig, method: &str, target: &str, media_type: &str, body: &str) -> Recorded<TcpStream> {
    let mut stream = rig.connect().await;
    let head = format!("Content-Type: {media_type}\r\nContent-Length: {}\r\n", body.len());
    let bytes = format!("{}{body}", request(method, target, &head));
    within(stream.write_all(bytes.as_bytes())).await.unwrap();
    stream
}

async fn ask(rig: &Rig, method: &str, target: &str, media_type: &str, body: &str) -> Reply {
    read_reply(&mut send(rig, method, target, media_type, body).await).await
}

#[tokio::test]
async fn a_posted_configuration_reaches_the_supervisor_whole() {
    let mut rig = Rig::start();
    let filled = format!("{CONFIG}# {}\n", "x".repeat(1_000_000));
    let mut caller =
        send(&rig, "POST", "/v1/etcd/start?ready=hold&owner=me", "application/yaml", &filled).await;
    let request = rig.command().await;
    let Command::Start(start) = &request.command else { panic!("{request:?}") };
    let config = start.posted.as_ref().unwrap();
    assert_eq!((config.name.as_str(), &config.bytes[..]), ("a", filled.as_bytes()));
    assert_eq!(start.hold.as_ref().unwrap().owner, "me");
    request.reply.send(Ok(DONE)).unwrap();
    assert_eq!(read_reply(&mut caller).await.status, 200);
}

#[tokio::test]
async fn a_posted_configuration_that_is_wrong_is_refused_with_pointers_and_reaches_nobody() {
    let mut rig = Rig::start();
    let reply = ask(&rig, "POST", "/v1/etcd/start", "application/yaml", "name: a\ndata-dri: /d\n").await;
    assert_eq!((reply.status, reply.code().as_str()), (422, "config_invalid"));
    let errors = reply.json()["errors"].as_array().unwrap().clone();
    let of = |pointer: &str| errors.iter().find(|error| error["pointer"] == pointer);
    assert!(of("/data-dir").is_some(), "{errors:?}");
    assert!(rig.commands.try_recv().is_err());
}

#[tokio::test]
async fn half_a_body_is_no_body_and_its_caller_loses_nothing_of_others() {
    let mut rig = Rig::start();
    let mut caller = rig.connect().await;
    let head = request("POST", "/v1/etcd/start", "Content-Type: application/yaml\r\nContent-Length: 500\r\n");
    within(caller.write_all(format!("{head}{CONFIG}").as_bytes())).await.unwrap();
    within(caller.shutdown()).await.unwrap();
    let reply = read_reply(&mut caller).await;
    assert_eq!((reply.status, reply.code().as_str()), (400, "bad_request"));
    assert!(rig.commands.try_recv().is_err());
}

#[tokio::test]
async fn a_body_that_grows_beyond_the_cap_is_cut_off_there() {
    let mut rig = Rig::start();
    let mut caller = rig.connect().await;
    let head = request("POST", "/v1/etcd/stop", "Transfer-Encoding: chunked\r\n");
    within(caller.write_all(head.as_bytes())).await.unwrap();
    let chunk = format!("8000\r\n{}\r\n", " ".repeat(0x8000));
    for _ in 0..3 {
        within(caller.write_all(chunk.as_bytes())).await.unwrap();
    }
    assert_eq!(read_reply(&mut caller).await.code(), "too_large");
    assert!(rig.commands.try_recv().is_err());
}

#[tokio::test]
async fn options_of_a_stop_reach_the_supervisor() {
    let mut rig = Rig::ready();
    let body = r#"{"gracePeriod":"5s","guard":"none","hold":true,"owner":"me","reason":"repair"}"#;
    let mut caller = send(&rig, "POST", "/v1/etcd/stop", "application/json", body).await;
    let request = rig.command().await;
    let Command::Stop(stop) = &request.command else { panic!("{request:?}") };
    assert_eq!((stop.grace, stop.guard), (Some(Duration::from_secs(5)), Guard::None));
    assert_eq!(stop.hold.as_ref().unwrap().reason, "repair");
    request.reply.send(Ok(DONE)).unwrap();
    let document = read_reply(&mut caller).await.json();
    assert_eq!((&document["kind"], &document["changed"]), (&"stop".into(), &true.into()));
}

#[tokio::test]
async fn a_transfer_says_where_the_member_sits() {
    let mut rig = Rig::ready();
    let _caller = send(&rig, "POST", "/v1/etcd/transfer-leadership", "application/json", "").await;
    assert_eq!(rig.command().await.command, Command::TransferLeadership(Seat::Leads));
    let mut rig = Rig::start();
    let _caller = send(&rig, "POST", "/v1/etcd/transfer-leadership", "application/json", "").await;
    assert_eq!(rig.command().await.command, Command::TransferLeadership(Seat::Unknown));
}

#[tokio::test]
async fn an_override_is_answered_with_the_readiness_it_makes() {
    let mut rig = Rig::ready();
    let body = r#"{"mode":"unready","ttl":"2m","owner":"backup-restore","reason":"restore"}"#;
    let mut caller = send(&rig, "PUT", "/v1/readiness", "application/json", body).await;
    let request = rig.command().await;
    let Command::SetOverride(change) = &request.command else { panic!("{request:?}") };
    assert_eq!((change.mode, change.ttl), (Some(OverrideMode::Unready), Some(Duration::from_secs(120))));
    rig.core.send_modify(|core| {
        core.override_ = Some(OverrideView {
            mode: OverrideMode::Unready,
            owner: "backup-restore".into(),
            reason: "restore".into(),
            expires_at: Some(SystemTime::now()),
            durable: false,
        });
    });
    request.reply.send(Ok(DONE)).unwrap();
    let reply = read_reply(&mut caller).await;
    let document = reply.json();
    assert_eq!(
        (reply.status, &document["ready"], &document["reason"]),
        (200, &false.into(), &"override".into())
    );
    assert_eq!(document["override"]["owner"], "backup-restore");

    let mut caller = send(&rig, "DELETE", "/v1/readiness?owner=me&force", "application/json", "").await;
    let request = rig.command().await;
    let Command::SetOverride(change) = &request.command else { panic!("{request:?}") };
    assert_eq!((change.mode, change.owner.as_deref(), change.force), (None, Some("me"), true));
    request.reply.send(Ok(DONE)).unwrap();
    assert_eq!(read_reply(&mut caller).await.status, 200);
}

#[tokio::test]
async fn bad_overrides_reach_nobody() {
    let mut rig = Rig::ready();
    for (method, target, body, code) in [
        ("PUT", "/v1/readiness", r#"{"mode":"ready","owner":"me"}"#, "invalid_value"),
        ("PUT", "/v1/readiness", r#"{"mod":"ready"}"#, "unknown_field"),
        ("PUT", "/v1/readiness", "mode=ready", "bad_request"),
        ("PUT", "/v1/readiness", "", "invalid_value"),
        ("PUT", "/v1/readiness?owner=me", r#"{"mode":"auto"}"#, "unknown_field"),
        ("DELETE", "/v1/readiness?owner=", "", "invalid_value"),
        ("DELETE", "/v1/readiness", "{}", "unsupported_media_type"),
        ("POST", "/v1/readiness", "{}", "method_not_allowed"),
    ] {
        let reply = ask(&rig, method, target, "application/json", body).await;
        assert_eq!(reply.code(), code, "{method} {target} {body}");
    }
    assert!(rig.commands.try_recv().is_err());
}

#[tokio::test]
async fn operations_are_found_by_id_as_long_as_they_are_remembered() {
    let rig = Rig::ready();
    let operation = OperationView {
        id: 7,
        kind: OperationKind::Restart,
        status: OperationStatus::Succeeded,
        phase: OperationPhase::Done,
        changed: true,
        started_at: SystemTime::now(),
        finished_at: Some(SystemTime::now()),
        generation: Some(3),
        problem: None,
        last_error: None,
    };
    let newer = OperationView { id: 8, generation: None, ..operation.clone() };
    rig.core.send_modify(|core| core.operations = Arc::new([operation, newer].into()));
    let reply = ask(&rig, "GET", "/v1/operations/op-3f9a1c-7", "application/json", "").await;
    let document = reply.json();
    assert_eq!((reply.status, &document["id"]), (200, &"op-3f9a1c-7".into()));
    assert_eq!(document["result"]["generation"], 3);
    // The seventh of another process is not this one.
    for id in
        ["op-3f9a1d-7", "op-7", "op-0", "op-3f9a1c-9", "7", "op-", "op--7", "op-3f9a1c-+7", "%6Fp-3f9a1c-7"]
    {
        let reply = ask(&rig, "GET", &format!("/v1/operations/{id}"), "application/json", "").await;
        assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"), "{id}");
    }
}

#[tokio::test]
async fn a_configuration_is_validated_and_nothing_else_happens() {
    let mut rig = Rig::start();
    let reply = ask(&rig, "POST", "/v1/config/validate", "application/yaml", CONFIG).await;
    let document = reply.json();
    assert_eq!(
        (reply.status, &document["valid"], &document["findings"]),
        (200, &true.into(), &serde_json::json!([]))
    );
    let misspelt = format!("{CONFIG}snapshot-cout: 5\n");
    let document = ask(&rig, "POST", "/v1/config/validate", "application/yaml", &misspelt).await.json();
    assert_eq!(document["findings"][0]["suggestion"], "snapshot-count");
    let document = ask(&rig, "POST", "/v1/config/validate", "application/yaml", "[").await.json();
    assert_eq!((&document["valid"], &document["digest"]), (&false.into(), &serde_json::Value::Null));
    for (media_type, body, code) in
        [("application/yaml", "", "bad_request"), ("application/json", CONFIG, "unsupported_media_type")]
    {
        assert_eq!(ask(&rig, "POST", "/v1/config/validate", media_type, body).await.code(), code);
    }
    assert!(rig.commands.try_recv().is_err());
}

#[tokio::test]
async fn leadership_is_not_confirmed_without_an_etcd() {
    let rig = Rig::start();
    let reply = ask(&rig, "GET", "/v1/leader?confirm=true", "application/json", "").await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "no_leader"));
    let reply = ask(&rig, "GET", "/v1/leader?confirm=maybe", "application/json", "").await;
    assert_eq!(reply.code(), "invalid_value");
}
