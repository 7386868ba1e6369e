// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The port: binds it, tells TLS from plain HTTP by the first byte, and bounds what a connection may cost. Knows no
//! route and loads no certificate.
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, timeout};
use tracing::{debug, error, warn};

use crate::tls::server::{self, SelfSigned};

use super::auth::{Admission, ClientIdentity, Scheme};
use super::connections::{Activity, Connections};
use super::flush::{Flushed, Watched};
use super::{Api, Connection, closed};

/// Pause when the process has no descriptor left: accept fails at once again until one is free.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(100);
const BACKLOG: u32 = 1024;
/// Bytes that wait for a peer, in our memory and in the kernel's each; more than any head, and most answers.
const BUFFER: usize = 32 * 1024;
/// Milliseconds until a peer that is gone without a word, or has closed its window, counts as gone.
const UNACKNOWLEDGED: u32 = 60_000;
/// First byte of a TLS record that carries a handshake; no HTTP method begins with it.
const TLS_HANDSHAKE: u8 = 0x16;

/// The port could not be bound: exit code 3.
#[derive(Debug, thiserror::Error)]
#[error(
    "bind the HTTP port at {address}: {source}; is another etcd-wrapper running here? see --etcd-wrapper-port, --listen-address"
)]
pub struct BindError {
    /// Where it was tried last.
    pub address: SocketAddr,
    /// The kernel's answer.
    pub source: io::Error,
}

/// Binds `port` at `address`, or at all addresses of both families; without IPv6 at all IPv4 addresses.
///
/// # Errors
/// [`BindError`] with the address that was tried last.
pub fn bind(address: Option<IpAddr>, port: u16) -> Result<TcpListener, BindError> {
    match address {
        Some(address) => bind_one(SocketAddr::new(address, port)),
        None => match bind_one(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)) {
            Err(error) if is_without_ipv6(&error.source) => {
                bind_one(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))
            }
            bound => bound,
        },
    }
}

fn is_without_ipv6(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::AFNOSUPPORT | rustix::io::Errno::ADDRNOTAVAIL))
}

fn bind_one(address: SocketAddr) -> Result<TcpListener, BindError> {
    let bound = || -> io::Result<TcpListener> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(v6) => {
                let socket = TcpSocket::new_v6()?;
                // The host's bindv6only setting must not decide whether IPv4 probes are heard.
                rustix::net::sockopt::set_ipv6_v6only(&socket, !v6.ip().is_unspecified())?;
                socket
            }
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(|source| BindError { address, source })
}

/// What connections may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// First byte, TLS handshake, and a request's head have this long each. Also how long an idle connection lives.
    pub step: Duration,
    /// Request line and headers of one request, in bytes.
    pub head: usize,
    /// Answers that callers wait for when the listener closes have this long.
    pub wind_down: Duration,
    /// Answers that are there, and only have to leave.
    pub flush: Duration,
    /// Connections at a time.
    pub room: usize,
}

impl Limits {
    /// api.md §5, requirement J4; and as many connections as the descriptor limit leaves beside the wrapper's own
    /// needs, at most 1,024.
    pub fn of_this_process() -> Self {
        const OWN_NEEDS: u64 = 256;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        let room = usize::try_from(limit.saturating_sub(OWN_NEEDS).clamp(64, 1024)).expect("at most 1,024");
        let (step, wind_down) = (Duration::from_secs(5), Duration::from_secs(1));
        Self { step, head: 16 * 1024, wind_down, flush: Duration::from_millis(100), room }
    }
}

