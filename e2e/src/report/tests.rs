// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The reports of a made-up run, and of runs that went wrong in other ways.
#[path = "../../examples/report/example.rs"]
mod example;

use std::sync::LazyLock;
use std::time::Duration;

use super::page;
use super::*;

/// Made once: its histories take their time.
static EXAMPLE: LazyLock<Run> = LazyLock::new(example::run);

fn case(name: &str, outcome: Outcome) -> Case {
    Case { name: name.into(), outcome, ..EXAMPLE.cases[0].clone() }
}

fn run(outcomes: &[Outcome]) -> Run {
    let cases =
        outcomes.iter().enumerate().map(|(number, outcome)| case(&format!("c{number}"), outcome.clone()));
    Run { cases: cases.collect(), ..EXAMPLE.clone() }
}

fn skipped(why: &str) -> Outcome {
    Outcome::Skipped(why.into())
}

#[test]
fn the_first_line_is_the_verdict_and_the_colour_agrees() {
    use Outcome::{Failed, Hung, Passed};
    use Standing::{Empty, Partly};
    for (outcomes, standing, words) in [
        (
            &[Passed, Passed][..],
            Standing::Passed,
            "2 of 2 passed; sidecar: double, sha256:0d9b77f30d9b; wrapper: built",
        ),
        (
            &[Passed, skipped("needs a"), skipped("needs a"), skipped("needs b")],
            Partly,
            "1 of 4 passed; 3 could not run here: c1, c2 (needs a), c3 (needs b); ",
        ),
        (
            &[Passed, Failed, skipped("x")],
            Standing::Failed,
            "1 of 3 FAILED: c1; 1 passed; 1 could not run here: c2 (x); ",
        ),
        (&[Hung], Standing::Failed, "1 did not end: c0; 0 passed; "),
        (&[], Empty, "NOTHING RAN: "),
        (
            &[skipped("x")],
            Empty,
            "NOTHING RAN: this shows nothing about the image; 1 could not run here: c0 (x); ",
        ),
    ] {
        let run = run(outcomes);
        assert!(run.headline().starts_with(words), "{}", run.headline());
        assert_eq!(run.standing(), standing, "{}", run.headline());
        assert!(page::text(&run).contains(&format!("<h1 class=\"{}\">", class(standing))));
        assert!(table(&run, false).starts_with(&run.headline()));
    }
}

fn class(standing: Standing) -> &'static str {
    match standing {
        Standing::Passed => "passed",
        Standing::Partly => "skipped",
        Standing::Failed | Standing::Empty => "failed",
    }
}

#[test]
fn the_page_needs_nothing_else_and_foreign_text_stays_text() {
    let page = page::text(&EXAMPLE);
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert(1)"));
    assert!(!page.contains('\u{1b}'));
    for outside in ["<link", "src=", "@import", "url(", "http://", "https://"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<script>").count(), 1);
}

#[test]
fn a_stranger_sees_why_a_scenario_failed() {
    let page = page::text(&EXAMPLE);
    let failed = page.find("id=\"case-8\" open").unwrap();
    assert!(page.find("id=\"case-0\"").unwrap() > failed, "what needs a look comes first");
    let section = &page[failed..page[failed..].find("id=\"case-9\"").unwrap() + failed];
    for words in [
        "etcd-0 was ready at 52.4 s, while it had no quorum",
        "href=\"cases/partition_of_two_members\"",
        "partition of etcd-1 at 40.000 s, for 20.00 s",
        "no leader",
        "class=\"ph-backoff\"",
        "class=\"op unknown\"",
        "no write acknowledged for",
        "history: NOT linearizable",
        "the answer is stale, or the later write is lost",
        "(number 119)",
    ] {
        assert!(section.contains(words), "{words}");
    }
    assert!(!section.contains("(number 10)"), "only the end of a log");
}

#[test]
fn junit_says_the_same_and_an_empty_run_is_a_failure() {
    let text = junit::text(&EXAMPLE).unwrap();
    let report = quick_junit::Report::deserialize_from_str(&text).unwrap();
    let suite = &report.test_suites[0];
    assert_eq!((suite.tests, suite.failures, suite.errors, suite.skipped), (12, 1, 1, 2));
    assert!(text.contains("evidence: cases/full_volume"));
    let empty = junit::text(&run(&[])).unwrap();
    let report = quick_junit::Report::deserialize_from_str(&empty).unwrap();
    assert_eq!((report.test_suites[0].tests, report.test_suites[0].failures), (1, 1));
    assert!(empty.contains("NOTHING RAN"));
}

#[test]
fn the_table_is_plain_unless_colour_is_asked_for() {
    let plain = table(&EXAMPLE, false);
    assert!(!plain.contains('\u{1b}') && plain.contains("failed   partition_of_two_members"));
    assert!(plain.contains("         evidence: cases/full_volume\n"));
    assert!(table(&EXAMPLE, true).contains("\u{1b}[31mfailed \u{1b}[0m"));
    assert_eq!(
        [59.94, 59.96, 119.9, 3600.0].map(terminal::time),
        ["59.9 s", "60.0 s", "2 min 00 s", "60 min 00 s"]
    );
}

#[test]
fn a_page_stays_small_whatever_is_put_in() {
    let mut run = EXAMPLE.clone();
    let mut huge = run.cases[8].clone();
    huge.message = Some("x".repeat(1_000_000));
    huge.logs = vec![Tail { name: "l".into(), lines: vec!["y".repeat(5_000); 200] }; 40];
    run.cases = vec![huge];
    let size = page::text(&run).len();
    assert!(size < 700_000, "{size}");
}

#[test]
fn a_case_without_anything_recorded_is_a_page_too() {
    let mut run = run(&[Outcome::Failed]);
    let case = &mut run.cases[0];
    (case.timeline, case.took, case.message, case.evidence) =
        (Timeline::default(), Duration::ZERO, None, None);
    let page = page::text(&run);
    assert!(page.contains("No timeline was recorded.") && page.contains("no message"));
    case_of_no_time(&mut run);
}

fn case_of_no_time(run: &mut Run) {
    run.cases[0].timeline.faults.push(Fault { from: Duration::ZERO, to: None, label: "a".repeat(300) });
    assert!(!page::text(run).contains("NaN"));
}

#[test]
fn a_path_that_leaves_the_report_is_no_link() {
    for path in ["/abs/x", "../x", "a/../../x", "javascript:alert(1)", "https://example.org"] {
        let mut run = run(&[Outcome::Failed]);
        run.cases[0].evidence = Some(path.into());
        assert!(!page::text(&run).contains(&format!("href=\"{path}")), "{path}");
    }
}

#[test]
fn both_files_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let page = write(&EXAMPLE, &folder.path().join("new/report")).unwrap();
    for name in ["index.html", "junit.xml"] {
        assert!(page.with_file_name(name).is_file(), "{name}");
    }
}
