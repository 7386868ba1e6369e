// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What CI says of the commit.

use super::super::github::Client;
use super::Findings;

pub(super) fn look(client: &Client, commit: &str, findings: &mut Findings) {
    let Some(checks) = findings.take("ci", client.checks(commit)) else { return };
    if checks.is_empty() {
        findings
            .add("ci", format!("no check ran for {commit}; push it and wait, or look without CI: --offline"));
    }
    for check in checks.iter().filter(|check| !check.green()) {
        let how = check.conclusion.as_deref().unwrap_or(&check.status);
        findings.add("ci", format!("the check {:?} of {commit} is {how}", check.name));
    }
}
