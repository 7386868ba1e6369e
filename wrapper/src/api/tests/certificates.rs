// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Certificates for the rig, and verifiers that take any: who a caller is gets decided by comparing, not by chains.
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};

use crate::api::auth::ClientIdentity;
use crate::api::listener::ServerTls;

/// Who calls over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    Nobody,
    /// Signed by nobody we know.
    Stranger,
    /// Verified as `monitor`.
    Monitor,
    /// Verified as `agent`, which may control.
    Agent,
}

pub(super) struct Certificates {
    server: rcgen::CertifiedKey<rcgen::KeyPair>,
    stranger: rcgen::CertifiedKey<rcgen::KeyPair>,
    monitor: rcgen::CertifiedKey<rcgen::KeyPair>,
    agent: rcgen::CertifiedKey<rcgen::KeyPair>,
}

impl Certificates {
    pub(super) fn new() -> Self {
        let make = |name: &str| rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        Self {
            server: make("localhost"),
            stranger: make("stranger"),
            monitor: make("monitor"),
            agent: make("agent"),
        }
    }

    /// Offers the server certificate, as etcd's own or as the self-signed one.
    pub(super) fn server_tls(&self, etcd_certificate: bool, trust_loaded: bool) -> ServerTls {
        let (chain, key) = parts(&self.server);
        let config = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(Arc::new(Anybody))
            .with_single_cert(chain, key)
            .unwrap();
        let config = Arc::new(config);
        let known = [("monitor", self.monitor.cert.der().clone()), ("agent", self.agent.cert.der().clone())];
        let classify = move |chain: &[CertificateDer<'_>]| {
            let found = known.iter().find(|(_, der)| trust_loaded && *der == chain[0]);
            found.map_or(ClientIdentity::Unverified, |(name, _)| ClientIdentity::Verified {
                cn: None,
                sans: vec![(*name).into()],
            })
        };
        let offer = Arc::new(move || Some(Arc::clone(&config)));
        ServerTls { offer, etcd_certificate, trust_not_loaded: !trust_loaded, classify: Arc::new(classify) }
    }

    pub(super) fn client_config(&self, client: Client) -> rustls::ClientConfig {
        let builder = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody));
        let shown = match client {
            Client::Nobody => return builder.with_no_client_auth(),
            Client::Stranger => &self.stranger,
            Client::Monitor => &self.monitor,
            Client::Agent => &self.agent,
        };
        let (chain, key) = parts(shown);
        builder.with_client_auth_cert(chain, key).unwrap()
    }
}

fn parts(
    certified: &rcgen::CertifiedKey<rcgen::KeyPair>,
) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    (vec![certified.cert.der().clone()], key.into())
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Takes every certificate, on either side.
#[derive(Debug)]
struct Anybody;

type Signature = Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error>;

impl rustls::client::danger::ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Signature {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Signature {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

impl rustls::server::danger::ClientCertVerifier for Anybody {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[rustls::DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<rustls::server::danger::ClientCertVerified, rustls::Error> {
        Ok(rustls::server::danger::ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Signature {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Signature {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
