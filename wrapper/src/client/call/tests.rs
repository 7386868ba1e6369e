// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Calls against a scripted server on loopback: schemes, refusals, silence.
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::tls::authority::Authority;
use crate::tls::trust::{Bundle, by_bundle};

fn reach(address: SocketAddr, doors: Vec<Door>) -> Reach {
    let timeout = Duration::from_secs(10);
    Reach {
        host: address.ip().to_string(),
        port: address.port(),
        doors,
        timeout,
        without_tls: Some("no CA".into()),
    }
}

/// Answers each connection with the next of `answers`, whatever was asked, and tells what was.
async fn serve(answers: Vec<String>) -> (SocketAddr, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let mut heard = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 64 * 1024];
            let read = stream.read(&mut buffer).await.unwrap();
            heard.push(String::from_utf8_lossy(&buffer[..read]).into_owned());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        heard
    });
    (address, serving)
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn problem(code: &str, status: u16) -> String {
    let body = format!(
        r#"{{"type":"urn:x","title":"No","status":{status},"detail":"because","code":"{code}","retryable":false}}"#
    );
    answer(&format!("{status} No"), &body)
}

fn tls() -> Door {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::new("ca").write_ca(&dir.path().join("ca.crt"));
    let config = crate::tls::client::with_verifier(by_bundle(&Bundle::load(&ca).unwrap()), None);
    Door::Tls { config: Arc::new(config), name: "localhost".try_into().unwrap() }
}

#[tokio::test]
async fn an_answer_is_read_whole_and_the_request_is_as_asked() {
    let (address, serving) = serve(vec![answer("200 OK", "{}")]).await;
    let body = Some(("application/yaml", Bytes::from_static(b"name: a")));
    let request = Request { body, ..Request::new(Method::POST, "/v1/etcd/start?wait=1s") };
    let answer = call(&reach(address, vec![Door::Plain]), &request).await.unwrap();
    assert_eq!(&answer[..], b"{}");
    let heard = serving.await.unwrap().remove(0);
    assert!(heard.starts_with("POST /v1/etcd/start?wait=1s HTTP/1.1\r\n"), "{heard}");
    for part in ["content-type: application/yaml", "content-length: 7", &format!("host: {address}")] {
        assert!(heard.contains(part), "{part}: {heard}");
    }
    assert!(heard.ends_with("\r\n\r\nname: a"), "{heard}");
}

#[tokio::test]
async fn the_other_scheme_is_tried_where_the_first_is_not_the_one_in_force() {
    // What answers a TLS hello with text is not speaking TLS.
    let (address, serving) = serve(vec!["HTTP/1.1 400 Bad\r\n\r\n".into(), answer("200 OK", "x")]).await;
    let reply = call(&reach(address, vec![tls(), Door::Plain]), &Request::get("/v1/status")).await.unwrap();
    assert_eq!(&reply[..], b"x");
    assert_eq!(serving.await.unwrap().len(), 2);

    let (address, serving) = serve(vec![problem("no_server_certificate", 403), answer("200 OK", "x")]).await;
    call(&reach(address, vec![Door::Plain, Door::Plain]), &Request::get("/v1/status")).await.unwrap();
    assert_eq!(serving.await.unwrap().len(), 2);
}

#[tokio::test]
async fn where_no_scheme_will_do_the_reason_is_told() {
    let (address, _serving) = serve(vec![problem("tls_required", 403)]).await;
    let error = call(&reach(address, vec![Door::Plain]), &Request::get("/v1/status")).await.unwrap_err();
    assert!(matches!(&error, ClientError::Nobody(text) if text.contains("no CA")), "{error}");
    let (address, _serving) = serve(vec!["no TLS".into(), problem("tls_required", 403)]).await;
    let error =
        call(&reach(address, vec![tls(), Door::Plain]), &Request::get("/v1/status")).await.unwrap_err();
    assert!(matches!(&error, ClientError::Nobody(text) if text.contains("TLS handshake")), "{error}");
}

#[tokio::test]
async fn a_refusal_is_not_tried_by_another_scheme() {
    let (address, serving) = serve(vec![problem("would_break_quorum", 409)]).await;
    let doors = vec![Door::Plain, Door::Plain];
    let error = call(&reach(address, doors), &Request::new(Method::POST, "/v1/etcd/stop")).await.unwrap_err();
    let ClientError::Refused(problem, document) = error else { panic!("{error}") };
    assert_eq!((&*problem.code, document.first()), ("would_break_quorum", Some(&b'{')));
    assert_eq!(serving.await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_answer_that_is_not_a_wrappers_is_shown() {
    let (address, _serving) = serve(vec![answer("502 Bad Gateway", "<html>proxy</html>")]).await;
    let error = call(&reach(address, vec![Door::Plain]), &Request::get("/v1/status")).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::Failed(text) if text.contains("502") && text.contains("proxy")),
        "{error}"
    );
}

#[tokio::test]
async fn nobody_is_waited_for_beyond_the_limit() {
    // Accepts and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let limit = Duration::from_millis(50);
    let reach = Reach { timeout: limit, ..reach(listener.local_addr().unwrap(), vec![Door::Plain]) };
    let (began, request) = (Instant::now(), Request { wait: limit * 3, ..Request::new(Method::POST, "/x") });
    let error = call(&reach, &request).await.unwrap_err();
    assert!(matches!(&error, ClientError::Nobody(text) if text.contains("may have been heard")), "{error}");
    assert!(error.to_string().contains("within 200ms") && began.elapsed() >= limit * 4, "{error}");
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_told_at_once() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = call(&reach(address, vec![tls(), Door::Plain]), &Request::get("/x")).await.unwrap_err();
    assert!(matches!(&error, ClientError::Nobody(text) if text.starts_with("connect ")), "{error}");
}

#[tokio::test]
async fn a_cut_answer_is_no_answer() {
    let (address, _serving) = serve(vec!["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".into()]).await;
    let error = call(&reach(address, vec![Door::Plain]), &Request::get("/x")).await.unwrap_err();
    assert!(matches!(error, ClientError::Nobody(_)), "{error}");
}

#[test]
fn queries_are_encoded() {
    let given = [("owner", Some("a b&c=é".to_owned())), ("force", None), ("wait", Some("1m0s".to_owned()))];
    assert_eq!(query(&given), "?owner=a%20b%26c%3D%C3%A9&wait=1m0s");
    assert_eq!(query(&[("x", None)]), "");
}
