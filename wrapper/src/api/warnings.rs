// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Conditions that deserve a human's eye and follow from the snapshots alone; joined with those that the stages
//! raised themselves. Restarts nothing and asks nobody.
use std::time::SystemTime;

use crate::member::view::{MemberView, Peer};
use crate::supervise::view::{CoreView, OverrideMode, Warning};
use crate::tls::TlsView;

use super::snapshot::Volume;

/// All that stand. A derived one keeps the `since` it has in `before`.
pub fn current(
    core: &CoreView,
    member: &MemberView,
    tls: &TlsView,
    volume: Option<Volume>,
    before: &[Warning],
    now: SystemTime,
) -> Vec<Warning> {
    let derived = [
        db_near_quota(member).map(|detail| ("db_near_quota", detail)),
        peer_urls_differ(core, member).map(|detail| ("peer_urls_differ", detail)),
        volume_nearly_full(volume).map(|detail| ("volume_nearly_full", detail)),
        override_without_end(core).map(|detail| ("override_without_end", detail)),
        auth_hides_status(member).map(|detail| ("auth_hides_status", detail)),
    ];
    let derived = derived.into_iter().flatten().map(|(code, detail)| {
        let since = before.iter().find(|warning| warning.code == code).map_or(now, |warning| warning.since);
        Warning { code, since, detail }
    });
    core.warnings.iter().chain(&tls.warnings).cloned().chain(derived).collect()
}

/// From 80 % of the quota on; near it etcd refuses writes with a NOSPACE alarm.
fn db_near_quota(member: &MemberView) -> Option<String> {
    let db =
        member.db.filter(|db| db.quota > 0 && db.size.saturating_mul(5) >= db.quota.saturating_mul(4))?;
    let percent = db.size.saturating_mul(100) / db.quota;
    let free = db.size.saturating_sub(db.in_use);
    Some(format!("the database holds {percent} % of its quota; a defragmentation would free {free} bytes"))
}

/// The member's own row of MemberList. None: no list, or not in it.
pub fn own_row(member: &MemberView) -> Option<&Peer> {
    let id = member.leadership.as_ref()?.member_id?;
    member.members.as_ref()?.iter().find(|peer| peer.id == id)
}

/// A peer URL that was updated takes effect only at a restart of etcd.
fn peer_urls_differ(core: &CoreView, member: &MemberView) -> Option<String> {
    let mut started = core.child.as_ref()?.config.advertise_peer_urls.clone();
    let mut known = own_row(member)?.peer_urls.clone();
    started.sort_unstable();
    known.sort_unstable();
    (started != known).then(|| {
        let (known, started) = (known.join(","), started.join(","));
        format!("the cluster knows this member at {known}, etcd was started with {started}: restart it")
    })
}

/// Below 10 % or 1 GiB, whichever is less room to spare on this volume.
fn volume_nearly_full(volume: Option<Volume>) -> Option<String> {
    const LOW: u64 = 1 << 30;
    let volume = volume?;
    let tight = volume.free_bytes < LOW || volume.free_bytes.saturating_mul(10) < volume.total_bytes;
    tight
        .then(|| format!("{} of {} bytes are free on the data volume", volume.free_bytes, volume.total_bytes))
}

fn override_without_end(core: &CoreView) -> Option<String> {
    let standing = core.override_.as_ref().filter(|standing| standing.expires_at.is_none())?;
    let mode = match standing.mode {
        OverrideMode::Ready => "ready",
        OverrideMode::Unready => "unready",
    };
    Some(format!("{} holds this member {mode} without end: {}", standing.owner, standing.reason))
}

fn auth_hides_status(member: &MemberView) -> Option<String> {
    member.auth_hides_status.then(|| {
        "etcd's authentication hides Status from the wrapper; leadership comes from etcd's metrics, without ids".into()
    })
}
