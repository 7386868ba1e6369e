// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `GET /v1/events` over real connections: how streams begin, go on, are cut off, and end.
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::openapi;
use super::rig::{Client, Reply, Rig, check_reply, limits, policy, request, within};
use crate::api::events::Topic;
use crate::api::listener::Limits;
use crate::supervise::view::Phase;

/// A client of one stream.
pub(super) struct Subscriber<S> {
    stream: S,
    raw: Vec<u8>,
    body: String,
    pub(super) last_id: Option<String>,
}

/// One message: what `event:` says, and the data.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) event: String,
    pub(super) data: Value,
}

impl Message {
    fn index(&self) -> u64 {
        self.data["index"].as_u64().unwrap()
    }
}

impl<S: AsyncReadExt + AsyncWriteExt + Unpin> Subscriber<S> {
    /// Sends the request and reads the head.
    async fn over(mut stream: S, target: &str, extra: &str) -> Self {
        within(stream.write_all(request("GET", target, extra).as_bytes())).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(within(stream.read_u8()).await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        check_reply("GET", target, &Reply::parse(&head));
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        Self { stream, raw: Vec::new(), body: String::new(), last_id: None }
    }

    /// The next block, a comment included; None at the end.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.body.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.body = rest;
                return Some(block);
            }
            let mut bytes = [0; 4096];
            let read = within(self.stream.read(&mut bytes)).await.unwrap_or(0);
            if read == 0 {
                return None;
            }
            self.raw.extend_from_slice(&bytes[..read]);
            self.unchunk();
        }
    }

    fn unchunk(&mut self) {
        while let Some(end) = self.raw.windows(2).position(|pair| pair == b"\r\n") {
            let length = usize::from_str_radix(std::str::from_utf8(&self.raw[..end]).unwrap(), 16).unwrap();
            if self.raw.len() < end + 2 + length + 2 {
                return;
            }
            self.body.push_str(std::str::from_utf8(&self.raw[end + 2..end + 2 + length]).unwrap());
            self.raw.drain(..end + 2 + length + 2);
        }
    }

    async fn next(&mut self) -> Option<Message> {
        loop {
            let block = self.block().await?;
            if block == ":" {
                continue;
            }
            let field = |name: &str| {
                let line = block.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_else(|| panic!("no {name}in {block:?}")).to_owned()
            };
            let data: Value = serde_json::from_str(&field("data: ")).unwrap();
            let (id, event) = (field("id: "), field("event: "));
            assert_eq!(data["topic"], event.as_str());
            openapi::check_message(&event, &data).unwrap();
            if Topic::ALL.iter().any(|topic| topic.as_str() == event) {
                // Notifications have the same bodies.
                openapi::check_notification(&data).unwrap();
            }
            assert_eq!(id, format!("{}:{}", data["epoch"].as_str().unwrap(), data["index"]));
            self.last_id = Some(id);
            return Some(Message { event, data });
        }
    }

    async fn expect(&mut self, event: &str) -> Message {
        let message = self.next().await.unwrap_or_else(|| panic!("the stream ended before {event}"));
        assert_eq!(message.event, event, "{message:?}");
        message
    }
}

async fn subscribe(rig: &Rig, target: &str, extra: &str) -> Subscriber<TcpStream> {
    Subscriber::over(rig.connect().await.stream, target, extra).await
}

fn from(id: &str) -> String {
    format!("Last-Event-ID: {id}\r\n")
}

pub(super) fn turn(rig: &Rig, phase: Phase) {
    rig.core.send_modify(|core| core.phase = phase);
}

