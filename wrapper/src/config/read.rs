// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! From YAML to `EtcdConfig`: reads the keys the wrapper needs, with etcd's own ideas of their types, and collects all
//! problems. Leaves every other key alone.
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use super::keys::same_key;
use super::unknown::nearest;
use super::yaml::{Document, Scalar, View};
use super::{ConfigError, EtcdConfig, MOST, Problem, TlsSection};

/// Top-level keys read here. One that differs only in case is refused: etcd would obey it, and we would not see it.
const READ: &[&str] = &[
    "name",
    "data-dir",
    "listen-client-urls",
    "listen-client-http-urls",
    "listen-peer-urls",
    "advertise-client-urls",
    "initial-advertise-peer-urls",
    "initial-cluster",
    "client-transport-security",
    "peer-transport-security",
    "quota-backend-bytes",
    "election-timeout",
    "unsafe-no-fsync",
    "force-new-cluster",
];

/// etcd's default.
const ELECTION: Duration = Duration::from_secs(1);

const READ_TLS: &[&str] = &[
    "cert-file",
    "key-file",
    "client-cert-file",
    "client-key-file",
    "trusted-ca-file",
    "client-cert-auth",
    "auto-tls",
    "skip-client-san-verification",
];

/// The document of a configuration's bytes.
pub(super) fn document(bytes: &[u8]) -> Result<Document, ConfigError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| ConfigError::one("", format!("it is no UTF-8 text: {error}")))?;
    Document::parse(text).map_err(|error| ConfigError::one("", format!("it is no YAML: {error}")))
}

pub(super) fn config(bytes: Bytes) -> Result<EtcdConfig, ConfigError> {
    let document = document(&bytes)?;
    let root = document.root();
    if root.entries().is_none() {
        let detail = format!("it is {}, not a mapping of keys", root.describe());
        return Err(ConfigError::one("", detail));
    }
    let mut problems = Vec::new();
    let mut top = Section { view: Some(root), pointer: "", problems: &mut problems };
    top.refuse_other_case(READ);
    let name = top.required("name");
    let data_dir = PathBuf::from(top.required("data-dir"));
    let listen_client_urls = split(&top.required("listen-client-urls"));
    let initial_cluster = top.required("initial-cluster");
    let initial_cluster = top.cluster(&initial_cluster);
    let mut urls = |key| top.text(key).map(|text| split(&text)).unwrap_or_default();
    let listen_client_http_urls = urls("listen-client-http-urls");
    let listen_peer_urls = urls("listen-peer-urls");
    let advertise_client_urls = urls("advertise-client-urls");
    let advertise_peer_urls = urls("initial-advertise-peer-urls");
    let quota_backend_bytes = top.quota();
    let election_timeout = top.election_timeout();
    let unsafe_no_fsync = top.flag("unsafe-no-fsync");
    let force_new_cluster = top.flag("force-new-cluster");
    let client = top.section("client-transport-security");
    let peer = top.section("peer-transport-security");
    let client_tls =
        tls(Section { view: client, pointer: "/client-transport-security", problems: &mut problems });
    let peer_tls = tls(Section { view: peer, pointer: "/peer-transport-security", problems: &mut problems });
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    Ok(EtcdConfig {
        digest: digest(&bytes),
        name,
        data_dir,
        listen_client_urls,
        listen_client_http_urls,
        listen_peer_urls,
        advertise_client_urls,
        advertise_peer_urls,
        initial_cluster,
        client_tls,
        peer_tls,
        quota_backend_bytes,
        election_timeout,
        unsafe_no_fsync,
        force_new_cluster,
        bytes,
    })
}

fn tls(mut section: Section<'_, '_>) -> TlsSection {
    section.refuse_other_case(READ_TLS);
    let mut path = |key| section.text(key).filter(|text| !text.is_empty()).map(PathBuf::from);
    TlsSection {
        cert_file: path("cert-file"),
        key_file: path("key-file"),
        client_cert_file: path("client-cert-file"),
        client_key_file: path("client-key-file"),
        trusted_ca_file: path("trusted-ca-file"),
        client_cert_auth: section.flag("client-cert-auth"),
        auto_tls: section.flag("auto-tls"),
        skip_client_san_verification: section.flag("skip-client-san-verification"),
    }
}

/// `sha256:` + hex.
fn digest(bytes: &[u8]) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, bytes);
    hash.as_ref().iter().fold(String::from("sha256:"), |text, byte| format!("{text}{byte:02x}"))
}

