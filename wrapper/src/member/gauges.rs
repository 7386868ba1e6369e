// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Reads the few gauges we need out of etcd's `/metrics` page (Prometheus text). Pure; skips all else, since the page
//! has some 150 KB.
use std::collections::{BTreeMap, BTreeSet};

use super::view::short_version;

/// Far more than a cluster can have; whoever answers in etcd's place must not fill our memory.
const MOST_PEERS: usize = 256;

/// What the page tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// `etcd_server_id`.
    pub member_id: Option<u64>,
    /// `etcd_server_is_leader`.
    pub is_leader: bool,
    /// `etcd_server_has_leader`.
    pub has_leader: bool,
    /// `etcd_server_is_learner`; absent in old versions.
    pub is_learner: Option<bool>,
    /// Of etcd, out of a label.
    pub version: Option<String>,
    /// Bytes allocated.
    pub db_size: Option<u64>,
    /// Bytes in use.
    pub db_in_use: Option<u64>,
    /// Bytes at which etcd refuses writes.
    pub db_quota: Option<u64>,
    /// Ids of the members with which this one has a living peer connection, itself excepted.
    pub active_peers: BTreeSet<u64>,
    /// How often this one has lost its connections with each other member since it began (3.4 to 3.7).
    pub disconnects: BTreeMap<u64, u64>,
}

/// The page is not one of an etcd's client listener.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {0} in the page")]
pub struct Missing(&'static str);

/// Reads a page. Without the two leader gauges it is no page of etcd.
pub fn parse(page: &str) -> Result<Gauges, Missing> {
    let mut gauges = Gauges::default();
    let (mut is_leader, mut has_leader) = (None, None);
    for line in page.lines().filter(|line| line.starts_with("etcd_")) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let on = value > 0.0;
        match name {
            "etcd_server_is_leader" => is_leader = Some(on),
            "etcd_server_has_leader" => has_leader = Some(on),
            "etcd_server_is_learner" => gauges.is_learner = Some(on),
            "etcd_server_id" => gauges.member_id = label(labels, "server_id").and_then(id),
            "etcd_server_version" => gauges.version = label(labels, "server_version").map(short_version),
            "etcd_mvcc_db_total_size_in_bytes" => gauges.db_size = Some(whole(value)),
            "etcd_mvcc_db_total_size_in_use_in_bytes" => gauges.db_in_use = Some(whole(value)),
            "etcd_server_quota_backend_bytes" => gauges.db_quota = Some(whole(value)).filter(|b| *b > 0),
            "etcd_network_active_peers" if on && gauges.active_peers.len() < MOST_PEERS => {
                gauges.active_peers.extend(label(labels, "Remote").and_then(id));
            }
            "etcd_network_disconnected_peers_total" if gauges.disconnects.len() < MOST_PEERS => {
                gauges.disconnects.extend(label(labels, "Remote").and_then(id).map(|id| (id, whole(value))));
            }
            _ => {}
        }
    }
    gauges.is_leader = is_leader.ok_or(Missing("etcd_server_is_leader"))?;
    gauges.has_leader = has_leader.ok_or(Missing("etcd_server_has_leader"))?;
    Ok(gauges)
}

/// The value of `name` in `a="x",b="y"}`. etcd's label values here hold no quotes.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.trim_end_matches('}').split(',').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let value = value.strip_prefix('"')?.strip_suffix('"')?;
        (key == name && !value.contains('"')).then_some(value)
    })
}

fn id(hex: &str) -> Option<u64> {
    let digits = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(hex, 16).ok().filter(|_| digits)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates; sizes and counts are far below 2^53"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a 3.5.35 member of three, one of its peers gone.
    const PAGE: &str = r#"# HELP etcd_server_is_leader Whether or not this member is a leader. 1 if is, 0 otherwise.
# TYPE etcd_server_is_leader gauge
etcd_server_is_leader 1
etcd_server_has_leader 1
etcd_server_is_learner 0
etcd_server_id{server_id="ddd67b312462fd7b"} 1
etcd_server_version{server_version="3.5.35"} 1
etcd_server_quota_backend_bytes 2.147483648e+09
etcd_mvcc_db_total_size_in_bytes 20480
etcd_mvcc_db_total_size_in_use_in_bytes 16384
etcd_network_active_peers{Local="ddd67b312462fd7b",Remote="91bc3c398fb3c146"} 1
etcd_network_active_peers{Local="ddd67b312462fd7b",Remote="fd422379fda50e48"} 0
etcd_network_disconnected_peers_total{Local="ddd67b312462fd7b",Remote="fd422379fda50e48"} 2
etcd_server_is_leader_of_something_else 0
"#;

    #[test]
    fn the_gauges_of_a_member_are_read() {
        let gauges = parse(PAGE).unwrap();
        assert_eq!(
            gauges,
            Gauges {
                member_id: Some(0xddd6_7b31_2462_fd7b),
                is_leader: true,
                has_leader: true,
                is_learner: Some(false),
                version: Some("3.5.35".into()),
                db_size: Some(20480),
                db_in_use: Some(16384),
                db_quota: Some(2_147_483_648),
                active_peers: BTreeSet::from([0x91bc_3c39_8fb3_c146]),
                disconnects: BTreeMap::from([(0xfd42_2379_fda5_0e48, 2)]),
            }
        );
    }

    #[test]
    fn a_page_of_nonsense_costs_no_memory() {
        let mut page = PAGE.replace("3.5.35", &"3".repeat(1 << 20));
        page.extend((0..5_000).map(|n| format!("etcd_network_active_peers{{Remote=\"{n:x}\"}} 1\n")));
        page.extend(
            (0..5_000).map(|n| format!("etcd_network_disconnected_peers_total{{Remote=\"{n:x}\"}} 1\n")),
        );
        let gauges = parse(&page).unwrap();
        assert_eq!(gauges.active_peers.len(), MOST_PEERS);
        assert_eq!(gauges.disconnects.len(), MOST_PEERS);
        assert_eq!(gauges.version.unwrap().len(), 64);
    }

    #[test]
    fn a_page_without_leader_gauges_is_refused() {
        assert_eq!(parse("404 page not found\n"), Err(Missing("etcd_server_is_leader")));
        assert_eq!(parse("etcd_server_is_leader 0\n"), Err(Missing("etcd_server_has_leader")));
    }
}
