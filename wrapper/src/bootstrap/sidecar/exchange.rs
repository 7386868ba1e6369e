// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One GET over an open connection. Everything that fails in here is `Lost`: the request may have been heard.
use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, HOST, TRANSFER_ENCODING, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Incoming};
use hyper_util::rt::TokioIo;

use super::Failure;
use crate::connect::{Stream, chain};

/// Longest text of an answer that is shown.
const EXCERPT: usize = 200;

/// When a body counts as whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// Also when it ends with the connection: a cut word is no known word.
    EndWillDo,
    /// Only by its Content-Length or its last chunk: a cut config may still be YAML.
    NeedsLength,
}

/// A whole answer; of one other than 200 at most the first bytes.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

pub(super) async fn get(
    stream: Box<dyn Stream>,
    path: &str,
    host: HeaderValue,
    cap: usize,
    whole: Whole,
) -> Result<Reply, Failure> {
    let lost = |error: hyper::Error| Failure::Lost(format!("GET {path}: {}", chain(&error)));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    let request = Request::get(path)
        .header(HOST, host)
        .header(CONNECTION, "close")
        .header(USER_AGENT, concat!("etcd-wrapper/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())
        .expect("path and headers are made of plain ASCII");
    let answer = async {
        let response = sender.send_request(request).await.map_err(lost)?;
        let status = response.status().as_u16();
        let needed = whole == Whole::NeedsLength && status == 200;
        if needed && !has_end(&response) {
            let what = "the answer has neither length nor chunks, so its end cannot be told from a cut";
            return Err(Failure::Lost(format!("GET {path}: {what}")));
        }
        read(response.into_body(), cap, status == 200)
            .await
            .map_err(|error| match error {
                ReadError::Lost(error) => lost(error),
                ReadError::TooLarge => Failure::Garbled(format!("GET {path}: more than {cap} bytes")),
            })
            .map(|body| Reply { status, body })
    };
    tokio::pin!(answer);
    // The connection is driven here and not in a task of its own: dropping the call closes it.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        // Whatever it read before it ended is still to be had, its error too.
        _ = connection => answer.await,
    }
}

enum ReadError {
    Lost(hyper::Error),
    TooLarge,
}

/// Reads to the end. Of an answer that is only shown, the rest beyond the cap is left unread.
async fn read(mut body: Incoming, cap: usize, used: bool) -> Result<Bytes, ReadError> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Trailers say nothing to us.
        let Ok(data) = frame.map_err(ReadError::Lost)?.into_data() else { continue };
        bytes.extend_from_slice(&data);
        if bytes.len() > cap {
            return if used { Err(ReadError::TooLarge) } else { Ok(bytes.freeze()) };
        }
    }
    Ok(bytes.freeze())
}

fn has_end(response: &Response<Incoming>) -> bool {
    response.body().size_hint().exact().is_some() || response.headers().contains_key(TRANSFER_ENCODING)
}

/// The beginning of a text, on one line, for people: without PEM and without the queries of URLs, for errors about a
/// store may quote a signed one.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT)]);
    let open = text.split("-----BEGIN").next().unwrap_or_default();
    let words = open.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(|word| word.split_once('?').map_or(word.into(), without_query)).collect();
    let line = words.join(" ");
    if bytes.len() > EXCERPT { format!("{line}…") } else { line }
}

fn without_query((before, query): (&str, &str)) -> String {
    if query.is_empty() { format!("{before}?") } else { format!("{before}?…") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j2_an_excerpt_has_no_query_and_no_pem() {
        let text = b"GET \"https://store/blob?sv=1&sig=abc\": 403\nwhy?\n-----BEGIN PRIVATE KEY-----\nabc";
        assert_eq!(excerpt(text), "GET \"https://store/blob?\u{2026} 403 why?");
    }
}
