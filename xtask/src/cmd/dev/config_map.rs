// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The config map that the sidecar renders a member's config from, as etcd-druid writes it: per-member keys are
//! mappings by member name, `name` is a placeholder. Druid writes one for all members, since each has an address of
//! its own; here all share one, so each member gets a map with its own listen URLs.

use std::fmt::Write;
use std::path::Path;

use super::pki::{Pair, Pki};
use super::plan::Plan;

/// The config map of the member at `index`.
pub(super) fn render(plan: &Plan, index: usize, pki: Option<&Pki>) -> String {
    let tls = pki.is_some();
    let member = &plan.members[index];
    let mut out = String::new();
    let mut put = |line: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{line}");
    };

    put(format_args!("advertise-client-urls:"));
    for member in &plan.members {
        put(format_args!("  {}:\n  - {}", member.name, member.client_url(tls)));
    }
    put(format_args!("auto-compaction-mode: periodic"));
    put(format_args!("auto-compaction-retention: 30m"));
    put(format_args!("backend-bbolt-freelist-type: array"));
    if let Some(pki) = pki {
        put(format_args!("client-transport-security:\n{}", security(&pki.server, &pki.client_ca)));
    }
    put(format_args!("data-dir: {}", scalar(&member.data_dir())));
    put(format_args!("enable-grpc-gateway: false"));
    put(format_args!("initial-advertise-peer-urls:"));
    for member in &plan.members {
        put(format_args!("  {}:\n  - {}", member.name, member.peer_url(tls)));
    }
    let cluster: Vec<String> =
        plan.members.iter().map(|member| format!("{}={}", member.name, member.peer_url(tls))).collect();
    put(format_args!("initial-cluster: {}", cluster.join(",")));
    put(format_args!("initial-cluster-state: new"));
    put(format_args!("initial-cluster-token: etcd-cluster"));
    put(format_args!("listen-client-urls: {}", member.client_url(tls)));
    put(format_args!("listen-peer-urls: {}", member.peer_url(tls)));
    put(format_args!("metrics: basic"));
    put(format_args!("name: etcd-config"));
    put(format_args!("next-cluster-version-compatible: true"));
    if let Some(pki) = pki {
        put(format_args!("peer-transport-security:\n{}", security(&pki.peer, &pki.peer_ca)));
    }
    put(format_args!("quota-backend-bytes: 1073741824"));
    put(format_args!("snapshot-count: 10000"));
    out
}

fn security(pair: &Pair, ca: &Path) -> String {
    format!(
        "  auto-tls: false\n  cert-file: {}\n  client-cert-auth: true\n  key-file: {}\n  trusted-ca-file: {}",
        scalar(&pair.cert),
        scalar(&pair.key),
        scalar(ca)
    )
}

/// A path as a YAML scalar: plain as druid writes it where that is safe, else a JSON string, which YAML reads.
fn scalar(path: &Path) -> String {
    let path = path.to_string_lossy();
    if path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c)) {
        return path.into_owned();
    }
    serde_json::Value::from(path.as_ref()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::dev::plan::Ports;
    use serde_json::{Value, json};

    fn plan(root: &str, members: u16) -> Plan {
        let of =
            |n: u16| Ports { client: n * 10, peer: n * 10 + 1, wrapper: n * 10 + 2, sidecar: n * 10 + 3 };
        Plan::new(root.as_ref(), (1..=members).map(of).collect())
    }

    fn parsed(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn every_member_advertises_all_and_listens_alone() {
        let map = parsed(&render(&plan("/d", 3), 1, None));
        assert_eq!(map["listen-client-urls"], "http://127.0.0.1:20");
        assert_eq!(map["listen-peer-urls"], "http://127.0.0.1:21");
        assert_eq!(map["advertise-client-urls"]["dev-2"], json!(["http://127.0.0.1:30"]));
        assert_eq!(map["initial-advertise-peer-urls"]["dev-0"], json!(["http://127.0.0.1:11"]));
        let cluster = "dev-0=http://127.0.0.1:11,dev-1=http://127.0.0.1:21,dev-2=http://127.0.0.1:31";
        assert_eq!(map["initial-cluster"], cluster);
        assert_eq!(map["data-dir"], "/d/dev-1/data/new.etcd");
        assert_eq!(map.get("client-transport-security"), None);
    }

    #[test]
    fn tls_names_its_files_and_changes_every_scheme() {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::make(folder.path()).unwrap();
        let text = render(&plan("/d", 1), 0, Some(&pki));
        assert!(!text.contains("http:"), "{text}");
        let map = parsed(&text);
        let client = &map["client-transport-security"];
        assert_eq!(client["cert-file"], pki.server.cert.to_string_lossy().as_ref());
        assert_eq!(client["trusted-ca-file"], pki.client_ca.to_string_lossy().as_ref());
        assert_eq!(client["client-cert-auth"], true);
        assert_eq!(map["peer-transport-security"]["key-file"], pki.peer.key.to_string_lossy().as_ref());
    }

    #[test]
    fn a_folder_with_odd_characters_stays_what_it_is() {
        let map = parsed(&render(&plan("/a b: #\"c\"", 1), 0, None));
        assert_eq!(map["data-dir"], "/a b: #\"c\"/dev-0/data/new.etcd");
    }
}
