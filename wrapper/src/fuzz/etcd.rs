// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the local etcd answers: the page of `/metrics` by itself, whole HTTP answers, and gRPC messages and streams.
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Target, assert_short, on_runtime, shape};
use crate::member::client::{CallError, Client};
use crate::member::dial::{Address, Dial};
use crate::member::gauges::{self, Gauges};

const PAGE: &[&str] = &[
    "etcd_server_is_leader 1\n",
    "etcd_server_has_leader 0\n",
    "etcd_server_is_learner 1\n",
    "etcd_server_id{server_id=\"",
    "etcd_server_version{server_version=\"3.5.35\"} 1\n",
    "etcd_mvcc_db_total_size_in_bytes ",
    "etcd_server_quota_backend_bytes ",
    "etcd_network_active_peers{Local=\"a\",Remote=\"b\"} 1\n",
    "etcd_network_disconnected_peers_total{Local=\"a\",Remote=\"b\"} 3\n",
    "\"} 1\n",
    "NaN",
    "+Inf",
    "1e308",
    "# TYPE etcd_server_id gauge\n",
];

/// etcd's `/metrics`.
pub const GAUGES: Target =
    Target { words: PAGE, longest: 16 * 1024, cases: 2500, ..Target::new("gauges", run_gauges) };

/// etcd's HTTP answers.
pub const PAGES: Target = Target {
    words: &[
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 503 Service Unavailable\r\n",
        "Content-Length: 10\r\n",
        "Transfer-Encoding: chunked\r\n",
        "\r\n\r\n",
        "0\r\n\r\n",
        "etcd_server_is_leader 1\netcd_server_has_leader 1\n",
        "{\"health\":\"false\",\"reason\":\"ALARM NOSPACE\"}",
        "ALARM CORRUPT",
    ],
    longest: 8 * 1024,
    cases: 400,
    ..Target::new("pages", run_pages)
};

/// What etcd's gRPC errors say.
pub const GRPC: Target = Target {
    words: &[
        "etcdserver: user name is empty",
        "NOSPACE",
        "CORRUPT",
        "\x08\x01",
        "\x0a\x02\x10\x07",
        "grpc-status",
    ],
    longest: 8 * 1024,
    cases: 500,
    ..Target::new("grpc", run_grpc)
};

const ENDS: Duration = Duration::from_secs(5);
const HANGS: Duration = Duration::from_millis(40);
/// What is said goes into a check's detail and into warnings.
const LONGEST: usize = 2048;
/// Longest version that is published.
const LONGEST_VERSION: usize = 64;
/// Far more members than a cluster can have.
const MOST_PEERS: usize = 256;

/// A page of `/metrics`: what was read of it, written as a page, is read the same.
pub fn run_gauges(input: &[u8]) -> u64 {
    let page = String::from_utf8_lossy(input);
    match gauges::parse(&page) {
        Ok(gauges) => {
            assert!(gauges.version.as_ref().is_none_or(|version| version.len() <= LONGEST_VERSION));
            assert!(gauges.active_peers.len() <= MOST_PEERS, "{} peers", gauges.active_peers.len());
            assert!(gauges.disconnects.len() <= MOST_PEERS, "{} peers", gauges.disconnects.len());
            assert_eq!(gauges::parse(&written(&gauges)).as_ref(), Ok(&gauges), "read back");
            u64::from(gauges.is_leader)
                | u64::from(gauges.has_leader) << 1
                | u64::from(gauges.member_id.is_some()) << 2
                | u64::from(gauges.version.is_some()) << 3
                | u64::from(gauges.db_quota.is_some()) << 4
                | u64::from(gauges.is_learner.is_some()) << 5
                | u64::from(!gauges.active_peers.is_empty()) << 6
                | u64::from(!gauges.disconnects.is_empty()) << 7
        }
        Err(missing) => shape(&missing.to_string()),
    }
}

fn written(gauges: &Gauges) -> String {
    let mut page = format!(
        "etcd_server_is_leader {}\netcd_server_has_leader {}\n",
        u8::from(gauges.is_leader),
        u8::from(gauges.has_leader)
    );
    let mut line = |name: &str, value: Option<String>| {
        page.extend(value.map(|value| format!("{name}{value}\n")));
    };
    line("etcd_server_is_learner ", gauges.is_learner.map(|is| u8::from(is).to_string()));
    line("etcd_server_id", gauges.member_id.map(|id| format!("{{server_id=\"{id:x}\"}} 1")));
    line("etcd_server_version", gauges.version.as_ref().map(|v| format!("{{server_version=\"{v}\"}} 1")));
    line("etcd_mvcc_db_total_size_in_bytes ", gauges.db_size.map(|size| size.to_string()));
    line("etcd_mvcc_db_total_size_in_use_in_bytes ", gauges.db_in_use.map(|size| size.to_string()));
    line("etcd_server_quota_backend_bytes ", gauges.db_quota.map(|size| size.to_string()));
    for peer in &gauges.active_peers {
        line("etcd_network_active_peers", Some(format!("{{Local=\"1\",Remote=\"{peer:x}\"}} 1")));
    }
    for (peer, count) in &gauges.disconnects {
        let labels = format!("{{Local=\"1\",Remote=\"{peer:x}\"}}");
        line("etcd_network_disconnected_peers_total", Some(format!("{labels} {count}")));
    }
    page
}

