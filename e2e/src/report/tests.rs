// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The reports of a made-up run, and of runs that went wrong in other ways.
#[path = "../../examples/report/example.rs"]
mod example;
#[path = "../../examples/report/traffic.rs"]
mod traffic;

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::model::Run;
use super::{JUNIT, PAGE, draw, gather, headline, junit, page, table, terminal};
use crate::outcome::{Outcome, Results, Verdict};

/// The made-up run, drawn into a folder.
fn drawn() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    example::write(folder.path()).unwrap();
    let page = fs::read_to_string(draw(folder.path()).unwrap()).unwrap();
    (folder, page)
}

/// Scenarios `c0`, `c1`, … that ended so, without evidence.
fn results(verdicts: &[(Verdict, Option<&str>)]) -> Results {
    let outcome = |(number, (verdict, reason)): (usize, &(Verdict, Option<&str>))| Outcome {
        verdict: *verdict,
        reason: reason.map(str::to_owned),
        evidence: None,
        ..example::passed(&format!("c{number}"), 5)
    };
    example::results(verdicts.iter().enumerate().map(outcome).collect())
}

fn gathered(results: Results) -> Run {
    gather::run(results, Path::new("/nowhere"))
}

const PASSED: (Verdict, Option<&str>) = (Verdict::Passed, None);

fn missing(why: &str) -> (Verdict, Option<&str>) {
    (Verdict::Missing, Some(why))
}

#[test]
fn the_first_line_is_the_verdict() {
    let failed = (Verdict::Failed, Some("e"));
    let (hung, interrupted) = ((Verdict::Hung, None), (Verdict::Interrupted, None));
    for (verdicts, class, words) in [
        (
            &[PASSED, PASSED][..],
            "passed",
            "2 of 2 passed; sidecar: double, sha256:0d9b77f30d9b; wrapper: built, sha256:5e1c90aa5e1c",
        ),
        (
            &[PASSED, missing("needs a"), missing("needs a"), missing("needs b")],
            "missing",
            "1 of 4 passed; 3 could not run here: c1, c2 (needs a), c3 (needs b); sidecar",
        ),
        (
            &[PASSED, failed, missing("x")],
            "failed",
            "1 of 3 FAILED: c1; 1 passed; 1 could not run here: c2 (x); sidecar",
        ),
        (&[hung], "failed", "1 of 1 did not end: c0; 0 passed; sidecar"),
        (&[], "failed", "NOTHING RAN: this shows nothing about the image; sidecar"),
        (
            &[missing("x")],
            "failed",
            "NOTHING RAN: this shows nothing about the image; 1 could not run here: c0 (x); ",
        ),
    ] {
        let results = results(verdicts);
        let line = headline(&results);
        assert!(line.starts_with(words), "{line}");
        assert!(
            page::text(&gathered(results.clone())).contains(&format!("<h1 class=\"{class}\">{line}</h1>"))
        );
        assert!(table(&results, false).ends_with(&format!("{line}\n")));
    }
    let interrupted = Results { interrupted: true, ..results(&[PASSED, interrupted]) };
    assert!(headline(&interrupted).starts_with("INTERRUPTED; 1 of 2 passed; "), "{}", headline(&interrupted));
    let dead = Results { finished: None, ..results(&[PASSED]) };
    assert!(headline(&dead).starts_with("THE RUN DID NOT END"), "{}", headline(&dead));
    assert!(page::text(&gathered(dead)).contains("<h1 class=\"failed\">"));
}

#[test]
fn the_page_needs_nothing_else_and_foreign_text_stays_text() {
    let (_folder, page) = drawn();
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert(1)"));
    assert!(!page.contains('\u{1b}'));
    for outside in ["<link", "src=", "@import", "url(", "http://", "https://"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<script>").count(), 1);
}

#[test]
fn a_stranger_sees_why_a_scenario_failed() {
    let (_folder, page) = drawn();
    let failed = page.find("id=\"case-6\" open").unwrap();
    assert!(page.find("id=\"case-0\"").unwrap() > failed, "what needs a look comes first");
    let section = &page[failed..page[failed..].find("id=\"case-7\"").unwrap() + failed];
    for words in [
        "main-0 was ready at 52.4 s, while it had no quorum",
        "href=\"partition_of_two_members\"",
        "partition: main-1 at 40.000 s, for 20.00 s",
        "no leader",
        "class=\"ph-backoff\"",
        "class=\"op unknown\"",
        "no write acknowledged for",
        "history: NOT linearizable",
        "the answer is stale, or the later write is lost",
        "main-1: not ready: quorum: the last linearizable read is 10.2 s old",
        "main-0-etcd-0.log",
        "(number 119)",
    ] {
        assert!(section.contains(words), "{words}");
    }
    assert!(!section.contains("(number 10)"), "only the end of a log");
    assert!(page.contains("cargo xtask e2e --filter e --allow-double --seed 4211873340172"));
}

#[test]
fn junit_says_the_same_and_an_empty_run_is_a_failure() {
    let (folder, _) = drawn();
    let text = fs::read_to_string(folder.path().join(JUNIT)).unwrap();
    let report = quick_junit::Report::deserialize_from_str(&text).unwrap();
    let suite = &report.test_suites[0];
    assert_eq!((suite.tests, suite.failures, suite.errors, suite.skipped), (10, 1, 1, 2));
    assert!(text.contains("evidence: full_volume"));
    let empty = junit::text(&gathered(results(&[]))).unwrap();
    let report = quick_junit::Report::deserialize_from_str(&empty).unwrap();
    assert_eq!((report.test_suites[0].tests, report.test_suites[0].failures), (1, 1));
    assert!(empty.contains("NOTHING RAN"));
}

#[test]
fn the_table_is_plain_unless_colour_is_asked_for() {
    let results =
        results(&[PASSED, (Verdict::Failed, Some("\u{1b}[31mit broke\nand more")), missing("needs x")]);
    let plain = table(&results, false);
    let lines: Vec<&str> = plain.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "passed       c0         5.0 s  ready again: 1.2 s",
            "failed       c1         5.0 s  it broke",
            "missing      c2             –  needs x"
        ]
    );
    assert!(table(&results, true).contains("\u{1b}[31mfailed     \u{1b}[0m"));
    let times = [59_949, 59_950, 119_990, 3_600_000].map(terminal::time);
    assert_eq!(times, ["59.9 s", "1 min 00 s", "2 min 00 s", "60 min 00 s"]);
}

