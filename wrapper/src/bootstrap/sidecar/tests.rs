// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Against small servers that answer with given bytes, right or wrong.
use std::net::IpAddr;
use std::sync::Arc;

use rstest::rstest;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::tls::authority::{Authority, Written};
use crate::tls::files::Pair;
use crate::tls::server::{ClientTrust, ServerTls};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);

fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Reads a request's head, answers with the parts, closes; gives back the head.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, parts: &[Vec<u8>]) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return String::new(),
        }
    }
    for part in parts {
        if stream.write_all(part).await.is_err() {
            break;
        }
        stream.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    let _ = stream.shutdown().await;
    String::from_utf8(head).unwrap()
}

/// A sidecar for one call, and a client for it.
async fn once(bind: &str, parts: Vec<Vec<u8>>) -> (SidecarClient, JoinHandle<String>) {
    let listener = TcpListener::bind((bind, 0)).await.unwrap();
    let address = SidecarAddress { host: bind.to_owned(), port: listener.local_addr().unwrap().port() };
    let served = tokio::spawn(async move { serve(listener.accept().await.unwrap().0, &parts).await });
    (SidecarClient::new(address, None).unwrap(), served)
}

#[rstest]
#[case("New", SidecarWord::New)]
#[case("Progress\n", SidecarWord::Progress)]
#[case(" Successful ", SidecarWord::Successful)]
#[case("Failed", SidecarWord::Failed)]
#[tokio::test]
async fn the_four_words_are_read_with_white_space_around(#[case] body: &str, #[case] word: SidecarWord) {
    let (mut client, served) = once("127.0.0.1", vec![ok(body)]).await;
    assert_eq!(client.status(LONG).await, Ok(word));
    let head = served.await.unwrap();
    assert!(head.starts_with("GET /initialization/status HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: 127.0.0.1:{}\r\n", client.address.port)), "{head}");
    assert!(head.contains("connection: close\r\n"), "{head}");
}

#[rstest]
#[case(Mode::Full, "GET /initialization/start?mode=full HTTP/1.1\r\n")]
#[case(Mode::Sanity, "GET /initialization/start?mode=sanity HTTP/1.1\r\n")]
#[tokio::test]
async fn b7_the_start_call_carries_exactly_the_mode(#[case] mode: Mode, #[case] line: &str) {
    let (mut client, served) = once("127.0.0.1", vec![ok("")]).await;
    assert_eq!(client.start(mode, LONG).await, Ok(()));
    assert!(served.await.unwrap().starts_with(line));
}

#[rstest]
#[case::unknown("Succeeded", r#"unknown status "Succeeded""#)]
#[case::cut("Success", r#"unknown status "Success""#)]
#[case::empty("", r#"unknown status """#)]
#[tokio::test]
async fn a_word_that_nobody_knows_is_garbled(#[case] body: &str, #[case] said: &str) {
    let (mut client, _served) = once("127.0.0.1", vec![ok(body)]).await;
    assert_eq!(client.status(LONG).await, Err(Failure::Garbled(said.to_owned())));
}

#[tokio::test]
async fn an_answer_without_a_length_will_do_for_a_word_but_not_for_a_config() {
    let parts = || vec![b"HTTP/1.0 200 OK\r\n\r\nSuccessful".to_vec()];
    let (mut client, _served) = once("127.0.0.1", parts()).await;
    assert_eq!(client.status(LONG).await, Ok(SidecarWord::Successful));
    let (mut client, _served) = once("127.0.0.1", parts()).await;
    assert!(matches!(client.config(LONG).await, Err(Failure::Lost(_))));
}

#[rstest]
#[case::without_an_answer("")]
#[case::in_the_head("HTTP/1.1 200 OK\r\nContent-Le")]
#[case::after_the_head("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")]
#[case::in_the_body("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nSuccess")]
#[case::in_a_chunk("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nSucc")]
#[case::before_the_last_chunk("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nSuccessful\r\n")]
#[case::in_an_error("HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\nno")]
#[case::garbage("220 mail.example.org ESMTP\r\n")]
#[tokio::test]
async fn a1_a_reply_that_is_cut_is_lost(#[case] bytes: &str) {
    for call in ["status", "config", "start"] {
        let (mut client, _served) = once("127.0.0.1", vec![bytes.as_bytes().to_vec()]).await;
        let failure = match call {
            "status" => client.status(LONG).await.unwrap_err(),
            "config" => client.config(LONG).await.unwrap_err(),
            _ => client.start(Mode::Full, LONG).await.unwrap_err(),
        };
        assert_eq!(failure.outcome(), "lost", "{call}: {failure:?}");
    }
}

#[tokio::test]
async fn a_reset_is_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        // Closing with unread bytes makes the kernel send a reset.
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
    });
    let mut client = SidecarClient::new(SidecarAddress { host: "127.0.0.1".into(), port }, None).unwrap();
    assert_eq!(client.start(Mode::Full, LONG).await.unwrap_err().outcome(), "lost");
    served.await.unwrap();
}

