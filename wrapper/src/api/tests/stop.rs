// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `POST /stop`: the answer first, one stop for any number of calls, and nothing for other methods.
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::rig::{Client, Rig, exchange, request, within};
use crate::api::auth::{Admission, ClientIdentity, Scheme};
use crate::api::connections::Activity;
use crate::supervise::command::{Command, Shutdown};

fn is_stop(command: &Command) -> bool {
    matches!(command, Command::Shutdown(Shutdown::StopCall))
}

#[tokio::test]
async fn invariant_14_the_answer_is_out_before_the_command_is() {
    let mut rig = Rig::ready();
    let mut stream = rig.connect().await;
    within(stream.write_all(request("POST", "/stop", "").as_bytes())).await.unwrap();
    let command = rig.command().await;
    assert!(is_stop(&command.command));
    // Nothing has been read yet: what is there now was there when the command came.
    let mut bytes = [0; 1024];
    let length =
        stream.stream.try_read(&mut bytes).expect("the answer lies in the socket when the command comes");
    let answer = std::str::from_utf8(&bytes[..length]).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-length: 0\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
}

/// A caller behind a pipe that holds 8 bytes: no answer goes out before somebody reads.
fn narrow(rig: &Rig) -> tokio::io::DuplexStream {
    let (caller, server) = tokio::io::duplex(8);
    let admission = Admission {
        peer: "127.0.0.1:40000".parse().unwrap(),
        scheme: Scheme::Plain,
        etcd_certificate: false,
        trust_not_loaded: false,
        identity: ClientIdentity::None,
    };
    let activity = Arc::new(Activity::new(Instant::now()));
    tokio::spawn(rig.desk.clone().speak_http(server, admission, activity));
    caller
}

#[tokio::test]
async fn invariant_14_no_command_leaves_while_the_answer_is_stuck() {
    let mut rig = Rig::ready();
    let mut caller = narrow(&rig);
    let started = Instant::now();
    within(caller.write_all(request("POST", "/stop", "").as_bytes())).await.unwrap();
    let mut first = [0; 8];
    within(caller.read_exact(&mut first)).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let early = rig.commands.try_recv();
    // The API gives up after a second; only a machine that stood still for that long makes it excusable here.
    let stood_still = started.elapsed() > Duration::from_millis(900);
    assert!(early.is_err() || stood_still, "the command left with most of the answer still here");
    assert!(super::rig::read_all(&mut caller).await.starts_with(" 200 OK\r\n"));
    if early.is_err() {
        assert!(is_stop(&rig.command().await.command));
    }
}

#[tokio::test]
async fn a_caller_that_never_reads_delays_the_stop_by_a_second_at_most() {
    let mut rig = Rig::ready();
    let mut caller = narrow(&rig);
    within(caller.write_all(request("POST", "/stop", "").as_bytes())).await.unwrap();
    assert!(is_stop(&rig.command().await.command));
}

#[tokio::test]
async fn invariant_14_holds_over_tls_and_behind_pipelined_requests() {
    let mut rig = Rig::ready();
    rig.server_tls.send_replace(rig.certificates.server_tls(true, true));
    let mut stream = rig.connect_tls(Client::Nobody).await;
    let first = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let both = format!("{first}{}", request("POST", "/stop", ""));
    within(stream.write_all(both.as_bytes())).await.unwrap();
    rig.command().await;
    // The supervisor takes the process down at once: what was answered must arrive all the same.
    rig.serving.abort();
    let answers = super::rig::read_all(&mut stream).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
}

#[tokio::test]
async fn e2_five_calls_are_one_stop() {
    let mut rig = Rig::ready();
    for _ in 0..5 {
        let reply = rig.call("POST", "/stop", "").await;
        assert_eq!((reply.status, reply.body.as_str()), (200, ""));
    }
    assert!(is_stop(&rig.command().await.command));
    // A call that asks something of the supervisor comes out behind whatever else was sent.
    let mut probe = rig.connect().await;
    within(probe.write_all(request("POST", "/v1/etcd/start", "").as_bytes())).await.unwrap();
    assert!(matches!(rig.command().await.command, Command::Start(_)));
}

#[tokio::test]
async fn e2_a_caller_that_hangs_up_counts() {
    let mut rig = Rig::ready();
    let mut stream = rig.connect().await;
    within(stream.write_all(request("POST", "/stop", "").as_bytes())).await.unwrap();
    drop(stream);
    assert!(is_stop(&rig.command().await.command));
}

#[tokio::test]
async fn a_body_that_never_comes_delays_nothing() {
    let mut rig = Rig::ready();
    let mut stream = rig.connect().await;
    let call = "POST /stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\nhalf";
    within(stream.write_all(call.as_bytes())).await.unwrap();
    assert!(is_stop(&rig.command().await.command));
}

#[tokio::test]
async fn e4_other_methods_stop_nothing() {
    let mut rig = Rig::ready();
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "post"] {
        let reply = rig.call(method, "/stop", "").await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")), "{method}");
    }
    // The mailbox holds what comes now, and nothing before it.
    assert_eq!(exchange(&mut rig.connect().await, &request("POST", "/stop", "")).await.status, 200);
    assert!(is_stop(&rig.command().await.command));
    assert!(rig.commands.try_recv().is_err());
}
