// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A connection to a port of a pod through the API server. It arrives in the pod from loopback, as a neighbour in the pod
//! would call. Speaks no protocol on it.
use std::pin::Pin;
use std::task::{Context as Cx, Poll};
use std::time::Duration;
use std::{fmt, io};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::Portforwarder;
use kube::{Api, Client};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// How long the API server and the kubelet may take to connect.
const CONNECT: Duration = Duration::from_secs(10);

/// An open connection. It ends when this is dropped; a port that nobody listens on shows as an end of the stream.
pub struct Tunnel {
    stream: DuplexStream,
    forwarder: Portforwarder,
}

/// Connects to `port` of a pod.
///
/// # Errors
/// There is no such pod, it does not run, or nobody answered within 10 s.
pub async fn connect(client: &Client, namespace: &str, pod: &str, port: u16) -> Result<Tunnel> {
    let what = || format!("connect to port {port} of pod {pod}");
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let forwarder = tokio::time::timeout(CONNECT, async { pods.portforward(pod, &[port]).await });
    let mut forwarder = forwarder.await.with_context(what)?.with_context(what)?;
    let stream = forwarder.take_stream(port).expect("this port was asked for, and is taken once");
    Ok(Tunnel { stream, forwarder })
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tunnel").finish_non_exhaustive()
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.forwarder.abort();
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Cx<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Cx<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
