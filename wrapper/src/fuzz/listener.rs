// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The port itself: raw bytes on a real connection, from a caller who may control and from one who may not. Whatever
//! they are, an answer or the end comes, a probe on another connection is answered, and a caller without rights brings
//! about nothing. A leading `~` leaves the caller's side open: the time limits have to end it.
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Target, on_runtime, shape};
use crate::api::auth::Policy;
use crate::api::listener::Limits;
use crate::api::tests::rig::{Rig, running_core};
use crate::supervise::view::CoreView;

/// What a client sends to the port.
pub const TARGET: Target = Target {
    words: &[
        "GET ",
        "POST ",
        "HEAD ",
        "PUT ",
        "DELETE ",
        "OPTIONS * ",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "/readyz",
        "/readyz?verbose&exclude=fresh",
        "/readyz/process",
        "/livez",
        "/startupz",
        "/metrics",
        "/stop",
        "/v1/status",
        "/v1/leader?after=3f9a1c:0&wait=1ms",
        "/v1/readiness",
        "/v1/etcd/start?validation=full",
        "/v1/etcd/stop",
        "/v1/etcd/restart",
        "/v1/events?topics=leader",
        "/v1/config/validate",
        "/v1/operations/op-1",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        "Host: localhost\r\n",
        "Host: example.org\r\n",
        "Origin: http://x\r\n",
        "X-Forwarded-For: 1\r\n",
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Type: application/yaml\r\n",
        "Content-Type: application/json\r\n",
        "Expect: 100-continue\r\n",
        "Connection: close\r\n",
        "Connection: Upgrade\r\nUpgrade: h2c\r\n",
        "Accept: application/json\r\n",
        "Last-Event-ID: 3f9a1c:1\r\n",
        "\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "{\"mode\":\"unready\",\"owner\":\"a\",\"ttl\":\"1s\"}",
        "\x16\x03\x01",
    ],
    longest: 20 * 1024,
    cases: 150,
    // Twice two connections, and the limits below for those left open.
    slowest: Duration::from_secs(4),
    ..Target::new("listener", run)
};

/// Time for each step of a connection; short, so that the limits are met often.
const STEP: Duration = Duration::from_millis(150);
/// What a caller may ask to be waited for.
const WAITED_FOR: &[&str] = &["wait", "events", "ontent-", "ransfer-"];
/// A connection has ended long before.
const OVER: Duration = Duration::from_secs(10);
const LONGEST_ANSWER: usize = 1 << 20;

/// A served API with a caller's rights settled, and what reached its supervisor.
struct Port {
    address: SocketAddr,
    core: watch::Sender<CoreView>,
    commands: Arc<AtomicU64>,
}

impl Port {
    fn open(control_loopback: bool) -> Self {
        let policy = Policy { control_loopback, control_identities: Vec::new(), allow_remote_stop: false };
        let limits = Limits {
            step: STEP,
            head: 16 * 1024,
            wind_down: STEP,
            flush: Duration::from_millis(10),
            room: 64,
        };
        let rig = Rig::with(policy, limits);
        rig.core.send_replace(running_core());
        let (address, core) = (rig.address, rig.core.clone());
        let commands = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&commands);
        tokio::spawn(async move {
            // All of it, or its senders would be gone; and each reply is dropped: to the API the supervisor has gone.
            let mut rig = rig;
            while rig.commands.recv().await.is_some() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { address, core, commands }
    }
}

/// Sends the input to both ports.
pub fn run(input: &[u8]) -> u64 {
    thread_local! {
        static PORTS: [Port; 2] = on_runtime(async { [Port::open(true), Port::open(false)] });
    }
    PORTS.with(|[open, strict]| {
        on_runtime(async {
            for port in [open, strict] {
                port.core.send_modify(|core| core.ticked = Instant::now());
            }
            let (seen, refused) =
                tokio::join!(exchange(open.address, input), exchange(strict.address, input));
            assert_eq!(strict.commands.load(Ordering::Relaxed), 0, "a caller without rights had an effect");
            shape(&seen) ^ shape(&refused).rotate_left(1)
        })
    })
}

/// The status lines of what came back.
async fn exchange(address: SocketAddr, input: &[u8]) -> String {
    let (open, bytes) = match input {
        // A long-poll holds a connection as long as it asks to, a stream for ever, and half a body for 10 s.
        [b'~', bytes @ ..] if !WAITED_FOR.iter().any(|word| holds(bytes, word)) => (true, bytes),
        bytes => (false, bytes),
    };
    let mut stream = TcpStream::connect(address).await.expect("the port takes connections");
    let (mut reader, mut writer) = stream.split();
    let mut answer = Vec::new();
    let talk = async {
        let write = async {
            // In two pieces: most of what reads a stream also reads pieces of it.
            let (head, tail) = bytes.split_at(bytes.len() / 2);
            let _ = writer.write_all(head).await;
            tokio::task::yield_now().await;
            let _ = writer.write_all(tail).await;
            if !open {
                let _ = writer.shutdown().await;
            }
        };
        let read = async {
            while reader.read_buf(&mut answer).await.is_ok_and(|read| read > 0) {
                // A stream goes on for ever, also when what follows its request hides that the caller has gone.
                if answer.len() > LONGEST_ANSWER || holds(&answer, "event: snapshot") {
                    break;
                }
            }
        };
        tokio::join!(write, read)
    };
    // Beside it, so that the bytes above are met by a listener that has something else to do.
    let (ended, probe) = tokio::join!(timeout(OVER, talk), probe(address));
    assert_eq!(probe.as_deref(), Some("HTTP/1.1 200 OK"), "a probe on another connection");
    assert!(ended.is_ok(), "neither an answer nor the end came within {OVER:?}");
    assert!(answer.len() <= LONGEST_ANSWER, "an answer of more than 1 MiB");
    let text = String::from_utf8_lossy(&answer);
    let tls = answer.first().is_none_or(|byte| (0x14..=0x17).contains(byte));
    assert!(tls || text.starts_with("HTTP/1."), "neither HTTP nor TLS: {:?}", text.get(..100));
    assert!(!text.starts_with("HTTP/1.1 500"), "an error of our own making: {text}");
    text.lines().filter(|line| line.starts_with("HTTP/1.") || line.contains("\"code\":")).collect()
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

async fn probe(address: SocketAddr) -> Option<String> {
    let asked = timeout(Duration::from_secs(2), async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    });
    asked.await.ok()?.ok()?.lines().next().map(str::to_owned)
}
