// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One HTTP/1.1 request on a connection that somebody else made. Waits for no limit of its own, and judges no status.
use anyhow::{Context, Result};
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Sends it, with `body` as a content type and bytes; returns when the head of the answer has come.
///
/// # Errors
/// The connection ends before, or the path is none.
pub(crate) async fn exchange<S>(
    stream: S,
    method: &Method,
    path: &str,
    body: Option<(&str, Vec<u8>)>,
) -> Result<Response<Incoming>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.context("begin HTTP")?;
    // Ends with the response's body, or with what carries the stream.
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    let mut bytes = Vec::new();
    if let Some((kind, content)) = body {
        request = request.header("content-type", kind);
        bytes = content;
    }
    let request = request.body(Full::new(Bytes::from(bytes))).context("make a request")?;
    sender.send_request(request).await.context("ask")
}
