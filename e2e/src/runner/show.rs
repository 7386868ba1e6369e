// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the program prints: plain lines, since logs of CI are read long afterwards. The only place that prints.
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::select::Selection;
use crate::outcome::{Exit, Results, Verdict};
use crate::report;
use crate::stage::Stage;

#[expect(clippy::print_stdout, reason = "the program's own output")]
pub(crate) fn line(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "the program's own complaints")]
pub(crate) fn complain(text: &str) {
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
pub(crate) fn indented(text: &str) {
    for each in text.lines() {
        line(&format!("    {each}"));
    }
}

/// Draws the page and the JUnit file, and shows the run as a table.
pub(crate) fn summary(results: &Results, folder: &Path) -> Result<()> {
    let page = report::draw(folder)?;
    line("");
    line(report::table(results, std::io::stdout().is_terminal()).trim_end());
    line(&format!("page: {}", page.display()));
    match results.exit() {
        Exit::Passed | Exit::Failed | Exit::NothingRan | Exit::Usage => {}
        Exit::PartlyRan => line("passed, and NOT all that was selected ran: exit code 3"),
        Exit::Interrupted => line("INTERRUPTED: what stands above is not all that was selected"),
    }
    Ok(())
}
