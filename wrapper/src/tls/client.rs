// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! TLS of the wrapper's own etcd client: whom it trusts, and what it shows. Opens no connection.
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;

use super::files::{CertificateFile, Pair, TlsFileError};
use super::trust::Bundle;
use crate::config::EtcdConfig;

/// Whom the etcd client trusts, by the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTrust {
    /// The authorities in `trusted-ca-file`.
    Bundle(PathBuf),
    /// Without one: exactly the certificate that etcd is told to show.
    Exactly(PathBuf),
}

impl ServerTrust {
    /// None: etcd does not speak TLS to clients. By the listen URLs first: with plain ones etcd ignores certificates.
    pub fn of(config: &EtcdConfig) -> Option<Self> {
        let tls = &config.client_tls;
        let speaks = |url: &String| url.starts_with("https://") || url.starts_with("unixs://");
        if !config.listen_client_urls.iter().chain(&config.listen_client_http_urls).any(speaks) {
            return None;
        }
        match (&tls.trusted_ca_file, &tls.cert_file) {
            (Some(ca), _) => Some(Self::Bundle(ca.clone())),
            (None, Some(cert)) => Some(Self::Exactly(cert.clone())),
            // Where etcd puts the certificate that it makes for itself.
            (None, None) if tls.auto_tls => {
                Some(Self::Exactly(config.data_dir.join("fixtures/client/cert.pem")))
            }
            (None, None) => None,
        }
    }
}

/// Loads what the config names and makes the client's side of TLS; None where etcd does not speak TLS to clients.
/// `pair` is that of `--etcd-client-cert-path` and `--etcd-client-key-path`. ALPN is left open: gRPC sets `h2` on a
/// clone, plain HTTP `http/1.1`.
///
/// # Errors
/// The trusted file is missing, unreadable, empty or damaged.
pub fn client_config(config: &EtcdConfig, pair: Option<&Pair>) -> Result<Option<ClientConfig>, TlsFileError> {
    let verifier = match ServerTrust::of(config) {
        None => return Ok(None),
        Some(ServerTrust::Bundle(path)) => super::trust::by_bundle(&Bundle::load(&path)?),
        Some(ServerTrust::Exactly(path)) => super::trust::exactly(&CertificateFile::load(&path)?),
    };
    Ok(Some(with_verifier(verifier, pair)))
}

/// A client config around a verifier. A pair is shown only when it is a client's: a server certificate without
/// clientAuth would be refused by etcd, and end a connection that may be welcome without one.
pub(crate) fn with_verifier(verifier: Arc<dyn ServerCertVerifier>, pair: Option<&Pair>) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(super::provider())
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    match pair.filter(|pair| pair.may_be_client()) {
        Some(pair) => {
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair.certified.clone())))
        }
        None => builder.with_no_client_auth(),
    }
}

/// The name for SNI and verification: `--etcd-server-name`, or else the host that is dialled (a DNS name or an IP
/// address, without brackets).
///
/// # Errors
/// Neither a DNS name nor an address.
pub fn server_name(
    flag: Option<&str>,
    host: &str,
) -> Result<ServerName<'static>, rustls::pki_types::InvalidDnsNameError> {
    let name = flag.filter(|flag| !flag.is_empty()).unwrap_or(host);
    match name.parse::<IpAddr>() {
        Ok(address) => Ok(ServerName::IpAddress(address.into())),
        Err(_) => ServerName::try_from(name.to_owned()),
    }
}

#[cfg(test)]
mod tests;
