// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Throw-away certificates for tests: authorities, pairs with chosen usage, names and time of validity, the
//! folders of a druid pod, and files that cannot be used. Never for anything that lives longer than a test.
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A certificate authority that signs leaves.
#[derive(Debug)]
pub struct Authority {
    cert_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// What a leaf certificate shall say. Starts valid since yesterday, for 30 days from now.
#[derive(Clone, Debug)]
pub struct Leaf {
    common_name: String,
    names: Vec<String>,
    usages: Vec<ExtendedKeyUsagePurpose>,
    not_before: SystemTime,
    not_after: SystemTime,
}

/// A certificate with its key, as PEM text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The leaf.
    pub cert_pem: String,
    /// Of the leaf.
    pub key_pem: String,
}

/// Where a pair was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairFiles {
    /// PEM.
    pub cert: PathBuf,
    /// PEM.
    pub key: PathBuf,
}

/// Contents for a PEM file that nobody can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A file without a byte.
    Empty,
    /// Text without any PEM section.
    Garbage,
    /// A PEM section whose base64 is no certificate or key.
    BrokenPem,
    /// A private key with a password (PKCS#8).
    EncryptedKey,
    /// A private key with a password, the old way (`Proc-Type: 4,ENCRYPTED`).
    LegacyEncryptedKey,
}

/// The folders of a druid pod: one authority each for clients, peers and the sidecar.
#[derive(Debug)]
pub struct PodPki {
    /// Signs etcd's server and its clients.
    pub client_ca: Authority,
    /// Signs peers.
    pub peer_ca: Authority,
    /// Signs the sidecar.
    pub sidecar_ca: Authority,
    /// `ssl/ca/bundle.crt`
    pub client_ca_file: PathBuf,
    /// `ssl/server/tls.{crt,key}`: usage serverAuth only
    pub server: PairFiles,
    /// `ssl/client/tls.{crt,key}`: usage clientAuth only, CN `etcd-client`
    pub client: PairFiles,
    /// `ssl/peer/ca/bundle.crt`
    pub peer_ca_file: PathBuf,
    /// `ssl/peer/server/tls.{crt,key}`: both usages
    pub peer: PairFiles,
    /// `etcdbr/ssl/ca/bundle.crt`
    pub sidecar_ca_file: PathBuf,
    /// `etcdbr/ssl/server/tls.{crt,key}`
    pub sidecar: PairFiles,
}

impl Authority {
    /// A new authority with a key of its own; two of the same name trust each other's leaves not at all.
    pub fn new(common_name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = (SystemTime::now() - DAY).into();
        params.not_after = (SystemTime::now() + 365 * DAY).into();
        let key = KeyPair::generate().expect("the system has randomness for a key");
        let cert_pem = params.self_signed(&key).expect("the parameters above are sound").pem();
        Self { cert_pem, issuer: Issuer::new(params, key) }
    }

    /// The authority's certificate, for a trust bundle.
    pub fn cert_pem(&self) -> &str {
        &self.cert_pem
    }

    /// Signs a new pair.
    ///
    /// # Panics
    /// When a name is neither an IP address nor ASCII.
    pub fn sign(&self, leaf: &Leaf) -> Pair {
        let mut params = CertificateParams::new(leaf.names.clone()).expect("names are IP addresses or ASCII");
        params.distinguished_name.push(DnType::CommonName, leaf.common_name.as_str());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = leaf.usages.clone();
        params.use_authority_key_identifier_extension = true;
        params.not_before = leaf.not_before.into();
        params.not_after = leaf.not_after.into();
        let key = KeyPair::generate().expect("the system has randomness for a key");
        let cert = params.signed_by(&key, &self.issuer).expect("the parameters above are sound");
        Pair { cert_pem: cert.pem(), key_pem: key.serialize_pem() }
    }

    /// Writes the bundle.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, path: &Path) -> io::Result<PathBuf> {
        write(path, &self.cert_pem)
    }
}

impl Leaf {
    /// Usage serverAuth only, as etcd's server certificates often are.
    pub fn server(names: &[&str]) -> Self {
        Self::with("etcd-server", names, vec![ExtendedKeyUsagePurpose::ServerAuth])
    }

    /// Usage clientAuth only, without names.
    pub fn client(common_name: &str) -> Self {
        Self::with(common_name, &[], vec![ExtendedKeyUsagePurpose::ClientAuth])
    }

    /// Both usages.
    pub fn peer(names: &[&str]) -> Self {
        Self::with(
            "etcd-peer",
            names,
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        )
    }

    fn with(common_name: &str, names: &[&str], usages: Vec<ExtendedKeyUsagePurpose>) -> Self {
        let now = SystemTime::now();
        Self {
            common_name: common_name.into(),
            names: names.iter().map(|name| (*name).into()).collect(),
            usages,
            not_before: now - DAY,
            not_after: now + 30 * DAY,
        }
    }

    /// In the place of the one it has.
    #[must_use]
    pub fn common_name(mut self, name: &str) -> Self {
        self.common_name = name.into();
        self
    }

    /// Subject alternative names: DNS names, wildcards or IP addresses.
    #[must_use]
    pub fn names(mut self, names: &[&str]) -> Self {
        self.names = names.iter().map(|name| (*name).into()).collect();
        self
    }

    /// Valid for `span` from now: less than 14 days is what operators want to be warned of.
    #[must_use]
    pub fn expires_in(mut self, span: Duration) -> Self {
        self.not_after = SystemTime::now() + span;
        self
    }

    /// Ended an hour ago.
    #[must_use]
    pub fn expired(mut self) -> Self {
        self.not_before = SystemTime::now() - 2 * DAY;
        self.not_after = SystemTime::now() - DAY / 24;
        self
    }
}

