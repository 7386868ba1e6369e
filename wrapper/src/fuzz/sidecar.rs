// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The sidecar's answers: raw bytes on a real connection. The first byte chooses the call: `s` status, `t` start, `c`
//! config; a capital leaves the connection open afterwards, as a sidecar that hangs does.
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Target, assert_short, on_runtime, shape};
use crate::bootstrap::sidecar::{Failure, LONGEST_CONFIG, SidecarClient};
use crate::cli::host_port::SidecarAddress;
use crate::supervise::view::Mode;

/// The sidecar's HTTP answers.
pub const TARGET: Target = Target {
    words: &[
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n",
        "HTTP/1.1 302 Found\r\nLocation: /\r\n",
        "HTTP/1.1 500 Internal Server Error\r\n",
        "Content-Length: ",
        "Transfer-Encoding: chunked\r\n",
        "Content-Encoding: gzip\r\n",
        "Connection: keep-alive\r\n",
        "Trailer: X\r\n",
        "\r\n",
        "5\r\n",
        "0\r\n\r\n",
        "ffffffffffffffff\r\n",
        "1;ext=\"x\"\r\n",
        "New",
        "Progress",
        "Successful",
        "Failed",
        "-----BEGIN ",
        "?sig=",
    ],
    longest: 8 * 1024,
    cases: 800,
    ..Target::new("sidecar", run)
};

/// Long enough for loopback, short enough for an answer that never ends.
const HANGS: Duration = Duration::from_millis(40);
const ENDS: Duration = Duration::from_secs(5);
/// A failure goes into a log line and into `lastError`.
const LONGEST: usize = 2048;

/// Answers one call with the input.
pub fn run(input: &[u8]) -> u64 {
    let Some((how, answer)) = input.split_first() else { return 0 };
    on_runtime(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let address = SidecarAddress { host: "127.0.0.1".to_owned(), port };
        let mut client = SidecarClient::new(address, None).expect("an address and no bundle");
        let hangs = how.is_ascii_uppercase();
        let limit = if hangs { HANGS } else { ENDS };
        let call = async {
            match how.to_ascii_lowercase() {
                b's' => client.status(limit).await.map(|word| format!("{word:?}")),
                b't' => client.start(Mode::Full, limit).await.map(|()| "started".to_owned()),
                _ => client.config(limit).await.map(|body| {
                    assert_whole(answer, &body);
                    "config".to_owned()
                }),
            }
        };
        let serve = async {
            let (mut stream, _) = listener.accept().await.expect("the client connects");
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer).await;
            if hangs {
                // Until the client gives up.
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        };
        let (outcome, ()) = tokio::join!(call, serve);
        match outcome {
            Ok(said) => shape(&said),
            Err(failure) => {
                let text = failure.to_string();
                assert_short(&text, LONGEST);
                assert!(!text.contains(char::is_control), "one line: {text:?}");
                let heard = matches!(failure, Failure::Lost(_) | Failure::Status(..) | Failure::Garbled(_));
                assert!(heard, "the request was sent, so nothing may say that it was not: {text}");
                shape(&text)
            }
        }
    })
}

/// A configuration is taken only where HTTP says that it came whole.
fn assert_whole(answer: &[u8], body: &[u8]) {
    assert!(body.len() <= LONGEST_CONFIG, "{} bytes", body.len());
    let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
    let said = text.contains("content-length") || text.contains("transfer-encoding");
    assert!(said && text.contains(" 200"), "taken for whole: {text:?}");
}
