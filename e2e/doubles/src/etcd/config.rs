// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The little of etcd's configuration that the double obeys, from `--config-file` (then nothing else counts, as
//! with etcd) or from flags. Unknown keys are swallowed, as etcd does.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

/// What the double needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `name`.
    pub name: String,
    /// `data-dir`.
    pub data_dir: PathBuf,
    /// `listen-client-urls`, one by one.
    pub listen_client_urls: Vec<String>,
    /// (name, peer URL) pairs.
    pub initial_cluster: Vec<(String, String)>,
    /// Of the client section.
    pub cert_file: Option<PathBuf>,
    /// Of the client section.
    pub key_file: Option<PathBuf>,
    /// Of the client section.
    pub trusted_ca_file: Option<PathBuf>,
    /// Who comes must show a certificate.
    pub client_cert_auth: bool,
    /// 0: etcd's default.
    pub quota_backend_bytes: u64,
}

/// The path of `--config-file`, in either spelling.
pub fn config_file(arguments: &[String]) -> Option<PathBuf> {
    flags(arguments).get("config-file").map(PathBuf::from)
}

impl Config {
    /// # Errors
    /// What makes etcd exit 1: a file that cannot be read or is no YAML mapping, flags that are none, a name that
    /// is not in `initial-cluster`.
    pub fn from_arguments(arguments: &[String]) -> anyhow::Result<Self> {
        let keys = match config_file(arguments) {
            Some(path) => of_file(&path)?,
            None => flags(arguments),
        };
        let text = |key: &str| keys.get(key).filter(|value| !value.is_empty()).cloned();
        let list = |key: &str| text(key).map(|urls| urls.split(',').map(str::to_owned).collect::<Vec<_>>());
        let name = text("name").unwrap_or_else(|| "default".into());
        let initial_cluster: Vec<(String, String)> = list("initial-cluster")
            .unwrap_or_default()
            .iter()
            .filter_map(|entry| entry.split_once('='))
            .map(|(name, url)| (name.to_owned(), url.to_owned()))
            .collect();
        if !initial_cluster.is_empty() && !initial_cluster.iter().any(|(member, _)| *member == name) {
            bail!("couldn't find local name {name:?} in the initial cluster configuration");
        }
        Ok(Self {
            data_dir: text("data-dir").unwrap_or_else(|| format!("{name}.etcd")).into(),
            listen_client_urls: list("listen-client-urls")
                .unwrap_or_else(|| vec!["http://localhost:2379".into()]),
            cert_file: text("cert-file").map(Into::into),
            key_file: text("key-file").map(Into::into),
            trusted_ca_file: text("trusted-ca-file").map(Into::into),
            client_cert_auth: text("client-cert-auth").is_some_and(|value| value == "true"),
            quota_backend_bytes: text("quota-backend-bytes")
                .and_then(|bytes| bytes.parse().ok())
                .unwrap_or(0),
            initial_cluster,
            name,
        })
    }
}

fn of_file(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("open {}", path.display()))?;
    let mapping: BTreeMap<String, Value> =
        serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))?;
    let mut keys = BTreeMap::new();
    for (key, value) in mapping {
        match (key.as_str(), value) {
            // The section's keys are called as the flags are.
            ("client-transport-security", Value::Object(section)) => {
                keys.extend(section.into_iter().map(|(key, value)| (key, word(&value))));
            }
            (_, Value::Object(_)) => {}
            (_, value) => {
                keys.insert(key, word(&value));
            }
        }
    }
    Ok(keys)
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Go's flags: one or two dashes, `--f=v`, `--f v`, and a bare `--f` for true.
fn flags(arguments: &[String]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = arguments.iter().peekable();
    while let Some(argument) = rest.next() {
        let Some(flag) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            continue;
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (
                flag,
                rest.next_if(|next| !next.starts_with('-')).map_or_else(|| "true".into(), Clone::clone),
            ),
        };
        found.insert(name.to_owned(), value);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_config_file_rules_out_every_flag() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etcd.yaml");
        let text = "name: a\ndata-dir: /d\ninitial-cluster: a=http://h:1,b=http://i:2\nunknown: [1]\nclient-transport-security: {cert-file: /c, client-cert-auth: true}\npeer-transport-security: {cert-file: /p}\n";
        std::fs::write(&path, text).unwrap();
        let file = format!("--config-file={}", path.display());
        let config = Config::from_arguments(&arguments(&[&file, "--name", "b"])).unwrap();
        assert_eq!(config.name, "a");
        assert_eq!(config.cert_file, Some("/c".into()));
        assert!(config.client_cert_auth);
        assert_eq!(config.initial_cluster.len(), 2);
        assert_eq!(config.listen_client_urls, ["http://localhost:2379"]);
    }

    #[test]
    fn flags_have_gos_spellings() {
        let words = ["-name=a", "--data-dir", "/d", "--client-cert-auth", "--cert-file", "/c"];
        let config = Config::from_arguments(&arguments(&words)).unwrap();
        assert_eq!((config.name.as_str(), config.data_dir.as_path()), ("a", Path::new("/d")));
        assert!(config.client_cert_auth);
    }

    #[test]
    fn a_foreign_name_and_a_missing_file_are_refused() {
        assert!(Config::from_arguments(&arguments(&["--name=x", "--initial-cluster=a=http://h:1"])).is_err());
        assert!(Config::from_arguments(&arguments(&["--config-file=/nowhere"])).is_err());
    }
}
