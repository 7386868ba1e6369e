// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Callers that are slow, endless or many: they are closed or refused in time, and no probe waits for them.
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use doubles::etcd::Script;

use crate::scene::{SECOND, Scene};

/// Reads until the end; how long that took from `began`.
fn closed_after(stream: &mut TcpStream, began: Instant) -> Duration {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("it was never closed: {error}"),
    }
    began.elapsed()
}

/// All at the same time: each has about five seconds a step.
#[test]
fn j4_requests_without_end_are_closed_within_10_s() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let beginnings: [(&str, &[u8]); 6] = [
        ("a request line without end", b"GET /read"),
        ("headers without end", b"GET /readyz HTTP/1.1\r\nhost: x\r\nx-a: b"),
        ("silence", b""),
        ("a handshake without end", b"\x16\x03\x01"),
        ("a handshake's first byte", b"\x16"),
        ("an idle connection after an answer", b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n"),
    ];
    let caller = wrapper.caller().within(30 * SECOND);
    std::thread::scope(|scope| {
        for (what, beginning) in beginnings {
            let mut stream = caller.connect().unwrap();
            scope.spawn(move || {
                let began = Instant::now();
                stream.write_all(beginning).unwrap();
                let took = closed_after(&mut stream, began);
                assert!(took < 10 * SECOND, "{what}: closed after {took:?}");
            });
        }
        // A byte now and then does not help: the limit is on the whole head.
        let mut stream = caller.connect().unwrap();
        scope.spawn(move || {
            let began = Instant::now();
            stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let mut end = [0; 1];
            let took = loop {
                if stream.write_all(b"G").is_err() {
                    break began.elapsed();
                }
                match stream.read(&mut end) {
                    Ok(_) => break began.elapsed(),
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => break began.elapsed(),
                    Err(_) => assert!(began.elapsed() < 20 * SECOND, "it was never closed"),
                }
            };
            assert!(took < 10 * SECOND, "drops: closed after {took:?}");
        });
    });
    assert_eq!(wrapper.readyz().unwrap().status, 200);
}

#[test]
fn j4_headers_of_more_than_16_kib_are_refused() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let with = |bytes: usize| {
        let value = "a".repeat(bytes);
        wrapper.caller().try_call("GET", "/readyz", &[("x-long", &value)], "")
    };
    assert_eq!(with(8 * 1024).unwrap().status, 200);
    for bytes in [17 * 1024, 1024 * 1024] {
        match with(bytes) {
            Ok(answer) => assert_eq!(answer.status, 431),
            Err(error) => assert!(
                matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
                "{bytes}: {error}"
            ),
        }
    }
    let long_line = format!("/readyz?{}", "a".repeat(17 * 1024));
    if let Ok(answer) = wrapper.caller().try_call("GET", &long_line, &[], "") {
        assert!((400..500).contains(&answer.status), "{answer:?}");
    }
    assert_eq!(wrapper.readyz().unwrap().status, 200);
}

#[test]
fn j4_500_idle_connections_delay_no_probe() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let caller = wrapper.caller();
    let idle: Vec<TcpStream> = (0..500)
        .map(|number: u32| {
            let mut stream = caller.connect().unwrap();
            let said: &[u8] = [b"", b"\x16" as &[u8], b"GET /readyz HTTP/1.1\r\n"][number as usize % 3];
            stream.write_all(said).unwrap();
            stream
        })
        .collect();
    for scheme in [caller.clone(), caller.tls()] {
        for _ in 0..20 {
            let began = Instant::now();
            assert_eq!(scheme.get("/readyz").status, 200);
            assert!(began.elapsed() < SECOND, "the kubelet waits one second: {:?}", began.elapsed());
        }
    }
    drop(idle);
}

/// More connections than there is room for: somebody silent goes, never the newcomer who speaks.
#[test]
fn j4_more_idle_connections_than_descriptors_lock_no_probe_out() {
    let scene = Scene::scripted(Script::default());
    let few = scene.command();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 330 && exec \"$0\" \"$@\""]).arg(few.get_program()).args(few.get_args());
    for (name, value) in few.get_envs() {
        command.env(name, value.unwrap());
    }
    let wrapper = scene.start_command(command);
    wrapper.wait_ready();
    let caller = wrapper.caller();
    let idle: Vec<TcpStream> = (0..400).map(|_| caller.connect().unwrap()).collect();
    for _ in 0..10 {
        let began = Instant::now();
        assert_eq!(caller.get("/readyz").status, 200);
        assert!(began.elapsed() < SECOND, "the kubelet waits one second: {:?}", began.elapsed());
    }
    drop(idle);
}
