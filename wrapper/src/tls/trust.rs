// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Whom our own clients trust: the authorities of a bundle, or exactly one certificate. Signatures of the handshake are
//! always checked; a name is checked wherever an authority stands between.
use std::path::Path;
use std::sync::Arc;

use rustls::CertificateError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::files::{CertificateFile, TlsFileError, malformed};

/// A file of authorities, each of which can be a trust anchor.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Its certificates.
    pub file: CertificateFile,
    pub(super) roots: Arc<RootCertStore>,
}

impl Bundle {
    /// Reads and parses the file.
    ///
    /// # Errors
    /// Those of `CertificateFile::load`, or a certificate that cannot be a trust anchor.
    pub fn load(path: &Path) -> Result<Self, TlsFileError> {
        let file = CertificateFile::load(path)?;
        let mut roots = RootCertStore::empty();
        for certificate in &file.certificates {
            roots
                .add(certificate.clone())
                .map_err(|_| malformed(path, "a certificate in it cannot be a trust anchor"))?;
        }
        Ok(Self { file, roots: Arc::new(roots) })
    }
}

/// Trusts servers whose chain ends at a certificate of the bundle.
pub(crate) fn by_bundle(bundle: &Bundle) -> Arc<dyn ServerCertVerifier> {
    let webpki = WebPkiServerVerifier::builder_with_provider(bundle.roots.clone(), super::provider())
        .build()
        .expect("a bundle has at least one certificate, and no revocation list is given");
    Arc::new(ByBundle { webpki, listed: bundle.file.certificates.clone() })
}

/// Trusts the first certificate of the file, and nothing else.
pub(super) fn exactly(file: &CertificateFile) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Exactly { file: file.clone(), algorithms: super::provider().signature_verification_algorithms })
}

#[derive(Debug)]
struct ByBundle {
    webpki: Arc<WebPkiServerVerifier>,
    listed: Vec<CertificateDer<'static>>,
}

impl ByBundle {
    /// A self-signed certificate that calls itself an authority and serves too, as `openssl req -x509` makes them: Go
    /// takes one that is listed in the bundle itself, webpki on principle does not.
    fn is_listed(
        &self,
        end_entity: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        if !self.listed.iter().any(|listed| listed == end_entity) {
            return Err(CertificateError::UnknownIssuer.into());
        }
        let (_, parsed) = X509Certificate::from_der(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if parsed.validity().not_after.timestamp() < seconds {
            return Err(CertificateError::Expired.into());
        }
        if parsed.validity().not_before.timestamp() > seconds {
            return Err(CertificateError::NotValidYet.into());
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)
    }
}

impl ServerCertVerifier for ByBundle {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(error @ rustls::Error::InvalidCertificate(CertificateError::Other(_))) => {
                match self.is_listed(end_entity, server_name, now) {
                    Ok(()) => Ok(ServerCertVerified::assertion()),
                    Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => Err(error),
                    Err(other) => Err(other),
                }
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

#[derive(Debug)]
struct Exactly {
    file: CertificateFile,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Exactly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is = |file: &CertificateFile| file.certificates.first().is_some_and(|first| first == end_entity);
        // etcd re-reads its certificate at every handshake, we every ten seconds: in between, the file is right.
        if is(&self.file) || CertificateFile::load(&self.file.path).is_ok_and(|file| is(&file)) {
            return Ok(ServerCertVerified::assertion());
        }
        let path = self.file.path.display();
        Err(rustls::Error::General(format!("the server does not show the certificate of {path}")))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
