// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Turns druid's config map into the `/config` of one member, as the sidecar does: its name, its own URLs, the
//! cluster as far as it is known, keys sorted. Knows no HTTP.
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use serde_json::{Map, Value};

/// The content of druid's `etcd.conf.yaml` (one for all members).
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigMap {
    keys: Map<String, Value>,
}

impl ConfigMap {
    /// # Errors
    /// When the text is no YAML mapping.
    pub fn from_yaml(text: &str) -> anyhow::Result<Self> {
        match serde_saphyr::from_str(text).context("no YAML")? {
            Value::Object(keys) => Ok(Self { keys }),
            other => bail!("no mapping of config keys, but {other}"),
        }
    }

    /// # Errors
    /// When the file cannot be read or holds no YAML mapping.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("read config map {}", path.display()))?;
        Self::from_yaml(&text).with_context(|| format!("parse config map {}", path.display()))
    }

    /// A cluster of one on loopback, without TLS.
    pub fn single(member: &str, data_dir: &Path, client_port: u16, peer_port: u16) -> Self {
        let client = format!("http://127.0.0.1:{client_port}");
        let peer = format!("http://127.0.0.1:{peer_port}");
        let keys = [
            ("name", Value::from("etcd-config")),
            ("data-dir", data_dir.to_string_lossy().into()),
            ("listen-client-urls", client.as_str().into()),
            ("listen-peer-urls", peer.as_str().into()),
            ("advertise-client-urls", serde_json::json!({member: [client]})),
            ("initial-advertise-peer-urls", serde_json::json!({member: [peer]})),
            ("initial-cluster", format!("{member}={peer}").into()),
            ("initial-cluster-state", "new".into()),
            ("initial-cluster-token", "etcd-cluster".into()),
            ("enable-grpc-gateway", false.into()),
            ("metrics", "basic".into()),
            ("snapshot-count", 10_000.into()),
        ];
        Self { keys: keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect() }
    }

    /// Adds or replaces a key; a mapping (a TLS section) is given as a JSON object.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.keys.insert(key.into(), value.into());
        self
    }

    /// Leaves a key out.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.keys.remove(key);
        self
    }

    /// The file for the pod `pod`. `known`: members the cluster lists by now, when it can be asked and has more
    /// than one; `learner`: one of them is a learner.
    ///
    /// # Errors
    /// When the config map does not know the pod's URLs: the sidecar answers 500 then.
    pub fn render(&self, pod: &str, known: Option<&[String]>, learner: bool) -> anyhow::Result<String> {
        let member = self.member_name(pod);
        let mut served = self.keys.clone();
        for key in ["initial-advertise-peer-urls", "advertise-client-urls"] {
            served.insert(key.into(), self.urls_of(key, &member)?.join(",").into());
        }
        let cluster = self.initial_cluster();
        let cluster = match known {
            Some(known) if known.len() > 1 => cluster
                .split(',')
                .filter(|entry| {
                    let name = entry.split('=').next().unwrap_or_default();
                    name == member || known.iter().any(|one| one == name)
                })
                .collect::<Vec<_>>()
                .join(","),
            _ => cluster.to_owned(),
        };
        let existing = learner && cluster.split(',').count() > 1;
        served.insert("initial-cluster".into(), cluster.into());
        served.insert("initial-cluster-state".into(), if existing { "existing" } else { "new" }.into());
        served.insert("name".into(), member.into());
        Ok(yaml(&served))
    }

    /// The pod's member: its own name, behind `member-name-prefix` where there is one.
    pub fn member_name(&self, pod: &str) -> String {
        match self.keys.get("member-name-prefix") {
            Some(Value::String(prefix)) if !prefix.is_empty() => format!("{prefix}-{pod}"),
            _ => pod.to_owned(),
        }
    }

    /// Names of all members that the cluster is meant to have, in the order of `initial-cluster`.
    pub fn member_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for entry in self.initial_cluster().split(',') {
            let name = entry.split('=').next().unwrap_or_default();
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// What a member (by its own name, not its pod's) advertises to its peers.
    ///
    /// # Errors
    /// When the config map does not know the member.
    pub fn peer_urls(&self, member: &str) -> anyhow::Result<Vec<String>> {
        self.urls_of("initial-advertise-peer-urls", member)
    }

    /// What a member (by its own name) advertises to clients.
    ///
    /// # Errors
    /// When the config map does not know the member.
    pub fn client_urls(&self, member: &str) -> anyhow::Result<Vec<String>> {
        self.urls_of("advertise-client-urls", member)
    }

    fn initial_cluster(&self) -> &str {
        self.keys.get("initial-cluster").and_then(Value::as_str).unwrap_or_default()
    }

    fn urls_of(&self, key: &str, member: &str) -> anyhow::Result<Vec<String>> {
        let urls = self
            .keys
            .get(key)
            .and_then(|members| members.get(member))
            .and_then(Value::as_array)
            .filter(|urls| !urls.is_empty())
            .ok_or_else(|| anyhow!("{key} has no entry for member {member}"))?;
        Ok(urls.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }
}

/// Block YAML with sorted keys and lists at their key's depth, as the sidecar's writer gives it.
fn yaml(keys: &Map<String, Value>) -> String {
    let mut out = String::new();
    write_mapping(&mut out, keys, 0);
    out
}

fn write_mapping(out: &mut String, keys: &Map<String, Value>, depth: usize) {
    let mut sorted: Vec<_> = keys.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(b.0));
    let pad = "  ".repeat(depth);
    for (key, value) in sorted {
        let key = scalar(&Value::from(key.as_str()));
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                // Writing to a String cannot fail.
                let _ = writeln!(out, "{pad}{key}:");
                write_mapping(out, inner, depth + 1);
            }
            Value::Array(items) if !items.is_empty() => {
                let _ = writeln!(out, "{pad}{key}:");
                for item in items {
                    let _ = writeln!(out, "{pad}- {}", scalar(item));
                }
            }
            other => {
                let _ = writeln!(out, "{pad}{key}: {}", scalar(other));
            }
        }
    }
}

