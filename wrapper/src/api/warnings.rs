// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Conditions that deserve a human's eye and follow from the snapshots alone; joined with those that the stages
//! raised themselves. Restarts nothing and asks nobody.
use std::time::SystemTime;

use crate::member::view::MemberView;
use crate::member::volume::Volume;
use crate::member::warnings;
use crate::supervise::view::{CoreView, OverrideMode, Warning};
use crate::tls::TlsView;

/// All that stand. A derived one keeps the `since` it has in `before`.
pub fn current(
    core: &CoreView,
    member: &MemberView,
    tls: &TlsView,
    volume: Option<Volume>,
    before: &[Warning],
    now: SystemTime,
) -> Vec<Warning> {
    let config = core.child.as_ref().map(|child| &*child.config);
    let found = warnings::find(member, config, volume).into_iter().map(|found| (found.code, found.detail));
    let override_ = override_without_end(core).map(|detail| ("override_without_end", detail));
    let derived = found.chain(override_).map(|(code, detail)| {
        let since = before.iter().find(|warning| warning.code == code).map_or(now, |warning| warning.since);
        Warning { code, since, detail }
    });
    core.warnings.iter().chain(&tls.warnings).cloned().chain(derived).collect()
}

fn override_without_end(core: &CoreView) -> Option<String> {
    let standing = core.override_.as_ref().filter(|standing| standing.expires_at.is_none())?;
    let mode = match standing.mode {
        OverrideMode::Ready => "ready",
        OverrideMode::Unready => "unready",
    };
    Some(format!("{} holds this member {mode} without end: {}", standing.owner, standing.reason))
}
