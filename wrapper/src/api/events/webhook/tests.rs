// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One webhook against a receiver that the test plays, with a ring in the test's hands.
use std::net::{Ipv4Addr, SocketAddr};
use std::time::SystemTime;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::super::frame::{Frame, event};
use super::*;
use crate::api::publisher::testing;

const DEADLINE: Duration = Duration::from_secs(20);

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.expect("within the deadline")
}

/// A webhook at work.
struct Bench {
    published: watch::Sender<Published>,
    closing: watch::Sender<bool>,
    metrics: Metrics,
    running: JoinHandle<()>,
}

impl Bench {
    fn start(url: &str) -> Self {
        let (published, seen) = testing::published();
        let (closing, closes) = watch::channel(false);
        let metrics = Metrics::new();
        let url = NotifyUrl::parse(url).unwrap();
        let webhook = Webhook::new(url, None, metrics.clone()).unwrap();
        let running = tokio::spawn(webhook.run(seen, closes));
        Self { published, closing, metrics, running }
    }

    fn publish(&self, topic: Topic, index: u64) {
        self.published.send_modify(|published| {
            let event = event("3f9a1c", index, topic.as_str(), SystemTime::UNIX_EPOCH);
            published.ring.append(topic, 0, index, Frame::new(&event));
        });
    }
}

async fn receiver() -> (TcpListener, String) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://ada:pass@{}/hook?token=t", listener.local_addr().unwrap());
    (listener, url)
}

/// The next call: its head, and topic and index of the event.
async fn heard(listener: &TcpListener, answer: &str) -> (String, (String, u64)) {
    let (mut stream, _) = within(listener.accept()).await.unwrap();
    let (head, body) = read(&mut stream).await;
    within(stream.write_all(answer.as_bytes())).await.unwrap();
    let event: serde_json::Value = serde_json::from_str(&body).unwrap();
    (head, (event["topic"].as_str().unwrap().to_owned(), event["index"].as_u64().unwrap()))
}

async fn read(stream: &mut TcpStream) -> (String, String) {
    let mut text = String::new();
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                return (head.to_owned(), body.to_owned());
            }
        }
        let mut bytes = [0; 1024];
        let read = within(stream.read(&mut bytes)).await.unwrap();
        assert!(read > 0, "cut: {text}");
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
}

const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";

#[tokio::test]
async fn each_change_is_posted_as_json() {
    let (listener, url) = receiver().await;
    let bench = Bench::start(&url);
    bench.publish(Topic::Phase, 2);
    let (head, event) = heard(&listener, OK).await;
    assert!(head.starts_with("POST /hook?token=t HTTP/1.1\r\n"), "{head}");
    for line in ["content-type: application/json", "authorization: Basic YWRhOnBhc3M=", "connection: close"] {
        assert!(head.lines().any(|known| known == line), "{line} in {head}");
    }
    let host = format!("host: {}", listener.local_addr().unwrap());
    assert!(head.lines().any(|known| known == host), "{head}");
    assert_eq!(event, ("phase".into(), 2));
    bench.publish(Topic::Leader, 3);
    assert_eq!(heard(&listener, OK).await.1, ("leader".into(), 3));
}

#[tokio::test]
async fn after_an_outage_the_newest_of_each_topic_is_heard_and_nothing_else() {
    let (listener, url) = receiver().await;
    let address = listener.local_addr().unwrap();
    drop(listener);
    let bench = Bench::start(&url);
    for index in 2..50 {
        bench.publish(if index % 3 == 0 { Topic::Leader } else { Topic::Phase }, index);
        tokio::task::yield_now().await;
    }
    within(async {
        while bench.metrics.notified_so_far("unreachable") == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let listener = bind(address).await;
    let mut known = vec![heard(&listener, OK).await.1, heard(&listener, OK).await.1];
    known.sort();
    assert_eq!(known, [("leader".into(), 48), ("phase".into(), 49)]);
    bench.publish(Topic::Readiness, 50);
    assert_eq!(heard(&listener, OK).await.1, ("readiness".into(), 50), "and no other call before");
}

/// The port was ours a moment ago, and is free again at once.
async fn bind(address: SocketAddr) -> TcpListener {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket.listen(16).unwrap()
}

#[tokio::test]
async fn only_a_2xx_counts_as_heard() {
    let (listener, url) = receiver().await;
    let bench = Bench::start(&url);
    bench.publish(Topic::Leader, 2);
    for answer in [
        "HTTP/1.1 500 Oh\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\n\r\n",
        "nonsense\r\n\r\n",
        "",
    ] {
        assert_eq!(heard(&listener, answer).await.1, ("leader".into(), 2));
    }
    assert_eq!(heard(&listener, OK).await.1, ("leader".into(), 2));
}

#[tokio::test]
async fn a_receiver_that_refuses_one_topic_hears_the_others() {
    let (listener, url) = receiver().await;
    let bench = Bench::start(&url);
    bench.publish(Topic::Leader, 2);
    bench.publish(Topic::Phase, 3);
    assert_eq!(heard(&listener, "HTTP/1.1 422 No\r\n\r\n").await.1.0, "leader");
    assert_eq!(heard(&listener, OK).await.1.0, "phase");
    assert_eq!(heard(&listener, OK).await.1.0, "leader");
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_given_up_after_two_seconds() {
    let (listener, url) = receiver().await;
    let bench = Bench::start(&url);
    bench.publish(Topic::Leader, 2);
    let (mut first, _) = within(listener.accept()).await.unwrap();
    let began = tokio::time::Instant::now();
    read(&mut first).await;
    assert_eq!(heard(&listener, OK).await.1, ("leader".into(), 2));
    assert!(began.elapsed() >= Duration::from_millis(1900), "{:?}", began.elapsed());
}

#[tokio::test]
async fn the_end_is_told_and_waits_for_nobody() {
    let (listener, url) = receiver().await;
    let bench = Bench::start(&url);
    bench.publish(Topic::Phase, 2);
    bench.publish(Topic::Leader, 3);
    bench.closing.send_replace(true);
    assert_eq!(heard(&listener, OK).await.1.1, 2);
    assert_eq!(heard(&listener, OK).await.1.1, 3);
    within(bench.running).await.unwrap();
    drop(listener);
    let bench = Bench::start(&url);
    bench.publish(Topic::Phase, 2);
    bench.closing.send_replace(true);
    within(bench.running).await.unwrap();
}

#[test]
fn pauses_grow_from_a_tenth_of_a_second_to_five() {
    for failures in 1..100 {
        let pause = pause(failures);
        assert!((Duration::from_millis(100)..=Duration::from_secs(5)).contains(&pause), "{pause:?}");
    }
    assert!(pause(1) <= Duration::from_millis(200));
    assert!(pause(50) >= Duration::from_millis(2500));
}

#[test]
fn https_needs_a_bundle_that_can_be_read() {
    let url = NotifyUrl::parse("https://ada:pass@a.example/hook?token=t").unwrap();
    let error =
        Webhook::new(url, Some(Path::new("/nowhere/ca.pem")), Metrics::new()).unwrap_err().to_string();
    assert!(error.contains("/nowhere/ca.pem") && !error.contains("pass"), "{error}");
}