impl Pair {
    /// Writes `tls.crt` (0644) and `tls.key` (0600) into `folder`, made if it is missing.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, folder: &Path) -> io::Result<PairFiles> {
        use std::os::unix::fs::PermissionsExt;
        let cert = write(&folder.join("tls.crt"), &self.cert_pem)?;
        let key = write(&folder.join("tls.key"), &self.key_pem)?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
        Ok(PairFiles { cert, key })
    }
}

impl PodPki {
    /// Makes all of it below `folder`; server certificates carry `localhost`, the loopback addresses and `names`.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(folder: &Path, names: &[&str]) -> io::Result<Self> {
        let all: Vec<&str> = ["localhost", "127.0.0.1", "::1"].iter().chain(names).copied().collect();
        let client_ca = Authority::new("client-ca");
        let peer_ca = Authority::new("peer-ca");
        let sidecar_ca = Authority::new("sidecar-ca");
        let at = |path: &str| folder.join(path);
        Ok(Self {
            client_ca_file: client_ca.write(&at("ssl/ca/bundle.crt"))?,
            server: client_ca.sign(&Leaf::server(&all)).write(&at("ssl/server"))?,
            client: client_ca.sign(&Leaf::client("etcd-client")).write(&at("ssl/client"))?,
            peer_ca_file: peer_ca.write(&at("ssl/peer/ca/bundle.crt"))?,
            peer: peer_ca.sign(&Leaf::peer(&all)).write(&at("ssl/peer/server"))?,
            sidecar_ca_file: sidecar_ca.write(&at("etcdbr/ssl/ca/bundle.crt"))?,
            sidecar: sidecar_ca
                .sign(&Leaf::server(&all).common_name("sidecar"))
                .write(&at("etcdbr/ssl/server"))?,
            client_ca,
            peer_ca,
            sidecar_ca,
        })
    }
}

impl Flaw {
    /// What the file holds.
    pub fn text(self) -> String {
        // No real key: readers look at the label and at the headers, and never get as far as the password.
        let body = "TWFkZSB1cCBmb3IgYSB0ZXN0OiBub2JvZHkncyBrZXkgbGllcyBiZWhpbmQgdGhpcy4=";
        let section = |label: &str, headers: &str| {
            format!("-----BEGIN {label}-----\n{headers}{body}\n-----END {label}-----\n")
        };
        match self {
            Self::Empty => String::new(),
            Self::Garbage => "this is not a certificate\n".into(),
            Self::BrokenPem => section("CERTIFICATE", ""),
            Self::EncryptedKey => section("ENCRYPTED PRIVATE KEY", ""),
            Self::LegacyEncryptedKey => section(
                "RSA PRIVATE KEY",
                "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00112233445566778899AABBCCDDEEFF\n\n",
            ),
        }
    }

    /// Writes it in place of a certificate or key.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(self, path: &Path) -> io::Result<PathBuf> {
        write(path, &self.text())
    }
}

/// Puts new content at `path` as the kubelet does for mounted secrets: a new file renamed over the old name, so
/// that nobody reads half of it.
///
/// # Errors
/// What the file system says.
pub fn swap(path: &Path, content: &str) -> io::Result<()> {
    let fresh = path.with_extension("fresh");
    write(&fresh, content)?;
    fs::rename(fresh, path)
}

fn write(path: &Path, content: &str) -> io::Result<PathBuf> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)?;
    Ok(path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
    use rustls::{CertificateError, Error, RootCertStore};

    use super::*;

    /// What a client that trusts `authority` thinks of a server's pair.
    fn verdict(authority: &Authority, pair: &Pair, name: &str) -> Result<(), Error> {
        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(der(authority.cert_pem())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let name = ServerName::try_from(name).unwrap();
        verifier.verify_server_cert(&der(&pair.cert_pem), &[], &name, &[], UnixTime::now()).map(|_| ())
    }

    #[test]
    fn a_good_pair_is_trusted_by_its_own_authority_alone() {
        let (ours, theirs) = (Authority::new("same name"), Authority::new("same name"));
        let pair = ours.sign(&Leaf::server(&["localhost", "::1"]));
        assert_eq!(verdict(&ours, &pair, "localhost"), Ok(()));
        assert_eq!(verdict(&ours, &pair, "::1"), Ok(()));
        assert!(verdict(&theirs, &pair, "localhost").is_err());
        assert!(verdict(&ours, &pair, "example.org").is_err());
    }

    #[test]
    fn usage_and_time_are_as_asked() {
        let ours = Authority::new("ca");
        let client = ours.sign(&Leaf::client("etcd-client").names(&["localhost"]));
        assert!(verdict(&ours, &client, "localhost").is_err(), "clientAuth only");
        let expired = ours.sign(&Leaf::server(&["localhost"]).expired());
        let error = verdict(&ours, &expired, "localhost").unwrap_err();
        assert!(
            matches!(error, Error::InvalidCertificate(CertificateError::ExpiredContext { .. })),
            "{error:?}"
        );
        let soon = ours.sign(&Leaf::server(&["localhost"]).expires_in(DAY));
        assert_eq!(verdict(&ours, &soon, "localhost"), Ok(()));
    }

    #[test]
    fn flaws_hold_neither_certificate_nor_key() {
        for flaw in [Flaw::Empty, Flaw::Garbage, Flaw::EncryptedKey] {
            assert!(CertificateDer::from_pem_slice(flaw.text().as_bytes()).is_err(), "{flaw:?}");
            assert!(PrivateKeyDer::from_pem_slice(flaw.text().as_bytes()).is_err(), "{flaw:?}");
        }
        let broken = Flaw::BrokenPem.text();
        let der = CertificateDer::from_pem_slice(broken.as_bytes()).unwrap();
        assert!(RootCertStore::empty().add(der).is_err());
    }
}
