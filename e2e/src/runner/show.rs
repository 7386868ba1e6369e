// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the program prints: plain lines, since logs of CI are read long afterwards. The only place that prints.
use std::path::Path;
use std::time::Duration;

use super::select::Selection;
use crate::outcome::{Exit, Results, Verdict};
use crate::stage::Stage;

#[expect(clippy::print_stdout, reason = "the program's own output")]
pub(super) fn line(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "the program's own complaints")]
pub(super) fn complain(text: &str) {
    eprintln!("{text}");
}

/// The stage, a line an image. That the sidecar is the double stands in the very first line.
pub(super) fn stage(stage: &Stage) {
    if stage.has_double() {
        line("the sidecar is the DOUBLE: what passes says nothing about the real one");
    }
    line(&format!(
        "run {}, seed {}, commit {}, cluster {}, Kubernetes {}",
        stage.run, stage.seed, stage.commit, stage.cluster, stage.kubernetes
    ));
    for image in &stage.images {
        let role = image.role.to_string();
        line(&format!("  {role:<12} {} {} ({})", image.reference, image.digest, image.from));
    }
}

pub(super) fn expected(selection: &Selection<'_>) {
    line(&format!("to run: {}", selection.can_run.len()));
    for scenario in &selection.can_run {
        line(&format!("  {}: {}", scenario.name, scenario.about));
    }
    if selection.cannot_run.is_empty() {
        return;
    }
    line(&format!("selected, and cannot run here: {}", selection.cannot_run.len()));
    for (scenario, needs) in &selection.cannot_run {
        let needs: Vec<String> = needs.iter().map(ToString::to_string).collect();
        line(&format!("  {}: needs {}", scenario.name, needs.join(", and ")));
    }
}

/// How a scenario ended.
pub(super) fn ended(place: usize, total: usize, name: &str, verdict: Verdict, took: Duration) {
    let verdict = match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "FAILED",
        Verdict::Hung => "HUNG",
        Verdict::Missing => "cannot run",
        Verdict::Interrupted => "interrupted",
    };
    line(&format!("[{place}/{total}] {name}: {verdict} after {:.1} s", took.as_secs_f64()));
}

/// Text that belongs to the line above it.
pub(super) fn indented(text: &str) {
    for each in text.lines() {
        line(&format!("    {each}"));
    }
}

pub(super) fn summary(results: &Results, report: &Path) {
    let count = |verdict| results.count(verdict);
    let mut parts = vec![format!("{} passed", count(Verdict::Passed))];
    for (verdict, word) in [
        (Verdict::Failed, "failed"),
        (Verdict::Hung, "hung"),
        (Verdict::Missing, "could not run"),
        (Verdict::Interrupted, "interrupted"),
    ] {
        if count(verdict) > 0 {
            parts.push(format!("{} {word}", count(verdict)));
        }
    }
    let took = Duration::from_millis(results.finished.unwrap_or(results.started) - results.started);
    line(&format!("{} in {:.0} s; evidence: {}", parts.join(", "), took.as_secs_f64(), report.display()));
    let bad = [Verdict::Failed, Verdict::Hung, Verdict::Missing];
    for outcome in results.outcomes.iter().filter(|outcome| bad.contains(&outcome.verdict)) {
        let first = outcome.reason.as_deref().and_then(|reason| reason.lines().next()).unwrap_or("");
        line(&format!("  {:?} {}: {first}", outcome.verdict, outcome.name));
    }
    match results.exit() {
        Exit::Passed => line("passed"),
        Exit::PartlyRan => line("passed, and NOT all that was selected ran"),
        Exit::Failed => line("FAILED"),
        Exit::NothingRan | Exit::Usage => line("NOTHING RAN"),
        Exit::Interrupted => line("INTERRUPTED"),
    }
}
