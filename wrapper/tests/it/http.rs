// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A blocking HTTP/1.1 caller for tests: one request a connection, plain or TLS, with everything visible. Retries
//! nothing, and fails on every answer that the OpenAPI document does not tell of.
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use crate::openapi;

/// How long a call may take before the test fails.
const LIMIT: Duration = Duration::from_secs(15);

/// How to call.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) addr: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    from: Option<IpAddr>,
    limit: Duration,
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// The certificate that was shown, DER.
    pub(crate) certificate: Option<Vec<u8>>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Caller {
    /// Plain HTTP.
    pub(crate) fn plain(addr: SocketAddr) -> Self {
        Self { addr, tls: None, from: None, limit: LIMIT }
    }

    /// TLS that believes anything, as the kubelet does.
    #[must_use]
    pub(crate) fn tls(self) -> Self {
        Self { tls: Some(Arc::new(believing().with_no_client_auth())), ..self }
    }

    /// TLS that shows a client certificate (PEM).
    #[must_use]
    pub(crate) fn showing(self, cert_pem: &str, key_pem: &str) -> Self {
        let chain = CertificateDer::pem_slice_iter(cert_pem.as_bytes()).collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).unwrap();
        Self { tls: Some(Arc::new(believing().with_client_auth_cert(chain, key).unwrap())), ..self }
    }

    /// From another address of this machine, so that we are not its loopback peer.
    #[must_use]
    pub(crate) fn from(self, address: IpAddr) -> Self {
        Self { from: Some(address), ..self }
    }

    #[must_use]
    pub(crate) fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.call("GET", path, &[], "")
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str) -> Answer {
        self.call("POST", path, &[], "")
    }

    #[track_caller]
    pub(crate) fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.try_call(method, path, headers, body)
            .unwrap_or_else(|error| panic!("{method} {path} at {}: {error}", self.addr))
    }

    /// # Errors
    /// Whatever the connection does.
    pub(crate) fn try_call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Answer> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += &format!("host: {}\r\n", self.addr);
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || method == "POST" || method == "PUT" {
            head += &format!("content-length: {}\r\n", body.len());
        }
        let answer = self.send(&format!("{head}\r\n{body}"), method)?;
        let exchange = openapi::Exchange {
            method,
            target: path,
            status: answer.status,
            headers: &answer.headers,
            body: &answer.body,
        };
        if let Err(fault) = openapi::check(&exchange) {
            panic!("{method} {path}: not by openapi.json: {fault}");
        }
        Ok(answer)
    }

    fn send(&self, request: &str, method: &str) -> io::Result<Answer> {
        let stream = self.connect()?;
        match &self.tls {
            None => exchange(stream, request, method, |_| None),
            Some(config) => {
                let name = ServerName::IpAddress(self.addr.ip().into());
                let session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
                exchange(StreamOwned::new(session, stream), request, method, |stream| {
                    Some(stream.conn.peer_certificates()?.first()?.to_vec())
                })
            }
        }
    }

    /// A bare connection, for misbehaviour.
    ///
    /// # Errors
    /// As connect.
    pub(crate) fn connect(&self) -> io::Result<TcpStream> {
        let stream = match self.from {
            None => TcpStream::connect_timeout(&self.addr, self.limit)?,
            Some(from) => {
                let family = rustix::net::AddressFamily::INET;
                let socket = rustix::net::socket(family, rustix::net::SocketType::STREAM, None)?;
                rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
                rustix::net::connect(&socket, &self.addr)?;
                TcpStream::from(socket)
            }
        };
        stream.set_read_timeout(Some(self.limit))?;
        stream.set_write_timeout(Some(self.limit))?;
        Ok(stream)
    }
}

fn exchange<S: Read + Write>(
    mut stream: S,
    request: &str,
    method: &str,
    certificate: impl FnOnce(&S) -> Option<Vec<u8>>,
) -> io::Result<Answer> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut raw = Vec::new();
    // A TLS peer that closes without a goodbye has still said everything if the length fits.
    match stream.read_to_end(&mut raw) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !raw.is_empty() => {}
        Err(error) => return Err(error),
    }
    let certificate = certificate(&stream);
    let text = String::from_utf8_lossy(&raw).into_owned();
    let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("no whole answer: {text:?}"));
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(bad)?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or_else(bad)?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let answer = Answer { status, headers, body: body.to_owned(), certificate };
    let length = answer.header("content-length").and_then(|length| length.parse::<usize>().ok());
    if method != "HEAD" && length.is_some_and(|length| length != answer.body.len()) {
        return Err(bad());
    }
    Ok(answer)
}

fn believing() -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    builder.unwrap().dangerous().with_custom_certificate_verifier(Arc::new(Believer(provider)))
}

#[derive(Debug)]
struct Believer(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            cert,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            cert,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
