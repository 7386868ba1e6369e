// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `/metrics` and `/health` of the double: the series that somebody beside Prometheus reads. Text only.
use std::fmt::Write as _;

use super::live::Live;
use super::script::Leader;

/// Prometheus text with etcd's names.
pub(super) fn text(live: &Live) -> String {
    let standing = live.standing();
    let script = live.script();
    let own = live.member_id();
    let quota = match live.config.quota_backend_bytes {
        0 => 2 * 1024 * 1024 * 1024,
        bytes => bytes,
    };
    let mut out = String::new();
    let mut gauge = |name: &str, labels: &str, value: u64| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# TYPE {name} gauge\n{name}{labels} {value}");
    };
    gauge("etcd_server_has_leader", "", (standing.leader != Leader::Nobody).into());
    gauge("etcd_server_is_leader", "", (live.leader_id(&standing) == own).into());
    gauge("etcd_server_is_learner", "", standing.learner.into());
    gauge("etcd_server_version", &format!("{{server_version={:?}}}", script.version.number), 1);
    gauge("etcd_server_quota_backend_bytes", "", quota);
    gauge("etcd_mvcc_db_total_size_in_bytes", "", standing.db_size);
    gauge("etcd_mvcc_db_total_size_in_use_in_bytes", "", standing.db_size_in_use);
    let others: Vec<u64> = live.members().iter().map(|member| member.id).filter(|id| *id != own).collect();
    if !others.is_empty() {
        let _ = writeln!(out, "# TYPE etcd_network_active_peers gauge");
    }
    for other in others {
        let active = script.active_peers.as_ref().is_none_or(|active| active.contains(&other));
        let labels = format!("{{Local=\"{own:x}\",Remote=\"{other:x}\"}}");
        let _ = writeln!(out, "etcd_network_active_peers{labels} {}", u8::from(active));
    }
    out
}

/// Code and body of `/health`: an alarm or a missing leader makes it 503.
pub(super) fn health(live: &Live) -> (u16, String) {
    let standing = live.standing();
    let reason = match (standing.nospace, standing.corrupt, standing.leader) {
        (true, _, _) => "ALARM NOSPACE",
        (_, true, _) => "ALARM CORRUPT",
        (_, _, Leader::Nobody) => "RAFT NO LEADER",
        _ => return (200, r#"{"health":"true","reason":""}"#.into()),
    };
    (503, format!(r#"{{"health":"false","reason":"{reason}"}}"#))
}