#[rstest]
#[case(500, "cannot reach\r\nkube-apiserver", "cannot reach kube-apiserver")]
#[case(404, "", "")]
#[case(302, "moved", "moved")]
#[case(204, "", "")]
#[tokio::test]
async fn a_whole_answer_other_than_200_gives_its_code_and_one_line(
    #[case] code: u16,
    #[case] body: &str,
    #[case] said: &str,
) {
    let length = if code == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let bytes = format!("HTTP/1.1 {code} X\r\n{length}Location: http://127.0.0.1:1/\r\n\r\n{body}");
    let (mut client, _served) = once("127.0.0.1", vec![bytes.into_bytes()]).await;
    assert_eq!(client.start(Mode::Full, LONG).await, Err(Failure::Status(code, said.to_owned())));
}

#[tokio::test]
async fn a_long_error_is_shown_in_part() {
    let body = "x".repeat(100_000);
    let bytes = format!("HTTP/1.1 500 X\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let (mut client, _served) = once("127.0.0.1", vec![bytes.into_bytes()]).await;
    let Err(Failure::Status(500, text)) = client.status(LONG).await else { panic!("no status") };
    assert_eq!(text, format!("{}…", "x".repeat(200)));
}

#[tokio::test]
async fn a12_a_chunked_body_that_comes_bit_by_bit_is_taken_whole() {
    let line = "name: etcd-main-0 ".repeat(64);
    let mut parts = vec![b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()];
    parts.extend((0..228).map(|_| format!("{:x}\r\n{line}\r\n", line.len()).into_bytes()));
    parts.push(b"0\r\n\r\n".to_vec());
    let (mut client, _served) = once("127.0.0.1", parts).await;
    let body = client.config(LONG).await.unwrap();
    assert_eq!(body, line.repeat(228).as_bytes());
    assert!(body.len() > 256 * 1024);
}

#[tokio::test]
async fn a_config_without_end_is_refused() {
    let part = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20)).into_bytes();
    let mut parts = vec![b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()];
    parts.extend(std::iter::repeat_n(part, 6));
    let (mut client, served) = once("127.0.0.1", parts).await;
    assert_eq!(client.config(LONG).await.unwrap_err().outcome(), "garbled");
    served.abort();
}

#[tokio::test]
async fn a14_a_refused_connection_is_told_apart_from_everything_else() {
    for host in ["127.0.0.1", "::1", "localhost"] {
        let bind = if host == "localhost" { "127.0.0.1" } else { host };
        // Bound, but not listening: the port is ours, and refuses.
        let ip: IpAddr = bind.parse().unwrap();
        let socket = if ip.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.unwrap();
        socket.bind((ip, 0).into()).unwrap();
        let port = socket.local_addr().unwrap().port();
        let mut client = SidecarClient::new(SidecarAddress { host: host.into(), port }, None).unwrap();
        let failure = client.start(Mode::Full, LONG).await.unwrap_err();
        assert_eq!(failure.outcome(), "refused", "{host}: {failure:?}");
        assert!(failure.to_string().contains(&format!(":{port}: ")), "{failure}");
    }
}

#[tokio::test]
async fn a_name_that_cannot_be_resolved_is_unreachable() {
    // A label of more than 63 letters cannot be asked for, so the question stays on this machine.
    let host = "x".repeat(64);
    let mut client = SidecarClient::new(SidecarAddress { host, port: 8080 }, None).unwrap();
    let failure = client.status(LONG).await.unwrap_err();
    assert_eq!(failure.outcome(), "unreachable", "{failure:?}");
    assert!(failure.to_string().starts_with("resolve xxx"), "{failure}");
}

#[tokio::test]
async fn a_silent_sidecar_is_lost_at_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut client = SidecarClient::new(SidecarAddress { host: "127.0.0.1".into(), port }, None).unwrap();
    let failure = client.status(SHORT).await.unwrap_err();
    assert_eq!(
        failure,
        Failure::Lost(format!("GET /initialization/status from 127.0.0.1:{port} took longer than 300ms"))
    );
}

#[tokio::test]
async fn a8_ipv6_is_dialled_and_stands_in_brackets_in_the_host_header() {
    let (mut client, served) = once("::1", vec![ok("New")]).await;
    assert_eq!(client.status(LONG).await, Ok(SidecarWord::New));
    let head = served.await.unwrap();
    assert!(head.contains(&format!("host: [::1]:{}\r\n", client.address.port)), "{head}");
    assert_eq!(client.url(), format!("http://[::1]:{}", client.address.port));
}

#[tokio::test]
async fn localhost_needs_no_resolver() {
    let (mut client, served) = once("127.0.0.1", vec![ok("New")]).await;
    let address = SidecarAddress { host: "localhost".into(), port: client.address.port };
    client = SidecarClient::new(address, None).unwrap();
    assert_eq!(client.status(LONG).await, Ok(SidecarWord::New));
    assert!(served.await.unwrap().contains("host: localhost:"));
}

