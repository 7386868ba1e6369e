// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The sidecar's certificate, from memory or from files, swapped while connections live. Asks no client for one.
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The pair that new connections get.
#[derive(Debug)]
pub(super) struct Tls {
    now: Mutex<Current>,
    files: Option<(PathBuf, PathBuf)>,
}

#[derive(Debug)]
struct Current {
    pems: (Vec<u8>, Vec<u8>),
    config: Arc<ServerConfig>,
}

impl Tls {
    pub(super) fn new(cert: &[u8], key: &[u8]) -> anyhow::Result<Self> {
        Ok(Self { now: Mutex::new(Current::load(cert, key)?), files: None })
    }

    /// Reads the files again for every connection: kubelet swaps them without a word.
    pub(super) fn of_files(cert: &Path, key: &Path) -> anyhow::Result<Self> {
        let (cert_pem, key_pem) = read(cert, key)?;
        let now = Mutex::new(Current::load(&cert_pem, &key_pem)?);
        Ok(Self { now, files: Some((cert.into(), key.into())) })
    }

    pub(super) fn swap(&self, cert: &[u8], key: &[u8]) -> anyhow::Result<()> {
        let fresh = Current::load(cert, key)?;
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((cert, key)) = &self.files
            && let Ok(pems) = read(cert, key)
            && pems != now.pems
            // Half-written files and pairs that do not match: the old pair stays, the next connection tries again.
            && let Ok(fresh) = Current::load(&pems.0, &pems.1)
        {
            *now = fresh;
        }
        TlsAcceptor::from(Arc::clone(&now.config))
    }
}

impl Current {
    fn load(cert: &[u8], key: &[u8]) -> anyhow::Result<Self> {
        let chain = CertificateDer::pem_slice_iter(cert)
            .collect::<Result<Vec<_>, _>>()
            .context("read certificates of the sidecar double")?;
        let private = PrivateKeyDer::from_pem_slice(key).context("read key of the sidecar double")?;
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .context("pick TLS versions")?
                .with_no_client_auth()
                .with_single_cert(chain, private)
                .context("use certificate and key of the sidecar double")?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { pems: (cert.into(), key.into()), config: Arc::new(config) })
    }
}

fn read(cert: &Path, key: &Path) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let of = |path: &Path| std::fs::read(path).with_context(|| format!("read {}", path.display()));
    Ok((of(cert)?, of(key)?))
}