#[tokio::test]
async fn a_stream_begins_with_a_snapshot_and_goes_on_with_what_changes() {
    let rig = Rig::ready();
    let mut events = subscribe(&rig, "/v1/events?topics=phase,leader", "").await;
    let snapshot = events.expect("snapshot").await;
    assert_eq!(snapshot.data["status"]["index"], snapshot.data["index"]);
    turn(&rig, Phase::Stopped);
    let mut seen = Vec::new();
    for _ in 0..2 {
        let message = events.next().await.unwrap();
        assert!(message.index() > snapshot.index());
        seen.push(message);
    }
    assert_eq!((seen[0].event.as_str(), &seen[0].data["leader"]["isLeader"]), ("leader", &false.into()));
    assert_eq!(seen[0].data["leader"]["index"], seen[0].data["index"]);
    let phase = &seen[1].data;
    assert_eq!((&phase["phase"], &phase["previous"]), (&"stopped".into(), &"running".into()), "{phase}");
    assert_eq!((&phase["intent"], &phase["generation"]), (&"up".into(), &1.into()));
    assert_eq!(seen[1].index(), seen[0].index() + 1, "one id names one event");
    // Long-polls and streams count by the same positions; readiness changed too.
    let status = rig.get("/v1/status").await.json();
    assert_eq!(status["index"], seen[1].index() + 1);
}

#[tokio::test]
async fn a_subscriber_that_was_cut_off_reads_on_without_a_gap() {
    let rig = Rig::ready();
    let mut events = subscribe(&rig, "/v1/events?topics=phase", "").await;
    events.expect("snapshot").await;
    turn(&rig, Phase::Stopped);
    let first = events.expect("phase").await;
    let id = events.last_id.clone().unwrap();
    drop(events);
    for phase in [Phase::Starting, Phase::Running, Phase::Stopping] {
        turn(&rig, phase);
        let wanted = format!("etcd_wrapper_phase{{phase=\"{}\"}} 1", phase.as_str());
        assert!(rig.get("/metrics").await.body.contains(&wanted));
    }
    let mut events = subscribe(&rig, "/v1/events?topics=phase", &from(&id)).await;
    let mut last = first.index();
    for word in ["starting", "running", "stopping"] {
        let message = events.expect("phase").await;
        assert_eq!(message.data["phase"], word);
        assert!(message.index() > last);
        last = message.index();
    }
}

