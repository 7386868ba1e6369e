// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The certificates of a case: an authority each for clients, peers and the sidecar, signed for one Etcd by its names, and
//! as the secrets that etcd-druid mounts. Made anew for every case, and known to nobody else.
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use doubles::pki::{Authority, Leaf, Pair};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The key under which a secret with an authority has the bundle.
pub const BUNDLE: &str = "bundle.crt";

/// The authorities of a case. A clone is the same three.
#[derive(Clone)]
pub struct Pki {
    authorities: Arc<[Authority; 3]>,
}

/// The secrets of an Etcd, by their use; the name is the Etcd's, a dash, and this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The authority of clients and of etcd's server certificate.
    ClientCa,
    /// etcd's server certificate. It may be used as a client's too: etcd's own gateway does.
    Server,
    /// What clients show, the sidecar and the wrapper among them.
    Client,
    /// Signs peers.
    PeerCa,
    /// Of each member, for its peers.
    Peer,
    /// Signs the sidecar.
    SidecarCa,
    /// The sidecar's server certificate.
    Sidecar,
    /// What clients of the sidecar show.
    SidecarClient,
}

impl Use {
    /// Every file that a Secret may hold.
    pub const ALL: [Self; 8] = [
        Self::ClientCa,
        Self::Server,
        Self::Client,
        Self::PeerCa,
        Self::Peer,
        Self::SidecarCa,
        Self::Sidecar,
        Self::SidecarClient,
    ];

    /// The name of this secret for an Etcd.
    pub fn secret(self, etcd: &str) -> String {
        let suffix = match self {
            Self::ClientCa => "client-ca",
            Self::Server => "server",
            Self::Client => "client",
            Self::PeerCa => "peer-ca",
            Self::Peer => "peer",
            Self::SidecarCa => "br-ca",
            Self::Sidecar => "brserver",
            Self::SidecarClient => "brclient",
        };
        // The service of clients is called `<etcd>-client`; secrets are another kind, and may share the name.
        format!("{etcd}-{suffix}")
    }

    fn authority(self) -> usize {
        match self {
            Self::ClientCa | Self::Server | Self::Client => 0,
            Self::PeerCa | Self::Peer => 1,
            Self::SidecarCa | Self::Sidecar | Self::SidecarClient => 2,
        }
    }
}

impl fmt::Debug for Pki {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Pki").finish_non_exhaustive()
    }
}

impl Pki {
    /// Three new authorities.
    #[expect(clippy::new_without_default, reason = "a new one is never like another")]
    pub fn new() -> Self {
        let authorities = ["client-ca", "peer-ca", "br-ca"].map(Authority::new);
        Self { authorities: Arc::new(authorities) }
    }

    /// The certificate of the authority behind a use, as PEM.
    pub fn ca_pem(&self, of: Use) -> &str {
        self.authorities[of.authority()].cert_pem()
    }

    /// A new pair for a use; None for an authority's. `valid` is counted from now.
    pub fn sign(&self, of: Use, etcd: &str, namespace: &str, valid: Duration) -> Option<Pair> {
        let names = names(etcd, namespace);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let leaf = match of {
            Use::ClientCa | Use::PeerCa | Use::SidecarCa => return None,
            Use::Server => Leaf::peer(&names).common_name("etcd-server"),
            Use::Peer => Leaf::peer(&names),
            Use::Sidecar => Leaf::server(&names).common_name("backup-restore-server"),
            Use::Client => Leaf::client("etcd-client"),
            Use::SidecarClient => Leaf::client("backup-restore-client"),
        };
        Some(self.authorities[of.authority()].sign(&leaf.expires_in(valid)))
    }

    /// A secret as etcd-druid wants it, with a new pair.
    pub fn secret(&self, of: Use, etcd: &str, namespace: &str, valid: Duration) -> Secret {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let (kind, data) = match self.sign(of, etcd, namespace, valid) {
            None => ("Opaque", BTreeMap::from([(BUNDLE.to_owned(), bytes(self.ca_pem(of)))])),
            Some(pair) => (
                "kubernetes.io/tls",
                BTreeMap::from([
                    ("tls.crt".to_owned(), bytes(&pair.cert_pem)),
                    ("tls.key".to_owned(), bytes(&pair.key_pem)),
                ]),
            ),
        };
        Secret {
            metadata: ObjectMeta { name: Some(of.secret(etcd)), ..ObjectMeta::default() },
            type_: Some(kind.to_owned()),
            data: Some(data),
            ..Secret::default()
        }
    }

    /// What a client of etcd, or of a wrapper's port, has: it trusts the authority of clients, and shows a certificate of
    /// it when `known`.
    ///
    /// # Errors
    /// None that our own certificates can bring.
    pub fn client_config(&self, known: bool) -> Result<rustls::ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.ca_pem(Use::ClientCa).as_bytes());
        roots.add(ca.context("read our own authority")?).context("trust our own authority")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("choose versions of TLS")?
            .with_root_certificates(roots);
        if !known {
            return Ok(builder.with_no_client_auth());
        }
        let leaf = Leaf::client("etcd-client");
        let pair = self.authorities[Use::Client.authority()].sign(&leaf);
        let cert =
            CertificateDer::from_pem_slice(pair.cert_pem.as_bytes()).context("read our own certificate")?;
        let key = PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes()).context("read our own key")?;
        builder.with_client_auth_cert(vec![cert], key).context("use our own certificate")
    }
}

/// Under what names the members, the sidecar and the services of an Etcd are called.
pub fn names(etcd: &str, namespace: &str) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), format!("{etcd}-local")];
    for host in [format!("{etcd}-client"), format!("*.{etcd}-peer")] {
        for domain in ["", ".svc", ".svc.cluster.local"] {
            names.push(format!("{host}.{namespace}{domain}"));
        }
        names.push(host);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_neighbours_call() {
        let names = names("tls", "default");
        for name in ["tls-local", "tls-client", "tls-client.default.svc", "*.tls-peer", "localhost"] {
            assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
        }
        assert!(names.contains(&"*.tls-peer.default.svc.cluster.local".to_owned()), "{names:?}");
    }

    #[test]
    fn secrets_have_the_keys_that_druid_mounts() {
        let pki = Pki::new();
        for of in Use::ALL {
            let secret = pki.secret(of, "tls", "default", Duration::from_secs(3600));
            let keys: Vec<String> = secret.data.unwrap().into_keys().collect();
            match of {
                Use::ClientCa | Use::PeerCa | Use::SidecarCa => assert_eq!(keys, [BUNDLE]),
                _ => assert_eq!(keys, ["tls.crt", "tls.key"]),
            }
        }
        assert_eq!(Use::Sidecar.secret("tls"), "tls-brserver");
        pki.client_config(true).unwrap();
    }
}
