// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A served API on a port of its own, and callers that speak raw HTTP, so that every byte is the test's.
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub(super) use super::certificates::{Certificates, Client};
use super::openapi::{self, Exchange};
use crate::api::auth::Policy;
use crate::api::listener::{Desk, Limits, ServerTls, TlsNow, bind, serve};
use crate::api::publisher::Publisher;
use crate::api::{Api, Settings, Views};
use crate::config::{EtcdConfig, TlsSection};
use crate::member::view::{Leadership, MemberView, Probe, Source};
use crate::metrics::Metrics;
use crate::supervise::command;
use crate::supervise::view::{
    BootstrapState, BootstrapView, ChildView, ConfigSource, CoreView, Intent, Phase,
};
use crate::tls::TlsView;

/// No exchange on loopback takes longer, however busy the machine is.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// A supervisor that has just begun.
pub(crate) fn core_view() -> CoreView {
    let now = SystemTime::now();
    CoreView {
        epoch: "3f9a1c".into(),
        started_at: now,
        intent: Intent::Up,
        phase: Phase::Initializing,
        phase_since: now,
        draining: false,
        hold_reason: None,
        generation: 0,
        etcd_version: Some("3.5.35".into()),
        child: None,
        last_exit: None,
        bootstrap: BootstrapView {
            state: BootstrapState::Initializing,
            validation: None,
            rounds: 0,
            word: None,
            since: now,
            last_error: None,
        },
        override_: None,
        operations: Arc::default(),
        ready_once: false,
        warnings: Vec::new(),
        data_dir: None,
        ticked: Instant::now(),
    }
}

/// A supervisor whose first generation runs.
pub(crate) fn running_core() -> CoreView {
    let config = EtcdConfig {
        bytes: Bytes::from_static(b"name: etcd-main-0\n"),
        digest: "sha256:00".into(),
        name: "etcd-main-0".into(),
        data_dir: "/var/etcd/data/new.etcd".into(),
        listen_client_urls: vec!["http://0.0.0.0:2379".into()],
        listen_client_http_urls: Vec::new(),
        listen_peer_urls: vec!["http://0.0.0.0:2380".into()],
        advertise_client_urls: vec!["http://etcd-main-0.etcd-main-peer.ns.svc:2379".into()],
        advertise_peer_urls: vec!["http://etcd-main-0.etcd-main-peer.ns.svc:2380".into()],
        initial_cluster: Vec::new(),
        client_tls: TlsSection::default(),
        peer_tls: TlsSection::default(),
        quota_backend_bytes: 0,
        election_timeout: Duration::from_secs(1),
        unsafe_no_fsync: false,
        force_new_cluster: false,
    };
    let child = ChildView {
        generation: 1,
        pid: 19,
        started_at: SystemTime::now(),
        ready_since: Some(SystemTime::now()),
        config: Arc::new(config),
        source: ConfigSource::Sidecar,
    };
    CoreView { phase: Phase::Running, generation: 1, child: Some(child), ready_once: true, ..core_view() }
}

/// A member that answers everything, and leads.
pub(crate) fn answering_member() -> MemberView {
    let probe = Probe {
        ok: true,
        at: Instant::now(),
        at_wall: SystemTime::now(),
        last_success: Some(Instant::now()),
        detail: "3 ms".into(),
    };
    let leadership = Leadership {
        member_id: Some(0x8e9e_05c5_2164_694d),
        leader_id: Some(0x8e9e_05c5_2164_694d),
        has_leader: true,
        is_leader: true,
        is_learner: Some(false),
        term: Some(4),
        source: Source::Status,
        since: SystemTime::now(),
    };
    MemberView {
        generation: Some(1),
        confirmed: true,
        linearizable_read: Some(probe.clone()),
        learner: Some(false),
        serializable_read: Some(probe.clone()),
        status: Some(probe),
        leadership: Some(leadership),
        ..MemberView::default()
    }
}

pub(super) fn policy() -> Policy {
    Policy { control_loopback: true, control_identities: vec!["agent".into()], allow_remote_stop: false }
}

pub(super) fn limits() -> Limits {
    Limits {
        // Longer than any pause of a busy machine; tests about time limits set their own.
        step: DEADLINE,
        head: 16 * 1024,
        wind_down: DEADLINE,
        flush: Duration::from_millis(100),
        room: 64,
    }
}

/// The served API.
pub(crate) struct Rig {
    pub(crate) address: SocketAddr,
    pub(crate) core: watch::Sender<CoreView>,
    member: watch::Sender<Arc<MemberView>>,
    pub(crate) commands: mpsc::Receiver<command::Request>,
    pub(super) closing: watch::Sender<bool>,
    pub(super) server_tls: watch::Sender<ServerTls>,
    pub(super) serving: JoinHandle<()>,
    pub(super) certificates: Certificates,
    /// Serves further streams, such as no socket would be.
    pub(super) desk: Desk,
    _tls: watch::Sender<TlsView>,
}

impl Rig {
    /// Bootstrapping, no certificate of etcd's loaded.
    pub(super) fn start() -> Self {
        Self::with(policy(), limits())
    }

    /// Running and ready.
    pub(super) fn ready() -> Self {
        let rig = Self::start();
        rig.core.send_replace(running_core());
        rig.member.send_replace(Arc::new(answering_member()));
        rig
    }