#[test]
fn an_address_that_is_none_is_refused_at_once() {
    let address = |host: &str| SidecarAddress { host: host.into(), port: 1 };
    SidecarClient::new(address("a\nb"), None).unwrap_err();
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::new("ca").write_ca(&dir.path().join("ca.crt"));
    let error = SidecarClient::new(address("not a name"), Some(&ca)).unwrap_err();
    assert!(matches!(error, SidecarError::Address(_)), "{error}");
}

/// A sidecar with TLS that answers every call with `New`, as long as the listener's task lives.
async fn secure(bind: &str, server: &Written) -> (SidecarAddress, JoinHandle<()>) {
    let pair = Pair::load(&server.cert, &server.key).unwrap();
    let acceptor = TlsAcceptor::from(ServerTls::new(&pair, ClientTrust::Absent).config());
    let listener = TcpListener::bind((bind, 0)).await.unwrap();
    let address = SidecarAddress { host: bind.to_owned(), port: listener.local_addr().unwrap().port() };
    let task = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                serve(stream, &[ok("New")]).await;
            }
        }
    });
    (address, task)
}

#[rstest]
#[case("::1")]
#[case("127.0.0.1")]
#[tokio::test]
async fn a8_with_tls_the_address_itself_is_verified(#[case] host: &str) {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    let ca = authority.write_ca(&dir.path().join("ca.crt"));
    let (address, task) = secure(host, &authority.write_server(dir.path(), "good", &[host])).await;
    let mut client = SidecarClient::new(address, Some(&ca)).unwrap();
    assert!(client.url().starts_with("https://"));
    assert_eq!(client.status(LONG).await, Ok(SidecarWord::New));
    assert_eq!(client.status(LONG).await, Ok(SidecarWord::New));
    task.abort();

    let (address, task) = secure(host, &authority.write_server(dir.path(), "bad", &["localhost"])).await;
    let failure = SidecarClient::new(address, Some(&ca)).unwrap().status(LONG).await.unwrap_err();
    assert_eq!(failure.outcome(), "unreachable", "{failure:?}");
    assert!(failure.to_string().contains("TLS handshake with"), "{failure}");
    task.abort();
}

#[tokio::test]
async fn a_sidecar_that_does_not_speak_tls_is_unreachable_with_nothing_sent() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::new("ca").write_ca(&dir.path().join("ca.crt"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = SidecarAddress { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
    // Accepted by the kernel alone: the handshake never gets an answer.
    let mut client = SidecarClient::new(address.clone(), Some(&ca)).unwrap();
    assert_eq!(client.start(Mode::Full, SHORT).await.unwrap_err().outcome(), "unreachable");
    let mut client = SidecarClient::new(address, Some(&ca)).unwrap();
    let served = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    assert_eq!(client.start(Mode::Full, LONG).await.unwrap_err().outcome(), "unreachable");
    served.abort();
}

#[tokio::test]
async fn g4_the_first_poll_after_a_swap_of_certificate_and_ca_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("ca.crt");
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = SidecarAddress { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
    let mut client: Option<SidecarClient> = None;
    for round in ["one", "two"] {
        let authority = Authority::new(round);
        authority.write_ca(&ca);
        let files = authority.write_server(dir.path(), round, &["127.0.0.1"]);
        let pair = Pair::load(&files.cert, &files.key).unwrap();
        let acceptor = TlsAcceptor::from(ServerTls::new(&pair, ClientTrust::Absent).config());
        let listener = listener.clone();
        let served = tokio::spawn(async move {
            let stream = listener.accept().await.unwrap().0;
            serve(acceptor.accept(stream).await.unwrap(), &[ok("Progress")]).await
        });
        let client = client.get_or_insert_with(|| SidecarClient::new(address.clone(), Some(&ca)).unwrap());
        assert_eq!(client.status(LONG).await, Ok(SidecarWord::Progress), "{round}");
        served.await.unwrap();
    }
}

#[tokio::test]
async fn g9_a_bad_ca_file_is_named_at_the_start_and_later_keeps_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("ca.crt");
    let authority = Authority::new("ca");
    let (address, task) = secure("127.0.0.1", &authority.write_server(dir.path(), "s", &["127.0.0.1"])).await;
    for text in [None, Some(""), Some("no certificate")] {
        if let Some(text) = text {
            std::fs::write(&ca, text).unwrap();
        }
        let error = SidecarClient::new(address.clone(), Some(&ca)).unwrap_err().to_string();
        assert!(error.contains(&ca.display().to_string()) && error.contains("our uid"), "{error}");
    }

    authority.write_ca(&ca);
    let mut client = SidecarClient::new(address, Some(&ca)).unwrap();
    std::fs::write(&ca, "").unwrap();
    assert_eq!(client.status(LONG).await, Ok(SidecarWord::New));
    assert!(client.ca_problem().unwrap().contains("holds no certificate"));
    authority.write_ca(&ca);
    assert_eq!(client.status(LONG).await, Ok(SidecarWord::New));
    assert_eq!(client.ca_problem(), None);
    task.abort();
}
