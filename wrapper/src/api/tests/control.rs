// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The verbs: what reaches the supervisor, and how its decisions are answered.
use std::sync::Arc;
use std::time::SystemTime;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::rig::{Recorded, Rig, read_reply, request, within};
use crate::supervise::command::{Accepted, Code, Command, Refusal, Validation};
use crate::supervise::view::{CoreView, OperationKind, OperationPhase, OperationStatus, OperationView};

async fn send(rig: &Rig, target: &str, extra: &str) -> Recorded<TcpStream> {
    let mut stream = rig.connect().await;
    within(stream.write_all(request("POST", target, extra).as_bytes())).await.unwrap();
    stream
}

fn operation(status: OperationStatus) -> OperationView {
    let done = !matches!(status, OperationStatus::Pending | OperationStatus::Running);
    OperationView {
        id: 17,
        kind: OperationKind::Start,
        status,
        phase: if done { OperationPhase::Done } else { OperationPhase::Starting },
        changed: true,
        started_at: SystemTime::now(),
        finished_at: done.then(SystemTime::now),
        generation: done.then_some(4),
        problem: (status == OperationStatus::Failed)
            .then(|| Refusal { code: Code::SidecarUnavailable, detail: "refused".into() }),
        last_error: None,
    }
}

fn show(core: &mut CoreView, operation: OperationView) {
    core.operations = Arc::new([operation].into());
}

#[tokio::test]
async fn an_accepted_start_is_a_202_with_its_operation() {
    let mut rig = Rig::start();
    let mut caller =
        send(&rig, "/v1/etcd/start?validation=full&ifGeneration=3", "Content-Length: 0\r\n").await;
    let request = rig.command().await;
    match request.command {
        Command::Start(start) => {
            assert!(start.validation == Validation::Ask(crate::supervise::view::Mode::Full));
            assert_eq!((start.if_generation, start.posted.is_none()), (Some(3), true));
        }
        other => panic!("{other:?}"),
    }
    rig.core.send_modify(|core| show(core, operation(OperationStatus::Running)));
    request.reply.send(Ok(Accepted { operation: Some(17), changed: true })).unwrap();
    let reply = read_reply(&mut caller).await;
    assert_eq!((reply.status, &reply.json()["id"]), (202, &"op-3f9a1c-17".into()));
}

#[tokio::test]
async fn a_caller_that_waits_gets_the_finished_operation_with_its_problem() {
    let mut rig = Rig::start();
    let mut caller = send(&rig, "/v1/etcd/start?wait=5m", "").await;
    let request = rig.command().await;
    // What readers see comes first; the decision follows.
    rig.core.send_modify(|core| show(core, operation(OperationStatus::Running)));
    request.reply.send(Ok(Accepted { operation: Some(17), changed: true })).unwrap();
    tokio::task::yield_now().await;
    rig.core.send_modify(|core| show(core, operation(OperationStatus::Failed)));
    let reply = read_reply(&mut caller).await;
    let document = reply.json();
    assert_eq!((reply.status, &document["status"]), (200, &"failed".into()));
    assert_eq!(document["problem"]["code"], "sidecar_unavailable");
    assert!(document["problem"].get("phase").is_none());
}

#[tokio::test]
async fn nothing_to_do_is_a_200() {
    let mut rig = Rig::ready();
    let mut caller = send(&rig, "/v1/etcd/start?wait=5m", "").await;
    rig.command().await.reply.send(Ok(Accepted { operation: None, changed: false })).unwrap();
    let reply = read_reply(&mut caller).await;
    let document = reply.json();
    assert_eq!(
        (reply.status, &document["changed"], &document["status"]),
        (200, &false.into(), &"succeeded".into())
    );
}

#[tokio::test]
async fn a_refusal_is_a_problem_with_the_supervisors_words() {
    let mut rig = Rig::start();
    let mut caller = send(&rig, "/v1/etcd/start", "").await;
    let refusal = Refusal { code: Code::ShuttingDown, detail: "on the way out".into() };
    rig.command().await.reply.send(Err(refusal)).unwrap();
    let reply = read_reply(&mut caller).await;
    assert_eq!(
        (reply.status, reply.code().as_str(), reply.header("retry-after")),
        (503, "shutting_down", Some("5"))
    );
    let document = reply.json();
    assert_eq!((&document["detail"], &document["phase"]), (&"on the way out".into(), &"initializing".into()));
}

#[tokio::test]
async fn a_supervisor_that_is_gone_is_a_shutdown() {
    let mut rig = Rig::start();
    let mut caller = send(&rig, "/v1/etcd/start", "").await;
    drop(rig.command().await);
    assert_eq!(read_reply(&mut caller).await.code(), "shutting_down");
}

#[tokio::test]
async fn broken_requests_reach_nobody() {
    let mut rig = Rig::start();
    for (target, extra, code) in [
        ("/v1/etcd/start?forse=true", "", "unknown_field"),
        ("/v1/etcd/start?ready=hold", "", "invalid_value"),
        ("/v1/etcd/start", "Content-Type: text/plain\r\nContent-Length: 9\r\n", "unsupported_media_type"),
        ("/v1/etcd/start", "Content-Type: application/yaml\r\nContent-Length: 1048577\r\n", "too_large"),
        ("/v1/etcd/start", "Content-Type: application/yaml\r\nContent-Length: 0\r\n", "bad_request"),
        ("/v1/etcd/stop", "Content-Length: 65537\r\n", "too_large"),
        ("/v1/etcd/stop?force=true", "", "unknown_field"),
        ("/v1/etcd/restart?config=file", "", "invalid_value"),
        ("/v1/etcd/transfer-leadership", "Content-Length: 2\r\n", "unsupported_media_type"),
        ("/v1/etcd/start", "Origin: http://evil.example\r\n", "forbidden"),
    ] {
        let mut caller = send(&rig, target, extra).await;
        assert_eq!(read_reply(&mut caller).await.code(), code, "{target} {extra}");
    }
    assert!(rig.commands.try_recv().is_err());
}
