// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! From a host and a port to an open connection, TLS included: to the sidecar, to who is notified, and for the client
//! to the wrapper. Nothing of a request is sent in here, so whatever fails here leaves the other side untouched.
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use rustix::io::Errno;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;

/// Where `localhost` is, without asking anybody: an image may have no /etc/hosts.
const LOCALHOST: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens there.
    #[error("{0}")]
    Refused(String),
    /// No name, no route, or no TLS: somebody may be there.
    #[error("{0}")]
    Unreachable(String),
}

/// A connection, TLS or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

type Resolved = io::Result<Vec<SocketAddr>>;

#[derive(Debug)]
pub(crate) struct Dialler {
    host: String,
    port: u16,
    /// A question to the resolver that an earlier call did not wait for.
    pending: Option<oneshot::Receiver<Resolved>>,
}

impl Dialler {
    pub(crate) fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, pending: None }
    }

    pub(crate) async fn connect(
        &mut self,
        tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    ) -> Result<Box<dyn Stream>, ConnectError> {
        let stream = self.tcp().await?;
        match tls {
            None => Ok(Box::new(stream)),
            Some((config, name)) => {
                let connected = TlsConnector::from(config).connect(name, stream).await;
                let host = &self.host;
                connected
                    .map(|stream| Box::new(stream) as Box<dyn Stream>)
                    .map_err(|error| ConnectError::Unreachable(format!("TLS handshake with {host}: {error}")))
            }
        }
    }

    pub(crate) async fn tcp(&mut self) -> Result<TcpStream, ConnectError> {
        let addresses = self
            .resolve()
            .await
            .map_err(|error| ConnectError::Unreachable(format!("resolve {}: {error}", self.host)))?;
        let stream = dial(&addresses).await?;
        // One small request a connection: nothing to gather.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    /// The system's resolver only blocks. It gets a thread of its own for a moment, rather than one of the runtime's:
    /// the runtime waits for those when it ends, and a dead name server must not hold up an exit. At most one at a time.
    async fn resolve(&mut self) -> Resolved {
        let with_port = |ips: &[IpAddr]| ips.iter().map(|ip| SocketAddr::new(*ip, self.port)).collect();
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(with_port(&[ip]));
        }
        if self.host.eq_ignore_ascii_case("localhost") {
            return Ok(with_port(&LOCALHOST));
        }
        if self.pending.is_none() {
            let (answer, pending) = oneshot::channel();
            let question = (self.host.clone(), self.port);
            std::thread::Builder::new().name("resolve".to_owned()).spawn(move || {
                // Nobody may be waiting any more; that is fine.
                let _ = answer.send(question.to_socket_addrs().map(Iterator::collect));
            })?;
            self.pending = Some(pending);
        }
        let Some(pending) = &mut self.pending else { return Err(io::Error::other("no question was asked")) };
        let answer = pending.await;
        self.pending = None;
        match answer {
            Ok(Ok(addresses)) if addresses.is_empty() => Err(io::Error::other("no address")),
            Ok(answer) => answer,
            Err(_) => Err(io::Error::other("the resolver's thread died")),
        }
    }
}

/// Tries one address after the other. Refused means: refused at one, and at no other could anybody listen at all.
async fn dial(addresses: &[SocketAddr]) -> Result<TcpStream, ConnectError> {
    let mut refused = None;
    let mut unreachable = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                let text = format!("connect {address}: {error}");
                match Errno::from_io_error(&error) {
                    // The first is the usual one: 127.0.0.1 before ::1.
                    Some(Errno::CONNREFUSED) => refused = refused.or(Some(text)),
                    // This machine has no such address family or network: the usual fate of ::1 without IPv6.
                    Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT | Errno::NETUNREACH)
                        if addresses.len() > 1 => {}
                    Some(_) | None => unreachable = Some(text),
                }
            }
        }
    }
    Err(match (unreachable, refused) {
        (Some(text), _) => ConnectError::Unreachable(text),
        (None, Some(text)) => ConnectError::Refused(text),
        (None, None) => {
            ConnectError::Unreachable("connect: none of the addresses can be reached from here".to_owned())
        }
    })
}

/// An error with its causes: hyper's own text is short, and the reason stands behind it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
