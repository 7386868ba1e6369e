// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Conditions of the member that deserve a human's eye. Pure: [`find`] looks at what was published, [`Standing`]
//! remembers since when each condition holds. Nothing is done about them here: no restart follows from a warning.
use std::collections::BTreeSet;
use std::time::SystemTime;

use crate::config::EtcdConfig;
use crate::supervise::view::Warning;

use super::view::{Db, MemberView};
use super::volume::Volume;

/// Share of the quota from which the database counts as near it.
const NEAR_QUOTA_PERCENT: u64 = 80;

/// A condition that holds now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Stable snake case; part of the API.
    pub code: &'static str,
    /// For people.
    pub detail: String,
}

/// Looks for every condition of this stage. `config` is what the running generation was started with.
pub fn find(member: &MemberView, config: Option<&EtcdConfig>, volume: Option<Volume>) -> Vec<Finding> {
    let own_urls = member.own_row().map(|row| row.peer_urls.as_slice());
    let findings = [
        member.db.and_then(db_near_quota),
        config.zip(own_urls).and_then(|(config, known)| peer_urls_differ(known, &config.advertise_peer_urls)),
        member.auth_hides_status.then(auth_hides_status),
        member.version.as_deref().and_then(etcd_version_unsafe),
        volume.filter(Volume::is_nearly_full).map(volume_nearly_full),
    ];
    findings.into_iter().flatten().collect()
}

fn db_near_quota(db: Db) -> Option<Finding> {
    let used = u128::from(db.size) * 100 / u128::from(db.quota.max(1));
    (used >= u128::from(NEAR_QUOTA_PERCENT)).then(|| Finding {
        code: "db_near_quota",
        detail: format!(
            "database {} of quota {} ({used} %); a defragmentation would free {}; at the quota etcd refuses writes",
            size(db.size),
            size(db.quota),
            size(db.size.saturating_sub(db.in_use)),
        ),
    })
}

fn peer_urls_differ(known: &[String], effective: &[String]) -> Option<Finding> {
    let set = |urls: &[String]| -> BTreeSet<String> {
        urls.iter().map(|url| url.trim_end_matches('/').to_owned()).collect()
    };
    (set(known) != set(effective)).then(|| Finding {
        code: "peer_urls_differ",
        detail: format!(
            "the cluster knows this member by {}, but it was started with {}; restart it to use the new ones",
            known.join(","),
            effective.join(","),
        ),
    })
}

fn auth_hides_status() -> Finding {
    Finding {
        code: "auth_hides_status",
        detail:
            "auth is on and refuses Status to an anonymous client; leadership comes from etcd's /metrics, \
                 without term and leader id"
                .into(),
    }
}

fn etcd_version_unsafe(version: &str) -> Option<Finding> {
    matches!(version, "3.5.0" | "3.5.1" | "3.5.2").then(|| Finding {
        code: "etcd_version_unsafe",
        detail: format!(
            "etcd {version} can lose consistency when it is killed under load; use 3.5.3 or later, never SIGKILL it"
        ),
    })
}

fn volume_nearly_full(volume: Volume) -> Finding {
    Finding {
        code: "volume_nearly_full",
        detail: format!(
            "{} of {} and {} of {} inodes left on the volume of the data directory",
            size(volume.free_bytes),
            size(volume.total_bytes),
            volume.free_inodes,
            volume.total_inodes,
        ),
    }
}

/// Bytes for people.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes >> 20),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// The conditions that hold, each with the time since when.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    warnings: Vec<Warning>,
}

impl Standing {
    /// Takes what was found at `now` in place of what stood; a code that stood keeps its `since`. True when a code came
    /// or went (details may change at every look).
    pub fn update(&mut self, found: Vec<Finding>, now: SystemTime) -> bool {
        let codes = |warnings: &[Warning]| warnings.iter().map(|warning| warning.code).collect::<Vec<_>>();
        let before = codes(&self.warnings);
        let stood = std::mem::take(&mut self.warnings);
        self.warnings.extend(found.into_iter().map(|Finding { code, detail }| {
            let since =
                stood.iter().find(|warning| warning.code == code).map_or(now, |warning| warning.since);
            Warning { code, since, detail }
        }));
        codes(&self.warnings) != before
    }

    /// What stands.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

#[cfg(test)]
mod tests;
