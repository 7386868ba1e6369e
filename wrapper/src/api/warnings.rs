// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! All warnings that stand: those the stages raised themselves, and those that follow from what the member told.
//! Restarts nothing and asks nobody.
use std::time::SystemTime;

use crate::member::view::MemberView;
use crate::member::volume::Volume;
use crate::member::warnings::find;
use crate::supervise::view::{CoreView, Warning};
use crate::tls::TlsView;

/// All that stand. One that was found keeps the `since` it has in `before`.
pub fn current(
    core: &CoreView,
    member: &MemberView,
    tls: &TlsView,
    volume: Option<Volume>,
    before: &[Warning],
    now: SystemTime,
) -> Vec<Warning> {
    let config = core.child.as_ref().map(|child| &*child.config);
    let found = find(member, config, volume).into_iter().map(|finding| {
        let since =
            before.iter().find(|warning| warning.code == finding.code).map_or(now, |warning| warning.since);
        Warning { code: finding.code, since, detail: finding.detail }
    });
    core.warnings.iter().chain(&tls.warnings).cloned().chain(found).collect()
}
