// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The run as JUnit XML, for whatever shows test results. One that was empty has one failed case, since many readers
//! take an empty file for a good one.
use std::time::Duration;

use anyhow::{Context, Result};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::model::{Case, Outcome, Run};
use super::verdict::Standing;

pub(super) fn text(run: &Run) -> Result<String> {
    let mut suite = TestSuite::new("e2e");
    suite.set_time(run.took);
    for (name, value) in [
        ("verdict", run.headline()),
        ("commit", run.stage.commit.clone()),
        ("seed", run.stage.seed.to_string()),
        ("kubernetes", run.stage.kubernetes.clone()),
    ] {
        suite.add_property((name, value.as_str()));
    }
    for case in &run.cases {
        suite.add_test_case(test_case(case));
    }
    if run.standing() == Standing::Empty {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status.set_message(run.headline());
        suite.add_test_case(named("something ran", Duration::ZERO, status));
    }
    let mut report = Report::new("etcd-wrapper e2e");
    report.set_time(run.took);
    report.add_test_suite(suite);
    report.to_string().context("results as JUnit XML")
}

fn test_case(case: &Case) -> TestCase {
    let gist = case.gist();
    let status = match &case.outcome {
        Outcome::Passed => TestCaseStatus::success(),
        Outcome::Failed | Outcome::Hung => {
            let kind =
                if case.outcome == Outcome::Hung { NonSuccessKind::Error } else { NonSuccessKind::Failure };
            let mut status = TestCaseStatus::non_success(kind);
            status.set_type(case.outcome.word()).set_message(gist.as_str());
            let evidence =
                case.evidence.as_deref().map(|path| format!("\nevidence: {path}")).unwrap_or_default();
            status.set_description(format!("{}{evidence}", case.message.as_deref().unwrap_or("no message")));
            status
        }
        Outcome::Skipped(_) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(gist.as_str());
            status
        }
    };
    let mut test = named(&case.name, case.took, status);
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