    pub(crate) fn with(policy: Policy, limits: Limits) -> Self {
        let (core, core_view) = watch::channel(core_view());
        let (member, member_view) = watch::channel(Arc::new(MemberView::default()));
        let (tls, tls_view) = watch::channel(TlsView::default());
        let (sender, commands) = mpsc::channel(8);
        let (closing, closes) = watch::channel(false);
        let certificates = Certificates::new();
        let (server_tls, tls_now) = watch::channel(certificates.server_tls(false, true));
        let tls_now: Arc<TlsNow> = Arc::new(move || tls_now.borrow().clone());
        let views = Views { core: core_view, member: member_view, tls: tls_view };
        let metrics = Metrics::new();
        let (publisher, published) =
            Publisher::new(views.clone(), metrics.clone(), tokio::sync::watch::channel(None).1);
        tokio::spawn(publisher.run());
        let settings = Settings { policy, host_names: vec!["etcd-main-local".into()], revision: Some("abc") };
        let api = Arc::new(Api::new(settings, views, published, sender, metrics, closes.clone()));
        let listener = bind(Some(Ipv4Addr::LOCALHOST.into()), 0).unwrap();
        let address = listener.local_addr().unwrap();
        let desk = Desk { api: Arc::clone(&api), tls: Arc::clone(&tls_now), closing: closes.clone(), limits };
        let serving = tokio::spawn(serve(listener, api, tls_now, closes, limits));
        Self { address, core, member, commands, closing, server_tls, serving, certificates, desk, _tls: tls }
    }

    pub(super) async fn connect(&self) -> Recorded<TcpStream> {
        Recorded::new(within(TcpStream::connect(self.address)).await.unwrap())
    }

    pub(super) async fn connect_tls(&self, client: Client) -> Recorded<TlsStream> {
        self.connect_with(self.certificates.client_config(client)).await
    }

    pub(super) async fn connect_with(&self, config: rustls::ClientConfig) -> Recorded<TlsStream> {
        let name = ServerName::try_from("localhost").unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = within(TcpStream::connect(self.address)).await.unwrap();
        Recorded::new(within(connector.connect(name, stream)).await.unwrap())
    }

    /// One plain request on its own connection; `extra` is further header lines, each ended by CRLF.
    pub(super) async fn call(&self, method: &str, target: &str, extra: &str) -> Reply {
        let mut stream = self.connect().await;
        exchange(&mut stream, &request(method, target, extra)).await
    }

    pub(super) async fn get(&self, target: &str) -> Reply {
        self.call("GET", target, "").await
    }

    /// What the member stage would publish next.
    pub(super) fn member(&self, change: impl FnOnce(&mut MemberView)) {
        self.member.send_modify(|member| change(Arc::make_mut(member)));
    }

    /// The next command, within the deadline.
    pub(super) async fn command(&mut self) -> command::Request {
        within(self.commands.recv()).await.expect("the API holds a sender")
    }
}

pub(super) fn request(method: &str, target: &str, extra: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{extra}\r\n")
}

/// Fails loudly instead of hanging.
pub(super) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.expect("within the deadline")
}

/// Sends, and reads up to the end of the connection.
pub(super) async fn exchange<S>(stream: &mut Recorded<S>, request: &str) -> Reply
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.said.clear();
    within(stream.write_all(request.as_bytes())).await.unwrap();
    within(stream.flush()).await.unwrap();
    read_reply(stream).await
}

/// The answer to the one request that was sent; it must be one that the OpenAPI document tells of.
pub(super) async fn read_reply<S: AsyncRead + Unpin>(stream: &mut Recorded<S>) -> Reply {
    let reply = Reply::parse(&read_all(stream).await);
    let said = String::from_utf8_lossy(&stream.said);
    let [method, target] = said.splitn(3, ' ').collect::<Vec<_>>()[..2] else { unreachable!() };
    check_reply(method, target, &reply);
    reply
}

/// Fails on an answer that the OpenAPI document does not tell of.
pub(super) fn check_reply(method: &str, target: &str, reply: &Reply) {
    let headers: Vec<_> = reply.head.lines().filter_map(|line| line.split_once(": ")).collect();
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned())).collect();
    let exchange = Exchange { method, target, status: reply.status, headers: &headers, body: &reply.body };
    openapi::check(&exchange).unwrap_or_else(|fault| panic!("not by openapi.json: {fault}"));
}

type TlsStream = tokio_rustls::client::TlsStream<TcpStream>;

/// A stream that remembers what was written.
#[derive(Debug)]
pub(super) struct Recorded<S> {
    pub(super) stream: S,
    said: Vec<u8>,
}

impl<S> Recorded<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, said: Vec::new() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Recorded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Recorded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = std::task::ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.said.extend(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Everything up to the end; a reset ends it too.
pub(super) async fn read_all(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let _ = within(stream.read_to_end(&mut bytes)).await;
    String::from_utf8(bytes).unwrap()
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The code of a problem document, or "-" for a success.
    pub(super) fn code(&self) -> String {
        if self.status < 400 {
            return "-".into();
        }
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        self.json()["code"].as_str().unwrap().to_owned()
    }
}
