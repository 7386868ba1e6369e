// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a wrapper says about its member, asked as a kubelet and an agent would: `/readyz` and `/v1/status` over HTTP.
//! A client just large enough for that; everything it cannot learn stays unknown.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

/// A wrapper answers from a snapshot within 100 ms; past this it is stuck.
const PATIENCE: Duration = Duration::from_secs(1);
/// Answers are small; what is longer than this is no wrapper.
const LONGEST: u64 = 1024 * 1024;

/// What one look showed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct View {
    /// The port answered `/readyz`.
    pub(super) answered: bool,
    pub(super) ready: bool,
    /// The first failed check, when not ready.
    pub(super) reason: Option<String>,
    pub(super) phase: Option<String>,
    /// leader, follower or learner.
    pub(super) role: Option<String>,
    pub(super) etcd_version: Option<String>,
    pub(super) etcd_pid: Option<u64>,
}

/// Asks one wrapper.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    port: u16,
    tls: Option<Arc<ClientConfig>>,
}

impl Probe {
    /// For the wrapper on this port; with `ca`, `/v1` is asked for over TLS where plain HTTP is refused.
    pub(super) fn new(port: u16, ca: Option<&Path>) -> Result<Self> {
        Ok(Self { port, tls: ca.map(client_config).transpose()? })
    }

    /// Looks once. Never fails: a wrapper that is not there, or says nothing useful, is what there is to see.
    pub(super) fn look(&self) -> View {
        // Plain HTTP reaches the probes in every TLS state.
        let Ok(readyz) = self.get("/readyz", None) else { return View::default() };
        let mut view = View {
            answered: true,
            ready: readyz.status == 200,
            reason: readyz.header("etcd-wrapper-reason"),
            phase: readyz.header("etcd-wrapper-phase"),
            ..View::default()
        };
        if let Some(status) = self.status() {
            view.read(&status);
        } else if view.ready && view.phase.is_none() {
            // Ready is defined as: running, and more.
            view.phase = Some("running".into());
        }
        view
    }

    fn status(&self) -> Option<Value> {
        let plain = self.get("/v1/status", None).ok().filter(|answer| answer.status == 200);
        // Refused on plain HTTP once etcd's certificate is loaded.
        let answer = plain.or_else(|| {
            self.get("/v1/status", Some(self.tls.as_ref()?)).ok().filter(|answer| answer.status == 200)
        })?;
        serde_json::from_slice(&answer.body).ok()
    }

    fn get(&self, path: &str, tls: Option<&Arc<ClientConfig>>) -> Result<Answer> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let Some(config) = tls else { return exchange(stream, path) };
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        exchange(StreamOwned::new(ClientConnection::new(config.clone(), name)?, stream), path)
    }
}

impl View {
    fn read(&mut self, status: &Value) {
        let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        self.phase = text("/wrapper/phase").or_else(|| self.phase.take());
        self.reason = self.reason.take().or_else(|| text("/readiness/reason"));
        self.role = text("/health/role").filter(|role| role != "unknown");
        self.etcd_version = text("/etcd/version");
        self.etcd_pid = status.pointer("/etcd/pid").and_then(Value::as_u64);
    }
}

