// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Opens byte streams to the local etcd: TCP or unix socket, plain or TLS. Knows nothing of what is spoken on them,
//! reads no files and resolves no names: etcd listens on IP addresses and sockets only, and a name lookup would block
//! the wrapper's one thread.
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// Connecting and the TLS handshake together. Longer than a call's own limit on purpose: a call that is given up leaves
/// the handshake running, so that a busy etcd does not log a "rejected connection" for each of our polls.
const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// Where the local etcd listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address of this machine.
    Tcp(SocketAddr),
    /// A socket's path.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// How to speak TLS to it. ALPN is set here per protocol; what the configuration says of it is ignored.
#[derive(Clone)]
pub struct Tls {
    /// What to trust, and what to show.
    pub config: Arc<ClientConfig>,
    /// SNI and verification.
    pub server_name: ServerName<'static>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration holds a private key.
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// Everything needed to reach one listener of the local etcd.
#[derive(Clone, Debug)]
pub struct Dial {
    /// Where to connect.
    pub address: Address,
    /// None: plain.
    pub tls: Option<Tls>,
}

/// Why no stream could be opened.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// No connection.
    #[error("connect {address}: {source}")]
    Connect {
        /// Where.
        address: Address,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A connection, and no TLS over it.
    #[error("tls handshake with {address} as {name}: {source}")]
    Handshake {
        /// Where.
        address: Address,
        /// That was to be verified.
        name: String,
        /// TLS's answer.
        source: io::Error,
    },
    /// Neither within the limit.
    #[error("connect {0}: no connection within {OPEN_LIMIT:?}")]
    TimedOut(Address),
}

/// A byte stream, whatever it is made of.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}
pub(super) type Stream = Box<dyn Io>;

impl Dial {
    /// True when a connection made by one may serve for the other: a reloaded certificate is a new `Arc`.
    pub fn is_same(&self, other: &Self) -> bool {
        self.address == other.address
            && match (&self.tls, &other.tls) {
                (None, None) => true,
                (Some(a), Some(b)) => Arc::ptr_eq(&a.config, &b.config) && a.server_name == b.server_name,
                _ => false,
            }
    }

    /// `https` or `http`: the scheme requests must carry. Go's server hides the client certificate from etcd's auth
    /// when a request over TLS says `http`.
    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The host requests name.
    pub(super) fn authority(&self) -> String {
        match &self.address {
            Address::Tcp(address) => address.to_string(),
            Address::Unix(_) => "localhost".into(),
        }
    }

    /// Opens a stream on which `alpn` will be spoken.
    pub(super) async fn open(&self, alpn: &'static [u8]) -> Result<Stream, DialError> {
        tokio::time::timeout(OPEN_LIMIT, self.open_without_limit(alpn))
            .await
            .unwrap_or_else(|_| Err(DialError::TimedOut(self.address.clone())))
    }

    async fn open_without_limit(&self, alpn: &'static [u8]) -> Result<Stream, DialError> {
        let connect = |source| DialError::Connect { address: self.address.clone(), source };
        let plain: Stream = match &self.address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await.map_err(connect)?;
                stream.set_nodelay(true).map_err(connect)?;
                Box::new(stream)
            }
            Address::Unix(path) => Box::new(UnixStream::connect(path).await.map_err(connect)?),
        };
        let Some(tls) = &self.tls else { return Ok(plain) };
        let mut config = ClientConfig::clone(&tls.config);
        config.alpn_protocols = vec![alpn.to_vec()];
        let handshake = TlsConnector::from(Arc::new(config)).connect(tls.server_name.clone(), plain);
        Ok(Box::new(handshake.await.map_err(|source| DialError::Handshake {
            address: self.address.clone(),
            name: tls.server_name.to_str().into_owned(),
            source,
        })?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(address: &str) -> Dial {
        Dial { address: Address::Tcp(address.parse().unwrap()), tls: None }
    }

    fn tls(config: &Arc<ClientConfig>) -> Dial {
        let tls =
            Tls { config: Arc::clone(config), server_name: ServerName::try_from("etcd-local").unwrap() };
        Dial { tls: Some(tls), ..plain("127.0.0.1:2379") }
    }

    fn config() -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        Arc::new(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
    }

    #[test]
    fn a_reloaded_certificate_makes_another_dial() {
        let (old, new) = (config(), config());
        assert!(tls(&old).is_same(&tls(&old)));
        assert!(!tls(&old).is_same(&tls(&new)));
        assert!(!tls(&old).is_same(&plain("127.0.0.1:2379")));
        assert!(!plain("127.0.0.1:2379").is_same(&plain("127.0.0.1:2380")));
    }

    #[test]
    fn j2_debug_output_of_a_dial_holds_no_tls_configuration() {
        assert_eq!(
            format!("{:?}", tls(&config()).tls.unwrap()),
            "Tls { server_name: DnsName(\"etcd-local\"), .. }"
        );
    }

    #[tokio::test]
    async fn a_refused_connection_names_the_address() {
        // Bound and dropped: nobody listens there.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = plain(&address.to_string()).open(b"h2").await.err().unwrap();
        assert!(error.to_string().starts_with(&format!("connect {address}: ")), "{error}");
    }
}
