// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The double's client port: gRPC and plain HTTP on one address, with TLS as etcd has it (a pair read anew for
//! each handshake, a CA read once, a client certificate demanded as soon as there is a CA). Answers come from
//! [`super::service`].
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;
use tonic::body::Body;
use tower::Service as _;

use super::answer::Answer;
use super::config::Config;
use super::live::Live;
use super::metrics;
use super::proto::cluster_server::ClusterServer;
use super::proto::kv_server::KvServer;
use super::proto::maintenance_server::MaintenanceServer;
use super::record::Event;
use super::service::Service;

/// A bound address whose connections wait in its queue until it is served.
#[derive(Debug)]
pub(super) enum Bound {
    Tcp { listener: std::net::TcpListener, tls: bool },
    Unix { listener: std::os::unix::net::UnixListener, tls: bool },
}

/// Binds every client URL of the config.
pub(super) fn bind(config: &Config) -> anyhow::Result<Vec<Bound>> {
    config
        .listen_client_urls
        .iter()
        .map(|url| bind_one(url).with_context(|| format!("listen on {url}")))
        .collect()
}

fn bind_one(url: &str) -> anyhow::Result<Bound> {
    let (scheme, rest) = url.split_once("://").context("no scheme")?;
    let tls = matches!(scheme, "https" | "unixs");
    match scheme {
        "http" | "https" => {
            let listener = std::net::TcpListener::bind(rest.trim_end_matches('/'))?;
            listener.set_nonblocking(true)?;
            Ok(Bound::Tcp { listener, tls })
        }
        "unix" | "unixs" => {
            // Left by a process that was killed: etcd takes it over, too.
            match std::fs::remove_file(rest) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
            let listener = std::os::unix::net::UnixListener::bind(rest)?;
            listener.set_nonblocking(true)?;
            Ok(Bound::Unix { listener, tls })
        }
        other => bail!("scheme {other}"),
    }
}

/// Serves for the rest of the process's life. To be called inside a runtime.
pub(super) fn serve(bound: Vec<Bound>, live: &Arc<Live>) -> anyhow::Result<()> {
    let roots = match &live.config.trusted_ca_file {
        Some(path) => Some(Arc::new(roots_of(path)?)),
        None => None,
    };
    let front = Front { live: Arc::clone(live), roots, connections: Arc::new(AtomicU64::new(0)) };
    for one in bound {
        let front = front.clone();
        match one {
            Bound::Tcp { listener, tls } => {
                let listener = TcpListener::from_std(listener)?;
                tokio::spawn(async move {
                    while let Ok((stream, _)) = listener.accept().await {
                        tokio::spawn(front.clone().connection(stream, tls));
                    }
                });
            }
            Bound::Unix { listener, tls } => {
                let listener = UnixListener::from_std(listener)?;
                tokio::spawn(async move {
                    while let Ok((stream, _)) = listener.accept().await {
                        tokio::spawn(front.clone().connection(stream, tls));
                    }
                });
            }
        }
    }
    Ok(())
}

#[derive(Clone)]
struct Front {
    live: Arc<Live>,
    roots: Option<Arc<RootCertStore>>,
    connections: Arc<AtomicU64>,
}

impl Front {
    async fn connection<S>(self, stream: S, tls: bool)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let rejected = |error: String| self.live.note(Event::Rejected { number, error });
        if !tls {
            self.live.note(Event::Connected { number, tls, certificate: false });
            return self.serve(stream).await;
        }
        let acceptor = match self.server_config() {
            Ok(config) => TlsAcceptor::from(Arc::new(config)),
            Err(error) => return rejected(format!("{error:#}")),
        };
        match acceptor.accept(stream).await {
            Ok(stream) => {
                let certificate = stream.get_ref().1.peer_certificates().is_some();
                self.live.note(Event::Connected { number, tls, certificate });
                self.serve(stream).await;
            }
            Err(error) => rejected(error.to_string()),
        }
    }

    async fn serve<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let live = Arc::clone(&self.live);
        let service = hyper::service::service_fn(move |request| answer(Arc::clone(&live), request));
        let builder = auto::Builder::new(TokioExecutor::new());
        // How a connection ends concerns nobody.
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    }

    fn server_config(&self) -> anyhow::Result<ServerConfig> {
        let config = &self.live.config;
        let (Some(cert), Some(key)) = (&config.cert_file, &config.key_file) else {
            bail!("an https URL without cert-file and key-file");
        };
        let chain = CertificateDer::pem_file_iter(cert)?.collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_file(key)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match &self.roots {
            Some(roots) => builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider).build()?,
            ),
            None if config.client_cert_auth => bail!("client-cert-auth without trusted-ca-file"),
            None => builder.with_no_client_auth(),
        };
        let mut server = builder.with_single_cert(chain, key)?;
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(server)
    }
}

fn roots_of(path: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_file_iter(path).with_context(|| format!("read {}", path.display()))? {
        roots.add(cert?)?;
    }
    Ok(roots)
}

async fn answer(live: Arc<Live>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let service = Service::new(Arc::clone(&live));
    let path = request.uri().path().to_owned();
    match path.rsplit_once('/').map_or("", |(service, _)| service) {
        "/etcdserverpb.KV" => KvServer::new(service).call(request).await,
        "/etcdserverpb.Maintenance" => MaintenanceServer::new(service).call(request).await,
        "/etcdserverpb.Cluster" => ClusterServer::new(service).call(request).await,
        _ => Ok(plain(&live, &path).await),
    }
}

async fn plain(live: &Live, path: &str) -> Response<Body> {
    let script = live.script();
    let answer = match path {
        "/metrics" => script.metrics.clone(),
        "/health" => script.health.clone(),
        _ => Answer::default(),
    };
    tokio::time::sleep(answer.takes.0).await;
    if answer.hangs {
        std::future::pending::<()>().await;
    }
    let (code, body) = match path {
        "/metrics" | "/health" if answer.fails.is_some() => (500, String::new()),
        "/metrics" => (200, metrics::text(live)),
        "/health" => metrics::health(live),
        "/version" => (200, format!(r#"{{"etcdserver":"{}"}}"#, script.version.number)),
        _ => (404, "404 page not found\n".into()),
    };
    if script.records_calls {
        live.note(Event::Called { method: path.into(), outcome: code.to_string() });
    }
    let body = Body::new(Full::new(Bytes::from(body)).map_err(|never: Infallible| match never {}));
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::OK);
    response
}
