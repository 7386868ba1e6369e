// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! How a configuration reaches etcd: as its file, byte for byte, always but in one case. etcd 3.4 and 3.5 know
//! `skip-client-san-verification` of the peer section only as a flag, and beside a file they ignore all flags, so for
//! them the whole configuration becomes flags. A key that has no flag is refused by name, never dropped.
use super::keys::{EtcdVersion, GO_FIELDS, Key, Kind, SECURITY, SOCKET, TOP, same_key};
use super::read::{document, escape, plain_text, whole_number};
use super::yaml::{Scalar, View};
use super::{ConfigError, EtcdConfig, MOST, Problem};

/// What etcd is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// `--config-file <path of the file with the configuration's bytes>` and nothing else.
    ConfigFile,
    /// These arguments and nothing else, above all no `ETCD_*` variables: unlike beside a file, etcd reads them for
    /// every flag that is not given.
    Flags(Vec<String>),
}

/// Decides how etcd `version` (None: it could not be found out) is given `config`.
///
/// # Errors
/// The configuration wants `skip-client-san-verification` for peers, and the version is unknown, older than 3.4, or
/// needs flags while a key has none.
pub fn launch(config: &EtcdConfig, version: Option<&str>) -> Result<Launch, ConfigError> {
    if !config.peer_tls.skip_client_san_verification {
        return Ok(Launch::ConfigFile);
    }
    let pointer = "/peer-transport-security/skip-client-san-verification";
    let Some(version) = version.and_then(EtcdVersion::parse) else {
        let found = version.unwrap_or("unknown");
        return Err(ConfigError::one(
            pointer,
            format!(
                "etcd's version is {found:?}, and whether this key works depends on it: before 3.6 etcd ignores it \
                 in a file"
            ),
        ));
    };
    match (version.major, version.minor) {
        (3, 4 | 5) => flags(config, version).map(Launch::Flags),
        (major, minor) if (major, minor) > (3, 5) => Ok(Launch::ConfigFile),
        (major, minor) => Err(ConfigError::one(
            pointer,
            format!("etcd {major}.{minor} cannot skip the verification of client SANs: use 3.4 or later"),
        )),
    }
}

/// Whether anything about a start with this configuration hangs on etcd's version: how it is given to etcd (see
/// [`launch`]), or where etcd serves its pages (see [`super::http_endpoint`]).
pub fn hangs_on_version(config: &EtcdConfig) -> bool {
    config.peer_tls.skip_client_san_verification || !config.listen_client_http_urls.is_empty()
}

/// Values that flags default to, but a file does not: (key, value that the file's silence stands for, lines).
const SILENCE: &[(&str, &str, &[u16])] = &[
    ("advertise-client-urls", "http://localhost:2379", &[4, 5]),
    ("auto-compaction-mode", "", &[4, 5]),
    ("tls-min-version", "", &[4, 5]),
    ("enable-grpc-gateway", "false", &[4]),
];

fn flags(config: &EtcdConfig, version: EtcdVersion) -> Result<Vec<String>, ConfigError> {
    let document = document(&config.bytes)?;
    let mut bridge = Bridge { version, flags: Vec::new(), problems: Vec::new() };
    for (name, value) in document.root().entries().into_iter().flatten() {
        bridge.top(name, value);
    }
    for (name, value, lines) in SILENCE {
        let known = bridge.find(name, TOP).is_some();
        let given = bridge.flags.iter().any(|flag| flag.starts_with(&format!("--{name}=")));
        if known && !given && lines.contains(&version.minor) {
            bridge.flags.push(format!("--{name}={value}"));
        }
    }
    bridge.flags.push("--experimental-peer-skip-client-san-verification=true".to_owned());
    if bridge.problems.is_empty() { Ok(bridge.flags) } else { Err(ConfigError { problems: bridge.problems }) }
}

struct Bridge {
    version: EtcdVersion,
    flags: Vec<String>,
    problems: Vec<Problem>,
}

impl Bridge {
    fn refuse(&mut self, pointer: &str, why: &str) {
        if self.problems.len() < MOST {
            let detail = format!(
                "skip-client-san-verification needs the whole configuration as flags on etcd {}.{}, and {why}",
                self.version.major, self.version.minor
            );
            self.problems.push(Problem::new(pointer, detail, None));
        }
    }