#[test]
fn a_page_stays_small_whatever_is_put_in() {
    let mut results = results(&[(Verdict::Failed, None)]);
    let outcome = &mut results.outcomes[0];
    outcome.reason = Some("x".repeat(1_000_000));
    let entry = outcome.timeline[0].clone();
    outcome.timeline = vec![entry; 5_000];
    let folder = tempfile::tempdir().unwrap();
    outcome.evidence = Some("c0".into());
    let logs = folder.path().join("c0/logs");
    fs::create_dir_all(&logs).unwrap();
    for number in 0..40 {
        fs::write(logs.join(format!("{number}.log")), "y".repeat(3_000).repeat(50) + "\n").unwrap();
        fs::write(logs.join(format!("m-etcd-{number}.log")), format!("{}\n", "z".repeat(900)).repeat(500))
            .unwrap();
    }
    let page = page::text(&gather::run(results, folder.path()));
    assert!(page.len() < 400_000, "{}", page.len());
    assert!(page.contains("m-etcd-0.log"), "logs of main containers come first");
}

#[test]
fn broken_evidence_is_told_and_the_rest_is_drawn() {
    let (folder, _) = drawn();
    let evidence = folder.path().join("partition_of_two_members");
    fs::write(evidence.join("judgement.json"), "{").unwrap();
    let page = fs::read_to_string(draw(folder.path()).unwrap()).unwrap();
    assert!(page.contains("no picture of the traffic: read ") && page.contains("(number 119)"));
    // Without a verdict the history is judged anew: that of a scenario that ended before its clients did.
    fs::remove_file(evidence.join("judgement.json")).unwrap();
    let page = fs::read_to_string(draw(folder.path()).unwrap()).unwrap();
    assert!(page.contains("history: NOT linearizable"));
    fs::remove_file(folder.path().join("results.json")).unwrap();
    assert!(format!("{:#}", draw(folder.path()).unwrap_err()).contains("results.json"));
    assert!(folder.path().join(PAGE).is_file(), "what was drawn before stays");
}

#[test]
fn a_case_of_which_nothing_was_seen_is_a_page_too() {
    let mut results = results(&[(Verdict::Failed, None)]);
    (results.outcomes[0].timeline, results.outcomes[0].took) = (Vec::new(), 0);
    let page = page::text(&gathered(results));
    assert!(page.contains("No timeline was recorded.") && page.contains("no reason was told"));
    assert!(!page.contains("NaN"));
}

#[test]
fn the_table_begins_with_what_failed_and_its_cause_stands_alone() {
    let failed = (Verdict::Failed, Some("it broke\nand this is how it stood"));
    let page = page::text(&gathered(results(&[PASSED, missing("needs x"), failed])));
    let row = |name: &str| page.find(&format!(">{name}</a></td>")).unwrap();
    let absent = page.find("<td>c1</td>").unwrap();
    assert!(row("c2") < absent && absent < row("c0"));
    assert!(page.contains("<tr class=\"bad\"><td><span class=\"chip failed\">"));
    assert!(
        page.contains(
            "<p class=\"cause\">it broke</p>\n<pre class=\"message\">and this is how it stood</pre>"
        )
    );
}

#[test]
fn a_check_of_what_others_recorded_has_no_time_of_its_own() {
    let mut results = results(&[PASSED]);
    let outcome = &mut results.outcomes[0];
    (outcome.timeline, outcome.took, outcome.started) = (Vec::new(), 0, 0);
    assert!(table(&results, false).contains(" –  ready again"));
    let page = page::text(&gathered(results));
    assert!(!page.contains("1970-") && !page.contains("No timeline") && !page.contains("0.0 s"));
}

#[test]
fn a_path_that_leaves_the_report_is_no_link() {
    for path in ["/abs/x", "../x", "a/../../x", "javascript:alert(1)"] {
        let mut results = results(&[(Verdict::Failed, None)]);
        results.outcomes[0].evidence = Some(path.into());
        assert!(!page::text(&gathered(results)).contains(&format!("href=\"{path}")), "{path}");
    }
}
