// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One request to a wrapper: from the doors of `reach` to a whole answer, or an open stream. Everything has a deadline.
//! Tries the other scheme only where the first surely did nothing; repeats nothing else.
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request as HttpRequest, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::api::wire;
use crate::connect::{ConnectError, Dialler, chain};

use super::ClientError;
use super::reach::{Door, Reach};

/// Longest answer that is taken.
const LONGEST: usize = 8 * 1024 * 1024;

/// What to ask.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    /// With its query.
    pub(super) path: String,
    /// Content type and body.
    pub(super) body: Option<(&'static str, Bytes)>,
    /// How long the server may take on purpose, beside the usual limit.
    pub(super) wait: Duration,
    /// The stream position to go on from.
    pub(super) last_event_id: Option<String>,
}

impl Request {
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), body: None, wait: Duration::ZERO, last_event_id: None }
    }
}

/// How one attempt failed.
enum Failure {
    /// Nobody listens, or can be reached: the other scheme would not either.
    Nobody(String),
    /// TLS could not be agreed on; no request was sent.
    Handshake(String),
    /// The request may have been heard.
    Lost(String),
}

/// What to do where nothing listens.
const NOT_THERE: &str = "no wrapper runs there: the log of its container and `etcd-wrapper history` say how the last one \
                         ended, --server and --etcd-wrapper-port name another";

/// Asks, and reads the answer to its end: the body of a status below 400.
///
/// # Errors
/// `Nobody`, or the server's refusal.
pub(super) async fn call(reach: &Reach, request: &Request) -> Result<Bytes, ClientError> {
    let deadline = Instant::now() + reach.timeout + request.wait;
    let response = open(reach, request, deadline).await?;
    whole(response.into_body(), deadline).await.map_err(|why| ClientError::Nobody(lost(reach, request, &why)))
}

/// Asks, and hands out the beginning of an answer below 400; its body is the caller's to read.
///
/// # Errors
/// As [`call`].
pub(super) async fn open(
    reach: &Reach,
    request: &Request,
    deadline: Instant,
) -> Result<Response<Incoming>, ClientError> {
    let mut handshake = None;
    for (at, door) in reach.doors.iter().enumerate() {
        let response = match timeout_at(deadline, attempt(reach, door, request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(Failure::Handshake(why))) => {
                handshake = Some(why);
                continue;
            }
            Ok(Err(Failure::Nobody(why))) => return Err(ClientError::Nobody(why)),
            Ok(Err(Failure::Lost(why))) => return Err(ClientError::Nobody(lost(reach, request, &why))),
            Err(_) => {
                let limit = reach.timeout + request.wait;
                let why = format!("no answer within {}", wire::duration(limit));
                return Err(ClientError::Nobody(lost(reach, request, &why)));
            }
        };
        if response.status().as_u16() < 400 {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let body = whole(response.into_body(), deadline)
            .await
            .map_err(|why| ClientError::Nobody(lost(reach, request, &why)))?;
        let refusal = refusal(status, body);
        let ClientError::Refused(problem, _) = &refusal else { return Err(refusal) };
        let other_scheme = matches!(&*problem.code, "tls_required" | "no_server_certificate");
        if !other_scheme {
            return Err(refusal);
        }
        if at + 1 < reach.doors.len() {
            continue;
        }
        // The last door: only the other one would open, and why it does not is what helps.
        let why = handshake.or_else(|| reach.without_tls.clone());
        return Err(match why {
            Some(why) => ClientError::Nobody(format!("{why}; and over plain HTTP: {}", problem.detail)),
            None => refusal,
        });
    }
    Err(ClientError::Nobody(handshake.unwrap_or_else(|| "there is no way to it".to_owned())))
}

fn lost(reach: &Reach, request: &Request, why: &str) -> String {
    let heard =
        if request.method == Method::GET { "" } else { "; it may have been heard, ask for the status" };
    let path = request.path.split('?').next().unwrap_or_default();
    format!("{} {path} at {}: {why}{heard}", request.method, reach.authority())
}

/// The server's no as an error; a no that is not the wrapper's is shown as it came.
fn refusal(status: u16, body: Bytes) -> ClientError {
    match serde_json::from_slice::<wire::Problem>(&body) {
        Ok(problem) => ClientError::Refused(Box::new(problem), body),
        Err(_) => {
            let text = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
            ClientError::Failed(format!("the answer is {status} without a problem document: {text}"))
        }
    }
}

async fn attempt(reach: &Reach, door: &Door, request: &Request) -> Result<Response<Incoming>, Failure> {
    let dialled = Dialler::new(&reach.host, reach.port).tcp().await;
    let stream = dialled.map_err(|error| {
        Failure::Nobody(match error {
            ConnectError::Refused(why) => format!("{why}; {NOT_THERE}"),
            ConnectError::Unreachable(why) => why,
        })
    })?;
    match door {
        Door::Plain => exchange(reach, stream, request).await,
        Door::Tls { config, name } => {
            let mut config = ClientConfig::clone(config);
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            let connected = TlsConnector::from(Arc::new(config)).connect(name.clone(), stream).await;
            let stream = connected.map_err(|error| {
                Failure::Handshake(format!(
                    "TLS handshake with {} as {}: {error}",
                    reach.authority(),
                    name.to_str()
                ))
            })?;
            exchange(reach, stream, request).await
        }
    }
}

async fn exchange(
    reach: &Reach,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: &Request,
) -> Result<Response<Incoming>, Failure> {
    let lost = |error: hyper::Error| Failure::Lost(chain(&error));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    // Its error reaches whoever reads the answer, too; it ends with the process at the latest.
    tokio::spawn(connection);
    let mut head = HttpRequest::builder()
        .method(request.method.clone())
        .uri(&request.path)
        .header(header::HOST, reach.authority())
        .header(header::ACCEPT, "application/json, text/event-stream")
        .header(header::CONNECTION, "close")
        .header(header::USER_AGENT, concat!("etcd-wrapper-client/", env!("CARGO_PKG_VERSION")));
    if let Some(position) = request.last_event_id.as_ref().and_then(|id| HeaderValue::from_str(id).ok()) {
        head = head.header("last-event-id", position);
    }
    let body = match &request.body {
        Some((content_type, bytes)) => {
            head = head.header(header::CONTENT_TYPE, *content_type);
            bytes.clone()
        }
        None => Bytes::new(),
    };
    let request = head.body(Full::new(body)).map_err(|error| Failure::Nobody(error.to_string()))?;
    sender.send_request(request).await.map_err(lost)
}

async fn whole(mut body: Incoming, deadline: Instant) -> Result<Bytes, String> {
    let read = async {
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| chain(&error))?.into_data() else { continue };
            bytes.extend_from_slice(&data);
            if bytes.len() > LONGEST {
                return Err("the answer is too large".to_owned());
            }
        }
        Ok(bytes.freeze())
    };
    timeout_at(deadline, read).await.unwrap_or_else(|_| Err("the answer did not end in time".to_owned()))
}

/// A query string's value, percent-encoded.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(byte.into());
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Parameters as a query, with its `?`; nothing for none.
pub(super) fn query(parameters: &[(&str, Option<String>)]) -> String {
    let given =
        parameters.iter().filter_map(|(name, value)| Some(format!("{name}={}", encoded(value.as_ref()?))));
    let joined = given.collect::<Vec<_>>().join("&");
    if joined.is_empty() { joined } else { format!("?{joined}") }
}

#[cfg(test)]
mod tests;