/// Serves one connection after the other with the same bytes, until dropped.
async fn serve(listener: &TcpListener, answer: &[u8], hangs: bool) -> std::convert::Infallible {
    loop {
        let (mut stream, _) = listener.accept().await.expect("the client connects");
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(answer).await;
        if hangs {
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    }
}

fn dial(listener: &TcpListener) -> Dial {
    let address = listener.local_addr().expect("a bound socket has an address");
    Dial { address: Address::Tcp(address), tls: None }
}

/// An HTTP answer to `/metrics` (first byte `m`) or `/health` (`h`); a capital leaves the connection open.
pub fn run_pages(input: &[u8]) -> u64 {
    let Some((how, answer)) = input.split_first() else { return 0 };
    on_runtime(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let hangs = how.is_ascii_uppercase();
        let limit = if hangs { HANGS } else { ENDS };
        let mut scraper = Client::new(dial(&listener), dial(&listener)).scraper();
        let call = async {
            match how.to_ascii_lowercase() {
                b'm' => scraper.gauges(limit).await.map(|gauges| format!("leader {}", gauges.is_leader)),
                _ => scraper.alarms(limit).await.map(|alarms| format!("{alarms:?}")),
            }
        };
        let said = tokio::select! {
            said = call => said,
            never = serve(&listener, answer, hangs) => match never {},
        };
        let text = said.unwrap_or_else(|error| error.to_string());
        assert_short(&text, LONGEST);
        shape(&text)
    })
}

/// gRPC: `s` a Status message, `m` a MemberList message, `r` a Range message, each as its bytes in a sound stream; `e`
/// the text of an error; anything else the whole stream as it is.
pub fn run_grpc(input: &[u8]) -> u64 {
    let Some((how, bytes)) = input.split_first() else { return 0 };
    let answer = match how {
        b's' | b'm' | b'r' => stream(bytes, "0", ""),
        b'e' => stream(b"", "14", &String::from_utf8_lossy(bytes)),
        _ => bytes.to_vec(),
    };
    on_runtime(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let client = Client::new(dial(&listener), dial(&listener));
        // A sound stream is kept open, as etcd does: its end must be told from within.
        let sound = matches!(how, b's' | b'm' | b'r' | b'e');
        let limit = if sound { ENDS } else { HANGS };
        let call = async {
            match how {
                b'm' => client.members(limit).await.map(|members| format!("peers {}", members.peers.len())),
                b'r' => client.serializable_read(limit).await.map(|()| "read".to_owned()),
                _ => client.status(limit).await.map(|status| {
                    assert!(status.leader_id != Some(0), "no leader is None");
                    assert!(status.version.len() <= LONGEST_VERSION, "{:?}", status.version.get(..200));
                    format!("status {:?} {}", status.alarms, status.is_learner)
                }),
            }
        };
        let said = tokio::select! {
            said = call => said,
            never = serve(&listener, &answer, sound) => match never {},
        };
        let text = said.unwrap_or_else(|error: CallError| error.to_string());
        assert_short(&text, LONGEST);
        shape(&text)
    })
}

/// A server's side of HTTP/2 with one answer on the first stream, as etcd would send it.
fn stream(message: &[u8], status: &str, text: &str) -> Vec<u8> {
    let mut data = vec![0];
    data.extend(u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    data.extend_from_slice(message);
    let mut head = vec![0x88];
    field(&mut head, "content-type", "application/grpc");
    let mut trailers = Vec::new();
    field(&mut trailers, "grpc-status", status);
    field(&mut trailers, "grpc-message", text);
    let (headers, end_headers, end_stream) = (1, 4, 1);
    let mut out = frame(4, 0, 0, &[]);
    out.extend(frame(headers, end_headers, 1, &head));
    for piece in data.chunks(16_384) {
        out.extend(frame(0, 0, 1, piece));
    }
    out.extend(frame(headers, end_headers | end_stream, 1, &trailers));
    out
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// A literal field without indexing, of what of the value may stand in one.
fn field(block: &mut Vec<u8>, name: &str, value: &str) {
    let value: String = value.chars().filter(|c| (' '..='~').contains(c)).take(12_000).collect();
    block.push(0);
    for text in [name, &value] {
        // An integer with a prefix of seven bits (RFC 7541, 5.1).
        match u8::try_from(text.len()) {
            Ok(length @ 0..127) => block.push(length),
            _ => {
                let mut rest = text.len() - 127;
                block.push(127);
                while rest >= 128 {
                    block.push(rest.to_le_bytes()[0] | 128);
                    rest /= 128;
                }
                block.push(rest.to_le_bytes()[0]);
            }
        }
        block.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_stream_is_understood() {
        // Status with a header whose member id is 7, and term 3.
        let answer = stream(b"\x0a\x02\x10\x07\x30\x03", "0", "");
        on_runtime(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = Client::new(dial(&listener), dial(&listener));
            let status = tokio::select! {
                status = client.status(ENDS) => status,
                never = serve(&listener, &answer, true) => match never {},
            };
            assert_eq!(status.unwrap().member_id, 7);
        });
    }
}