#[tokio::test]
async fn a_position_that_makes_no_sense_is_reset() {
    let rig = Rig::ready();
    let huge = "9".repeat(8000);
    let ids = [
        "",
        "x",
        "other:1",
        "3f9a1c:0",
        "3f9a1c:-1",
        "3f9a1c:999999",
        "3f9a1c:18446744073709551615",
        "3f9a1c:18446744073709551616",
        huge.as_str(),
        "3f9a1c:é",
    ];
    for id in ids {
        let mut events = subscribe(&rig, "/v1/events", &from(id)).await;
        let reset = events.expect("reset").await;
        let snapshot = events.expect("snapshot").await;
        assert_eq!(reset.index(), snapshot.index());
        assert_eq!(reset.data["status"]["wrapper"]["phase"], "running", "{id:.40}");
    }
    let mut stream = rig.connect().await;
    let mut raw = request("GET", "/v1/events", "").into_bytes();
    raw.truncate(raw.len() - 2);
    raw.extend_from_slice(b"Last-Event-ID: 3f9a1c:\xff\xfe\r\n\r\n");
    within(stream.write_all(&raw)).await.unwrap();
    let mut text = String::new();
    while !text.contains("event: reset") {
        let mut bytes = [0; 1024];
        let read = within(stream.read(&mut bytes)).await.unwrap();
        assert!(read > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
}

#[tokio::test]
async fn an_unknown_topic_is_refused_with_a_suggestion() {
    let rig = Rig::ready();
    let reply = rig.get("/v1/events?topics=leader,readines").await;
    assert_eq!((reply.status, reply.code().as_str()), (422, "invalid_value"));
    assert_eq!(reply.json()["errors"][0]["suggestion"], "readiness");
    assert_eq!(rig.get("/v1/events?topics=").await.status, 422);
    assert_eq!(rig.get("/v1/events?topic=leader").await.json()["errors"][0]["suggestion"], "topics");
    assert_eq!(rig.call("POST", "/v1/events", "").await.status, 405);
    assert_eq!(rig.call("GET", "/v1/events", "Via: 1.1 proxy\r\n").await.status, 403);
    let head = rig.call("HEAD", "/v1/events", "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[tokio::test]
async fn the_33rd_stream_is_refused_and_a_place_comes_back() {
    let rig = Rig::ready();
    let mut streams = Vec::new();
    for _ in 0..32 {
        let mut events = subscribe(&rig, "/v1/events", "").await;
        events.expect("snapshot").await;
        streams.push(events);
    }
    let reply = rig.get("/v1/events").await;
    assert_eq!((reply.status, reply.code().as_str()), (429, "too_many_streams"));
    assert!(rig.get("/metrics").await.body.contains("etcd_wrapper_event_streams 32\n"));
    drop(streams.pop());
    within(async {
        while !rig.get("/metrics").await.body.contains("etcd_wrapper_event_streams 31\n") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    subscribe(&rig, "/v1/events", "").await.expect("snapshot").await;
}

#[tokio::test]
async fn the_end_is_told_after_everything_else() {
    let rig = Rig::ready();
    let mut plain = subscribe(&rig, "/v1/events?topics=phase", "").await;
    plain.expect("snapshot").await;
    rig.server_tls.send_replace(rig.certificates.server_tls(true, true));
    let mut tls =
        Subscriber::over(rig.connect_tls(Client::Monitor).await, "/v1/events?topics=phase", "").await;
    tls.expect("snapshot").await;
    turn(&rig, Phase::Exiting);
    rig.closing.send_replace(true);
    let phase = plain.expect("phase").await;
    assert_eq!(phase.data["phase"], "exiting");
    assert!(plain.expect("bye").await.index() >= phase.index());
    assert!(plain.next().await.is_none());
    tls.expect("phase").await;
    tls.expect("bye").await;
    assert!(tls.next().await.is_none());
    within(rig.serving).await.unwrap();
}

#[tokio::test]
async fn a_stream_outlives_the_limits_on_idle_connections() {
    let rig = Rig::with(policy(), Limits { step: Duration::from_millis(100), ..limits() });
    let mut events = subscribe(&rig, "/v1/events?topics=phase", "").await;
    events.expect("snapshot").await;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) {
        assert_eq!(rig.get("/livez").await.status, 200);
    }
    turn(&rig, Phase::Held);
    assert_eq!(events.expect("phase").await.data["phase"], "held");
}

/// A reader that takes what it likes, out of a small window.
pub(super) async fn slow(rig: &Rig, target: &str) -> Subscriber<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    Subscriber::over(within(socket.connect(rig.address)).await.unwrap(), target, "").await
}

#[tokio::test]
async fn a_slow_reader_is_told_what_it_missed_and_gets_the_newest() {
    let rig = Rig::ready();
    let mut quick = subscribe(&rig, "/v1/events", "").await;
    quick.expect("snapshot").await;
    let mut slow = slow(&rig, "/v1/events").await;
    let mut last = 0;
    for round in 0..1500 {
        turn(&rig, if round % 2 == 0 { Phase::Stopping } else { Phase::Running });
        for event in ["leader", "phase", "readiness"] {
            last = quick.expect(event).await.index();
        }
    }
    let (mut gaps, mut newest, mut known) = (0, 0, 0);
    while newest < last {
        let message = slow.next().await.expect("slow, but not cut off");
        match message.event.as_str() {
            "snapshot" => known = message.index(),
            "gap" => {
                gaps += 1;
                assert_eq!(message.data["from"].as_u64().unwrap(), known + 1);
                known = message.data["to"].as_u64().unwrap();
            }
            _ => {
                assert!(message.index() > newest);
                newest = message.index();
                assert!(newest <= known + 1, "{newest} without a gap after {known}");
                known = known.max(newest);
            }
        }
    }
    assert!(gaps > 0, "the reader was slow enough to miss something");
    let page = rig.get("/metrics").await.body;
    let dropped =
        page.lines().find_map(|line| line.strip_prefix("etcd_wrapper_events_dropped_total ")).unwrap();
    assert!(dropped.parse::<u64>().unwrap() > 1000, "{dropped}");
}
