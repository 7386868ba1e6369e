// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `--notify-url` of the real wrapper: an outage of the receiver, TLS, and what the log says of the URL.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use doubles::etcd::Script;
use doubles::ports::ReservedPort;
use serde_json::Value;

use crate::openapi;
use crate::scene::{LONG, SECOND, Scene, Sides};

const CANARY: &str = "c4n4ry-hunter2";

/// What was POSTed to this address, each answered with 200, plain or over TLS.
fn receive(addr: SocketAddr, tls: Option<std::sync::Arc<rustls::ServerConfig>>) -> Receiver<(String, Value)> {
    let listener = TcpListener::bind(addr).unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let call = match &tls {
                None => answer(stream),
                Some(config) => {
                    let session = rustls::ServerConnection::new(config.clone()).unwrap();
                    answer(rustls::StreamOwned::new(session, stream))
                }
            };
            if call.is_some_and(|call| sender.send(call).is_err()) {
                return;
            }
        }
    });
    receiver
}

fn answer(mut stream: impl Read + Write) -> Option<(String, Value)> {
    let mut text = String::new();
    let mut bytes = [0; 4096];
    loop {
        let read = stream.read(&mut bytes).unwrap_or(0);
        if read == 0 {
            return None;
        }
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(event) = serde_json::from_str(body)
        {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            return Some((head.to_owned(), event));
        }
    }
}

#[track_caller]
fn until(receiver: &Receiver<(String, Value)>, what: &str, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let deadline = Instant::now() + LONG;
    let mut seen = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left) {
            Ok((_, event)) => {
                openapi::check_notification(&event)
                    .unwrap_or_else(|fault| panic!("not by openapi.json: {fault}"));
                seen.push(event);
                if wanted(&seen[seen.len() - 1]) {
                    return seen;
                }
            }
            Err(error) => panic!("{what}: {error}; so far {seen:#?}"),
        }
    }
}

fn is_phase(phase: &'static str) -> impl Fn(&Value) -> bool {
    move |event| event["phase"] == phase
}

#[test]
fn after_an_outage_the_receiver_hears_how_things_stand_and_the_log_shows_no_secret() {
    let port = ReservedPort::loopback();
    let url = format!("http://{CANARY}:{CANARY}@{}/{CANARY}?token={CANARY}", port.addr());
    let scene =
        Scene::scripted(Script::default()).flag(format!("--notify-url={url}")).flag("--log-level=trace");
    let mut wrapper = scene.start_ready();
    wrapper.wait_log(LONG, "trying until it is heard");
    let receiver = receive(port.addr(), None);
    let mut seen = until(&receiver, "running", is_phase("running"));
    let mut told = |topic: &'static str| {
        if !seen.iter().any(|event| event["topic"] == topic) {
            seen.extend(until(&receiver, topic, |event| event["topic"] == topic));
        }
        seen.iter().rev().find(|event| event["topic"] == topic).unwrap().clone()
    };
    assert_eq!(told("leader")["leader"]["isLeader"], true);
    assert_eq!(told("readiness")["readiness"]["ready"], true);
    assert!(!seen.iter().any(is_phase("starting")), "only the newest of a topic: {seen:#?}");

    wrapper.terminate();
    let rest = until(&receiver, "the end", is_phase("exiting"));
    assert!(!rest.is_empty());
    assert_eq!(wrapper.wait_exit(LONG), 0);
    let log = wrapper.log();
    assert!(log.contains(&format!("http://{}", port.addr())), "the origin is told");
    assert!(log.contains("notifications are heard again"));
    let leak = log.lines().find(|line| line.contains(CANARY));
    assert_eq!(leak, None);
}

#[test]
fn a_receiver_that_hangs_holds_up_nothing() {
    let port = ReservedPort::loopback();
    // Accepted by the kernel, answered by nobody.
    let listener = TcpListener::bind(port.addr()).unwrap();
    let scene = Scene::scripted(Script::default()).flag(format!("--notify-url=http://{}/", port.addr()));
    let mut wrapper = scene.start_ready();
    let began = Instant::now();
    assert_eq!(wrapper.readyz().unwrap().status, 200);
    assert!(began.elapsed() < SECOND);
    wrapper.terminate();
    let began = Instant::now();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
    drop(listener);
}

#[test]
fn https_is_verified_with_the_sidecars_ca() {
    let port = ReservedPort::loopback();
    let scene = Scene::scripted(Script::default()).with_tls(Sides::SIDECAR);
    let url = format!("https://localhost:{}/", port.port());
    let scene = scene.flag(format!("--notify-url={url}"));
    let config = |pair: &doubles::pki::PairFiles| {
        use rustls::pki_types::pem::PemObject;
        let chain = rustls::pki_types::CertificateDer::pem_file_iter(&pair.cert).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::from_pem_file(&pair.key).unwrap();
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let chain = chain.collect::<Result<_, _>>().unwrap();
        std::sync::Arc::new(builder.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap())
    };
    // Of another authority: nothing may be said to it.
    let foreign = receive(port.addr(), Some(config(&scene.pki().server)));
    let wrapper = scene.start_ready();
    wrapper.wait_log(LONG, "trying until it is heard");
    assert!(foreign.try_recv().is_err());
    drop((wrapper, foreign));
    let port = ReservedPort::loopback();
    let mut scene = scene;
    scene.flags.pop();
    let scene = scene.flag(format!("--notify-url=https://localhost:{}/", port.port()));
    let receiver = receive(port.addr(), Some(config(&scene.pki().sidecar)));
    let _wrapper = scene.start_ready();
    until(&receiver, "running", is_phase("running"));
}