fn client_config(ca: &Path) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_file_iter(ca).with_context(|| format!("read {}", ca.display()))? {
        roots.add(cert?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    // No client certificate: a loopback caller may read without one.
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<String> {
        let mut fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        Some(value.trim().to_owned())
    }
}

/// HTTP/1.0, so that the body is neither chunked nor followed by anything.
fn exchange(mut stream: impl Read + Write, path: &str) -> Result<Answer> {
    // In one piece: `write!` on a socket sends a packet per fragment.
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut bytes = Vec::new();
    match stream.take(LONGEST).read_to_end(&mut bytes) {
        Ok(_) => {}
        // A TLS peer may hang up without saying goodbye; whether all came is seen below.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {}
        Err(error) => return Err(error.into()),
    }
    answer(&bytes)
}

fn answer(bytes: &[u8]) -> Result<Answer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").context("no end of the headers")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status line")?;
    let answer = Answer { status, head, body: bytes[end + 4..].to_vec() };
    match answer.header("content-length").map(|length| length.parse::<usize>()) {
        Some(Ok(length)) if length != answer.body.len() => {
            bail!("cut after {} of {length} bytes", answer.body.len())
        }
        _ => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Serves each path's bytes once per connection until the test ends.
    fn server(routes: &'static [(&'static str, &'static str)]) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 512];
                let read = stream.read(&mut request).unwrap();
                let line = String::from_utf8_lossy(&request[..read]).into_owned();
                let path = line.split(' ').nth(1).unwrap_or_default();
                let found = routes.iter().find(|(route, _)| *route == path).map(|(_, answer)| *answer);
                stream.write_all(found.unwrap_or("HTTP/1.0 404 Not Found\r\n\r\n").as_bytes()).unwrap();
            }
        });
        port
    }

    #[test]
    fn an_unready_member_is_seen_with_its_reason() {
        let port = server(&[(
            "/readyz",
            "HTTP/1.1 503 Service Unavailable\r\nEtcd-Wrapper-Reason: process\r\netcd-wrapper-phase: initializing\r\n\r\n",
        )]);
        let view = Probe::new(port, None).unwrap().look();
        assert!(view.answered && !view.ready);
        assert_eq!((view.reason.as_deref(), view.phase.as_deref()), (Some("process"), Some("initializing")));
    }

    #[test]
    fn a_status_document_tells_role_and_pid() {
        let port = server(&[
            ("/readyz", "HTTP/1.1 200 OK\r\n\r\n"),
            (
                "/v1/status",
                "HTTP/1.1 200 OK\r\n\r\n{\"wrapper\":{\"phase\":\"running\"},\"etcd\":{\"pid\":19,\"version\":\"3.5.35\"},\"health\":{\"role\":\"leader\"},\"readiness\":{\"reason\":null}}",
            ),
        ]);
        let view = Probe::new(port, None).unwrap().look();
        assert!(view.ready);
        assert_eq!(view.phase.as_deref(), Some("running"));
        assert_eq!(view.role.as_deref(), Some("leader"));
        assert_eq!(view.etcd_pid, Some(19));
    }

    #[test]
    fn a_port_without_a_listener_is_a_view_too() {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        assert_eq!(Probe::new(port, None).unwrap().look(), View::default());
    }

    /// A wrapper with etcd's certificate loaded: probes on both schemes, everything else over TLS alone.
    fn tls_server(pki: &super::super::pki::Pki) -> u16 {
        use rustls::pki_types::PrivateKeyDer;
        let chain = CertificateDer::pem_file_iter(&pki.server.cert).unwrap().map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(&pki.server.key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = Arc::new(config.with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut first = [0; 1];
                stream.peek(&mut first).unwrap();
                let mut request = [0; 512];
                if first[0] == 0x16 {
                    let mut stream =
                        StreamOwned::new(rustls::ServerConnection::new(config.clone()).unwrap(), stream);
                    // A client that trusts another authority hangs up here.
                    if stream.read(&mut request).is_ok() {
                        let body = r#"{"health":{"role":"follower"}}"#;
                        stream.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{body}").as_bytes()).unwrap();
                        stream.conn.send_close_notify();
                        stream.flush().unwrap();
                    }
                } else {
                    let read = stream.read(&mut request).unwrap();
                    let probe = String::from_utf8_lossy(&request[..read]).contains(" /readyz ");
                    let answer: &[u8] =
                        if probe { b"HTTP/1.1 200 OK\r\n\r\n" } else { b"HTTP/1.1 403 Forbidden\r\n\r\n" };
                    stream.write_all(answer).unwrap();
                }
            }
        });
        port
    }

    #[test]
    fn the_status_is_read_over_tls_where_plain_http_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pki = super::super::pki::Pki::make(folder.path()).unwrap();
        let port = tls_server(&pki);
        let view = Probe::new(port, Some(&pki.client_ca)).unwrap().look();
        assert!(view.ready);
        assert_eq!((view.role.as_deref(), view.phase.as_deref()), (Some("follower"), None));

        // Another authority's word is not taken, and the probe still is.
        let view = Probe::new(port, Some(&pki.peer_ca)).unwrap().look();
        assert!(view.ready);
        assert_eq!((view.role.as_deref(), view.phase.as_deref()), (None, Some("running")));
    }

    #[test]
    fn a_cut_body_is_no_answer() {
        assert!(answer(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab").is_err());
        assert_eq!(answer(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab").unwrap().body, b"ab");
    }
}
