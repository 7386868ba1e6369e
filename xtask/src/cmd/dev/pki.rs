// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Certificates for one run: the three authorities of a druid pod (clients, peers, sidecar) and what each signs. The
//! authorities' own keys are never written: nothing more is to be signed by them.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The files of a certificate and its key.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
}

/// All files, PEM.
#[derive(Debug)]
pub(super) struct Pki {
    /// Signs `server` and `client`; etcd's `trusted-ca-file` for clients.
    pub(super) client_ca: PathBuf,
    /// serverAuth alone: the wrapper must not need it as a client certificate.
    pub(super) server: Pair,
    pub(super) client: Pair,
    pub(super) peer_ca: PathBuf,
    /// serverAuth and clientAuth: a peer is both.
    pub(super) peer: Pair,
    pub(super) sidecar_ca: PathBuf,
    pub(super) sidecar: Pair,
}

impl Pki {
    /// Makes everything in the new folder `dir`.
    pub(super) fn make(dir: &Path) -> Result<Self> {
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .with_context(|| format!("create {}", dir.display()))?;
        let client = Authority::make(dir, "client-ca")?;
        let peer = Authority::make(dir, "peer-ca")?;
        let sidecar = Authority::make(dir, "sidecar-ca")?;
        Ok(Self {
            server: client.sign(dir, "server", &[ServerAuth])?,
            client: client.sign(dir, "client", &[ClientAuth])?,
            peer: peer.sign(dir, "peer", &[ServerAuth, ClientAuth])?,
            sidecar: sidecar.sign(dir, "sidecar", &[ServerAuth])?,
            client_ca: client.path,
            peer_ca: peer.path,
            sidecar_ca: sidecar.path,
        })
    }
}

struct Authority {
    path: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn make(dir: &Path, name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("etcd-wrapper dev {name}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let path = dir.join(format!("{name}.crt"));
        fs::write(&path, params.self_signed(&key)?.pem())
            .with_context(|| format!("write {}", path.display()))?;
        Ok(Self { path, issuer: Issuer::new(params, key) })
    }

    fn sign(&self, dir: &Path, name: &str, usages: &[ExtendedKeyUsagePurpose]) -> Result<Pair> {
        let mut params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, format!("etcd-wrapper dev {name}"));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages.to_vec();
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let pair = Pair { cert: dir.join(format!("{name}.crt")), key: dir.join(format!("{name}.key")) };
        fs::write(&pair.cert, params.signed_by(&key, &self.issuer)?.pem())
            .with_context(|| format!("write {}", pair.cert.display()))?;
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&pair.key)
            .and_then(|mut file| file.write_all(key.serialize_pem().as_bytes()))
            .with_context(|| format!("write {}", pair.key.display()))?;
        Ok(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_are_for_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::make(&folder.path().join("pki")).unwrap();
        for pair in [&pki.server, &pki.client, &pki.peer, &pki.sidecar] {
            assert_eq!(fs::metadata(&pair.key).unwrap().permissions().mode() & 0o777, 0o600);
            assert!(fs::read_to_string(&pair.cert).unwrap().starts_with("-----BEGIN CERTIFICATE"));
        }
        assert!(!folder.path().join("pki/client-ca.key").exists());
    }
}