    fn find(&self, name: &str, table: &'static [Key]) -> Option<&'static Key> {
        let line = self.version.line()?;
        table.iter().find(|key| key.name == name && key.known_to(line, self.version.patch))
    }

    /// A key that this etcd does not know, and so would have ignored in a file too, is left out; `unknown_keys` tells.
    /// None also when the key was refused.
    fn is_known(&mut self, name: &str, pointer: &str, table: &'static [Key]) -> Option<&'static Key> {
        if let Some(key) = self.find(name, table) {
            return Some(key);
        }
        let line = self.version.line()?;
        let patch = self.version.patch;
        let meant = table.iter().find(|key| same_key(key.name, name) && key.known_to(line, patch));
        if meant.is_some() || GO_FIELDS.iter().any(|field| same_key(field, name)) {
            self.refuse(pointer, "this spelling of a key has no flag");
        }
        None
    }

    fn top(&mut self, name: &str, value: View<'_>) {
        let pointer = format!("/{}", escape(name));
        let Some(key) = self.is_known(name, &pointer, TOP) else { return };
        match name {
            "client-transport-security" => self.section(value, &pointer, SECURITY, client_flag),
            "peer-transport-security" => self.section(value, &pointer, SECURITY, peer_flag),
            "socket-options" => self.section(value, &pointer, SOCKET, socket_flag),
            // The flag is spelled otherwise.
            "experimental-snapshot-catch-up-entries" => {
                self.flag("experimental-snapshot-catchup-entries", key.kind, value, &pointer);
            }
            // 0 in a file means 1; 0 in a flag means 0.
            "self-signed-cert-validity" if value.scalar().and_then(whole_number) == Some(0) => {}
            _ => self.flag(name, key.kind, value, &pointer),
        }
    }

    fn section(
        &mut self,
        mapping: View<'_>,
        pointer: &str,
        table: &'static [Key],
        flag_of: fn(&str) -> Option<String>,
    ) {
        for (name, value) in mapping.entries().into_iter().flatten() {
            let pointer = format!("{pointer}/{}", escape(name));
            let Some(key) = self.is_known(name, &pointer, table) else { continue };
            match flag_of(name) {
                Some(flag) => self.flag(&flag, key.kind, value, &pointer),
                None if is_unset(value) => {}
                None => self.refuse(&pointer, "this key has none"),
            }
        }
    }

    fn flag(&mut self, flag: &str, kind: Kind, value: View<'_>, pointer: &str) {
        if value.scalar() == Some(Scalar::Null) {
            return;
        }
        match text_of(kind, value) {
            Ok(Some(text)) => self.flags.push(format!("--{flag}={text}")),
            Ok(None) => {}
            Err(wanted) => {
                let why = format!("this value (line {}, {}) is not {wanted}", value.line(), value.describe());
                self.refuse(pointer, &why);
            }
        }
    }
}

/// The text of a flag's value; None when the file's value means "not set".
fn text_of(kind: Kind, value: View<'_>) -> Result<Option<String>, &'static str> {
    let scalar = value.scalar();
    match kind {
        Kind::Text => scalar.and_then(plain_text).map(Some).ok_or("text"),
        Kind::Defaulted => {
            scalar.and_then(plain_text).map(|text| Some(text).filter(|text| !text.is_empty())).ok_or("text")
        }
        Kind::Bool => match scalar {
            Some(Scalar::Bool(value)) => Ok(Some(value.to_string())),
            _ => Err("true or false"),
        },
        Kind::Number => {
            scalar.and_then(whole_number).map(|number| Some(number.to_string())).ok_or("a whole number")
        }
        Kind::Nanos => {
            let number = scalar.and_then(whole_number).ok_or("a whole number of nanoseconds")?;
            Ok(Some(format!("{number}ns")))
        }
        Kind::List => list(value),
        Kind::Section | Kind::Other => Err("representable as a flag"),
    }
}

fn list(value: View<'_>) -> Result<Option<String>, &'static str> {
    let wanted = "a list of texts without commas";
    let Some(elements) = value.elements() else {
        // Some 3.5 releases take one text here.
        return value.scalar().and_then(plain_text).map(Some).ok_or(wanted);
    };
    let mut texts = Vec::new();
    for element in elements {
        match element.scalar().and_then(plain_text) {
            Some(text) if !text.contains(',') => texts.push(text),
            _ => return Err(wanted),
        }
    }
    Ok(Some(texts.join(",")).filter(|text| !text.is_empty()))
}

/// A value that changes nothing: there is no need for a flag.
fn is_unset(value: View<'_>) -> bool {
    match value.scalar() {
        Some(scalar) => matches!(scalar, Scalar::Null | Scalar::Bool(false) | Scalar::Text("")),
        None => value.elements().is_some_and(|mut elements| elements.next().is_none()),
    }
}

fn client_flag(key: &str) -> Option<String> {
    match key {
        "allowed-hostname" => Some("client-cert-allowed-hostname".to_owned()),
        // Flags know an allowed CN for peers only.
        "allowed-cn" => None,
        key => Some(key.to_owned()),
    }
}

fn peer_flag(key: &str) -> Option<String> {
    match key {
        "allowed-cn" | "allowed-hostname" => Some(format!("peer-cert-{key}")),
        key => Some(format!("peer-{key}")),
    }
}

fn socket_flag(key: &str) -> Option<String> {
    Some(format!("socket-{key}"))
}

#[cfg(test)]
mod tests;
