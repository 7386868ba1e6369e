// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Loads certificates and loads them again when their content changes. Decides nothing about who may do what.
pub mod check;
pub mod client;
pub mod files;
pub mod reload;
pub mod server;
pub mod trust;

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use rustls::crypto::CryptoProvider;

use crate::supervise::view::Warning;

/// One certificate file in use, for metrics and warnings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateView {
    /// Bounded label: `server`, `peer`, `client`, `client_ca`, `peer_ca`, `sidecar_ca`.
    pub name: &'static str,
    /// Of its file.
    pub path: PathBuf,
    /// Earliest end of validity in the file.
    pub not_after: SystemTime,
}

/// What the TLS stage tells: one writer (tls.rs), many readers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsView {
    /// Of every file in use.
    pub certificates: Vec<CertificateView>,
    /// Since the process began.
    pub reloads_ok: u64,
    /// Since the process began.
    pub reloads_failed: u64,
    /// `certificate_expires`, `restart_needed`, and pairs that would not load.
    pub warnings: Vec<Warning>,
}

/// Makes ring the process's provider of cryptography; main calls it once, before anything speaks TLS. Repeating it
/// changes nothing.
pub fn install_default() {
    // An error says that one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The provider that everything in here names itself, so that nothing depends on who called what first.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));
    PROVIDER.clone()
}

#[cfg(test)]
pub(crate) mod authority;
