// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An etcd configuration file as far as the wrapper has to understand it. Parses once into a value that cannot be
//! wrong; never writes YAML: etcd gets the bytes as they came. What only etcd can judge (names, clusters, ports in
//! use) stays etcd's to refuse.
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

mod bridge;
mod datadir;
mod endpoint;
mod files;
mod keys;
mod outline;
mod read;
mod unknown;
mod yaml;

pub use bridge::{Launch, hangs_on_version, launch};
pub use datadir::guard_data_dir;
pub use endpoint::{Address, ClientEndpoint, client_endpoint, http_endpoint};
pub use files::{FileRole, NamedFile, check_files, describe_unreadable, files};
pub use keys::EtcdVersion;
pub use outline::outline;
pub use unknown::{UnknownKey, unknown_keys, unknown_to_all};

/// Cap of a posted configuration's body. A served one has none: it may be large and is read whole.
pub const MAX_POSTED_BYTES: usize = 1 << 20;

/// A checked configuration: the bytes as served, posted or read, and what the wrapper needs to know of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EtcdConfig {
    /// As served, read or posted; what etcd is given.
    pub bytes: Bytes,
    /// `sha256:` + hex of `bytes`.
    pub digest: String,
    /// The member's name.
    pub name: String,
    /// As written in the file.
    pub data_dir: PathBuf,
    /// Absolute URLs as written, split at commas.
    pub listen_client_urls: Vec<String>,
    /// Where etcd serves `/metrics` and `/health` instead of at the client URLs; usually empty.
    pub listen_client_http_urls: Vec<String>,
    /// As written, one by one.
    pub listen_peer_urls: Vec<String>,
    /// As written, one by one.
    pub advertise_client_urls: Vec<String>,
    /// As written, one by one.
    pub advertise_peer_urls: Vec<String>,
    /// (name, peer URL) pairs.
    pub initial_cluster: Vec<(String, String)>,
    /// `client-transport-security`.
    pub client_tls: TlsSection,
    /// `peer-transport-security`.
    pub peer_tls: TlsSection,
    /// Bytes; 0 or absent is etcd's default, 2 GiB; `u64::MAX` where a negative number switches the quota off.
    pub quota_backend_bytes: u64,
    /// etcd's default, 1 s, where the key is absent or 0.
    pub election_timeout: Duration,
    /// An end may lose what was acknowledged: no marker then.
    pub unsafe_no_fsync: bool,
    /// Cuts the cluster down to this member, each time it is started so.
    pub force_new_cluster: bool,
}

/// `client-transport-security` or `peer-transport-security`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlsSection {
    /// Served to others; PEM.
    pub cert_file: Option<PathBuf>,
    /// Of `cert_file`.
    pub key_file: Option<PathBuf>,
    /// `client-cert-file` and `client-key-file`: what etcd itself shows as a client, where that differs.
    pub client_cert_file: Option<PathBuf>,
    /// Of `client_cert_file`.
    pub client_key_file: Option<PathBuf>,
    /// Verifies who comes.
    pub trusted_ca_file: Option<PathBuf>,
    /// Who comes must show a certificate.
    pub client_cert_auth: bool,
    /// etcd signs its own certificate; nobody can verify it.
    pub auto_tls: bool,
    /// Of peers' certificates; a key of the file from etcd 3.6 on only.
    pub skip_client_san_verification: bool,
}

impl EtcdConfig {
    /// Parses and checks a configuration, whatever its source. `name`, `data-dir`, `initial-cluster` and
    /// `listen-client-urls` are required of all sources: a served body without them was cut, and without them in a
    /// file or a posted body the wrapper would have to guess what etcd will do.
    ///
    /// # Errors
    /// All problems at once: no UTF-8, no YAML mapping, missing keys, values of a kind that etcd refuses.
    pub fn parse(bytes: Bytes) -> Result<Self, ConfigError> {
        read::config(bytes)
    }
}

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// JSON pointer (RFC 6901) to the key; empty for the whole document.
    pub pointer: String,
    /// What is wrong, a lower-case fragment.
    pub detail: String,
    /// What to write instead.
    pub suggestion: Option<String>,
}

/// Longest text about one problem, in bytes: it may quote what may be as long as the document.
const LONGEST: usize = 256;
/// Problems that are listed: nobody reads more.
const MOST: usize = 16;

/// Not more than the beginning of a long text.
fn short(text: impl Into<String>) -> String {
    let mut text = text.into();
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}

impl Problem {
    fn new(pointer: &str, detail: impl Into<String>, suggestion: Option<String>) -> Self {
        Self { pointer: short(pointer), detail: short(detail), suggestion: suggestion.map(short) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(f, "{}: ", self.pointer)?;
        }
        f.write_str(&self.detail)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, " ({suggestion})"),
            None => Ok(()),
        }
    }
}

/// A configuration that must not be given to etcd. Holds the first problems, at least one; displays in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// At least one, each with its pointer.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    fn one(pointer: &str, detail: impl Into<String>) -> Self {
        Self { problems: vec![Problem::new(pointer, detail, None)] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("etcd configuration is not usable: ")?;
        for (n, problem) in self.problems.iter().enumerate() {
            let separator = if n == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests;
