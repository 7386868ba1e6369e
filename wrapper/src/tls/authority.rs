// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A certificate authority for tests: issues certificates and writes them as files. Not part of the product.
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

/// Certificate and key files.
pub(crate) struct Written {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

/// A CA that lives in memory; `pem` is its certificate.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Writes the CA's certificate.
    pub(crate) fn write_ca(&self, path: &Path) -> PathBuf {
        std::fs::write(path, &self.pem).unwrap();
        path.to_owned()
    }

    /// Issues a certificate for `names`, the first of which is the CN too: (certificate, key) as PEM.
    pub(crate) fn issue(&self, names: &[&str], usages: &[ExtendedKeyUsagePurpose]) -> (String, String) {
        self.issue_with(names, usages, |_| {})
    }

    pub(crate) fn issue_with(
        &self,
        names: &[&str],
        usages: &[ExtendedKeyUsagePurpose],
        change: impl FnOnce(&mut CertificateParams),
    ) -> (String, String) {
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        params.distinguished_name.push(DnType::CommonName, names[0]);
        params.extended_key_usages = usages.to_vec();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Issues a server certificate and writes it as `<stem>.crt` and `<stem>.key`.
    pub(crate) fn write_server(&self, dir: &Path, stem: &str, names: &[&str]) -> Written {
        write(dir, stem, &self.issue(names, &[ExtendedKeyUsagePurpose::ServerAuth]))
    }

    /// Issues a client certificate and writes it as `<stem>.crt` and `<stem>.key`.
    pub(crate) fn write_client(&self, dir: &Path, stem: &str, name: &str) -> Written {
        write(dir, stem, &self.issue(&[name], &[ExtendedKeyUsagePurpose::ClientAuth]))
    }
}

/// Writes a (certificate, key) pair.
pub(crate) fn write(dir: &Path, stem: &str, (cert_pem, key_pem): &(String, String)) -> Written {
    let written = Written { cert: dir.join(format!("{stem}.crt")), key: dir.join(format!("{stem}.key")) };
    std::fs::write(&written.cert, cert_pem).unwrap();
    std::fs::write(&written.key, key_pem).unwrap();
    written
}

/// A config for one member with its data below `dir`, without TLS files.
pub(crate) fn etcd_config(dir: &Path, listen: &str) -> crate::config::EtcdConfig {
    crate::config::EtcdConfig {
        bytes: bytes::Bytes::new(),
        digest: String::new(),
        name: "etcd-main-0".to_owned(),
        data_dir: dir.join("new.etcd"),
        listen_client_urls: vec![listen.to_owned()],
        listen_client_http_urls: Vec::new(),
        listen_peer_urls: Vec::new(),
        advertise_client_urls: Vec::new(),
        advertise_peer_urls: Vec::new(),
        initial_cluster: Vec::new(),
        client_tls: crate::config::TlsSection::default(),
        peer_tls: crate::config::TlsSection::default(),
        quota_backend_bytes: 0,
        election_timeout: std::time::Duration::from_secs(1),
        unsafe_no_fsync: false,
        force_new_cluster: false,
    }
}
