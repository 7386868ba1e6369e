// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The one call a sidecar makes to its wrapper: `POST /stop` after a member's peer URLs have changed. Without a
//! client certificate, and the status code means nothing to it. Blocking; no retries.
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde::Deserialize;

/// The real one has no time limit; a test that waits for ever tells less than one that fails.
const LIMIT: Duration = Duration::from_secs(30);

/// Where and how to call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopCall {
    /// `{scheme}://{host}:{port}`; the real one takes scheme and host of its first etcd endpoint, and port 9095.
    pub url: String,
    /// What an `https` server is checked against, PEM. Without it nothing is trusted, as when only the sidecar's
    /// own TLS is off: the call fails.
    #[serde(default)]
    pub ca: Option<String>,
    /// Closes the connection as soon as the request is written.
    #[serde(default)]
    pub hang_up: bool,
}

impl StopCall {
    /// Over plain HTTP to a port of loopback.
    pub fn plain(port: u16) -> Self {
        Self { url: format!("http://127.0.0.1:{port}"), ca: None, hang_up: false }
    }

    /// Over TLS to a port of loopback.
    pub fn tls(port: u16, ca_pem: &str) -> Self {
        Self { url: format!("https://127.0.0.1:{port}"), ca: Some(ca_pem.into()), hang_up: false }
    }

    /// Closes its side once the request is sent.
    #[must_use]
    pub fn hanging_up(mut self) -> Self {
        self.hang_up = true;
        self
    }

    /// Makes the call; the status code of the answer, or None when it hung up before.
    ///
    /// # Errors
    /// Transport errors (which are fatal to the real one), a bad URL, an answer that is not HTTP.
    pub fn send(&self) -> io::Result<Option<u16>> {
        let (scheme, authority) = self
            .url
            .split_once("://")
            .ok_or_else(|| io::Error::other("no scheme in the URL of the wrapper"))?;
        let authority = authority.trim_end_matches('/');
        let (host, _) = authority.rsplit_once(':').ok_or_else(|| io::Error::other("no port in the URL"))?;
        let addr =
            authority.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("host has no address"))?;
        let tcp = TcpStream::connect_timeout(&addr, LIMIT)?;
        tcp.set_read_timeout(Some(LIMIT))?;
        match scheme {
            "http" => self.exchange(tcp, authority),
            "https" => {
                let name = host.trim_matches(['[', ']']).to_owned();
                let name = ServerName::try_from(name).map_err(io::Error::other)?;
                let tls =
                    ClientConnection::new(Arc::new(self.client_config()?), name).map_err(io::Error::other)?;
                self.exchange(StreamOwned::new(tls, tcp), authority)
            }
            other => Err(io::Error::other(format!("scheme {other}"))),
        }
    }

    fn client_config(&self) -> io::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        for cert in CertificateDer::pem_slice_iter(self.ca.as_deref().unwrap_or_default().as_bytes()) {
            roots.add(cert.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }

    fn exchange(&self, mut stream: impl Read + Write, authority: &str) -> io::Result<Option<u16>> {
        let request = format!(
            "POST /stop HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        stream.flush()?;
        if self.hang_up {
            return Ok(None);
        }
        let mut head = Vec::new();
        while !head.windows(2).any(|two| two == b"\r\n") {
            let mut piece = [0; 512];
            let read = stream.read(&mut piece)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            head.extend_from_slice(&piece[..read]);
        }
        let line = String::from_utf8_lossy(&head);
        let code = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        code.map(Some).ok_or_else(|| io::Error::other(format!("no HTTP answer: {line:?}")))
    }
}
