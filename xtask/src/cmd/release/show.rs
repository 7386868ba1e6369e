// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a person sees of a release's steps, as text. Prints nothing itself.

use std::fmt::Write;

use crate::release::plan::Plan;

/// Commits that a plan shows; a plan as JSON has all.
const COMMITS: usize = 20;

/// The plan as a table, then what changed.
pub(super) fn plan(plan: &Plan) -> String {
    let mut rows = vec![
        ("version", plan.version.tag()),
        ("cut from", format!("{} at {}", plan.branch, &plan.commit[..plan.commit.len().min(12)])),
        ("prepared", if plan.prepared { "yes".into() } else { "no".into() }),
        ("since", plan.since.clone().unwrap_or_else(|| "the beginning: nothing was released before".into())),
        ("supported", plan.supported.join(", ")),
    ];
    rows.extend(plan.publishes.iter().map(|(what, value)| (what.as_str(), value.clone())));
    let mut text = format!("{} {}\n\n", plan.component, plan.version.tag());
    for (name, value) in rows {
        let _ = writeln!(text, "{name:<10} {value}");
    }
    let _ = writeln!(text, "\n{} commits:", plan.commits.len());
    for (name, subject) in plan.commits.iter().take(COMMITS) {
        let _ = writeln!(text, "  {name} {subject}");
    }
    if plan.commits.len() > COMMITS {
        let _ = writeln!(text, "  … and {} more; --json has all", plan.commits.len() - COMMITS);
    }
    let _ = writeln!(text, "\nchangelog:\n");
    for line in plan.changelog.lines() {
        let _ = writeln!(text, "  {line}");
    }
    for obstacle in &plan.obstacles {
        let _ = writeln!(text, "\nin the way: {obstacle}");
    }
    text
}
