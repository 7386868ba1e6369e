// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! How a byte stream to one member comes about: any async function that opens one (TCP, a port-forward of the
//! Kubernetes API), with TLS laid over it or not. Knows nothing of what is spoken on the stream, and sets no deadline:
//! the call that needs the stream has one.
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A byte stream, whatever it is made of.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

type Opening = Pin<Box<dyn Future<Output = Result<Box<dyn ByteStream>>> + Send>>;

/// Opens streams to one member, as often as one is needed: each stream stands for one connection. Clones are the same
/// connector.
#[derive(Clone)]
pub struct Connector {
    place: Arc<str>,
    open: Arc<dyn Fn() -> Opening + Send + Sync>,
    tls: Option<Tls>,
}

/// Whom to trust, as whom to come, and what the other side must be called.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    server_name: ServerName<'static>,
}

impl Connector {
    /// `place` names the other end in errors, for example `pod etcd-0`; `open` makes a new stream at each call.
    pub fn new<Open, Fut, Stream>(place: impl Into<String>, open: Open) -> Self
    where
        Open: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Stream>> + Send + 'static,
        Stream: ByteStream + 'static,
    {
        let open = move || {
            let opening = open();
            let boxed = async move { Ok(Box::new(opening.await?) as Box<dyn ByteStream>) };
            Box::pin(boxed) as Opening
        };
        Self { place: place.into().into(), open: Arc::new(open), tls: None }
    }

    /// TCP to `address`, `host:port`.
    pub fn tcp(address: impl Into<String>) -> Self {
        let address: String = address.into();
        Self::new(address.clone(), move || {
            let address = address.clone();
            async move {
                let stream =
                    TcpStream::connect(&address).await.with_context(|| format!("connect {address}"))?;
                stream.set_nodelay(true).context("set TCP_NODELAY")?;
                Ok(stream)
            }
        })
    }

    /// The same, with TLS on every stream.
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// What the other end is called.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The scheme that requests must carry: Go's server hides the client certificate from etcd's auth when a request
    /// over TLS says `http`.
    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    pub(super) async fn open(&self) -> Result<Box<dyn ByteStream>> {
        let stream = (self.open)().await?;
        let Some(tls) = &self.tls else { return Ok(stream) };
        let name = tls.server_name.clone();
        let stream = TlsConnector::from(Arc::clone(&tls.config))
            .connect(name, stream)
            .await
            .with_context(|| format!("tls handshake with {} as {}", self.place, tls.server_name.to_str()))?;
        Ok(Box::new(stream))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("place", &self.place)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Trusts the authorities of `ca_pem` alone, and comes as `pair` (certificate chain and key as PEM) if there is
    /// one. `server_name` is sent as SNI and must stand in the server's certificate.
    ///
    /// # Errors
    /// PEM without what is looked for, a key that does not fit its certificate, or a name that is none.
    pub fn new(ca_pem: &str, pair: Option<(&str, &str)>, server_name: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
            roots.add(authority.context("read the authorities' PEM")?).context("add an authority")?;
        }
        anyhow::ensure!(!roots.is_empty(), "no certificate in the authorities' PEM");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("choose TLS versions")?
            .with_root_certificates(roots);
        let mut config = match pair {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = CertificateDer::pem_slice_iter(cert.as_bytes())
                    .collect::<Result<Vec<_>, _>>()
                    .context("read the client certificate's PEM")?;
                let key =
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).context("read the client key's PEM")?;
                builder.with_client_auth_cert(chain, key).context("use the client certificate")?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let server_name = ServerName::try_from(server_name.to_owned())
            .with_context(|| format!("server name {server_name:?}"))?;
        Ok(Self { config: Arc::new(config), server_name })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration holds a private key.
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}
