// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Watching a scripted stream on loopback: cuts, resumption, servers without streams.
use clap::Parser;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

/// Answers each connection with the next text, closes it, and keeps what was asked.
async fn serve(answers: Vec<String>) -> (Flags, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("--server=http://{}", listener.local_addr().unwrap());
    let flags = Line::try_parse_from(["x", &server, "--timeout=1s"]).unwrap().flags;
    let serving = tokio::spawn(async move {
        let mut heard = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 16 * 1024];
            let read = stream.read(&mut buffer).await.unwrap();
            heard.push(String::from_utf8_lossy(&buffer[..read]).into_owned());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        heard
    });
    (flags, serving)
}

fn stream(events: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}")
}

fn refusal(status: u16) -> String {
    let body = format!(
        r#"{{"type":"urn:x","title":"No","status":{status},"detail":"x","code":"x","retryable":false}}"#
    );
    format!("HTTP/1.1 {status} No\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn whole(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn leading(index: u64, leads: bool) -> Value {
    json!({"epoch": "3f", "index": index, "memberId": "1", "memberName": "a", "leaderId": if leads { "1" } else { "2" },
        "isLeader": leads, "isLearner": false, "leaving": false, "term": 4, "generation": 1, "since": "T",
        "confirmed": false, "age": "1ms", "source": "status"})
}

#[tokio::test]
async fn after_a_cut_it_goes_on_where_it_was() {
    let (flags, serving) = serve(vec![
        stream("id: 3f:1\nevent: snapshot\ndata: {}\n\nid: 3f:2\nevent: leader\ndata: {}\n\nid: 3f:3\nevent: cut"),
        refusal(503),
        stream(": here\n\nevent: bye\ndata: {}\n\n"),
        stream("id: 3f:3\nevent: leader\ndata: {}\n\nid: 3f:4\nevent: last\ndata: {}\n\n"),
    ])
    .await;
    let mut seen = Vec::new();
    let mut show = |event: &Event| {
        seen.push(format!("{} {}", event.topic, event.id.as_deref().unwrap_or_default()));
        if event.topic == "last" { Flow::Break(()) } else { Flow::Continue(()) }
    };
    follow(&flags, "/v1/events?topics=leader", &mut show).await.unwrap();
    assert_eq!(seen, ["snapshot 3f:1", "leader 3f:2", "bye ", "leader 3f:3", "last 3f:4"]);
    let heard = serving.await.unwrap();
    assert!(heard.iter().all(|head| head.starts_with("GET /v1/events?topics=leader ")), "{heard:?}");
    assert!(!heard[0].contains("last-event-id"), "{}", heard[0]);
    // Also after streams that brought nothing new.
    for head in &heard[1..] {
        assert!(head.contains("last-event-id: 3f:2"), "{head}");
    }
}

#[tokio::test]
async fn a_stream_that_nobody_serves_any_more_ends_in_time() {
    let (flags, _serving) = serve(vec![stream("id: 3f:1\nevent: snapshot\ndata: {}\n\n")]).await;
    let began = Instant::now();
    let mut show = |_: &Event| Flow::Continue(());
    let error = follow(&flags, "/v1/events", &mut show).await.unwrap_err();
    assert!(matches!(error, ClientError::Nobody(_)), "{error}");
    assert!(
        began.elapsed() >= flags.timeout && began.elapsed() < flags.timeout * 10,
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_first_refusal_is_not_repeated() {
    for status in [401, 404, 503] {
        let (flags, serving) = serve(vec![refusal(status)]).await;
        let mut show = |_: &Event| Flow::Continue(());
        let error = follow(&flags, "/v1/events", &mut show).await.unwrap_err();
        assert!(matches!(&error, ClientError::Refused(problem, _) if problem.status == status), "{error}");
        serving.await.unwrap();
    }
}

#[tokio::test]
async fn polls_go_on_from_the_newest_position() {
    let mut unchanged = leading(5, true);
    unchanged["changed"] = false.into();
    let mut changed = leading(9, false);
    changed["changed"] = true.into();
    let answers = [leading(5, true), unchanged, changed].map(|document| whole(&document.to_string()));
    let (flags, serving) = serve(answers.into()).await;
    let mut board = Board { output: Output::Table, last: None };
    let error = poll(&flags, &mut board).await.unwrap_err();
    assert!(matches!(error, ClientError::Nobody(_)), "{error}");
    assert_eq!(board.last.as_deref(), Some("a follows, the leader is 2 (member 1, term 4)"));
    let paths: Vec<_> = serving.await.unwrap();
    let paths: Vec<_> = paths.iter().map(|head| head.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(paths, ["/v1/leader", "/v1/leader?after=3f:5&wait=1m0s", "/v1/leader?after=3f:5&wait=1m0s"]);
}

#[test]
fn only_changes_of_the_leader_are_worth_a_line() {
    let mut board = Board { output: Output::Table, last: None };
    let event =
        |topic: &str, data: Value| Event { topic: topic.to_owned(), id: None, data: data.to_string() };
    let said = |board: &Board| board.last.clone().unwrap_or_default();
    let _ = board.event(&event("snapshot", json!({"status": {"leader": leading(1, true)}})));
    assert!(said(&board).starts_with("a leads"));
    let _ = board.event(&event("leader", json!({"leader": leading(2, false)})));
    assert!(said(&board).starts_with("a follows"));
    // Neither news nor a reason to stop.
    let before = said(&board);
    for other in [event("gap", json!({})), event("bye", json!({})), event("leader", json!("garbled"))] {
        assert!(board.event(&other).is_continue());
    }
    assert_eq!(said(&board), before);
}

#[test]
fn events_are_one_line_each() {
    let event =
        |topic: &str, data: Value| Event { topic: topic.to_owned(), id: None, data: data.to_string() };
    let phase =
        json!({"time": "T", "topic": "phase", "phase": "running", "previous": "starting", "generation": 2});
    assert_eq!(line(&event("phase", phase)), "T  phase      starting → running (generation 2)");
    let leader = json!({"time": "T", "leader": leading(1, true)});
    assert_eq!(line(&event("leader", leader)), "T  leader     a leads (member 1, term 4)");
    let gap = event("gap", json!({"time": "T"}));
    assert_eq!(line(&gap), "T  gap        events were left out: this reader was too slow");
    // Of a server that is newer than we.
    let tide = event("tide", json!({"time": "T", "high": 1}));
    assert_eq!(line(&tide), "T  tide       {\"high\":1,\"time\":\"T\"}");
    let garbled = Event { topic: "x".into(), id: None, data: "no\u{1b}[2J json".into() };
    assert_eq!(line(&garbled), "-  x          no [2J json");
}

#[test]
fn patience_is_for_restarts_alone_and_ends() {
    let nobody = || ClientError::Nobody("refused".to_owned());
    let mut patience = Patience::new(Duration::from_secs(3600));
    patience.bear(nobody()).unwrap_err();
    patience.renew();
    patience.bear(nobody()).unwrap();
    patience.bear(nobody()).unwrap();
    patience.bear(ClientError::Failed("garbled".to_owned())).unwrap_err();
    let mut patience = Patience::new(Duration::ZERO);
    patience.renew();
    patience.bear(nobody()).unwrap_err();
}
