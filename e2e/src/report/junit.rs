// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The run as JUnit XML, for whatever shows test results. One in which nothing ran has one failed case, since many readers
//! take an empty file for a good one.
use std::time::Duration;

use anyhow::{Context, Result};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::headline::headline;
use super::model::{Case, Run, gist, word};
use crate::outcome::{Exit, Verdict};

pub(super) fn text(run: &Run) -> Result<String> {
    let results = &run.results;
    let took =
        Duration::from_millis(results.finished.unwrap_or(results.started).saturating_sub(results.started));
    let mut suite = TestSuite::new("e2e");
    suite.set_time(took);
    for (name, value) in [
        ("verdict", headline(results)),
        ("commit", results.commit.clone()),
        ("seed", results.seed.to_string()),
        ("kubernetes", results.kubernetes.clone()),
    ] {
        suite.add_property((name, value.as_str()));
    }
    for case in &run.cases {
        suite.add_test_case(test_case(case));
    }
    if results.exit() == Exit::NothingRan {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status.set_message(headline(results));
        suite.add_test_case(named("something ran", Duration::ZERO, status));
    }
    let mut report = Report::new("etcd-wrapper e2e");
    report.set_time(took);
    report.add_test_suite(suite);
    report.to_string().context("results as JUnit XML")
}

fn test_case(case: &Case) -> TestCase {
    let outcome = &case.outcome;
    let gist = gist(outcome);
    let bad = |kind| {
        let mut status = TestCaseStatus::non_success(kind);
        let evidence = outcome
            .evidence
            .as_ref()
            .map(|path| format!("\nevidence: {}", path.display()))
            .unwrap_or_default();
        let reason = outcome.reason.as_deref().unwrap_or("no reason was told");
        status.set_type(word(outcome.verdict)).set_message(gist.as_str());
        status.set_description(format!("{reason}{evidence}"));
        status
    };
    let status = match outcome.verdict {
        Verdict::Passed => TestCaseStatus::success(),
        Verdict::Failed => bad(NonSuccessKind::Failure),
        Verdict::Hung | Verdict::Interrupted => bad(NonSuccessKind::Error),
        Verdict::Missing => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(gist.as_str());
            status
        }
    };
    let mut test = named(&outcome.name, case.took(), status);
    let notes: Vec<String> =
        case.notes.iter().map(|note| format!("{:>9.3} s  {}", note.at.as_secs_f64(), note.text)).collect();
    if !notes.is_empty() {
        test.set_system_out(notes.join("\n"));
    }
    test
}

fn named(name: &str, took: Duration, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name, status);
    case.set_classname("e2e").set_time(took);
    case
}
