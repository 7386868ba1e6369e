// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! TLS of the wrapper's own port: etcd's server certificate, or a self-signed one while there is none. Asks for a
//! client certificate, demands none, and tells what it is worth; what follows from that is the API's to decide.
use std::sync::{Arc, OnceLock};

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::files::Pair;
use super::trust::Bundle;

/// Whom the listener believes, by etcd's client CA.
#[derive(Clone, Debug)]
pub enum ClientTrust {
    /// The config names no `trusted-ca-file`: no client certificate can be verified.
    Absent,
    /// It names one that was never readable so far.
    NotLoaded,
    /// Verifies clients' certificates.
    Loaded(Arc<dyn ClientCertVerifier>),
}

impl ClientTrust {
    /// Trusts clients whose chain ends at a certificate of the bundle.
    pub fn by_bundle(bundle: &Bundle) -> Self {
        let verifier = WebPkiClientVerifier::builder_with_provider(bundle.roots.clone(), super::provider())
            .build()
            .expect("a bundle has at least one certificate, and no revocation list is given");
        Self::Loaded(verifier)
    }
}

/// What a caller has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientIdentity {
    /// No certificate.
    None,
    /// One that is not (or, without a CA, cannot be) verified; also one that has expired or is not for clients.
    Unverified,
    /// One that etcd's client CA signed, for clients, valid now.
    Verified {
        /// None: it has none.
        cn: Option<String>,
        /// DNS names, IP addresses, e-mail addresses and URIs as text.
        sans: Vec<String>,
    },
}

/// etcd's server certificate, ready to serve. A connection keeps the one it began with.
#[derive(Clone, Debug)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    trust: ClientTrust,
}

impl ServerTls {
    /// Makes the server's side of TLS.
    pub fn new(pair: &Pair, trust: ClientTrust) -> Self {
        let hints = match &trust {
            ClientTrust::Loaded(verifier) => verifier.root_hint_subjects().to_vec(),
            ClientTrust::Absent | ClientTrust::NotLoaded => Vec::new(),
        };
        Self { config: Arc::new(config(pair.certified.clone(), hints)), trust }
    }

    /// For the handshake; ALPN says http/1.1.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// True: certificates would be verified, but the CA cannot be read (503 `trust_not_loaded`).
    pub fn trust_not_loaded(&self) -> bool {
        matches!(self.trust, ClientTrust::NotLoaded)
    }

    /// Judges what the handshake left in `peer_certificates()`; once a connection is enough.
    pub fn classify(&self, shown: Option<&[CertificateDer<'_>]>, now: UnixTime) -> ClientIdentity {
        let Some([end_entity, intermediates @ ..]) = shown else { return ClientIdentity::None };
        let ClientTrust::Loaded(verifier) = &self.trust else { return ClientIdentity::Unverified };
        if verifier.verify_client_cert(end_entity, intermediates, now).is_err() {
            return ClientIdentity::Unverified;
        }
        identity(end_entity)
    }
}

/// The certificate shown while etcd's is not loaded. Made at first use: most processes get etcd's before anybody asks,
/// and those that do not pay about a millisecond for the P-256 key in the first handshake, not at the start.
#[derive(Debug)]
pub struct SelfSigned {
    names: Vec<String>,
    config: OnceLock<Arc<ServerConfig>>,
}

impl SelfSigned {
    /// `names` go into the certificate; nobody who verifies will trust it anyway.
    pub fn new(names: Vec<String>) -> Self {
        Self { names, config: OnceLock::new() }
    }

    /// For the handshake; the same certificate for the life of the process.
    ///
    /// # Errors
    /// There was no randomness for a key.
    pub fn config(&self) -> Result<Arc<ServerConfig>, rcgen::Error> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        // A name that cannot stand in a certificate must not cost the probes.
        let made = rcgen::generate_simple_self_signed(self.names.clone())
            .or_else(|_| rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]))?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let certified = CertifiedKey::from_der(vec![made.cert.der().clone()], key, &super::provider())
            .expect("a key that was just made belongs to its certificate");
        Ok(self.config.get_or_init(|| Arc::new(config(Arc::new(certified), Vec::new()))).clone())
    }
}

fn config(certified: Arc<CertifiedKey>, hints: Vec<DistinguishedName>) -> ServerConfig {
    let asking = Asking { hints, algorithms: super::provider().signature_verification_algorithms };
    let mut config = ServerConfig::builder_with_provider(super::provider())
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .with_client_cert_verifier(Arc::new(asking))
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Probes never resume; stored sessions, with the clients' chains in them, would only cost memory.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}

/// The names in a certificate that has been verified.
pub(crate) fn identity(end_entity: &CertificateDer<'_>) -> ClientIdentity {
    match X509Certificate::from_der(end_entity) {
        Ok((_, certificate)) => names(&certificate),
        Err(_) => ClientIdentity::Unverified,
    }
}

fn names(certificate: &X509Certificate<'_>) -> ClientIdentity {
    let cn = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    let sans = match certificate.subject_alternative_name() {
        Ok(Some(extension)) => extension.value.general_names.iter().filter_map(san).collect(),
        Ok(None) | Err(_) => Vec::new(),
    };
    ClientIdentity::Verified { cn: cn.map(str::to_owned), sans }
}

fn san(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(text) | GeneralName::RFC822Name(text) | GeneralName::URI(text) => {
            Some((*text).to_owned())
        }
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|ip| std::net::Ipv4Addr::from(ip).to_string()),
            16 => <[u8; 16]>::try_from(*bytes).ok().map(|ip| std::net::Ipv6Addr::from(ip).to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// Lets every certificate through the handshake, so that a probe with a stale one is still heard; only proves that the
/// caller has its key. `ServerTls::classify` judges it afterwards.
#[derive(Debug)]
struct Asking {
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for Asking {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