/// Asked once for every connection: what TLS stands for now.
pub type TlsNow = dyn Fn() -> ServerTls + Send + Sync;
/// Gives the certificate that a TLS connection is shown; None when there is none to give (then it is closed).
pub type Offer = dyn Fn() -> Option<Arc<rustls::ServerConfig>> + Send + Sync;
/// Tells what a client's certificate is worth; called with the chain as shown, leaf first, never empty.
pub type Classify = dyn Fn(&[CertificateDer<'_>]) -> ClientIdentity + Send + Sync;

/// What the TLS stage hands to new connections; a connection keeps what it began with.
#[derive(Clone)]
pub struct ServerTls {
    /// Asks for a client certificate, demands none; ALPN `http/1.1`. Called once a TLS connection, so that the
    /// self-signed certificate need not be made before somebody asks for it.
    pub offer: Arc<Offer>,
    /// What is offered is etcd's own server certificate; false: the self-signed one.
    pub etcd_certificate: bool,
    /// The config names a client CA, but it cannot be read.
    pub trust_not_loaded: bool,
    /// Makes of a client's chain what it proves.
    pub classify: Arc<Classify>,
}

impl ServerTls {
    /// etcd's certificate where one is loaded, else the self-signed one.
    pub fn of(loaded: Option<Arc<server::ServerTls>>, own: &Arc<SelfSigned>) -> Self {
        match loaded {
            Some(loaded) => {
                let config = loaded.config();
                Self {
                    offer: Arc::new(move || Some(Arc::clone(&config))),
                    etcd_certificate: true,
                    trust_not_loaded: loaded.trust_not_loaded(),
                    classify: Arc::new(move |chain| loaded.classify(Some(chain), UnixTime::now())),
                }
            }
            None => {
                let own = Arc::clone(own);
                Self {
                    offer: Arc::new(move || {
                        own.config().inspect_err(|error| warn!(%error, "make a self-signed certificate")).ok()
                    }),
                    etcd_certificate: false,
                    trust_not_loaded: false,
                    classify: Arc::new(|_| ClientIdentity::Unverified),
                }
            }
        }
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offer: _, etcd_certificate, trust_not_loaded, classify: _ } = self;
        f.debug_struct("ServerTls")
            .field("etcd_certificate", etcd_certificate)
            .field("trust_not_loaded", trust_not_loaded)
            .finish_non_exhaustive()
    }
}

/// Serves until `closing` turns true, then finishes the answers under way within `wind_down`. The port stays open up
/// to that moment, so that probes hear 503 during a shutdown and not a refused connection.
pub async fn serve(
    listener: TcpListener,
    api: Arc<Api>,
    tls: Arc<TlsNow>,
    mut closing: watch::Receiver<bool>,
    limits: Limits,
) {
    let mut connections = Connections::new(limits.room);
    let mut tasks = JoinSet::new();
    let mut sweep = tokio::time::interval(limits.step);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let desk = Desk { api, tls, closing: closing.clone(), limits };
    let mut starved = false;
    loop {
        tokio::select! {
            () = closed(&mut closing) => break,
            Some(ended) = tasks.join_next_with_id(), if !tasks.is_empty() => match ended {
                Ok((id, ())) => connections.remove(id),
                Err(error) => {
                    connections.remove(error.id());
                    if error.is_panic() {
                        error!(%error, "connection task panicked");
                    }
                }
            },
            _ = sweep.tick() => connections.sweep(Instant::now()),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    starved = false;
                    let activity = Arc::new(Activity::new(Instant::now()));
                    let task = tasks.spawn(desk.clone().serve(stream, peer, Arc::clone(&activity)));
                    connections.add(task, activity);
                }
                // The peer gave up between SYN and accept.
                Err(error) if is_of_the_peer(&error) => debug!(%error, "accept a connection"),
                Err(error) => {
                    if !starved {
                        warn!(%error, "accept a connection: dropping the longest silent one and trying again");
                        starved = true;
                    }
                    connections.evict();
                    tokio::time::sleep(NO_DESCRIPTOR_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    // Every connection hears of `closing` by itself.
    let all = async { while tasks.join_next().await.is_some() {} };
    if timeout(limits.wind_down, all).await.is_err() {
        debug!("connections left open at the end are dropped");
    }
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut,
    };
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | HostUnreachable | Interrupted | NetworkUnreachable | TimedOut
    )
}

/// What every connection needs.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) api: Arc<Api>,
    pub(super) tls: Arc<TlsNow>,
    pub(super) closing: watch::Receiver<bool>,
    pub(super) limits: Limits,
}

impl Desk {
    /// One connection, from its first byte to its end.
    async fn serve(mut self, stream: TcpStream, peer: SocketAddr, activity: Arc<Activity>) {
        // Answers are small and written whole; a stream that cannot be told so still serves.
        let _ = stream.set_nodelay(true);
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, BUFFER);
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED);
        let step = self.limits.step;
        let mut first = [0; 1];
        // Peeked, so that whoever speaks next finds every byte. 0 bytes: a port check that said nothing.
        let Some(Ok(Ok(1))) = self.unless_closing(timeout(step, stream.peek(&mut first))).await else {
            return;
        };
        let state = (self.tls)();
        let mut admission = Admission {
            peer,
            scheme: Scheme::Plain,
            etcd_certificate: state.etcd_certificate,
            trust_not_loaded: state.trust_not_loaded,
            identity: ClientIdentity::None,
        };
        if first[0] != TLS_HANDSHAKE {
            return self.speak_http(stream, admission, activity).await;
        }
        let Some(config) = (state.offer)() else { return };
        let handshake = tokio_rustls::TlsAcceptor::from(config).accept(stream);
        // Boxed: its state is large and short-lived.
        let shaken = self.unless_closing(timeout(step, Box::pin(handshake))).await;
        let Some(Ok(Ok(stream))) = shaken else { return };
        activity.touch();
        admission.scheme = Scheme::Tls;
        if let Some(chain) = stream.get_ref().1.peer_certificates().filter(|chain| !chain.is_empty()) {
            admission.identity = (state.classify)(chain);
        }
        Box::pin(self.speak_http(stream, admission, activity)).await;
    }

    /// None when the listener closes first: a caller who has asked for nothing yet gets nothing any more.
    async fn unless_closing<T>(&mut self, step: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = step => Some(done),
            () = closed(&mut self.closing) => None,
        }
    }

    /// HTTP/1.1 over a stream whose caller was admitted.
    pub(super) async fn speak_http<S>(mut self, stream: S, admission: Admission, activity: Arc<Activity>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let flushed = Arc::new(Flushed::default());
        let stream = Watched::new(stream, Arc::clone(&flushed), Arc::clone(&activity));
        let connection = Arc::new(Connection { admission, activity: Arc::clone(&activity), flushed });
        let api = self.api;
        let service = service_fn(move |request| api.handle(&connection, request));
        let http = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.step)
            .max_header_size(self.limits.head)
            // Also what waits for a slow reader of a stream.
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(stream), service);
        let mut http = std::pin::pin!(http);
        let ended = tokio::select! {
            ended = http.as_mut() => ended,
            () = closed(&mut self.closing) => {
                // Asked for, or only begun to be: whoever stopped in the middle of a request must not hold up the end.
                let limit = if activity.is_held() { self.limits.wind_down } else { self.limits.flush };
                http.as_mut().graceful_shutdown();
                timeout(limit, http).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            debug!(%error, "a connection ended early");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_addresses_of_both_families_are_bound() {
        let listener = bind(None, 0).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        if listener.local_addr().unwrap().is_ipv6() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_port_in_use_is_named_in_the_error() {
        let taken = bind(Some(Ipv4Addr::LOCALHOST.into()), 0).unwrap();
        let address = taken.local_addr().unwrap();
        let error = bind(Some(address.ip()), address.port()).unwrap_err();
        assert_eq!(error.address, address);
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}
