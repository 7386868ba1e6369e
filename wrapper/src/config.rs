// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An etcd configuration file as far as the wrapper has to understand it. Parses once into a value that cannot be
//! wrong; never writes YAML: etcd gets the bytes as they came.
use std::path::PathBuf;

use bytes::Bytes;

/// A checked configuration: the bytes as served, posted or read, and what the wrapper needs to know of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EtcdConfig {
    pub bytes: Bytes,
    /// `sha256:` + hex of `bytes`.
    pub digest: String,
    pub name: String,
    pub data_dir: PathBuf,
    /// Absolute URLs as written, split at commas.
    pub listen_client_urls: Vec<String>,
    pub listen_peer_urls: Vec<String>,
    pub advertise_client_urls: Vec<String>,
    pub advertise_peer_urls: Vec<String>,
    /// (name, peer URL) pairs.
    pub initial_cluster: Vec<(String, String)>,
    pub client_tls: TlsSection,
    pub peer_tls: TlsSection,
    /// Bytes; 0 or absent is etcd's default, 2 GiB.
    pub quota_backend_bytes: u64,
    pub unsafe_no_fsync: bool,
    pub force_new_cluster: bool,
}

/// `client-transport-security` or `peer-transport-security`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlsSection {
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    pub trusted_ca_file: Option<PathBuf>,
    pub client_cert_auth: bool,
    pub auto_tls: bool,
    pub skip_client_san_verification: bool,
}
