// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a whole run is worth, in one line.
use std::fmt::Write as _;

use super::model::{Case, Image, Outcome, Run};

/// What a whole run is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Everything that was selected passed.
    Passed,
    /// What could run passed, and something that was selected could not run here.
    Partly,
    Failed,
    /// Nothing ran: a failure too, for it shows nothing.
    Empty,
}

impl Run {
    pub fn standing(&self) -> Standing {
        let count = |is: fn(&Outcome) -> bool| self.cases.iter().filter(|case| is(&case.outcome)).count();
        let bad = count(|outcome| matches!(outcome, Outcome::Failed | Outcome::Hung));
        let passed = count(|outcome| matches!(outcome, Outcome::Passed));
        match (bad, passed, self.cases.len() - bad - passed) {
            (1.., ..) => Standing::Failed,
            (0, 0, _) => Standing::Empty,
            (0, _, 0) => Standing::Passed,
            (0, ..) => Standing::Partly,
        }
    }

    /// The first line of every report: the verdict in words, and with what it was reached.
    pub fn headline(&self) -> String {
        let named = |is: fn(&Outcome) -> bool| -> Vec<&Case> {
            self.cases.iter().filter(|case| is(&case.outcome)).collect()
        };
        let failed = named(|outcome| matches!(outcome, Outcome::Failed));
        let hung = named(|outcome| matches!(outcome, Outcome::Hung));
        let skipped = named(|outcome| matches!(outcome, Outcome::Skipped(_)));
        let passed = named(|outcome| matches!(outcome, Outcome::Passed)).len();
        let all = self.cases.len();
        let mut parts = Vec::new();
        if !failed.is_empty() {
            parts.push(format!("{} of {all} FAILED: {}", failed.len(), names(&failed)));
        }
        if !hung.is_empty() {
            parts.push(format!("{} did not end: {}", hung.len(), names(&hung)));
        }
        match self.standing() {
            Standing::Empty => parts.push("NOTHING RAN: this shows nothing about the image".to_owned()),
            Standing::Passed | Standing::Partly => parts.push(format!("{passed} of {all} passed")),
            Standing::Failed => parts.push(format!("{passed} passed")),
        }
        if !skipped.is_empty() {
            parts.push(format!("{} could not run here: {}", skipped.len(), reasons(&skipped)));
        }
        // The sidecar decides what a pass is worth; the wrapper is what was tried.
        for role in ["sidecar", "wrapper"] {
            let images = self.stage.images.iter().filter(|image| image.role == role);
            parts.extend(images.map(described));
        }
        parts.join("; ")
    }
}

fn names(cases: &[&Case]) -> String {
    cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Names under the reason that they share.
fn reasons(cases: &[&Case]) -> String {
    let mut groups: Vec<(String, Vec<&Case>)> = Vec::new();
    for case in cases {
        let why = case.gist();
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, group)) => group.push(case),
            None => groups.push((why, vec![case])),
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
    format!("{}: {}, {digest}", image.role, image.origin.word())
}