/// A scalar that reads back as the same type; whatever is not plain becomes JSON, which YAML contains.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Text that no YAML reader takes for something else: a leading digit needs a letter that no number has.
fn is_plain(text: &str) -> bool {
    let starts_well = match text.chars().next() {
        Some('0'..='9') => text.contains(|c: char| "ghijklmnpqrstuvwyz".contains(c)),
        Some(first) => first.is_ascii_alphabetic() || first == '/',
        None => false,
    };
    let chars_fit = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:,=[]*@+%".contains(c));
    let reserved = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    starts_well
        && chars_fit
        && !text.ends_with(':')
        && !reserved.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = "\
advertise-client-urls:
  red-0:
  - https://red-0.red-peer:2379
  - https://red-0.example.org:2379
  red-1:
  - https://red-1.red-peer:2379
client-transport-security:
  client-cert-auth: true
  cert-file: /ssl/tls.crt
data-dir: /var/data/new.etcd
initial-advertise-peer-urls:
  red-0:
  - https://red-0.red-peer:2380
  red-1:
  - https://red-1.red-peer:2380
initial-cluster: red-0=https://red-0.red-peer:2380,red-1=https://red-1.red-peer:2380
initial-cluster-state: new
auto-compaction-retention: 30m
name: etcd-config
quota-backend-bytes: 1073741824
odd: \"1.10\"
";

    #[test]
    fn a_member_gets_its_name_and_urls_with_sorted_keys() {
        let served = ConfigMap::from_yaml(THREE).unwrap().render("red-0", None, false).unwrap();
        assert_eq!(
            served,
            "\
advertise-client-urls: https://red-0.red-peer:2379,https://red-0.example.org:2379
auto-compaction-retention: 30m
client-transport-security:
  cert-file: /ssl/tls.crt
  client-cert-auth: true
data-dir: /var/data/new.etcd
initial-advertise-peer-urls: https://red-0.red-peer:2380
initial-cluster: red-0=https://red-0.red-peer:2380,red-1=https://red-1.red-peer:2380
initial-cluster-state: new
name: red-0
odd: \"1.10\"
quota-backend-bytes: 1073741824
"
        );
    }

    #[test]
    fn a_growing_cluster_lists_only_members_known_so_far() {
        let map = ConfigMap::from_yaml(THREE).unwrap();
        let known = ["red-0".to_owned(), "red-9".to_owned()];
        let served = map.render("red-0", Some(&known), true).unwrap();
        assert!(served.contains("initial-cluster: red-0=https://red-0.red-peer:2380\n"), "{served}");
        let joining = map.render("red-1", Some(&known), true).unwrap();
        assert!(joining.contains(",red-1=https://red-1.red-peer:2380\n"), "{joining}");
        assert!(joining.contains("initial-cluster-state: existing\n"), "{joining}");
    }

    #[test]
    fn a_prefix_becomes_part_of_the_name_and_stays_in_the_file() {
        let map = ConfigMap::single("blue-etcd-0", Path::new("/d"), 1, 2).with("member-name-prefix", "blue");
        let served = map.render("etcd-0", None, false).unwrap();
        assert!(served.contains("name: blue-etcd-0\n"), "{served}");
        assert!(served.contains("member-name-prefix: blue\n"), "{served}");
    }

    #[test]
    fn members_and_their_urls_can_be_asked_for() {
        let map = ConfigMap::from_yaml(THREE).unwrap();
        assert_eq!(map.member_names(), ["red-0", "red-1"]);
        assert_eq!(map.peer_urls("red-1").unwrap(), ["https://red-1.red-peer:2380"]);
        assert_eq!(map.client_urls("red-0").unwrap().len(), 2);
        let twice = map.with("initial-cluster", "a=http://1:1,a=http://2:1,b=http://3:1");
        assert_eq!(twice.member_names(), ["a", "b"], "a member with two URLs is one member");
    }

    #[test]
    fn a_pod_without_urls_has_no_config() {
        assert!(ConfigMap::from_yaml(THREE).unwrap().render("red-7", None, false).is_err());
    }
}