/// etcd splits at commas and trims each URL.
fn split(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// One mapping and where it lies; an absent section reads as an empty one.
struct Section<'d, 'p> {
    view: Option<View<'d>>,
    pointer: &'static str,
    problems: &'p mut Vec<Problem>,
}

impl<'d> Section<'d, '_> {
    fn problem(&mut self, key: &str, detail: String, suggestion: Option<String>) {
        if self.problems.len() < MOST {
            let pointer = format!("{}/{}", self.pointer, escape(key));
            self.problems.push(Problem::new(&pointer, detail, suggestion));
        }
    }

    fn wrong(&mut self, key: &str, value: View<'d>, wanted: &str) {
        self.problem(key, format!("line {}: must be {wanted}, not {}", value.line(), value.describe()), None);
    }

    fn get(&self, key: &str) -> Option<View<'d>> {
        self.view?.get(key)
    }

    /// None: absent or null, which etcd takes for absent too.
    fn scalar(&mut self, key: &str, wanted: &str) -> Option<(View<'d>, Scalar<'d>)> {
        let value = self.get(key)?;
        match value.scalar() {
            Some(Scalar::Null) => None,
            Some(scalar) => Some((value, scalar)),
            None => {
                self.wrong(key, value, wanted);
                None
            }
        }
    }

    /// Text as etcd gets it: its YAML layer turns numbers and booleans into text where text is wanted.
    fn text(&mut self, key: &str) -> Option<String> {
        let (value, scalar) = self.scalar(key, "text")?;
        match plain_text(scalar) {
            Some(text) => Some(text),
            None => {
                let detail = format!(
                    "line {}: etcd would take it for {} and spell it anew",
                    value.line(),
                    value.describe()
                );
                self.problem(key, detail, Some("put it in quotes".to_owned()));
                None
            }
        }
    }

    fn required(&mut self, key: &str) -> String {
        let before = self.problems.len();
        let text = self.text(key).unwrap_or_default();
        if text.trim().is_empty() && self.problems.len() == before {
            let keys = self.view.and_then(View::entries).into_iter().flatten().map(|(name, _)| name);
            let near = nearest(key, keys).filter(|near| *near != key && !same_key(near, key));
            let suggestion = near.map(|near| format!("write {key} instead of {near}"));
            self.problem(key, "is missing".to_owned(), suggestion);
        }
        text
    }

    fn flag(&mut self, key: &str) -> bool {
        match self.scalar(key, "true or false") {
            Some((_, Scalar::Bool(value))) => value,
            Some((value, _)) => {
                self.wrong(key, value, "true or false without quotes");
                false
            }
            None => false,
        }
    }

    fn quota(&mut self) -> u64 {
        let key = "quota-backend-bytes";
        let Some((value, scalar)) = self.scalar(key, "a number of bytes") else { return 0 };
        match whole_number(scalar) {
            Some(bytes) if bytes < 0 => u64::MAX,
            Some(bytes) => bytes.unsigned_abs(),
            None => {
                self.wrong(key, value, "a whole number of bytes without quotes");
                0
            }
        }
    }

    fn election_timeout(&mut self) -> Duration {
        let key = "election-timeout";
        let Some((value, scalar)) = self.scalar(key, "a number of milliseconds") else { return ELECTION };
        match whole_number(scalar).map(u64::try_from) {
            Some(Ok(0)) => ELECTION,
            Some(Ok(millis)) => Duration::from_millis(millis),
            Some(Err(_)) | None => {
                self.wrong(key, value, "a whole number of milliseconds without quotes");
                ELECTION
            }
        }
    }

    /// `name=url,name=url`.
    fn cluster(&mut self, text: &str) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for part in split(text) {
            match part.split_once('=') {
                Some((name, url)) if !name.trim().is_empty() && !url.trim().is_empty() => {
                    pairs.push((name.trim().to_owned(), url.trim().to_owned()));
                }
                _ => {
                    let suggestion = Some("name=https://host:2380, separated by commas".to_owned());
                    self.problem("initial-cluster", format!("{part:?} is no name with a URL"), suggestion);
                    break;
                }
            }
        }
        pairs
    }

    fn section(&mut self, key: &'static str) -> Option<View<'d>> {
        let value = self.get(key).filter(|value| value.scalar() != Some(Scalar::Null))?;
        if value.entries().is_none() {
            self.wrong(key, value, "a mapping");
            return None;
        }
        Some(value)
    }

    fn refuse_other_case(&mut self, read: &[&str]) {
        let Some(entries) = self.view.and_then(View::entries) else { return };
        for (name, value) in entries {
            if read.contains(&name) {
                continue;
            }
            if let Some(key) = read.iter().find(|key| same_key(key, name)) {
                let detail = format!("line {}: etcd takes it for {key}, whatever its case", value.line());
                self.problem(name, detail, Some(format!("write {key}")));
            }
        }
    }
}

/// None for a scalar whose text etcd would change, and for null.
pub(super) fn plain_text(scalar: Scalar<'_>) -> Option<String> {
    match scalar {
        Scalar::Text(text) => Some(text.to_owned()),
        Scalar::Int(number) => Some(number.to_string()),
        Scalar::Bool(value) => Some(value.to_string()),
        Scalar::Null | Scalar::Float(_) | Scalar::Time => None,
    }
}

/// An i64 as etcd reads one; `8e9` is a whole number to it.
pub(super) fn whole_number(scalar: Scalar<'_>) -> Option<i64> {
    match scalar {
        Scalar::Int(number) => i64::try_from(number).ok(),
        // JSON writes larger ones with an exponent, and etcd refuses those.
        Scalar::Float(number) if number.fract() == 0.0 && number.abs() < 9e18 => Some(number as i64),
        Scalar::Float(_) | Scalar::Null | Scalar::Bool(_) | Scalar::Time | Scalar::Text(_) => None,
    }
}

/// A key as a token of a JSON pointer.
pub(super) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
