// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Loads certificates and loads them again when their content changes. Decides nothing about who may do what.
use std::path::PathBuf;
use std::time::SystemTime;

use crate::supervise::view::Warning;

/// One certificate file in use, for metrics and warnings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateView {
    /// Bounded label: `server`, `peer`, `client`, `client_ca`, `peer_ca`, `sidecar_ca`.
    pub name: &'static str,
    pub path: PathBuf,
    /// Earliest end of validity in the file.
    pub not_after: SystemTime,
}

/// What the TLS stage tells: one writer (tls.rs), many readers.
#[derive(Clone, Debug, Default)]
pub struct TlsView {
    pub certificates: Vec<CertificateView>,
    pub reloads_ok: u64,
    pub reloads_failed: u64,
    /// `certificate_expires`, `restart_needed`, and pairs that would not load.
    pub warnings: Vec<Warning>,
}
