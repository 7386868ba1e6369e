// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Asks an etcd about its members, and changes them: one connection a call, so that behind a service every call may
//! reach another ready member. Decides nothing and repeats nothing.
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use hyper_util::rt::TokioIo;
use prost::Message;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::client::Grpc;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint as Target};
use tonic_prost::ProstCodec;

use crate::arguments::Endpoint;

mod wire;

pub(crate) use wire::Member;
use wire::{
    Done, MemberAddRequest, MemberAddResponse, MemberIdRequest, MemberListRequest, MemberListResponse,
    MemberUpdateRequest, StatusRequest, StatusResponse,
};

/// As the real one gives to every single call.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(5);

/// Files for connections to etcd; read for every connection, since the kubelet swaps them without a word.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) pair: Option<(PathBuf, PathBuf)>,
}

/// A way to one or several etcds that stand for the same cluster.
#[derive(Clone, Debug)]
pub(crate) struct Etcd {
    endpoints: Vec<Endpoint>,
    credentials: Credentials,
}

/// What a member says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) member: u64,
    pub(crate) cluster: u64,
    pub(crate) revision: i64,
    /// 0: it knows of none.
    pub(crate) leader: u64,
    pub(crate) learner: bool,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Etcd {
    pub(crate) fn new(endpoints: Vec<Endpoint>, credentials: Credentials) -> Self {
        Self { endpoints, credentials }
    }

    /// # Errors
    /// When the member cannot be reached, or does not answer within `limit`.
    pub(crate) async fn status(&self, limit: Duration) -> anyhow::Result<Status> {
        let path = "/etcdserverpb.Maintenance/Status";
        let said: StatusResponse = self.call(path, StatusRequest {}, limit).await?;
        let header = said.header.context("a status without a header")?;
        Ok(Status {
            member: header.member_id,
            cluster: header.cluster_id,
            revision: header.revision,
            leader: said.leader,
            learner: said.is_learner,
        })
    }

    /// The members as a quorum knows them.
    ///
    /// # Errors
    /// When no endpoint answers, or the one that does has no quorum.
    pub(crate) async fn members(&self) -> anyhow::Result<Vec<Member>> {
        let wish = MemberListRequest { linearizable: true };
        let said: MemberListResponse =
            self.call("/etcdserverpb.Cluster/MemberList", wish, CALL_LIMIT).await?;
        Ok(said.members)
    }

    /// Adds a member that does not vote yet; its id.
    ///
    /// # Errors
    /// As etcd says: for one, that there is a learner already.
    pub(crate) async fn add_learner(&self, peer_urls: &[String]) -> anyhow::Result<u64> {
        let wish = MemberAddRequest { peer_urls: peer_urls.to_vec(), is_learner: true };
        let said: MemberAddResponse = self.call("/etcdserverpb.Cluster/MemberAdd", wish, CALL_LIMIT).await?;
        said.member.map(|member| member.id).context("etcd does not tell whom it has added")
    }

    /// # Errors
    /// As etcd says; a member that is not there is an error too.
    pub(crate) async fn remove(&self, id: u64) -> anyhow::Result<()> {
        self.done("/etcdserverpb.Cluster/MemberRemove", MemberIdRequest { id }).await
    }

    /// Gives a learner its vote.
    ///
    /// # Errors
    /// As etcd says: for one, that the learner is not in sync yet.
    pub(crate) async fn promote(&self, id: u64) -> anyhow::Result<()> {
        self.done("/etcdserverpb.Cluster/MemberPromote", MemberIdRequest { id }).await
    }

    /// # Errors
    /// As etcd says.
    pub(crate) async fn update(&self, id: u64, peer_urls: &[String]) -> anyhow::Result<()> {
        let wish = MemberUpdateRequest { id, peer_urls: peer_urls.to_vec() };
        self.done("/etcdserverpb.Cluster/MemberUpdate", wish).await
    }

    async fn done(&self, path: &'static str, wish: impl Message + Default + 'static) -> anyhow::Result<()> {
        let _: Done = self.call(path, wish, CALL_LIMIT).await?;
        Ok(())
    }

    /// Asks the first endpoint that can be connected to.
    async fn call<Wish, Said>(&self, path: &'static str, wish: Wish, limit: Duration) -> anyhow::Result<Said>
    where
        Wish: Message + Default + 'static,
        Said: Message + Default + 'static,
    {
        let asking = async {
            let mut channel = Err(anyhow!("there is no endpoint to ask"));
            for endpoint in &self.endpoints {
                channel = connect(endpoint, &self.credentials).await;
                if channel.is_ok() {
                    break;
                }
            }
            let mut client = Grpc::new(channel?);
            client.ready().await.context("wait for the connection")?;
            let codec = ProstCodec::<Wish, Said>::default();
            let answer =
                client.unary(tonic::Request::new(wish), PathAndQuery::from_static(path), codec).await;
            answer.map(tonic::Response::into_inner).map_err(|status| anyhow!("{}", status.message()))
        };
        let verb = path.rsplit('/').next().unwrap_or(path);
        match tokio::time::timeout(limit, asking).await {
            Ok(answer) => answer.with_context(|| format!("{verb} of etcd")),
            Err(_) => Err(anyhow!("{verb} of etcd: no answer within {limit:?}")),
        }
    }
}

async fn connect(endpoint: &Endpoint, credentials: &Credentials) -> anyhow::Result<Channel> {
    let Endpoint { tls, host, port } = endpoint.clone();
    let tls = if tls { Some(client_config(credentials)?) } else { None };
    let host_in_url = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{host_in_url}:{port}");
    let target = Target::from_shared(url.clone()).with_context(|| format!("use the URL {url}"))?;
    let dialler = tower::service_fn(move |_: Uri| {
        let (host, tls) = (host.clone(), tls.clone());
        async move { open(&host, port, tls).await.map(TokioIo::new) }
    });
    target.connect_with_connector(dialler).await.map_err(|error| {
        // What stands around the cause says no more than that there is one.
        let cause = anyhow::Error::from(error);
        anyhow!("connect to {url}: {}", cause.root_cause())
    })
}

async fn open(host: &str, port: u16, tls: Option<Arc<ClientConfig>>) -> std::io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
    Ok(Box::new(TlsConnector::from(tls).connect(name, stream).await?))
}

fn client_config(credentials: &Credentials) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    if let Some(ca) = &credentials.ca {
        let of = || format!("read the CA {}", ca.display());
        for cert in CertificateDer::pem_file_iter(ca).with_context(of)? {
            roots.add(cert.with_context(of)?).with_context(of)?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("pick TLS versions")?
        .with_root_certificates(roots);
    let mut config = match &credentials.pair {
        Some((cert, key)) => {
            let of = || format!("use the client certificate {}", cert.display());
            let chain = CertificateDer::pem_file_iter(cert).with_context(of)?;
            let chain = chain.collect::<Result<Vec<_>, _>>().with_context(of)?;
            let key = PrivateKeyDer::from_pem_file(key).with_context(|| format!("read {}", key.display()))?;
            builder.with_client_auth_cert(chain, key).with_context(of)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
