// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The first line of every report: what the run is worth in words, and with what it was reached.
use std::fmt::Write as _;

use super::model::gist;
use crate::outcome::{Exit, Outcome, Results, Verdict};
use crate::stage::{Image, Role};

/// One line. It names what failed, what hung, what could not run and why, and where sidecar and wrapper came from: the
/// sidecar decides what a pass is worth.
pub fn headline(results: &Results) -> String {
    let named = |verdict| -> Vec<&Outcome> {
        results.outcomes.iter().filter(|outcome| outcome.verdict == verdict).collect()
    };
    let all = results.outcomes.len();
    let mut parts = Vec::new();
    if results.finished.is_none() {
        parts.push("THE RUN DID NOT END, and what follows is what it came to".to_owned());
    }
    for (verdict, words) in [(Verdict::Failed, "FAILED"), (Verdict::Hung, "did not end")] {
        let bad = named(verdict);
        if !bad.is_empty() {
            parts.push(format!("{} of {all} {words}: {}", bad.len(), names(&bad)));
        }
    }
    let passed = results.count(Verdict::Passed);
    match results.exit() {
        Exit::NothingRan => parts.push("NOTHING RAN: this shows nothing about the image".to_owned()),
        Exit::Failed => parts.push(format!("{passed} passed")),
        Exit::Interrupted => parts.push(format!("INTERRUPTED; {passed} of {all} passed")),
        Exit::Passed | Exit::PartlyRan | Exit::Usage => parts.push(format!("{passed} of {all} passed")),
    }
    let missing = named(Verdict::Missing);
    if !missing.is_empty() {
        parts.push(format!("{} could not run here: {}", missing.len(), reasons(&missing)));
    }
    for role in [Role::Sidecar, Role::Wrapper] {
        parts.extend(results.images.iter().filter(|image| image.role == role).map(described));
    }
    parts.join("; ")
}

fn names(outcomes: &[&Outcome]) -> String {
    outcomes.iter().map(|outcome| outcome.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Names under the reason that they share.
fn reasons(outcomes: &[&Outcome]) -> String {
    let mut groups: Vec<(String, Vec<&Outcome>)> = Vec::new();
    for outcome in outcomes {
        let why = gist(outcome);
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, group)) => group.push(outcome),
            None => groups.push((why, vec![outcome])),
        }
    }
    let mut text = String::new();
    for (why, group) in groups {
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{comma}{} ({why})", names(&group));
    }
    text
}

fn described(image: &Image) -> String {
    // Enough of a digest to tell images apart; all of it stands in the table of images.
    let digest: String = image.digest.chars().take("sha256:".len() + 12).collect();
    format!("{}: {}, {digest}", image.role, image.from)
}
