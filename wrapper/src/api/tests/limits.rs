// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What slow, idle, greedy and broken callers may cost.
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::rig::{Client, Rig, exchange, limits, policy, read_all, read_reply, request, within};
use crate::api::listener::Limits;

#[tokio::test]
async fn d13_a_request_may_come_byte_by_byte() {
    let rig = Rig::ready();
    let mut stream = rig.connect().await;
    stream.stream.set_nodelay(true).unwrap();
    for byte in request("GET", "/readyz", "").as_bytes() {
        within(stream.write_all(&[*byte])).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(read_reply(&mut stream).await.status, 200);
}

#[tokio::test]
async fn j4_a_request_line_without_end_is_closed() {
    let rig = Rig::with(policy(), Limits { step: Duration::from_millis(200), ..limits() });
    let mut stream = rig.connect().await;
    within(stream.write_all(b"GET /readyz")).await.unwrap();
    assert_eq!(read_all(&mut stream).await, "");
    // The same for one who never says a word, one who never ends a TLS greeting, and one who goes silent later.
    assert_eq!(read_all(&mut rig.connect().await).await, "");
    let mut stream = rig.connect().await;
    within(stream.write_all(&[0x16, 3, 1])).await.unwrap();
    assert_eq!(read_all(&mut stream).await, "");
    let mut stream = rig.connect().await;
    within(stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")).await.unwrap();
    assert!(read_all(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn j4_headers_above_16_kib_are_refused() {
    let rig = Rig::ready();
    let padding = |bytes: usize| format!("X-Padding: {}\r\n", "x".repeat(bytes));
    assert_eq!(rig.call("GET", "/readyz", &padding(15 * 1024)).await.status, 200);
    assert_eq!(rig.call("GET", "/readyz", &padding(17 * 1024)).await.status, 431);
    let many = "X-Padding: x\r\n".repeat(200);
    assert_eq!(rig.call("GET", "/readyz", &many).await.status, 431);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let rig = Rig::ready();
    let mut stream = rig.connect().await;
    let one = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let all = format!("{}{}{}", one("/livez"), one("/nowhere"), request("GET", "/startupz", ""));
    within(stream.write_all(all.as_bytes())).await.unwrap();
    let answers = read_all(&mut stream).await;
    let statuses: Vec<_> = answers
        .match_indices("HTTP/1.1 ")
        .map(|(at, found)| &answers[at + found.len()..at + found.len() + 3])
        .collect();
    assert_eq!(statuses, ["200", "404", "200"]);
}

#[tokio::test]
async fn whoever_holds_every_connection_does_not_lock_out_a_probe() {
    let rig = Rig::with(policy(), Limits { room: 4, ..limits() });
    let mut silent = Vec::new();
    for _ in 0..12 {
        let mut stream = rig.connect().await;
        within(stream.write_all(b"GET /re")).await.unwrap();
        silent.push(stream);
    }
    assert_eq!(rig.get("/livez").await.status, 200);
    let mut tls = rig.connect_tls(Client::Nobody).await;
    assert_eq!(exchange(&mut tls, &request("GET", "/livez", "")).await.status, 200);
    // The longest silent ones went first.
    assert_eq!(read_all(&mut silent[0]).await, "");
    assert_eq!(read_all(&mut silent[1]).await, "");
}

#[tokio::test]
async fn a_waiting_long_poll_outlives_silent_connections() {
    let rig = Rig::with(policy(), Limits { room: 4, ..limits() });
    let mut poll = rig.connect().await;
    let target = "/v1/status?after=3f9a1c:1&wait=10m";
    within(poll.write_all(request("GET", target, "").as_bytes())).await.unwrap();
    // Served meanwhile, so the long-poll has been read when the crowd comes.
    assert_eq!(rig.get("/livez").await.status, 200);
    let mut silent = Vec::new();
    for _ in 0..12 {
        silent.push(rig.connect().await);
        assert_eq!(rig.get("/livez").await.status, 200);
    }
    rig.core.send_modify(|core| core.phase = crate::supervise::view::Phase::Held);
    let reply = read_reply(&mut poll).await;
    assert_eq!((reply.status, &reply.json()["wrapper"]["phase"]), (200, &"held".into()));
}

#[tokio::test]
async fn the_port_closes_only_at_the_end_and_answers_under_way_are_finished() {
    let rig = Rig::ready();
    let mut poll = rig.connect().await;
    let target = "/v1/status?after=3f9a1c:999&wait=10m";
    assert_eq!(exchange(&mut poll, &request("GET", target, "")).await.json()["reset"], true);
    let index = rig.get("/v1/status").await.json()["index"].as_u64().unwrap();
    let mut poll = rig.connect().await;
    let target = format!("/v1/status?after=3f9a1c:{index}&wait=10m");
    within(poll.write_all(request("GET", &target, "").as_bytes())).await.unwrap();
    let mut idle = rig.connect().await;
    within(idle.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")).await.unwrap();
    let mut first = [0; 12];
    within(idle.read_exact(&mut first)).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");

    rig.closing.send_replace(true);
    let reply = read_reply(&mut poll).await;
    assert_eq!((reply.status, &reply.json()["changed"]), (200, &false.into()));
    read_all(&mut idle).await;
    within(rig.serving).await.unwrap();
    assert!(tokio::net::TcpStream::connect(rig.address).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn e5_whoever_stopped_in_the_middle_of_a_request_does_not_hold_up_the_end() {
    let minutes = std::time::Duration::from_secs(600);
    let rig = Rig::with(policy(), Limits { step: minutes, wind_down: minutes, ..limits() });
    let beginnings: [&[u8]; 4] =
        [b"", b"GET /readyz HT", b"GET /readyz HTTP/1.1\r\nHost: x\r\n", &[0x16, 3, 1]];
    let mut silent = Vec::new();
    for beginning in beginnings {
        let mut stream = rig.connect().await;
        within(stream.write_all(beginning)).await.unwrap();
        silent.push(stream);
    }
    // Accepted after them all, so they are served by now.
    assert_eq!(rig.get("/livez").await.status, 200);
    rig.closing.send_replace(true);
    within(rig.serving).await.unwrap();
}
