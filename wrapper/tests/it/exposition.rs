// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `/metrics` of the real binary, read as Prometheus reads it: both formats, line by line.
use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;

use crate::scene::{LONG, SECOND, Scene, Wrapper, signal};

/// The samples of a page, by name and labels.
type Samples = BTreeMap<(String, String), f64>;

fn name_end(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len())
}

/// Reads a page as strictly as `promtool check metrics` does, and more: every sample has TYPE and HELP before it,
/// families are in one piece, no series stands twice, counters end in `_total`.
#[track_caller]
fn parse(page: &str, open_metrics: bool) -> Samples {
    let mut samples = Samples::new();
    let mut types = BTreeMap::new();
    let mut helps = BTreeSet::new();
    let mut closed = BTreeSet::new();
    let mut family = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let bad = |why: &str| -> ! { panic!("{why}: {line:?}") };
        if line == "# EOF" && open_metrics {
            assert!(lines.peek().is_none(), "something after # EOF");
            break;
        }
        if let Some(comment) = line.strip_prefix("# ") {
            let mut parts = comment.splitn(3, ' ');
            let (what, name, rest) =
                (parts.next().unwrap(), parts.next().unwrap_or(""), parts.next().unwrap_or(""));
            if family != name && !closed.insert(name.to_owned()) {
                bad("a family in pieces");
            }
            name.clone_into(&mut family);
            match what {
                "HELP" if rest.trim().is_empty() || rest.ends_with("..") => bad("poor help"),
                "HELP" => assert!(helps.insert(name.to_owned()), "HELP twice: {line}"),
                "TYPE" if !["counter", "gauge", "histogram", "info", "unknown"].contains(&rest) => {
                    bad("type")
                }
                "TYPE" => {
                    assert!(types.insert(name.to_owned(), rest.to_owned()).is_none(), "TYPE twice: {line}");
                }
                "UNIT" if open_metrics => {}
                _ => bad("a comment that is none"),
            }
            continue;
        }
        let (name, rest) = line.split_at(name_end(line));
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            bad("no name");
        }
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once("} ").unwrap_or_else(|| bad("labels")),
            None => ("", rest.strip_prefix(' ').unwrap_or_else(|| bad("no value"))),
        };
        check_labels(labels);
        let value: f64 = value.parse().unwrap_or_else(|_| bad("no number"));
        assert!(value.is_finite() || name.ends_with("_bucket"), "{line}");
        let base = ["_total", "_bucket", "_sum", "_count", "_info"]
            .iter()
            .find_map(|end| name.strip_suffix(end).filter(|base| *base == family))
            .unwrap_or(name);
        assert_eq!(base, family, "a sample outside of its family: {line}");
        let kind = types.get(base).unwrap_or_else(|| bad("a sample without TYPE"));
        assert!(helps.contains(base), "a sample without HELP: {line}");
        assert!(kind != "counter" || name.ends_with("_total"), "a counter's name: {line}");
        assert!(kind != "counter" || value >= 0.0, "{line}");
        let known = samples.insert((name.to_owned(), labels.to_owned()), value);
        assert!(known.is_none(), "twice: {line}");
    }
    samples
}

#[track_caller]
fn check_labels(labels: &str) {
    for label in labels.split("\",").filter(|label| !label.is_empty()) {
        let (name, value) = label.split_once("=\"").unwrap_or_else(|| panic!("label {label:?}"));
        assert!(name_end(name) == name.len() && !name.contains(':'), "label {label:?}");
        assert!(!value.trim_end_matches('"').contains('"'), "label {label:?}");
    }
}

fn page(wrapper: &Wrapper<'_>, accept: &str) -> (String, String) {
    let answer = wrapper.caller().call("GET", "/metrics", &[("accept", accept)], "");
    assert_eq!(answer.status, 200);
    (answer.header("content-type").unwrap().to_owned(), answer.body)
}

#[track_caller]
fn value(samples: &Samples, name: &str, labels: &str) -> f64 {
    let found = samples.get(&(name.to_owned(), labels.to_owned()));
    *found.unwrap_or_else(|| panic!("no {name}{{{labels}}} in {:#?}", samples.keys()))
}

#[test]
fn metrics_can_be_read_by_prometheus_in_every_phase() {
    let scene = Scene::real("3.5").flag("--on-etcd-exit=restart");
    scene.leave("hold", "look first");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let (content_type, body) = page(&wrapper, "text/plain");
    assert!(
        content_type.starts_with("text/plain") && content_type.contains("version=0.0.4"),
        "{content_type}"
    );
    let samples = parse(&body, false);
    assert_eq!(value(&samples, "etcd_wrapper_phase", "phase=\"held\""), 1.0);
    assert_eq!(value(&samples, "etcd_wrapper_ready", ""), 0.0);
    assert_eq!(value(&samples, "etcd_wrapper_child_starts_total", ""), 0.0);
    for unknown in ["etcd_wrapper_raft_term", "etcd_wrapper_db_size_bytes", "etcd_wrapper_check_age_seconds"]
    {
        assert!(
            !samples.keys().any(|(name, _)| name == unknown),
            "{unknown} cannot be known, and stands there"
        );
    }

    assert_eq!(wrapper.caller().post("/v1/etcd/start?wait=20s").status, 200);
    wrapper.wait_ready();
    wrapper.wait_status(LONG, "leading", |status| {
        status["leader"]["isLeader"] == true && !status["etcd"]["db"].is_null() && !status["volume"].is_null()
    });
    for (accept, open) in [("text/plain", false), ("application/openmetrics-text;version=1.0.0", true)] {
        let (content_type, body) = page(&wrapper, accept);
        assert_eq!(content_type.starts_with("application/openmetrics-text"), open, "{content_type}");
        assert_eq!(body.ends_with("# EOF\n"), open);
        let samples = parse(&body, open);
        assert_eq!(value(&samples, "etcd_wrapper_phase", "phase=\"running\""), 1.0);
        let phases = samples.iter().filter(|((name, _), _)| name == "etcd_wrapper_phase");
        assert_eq!(phases.map(|(_, value)| value).sum::<f64>(), 1.0, "in one phase at a time");
        assert_eq!(value(&samples, "etcd_wrapper_ready", ""), 1.0);
        assert_eq!(value(&samples, "etcd_wrapper_is_leader", ""), 1.0);
        assert!(value(&samples, "etcd_wrapper_raft_term", "") >= 1.0);
        assert!(value(&samples, "etcd_wrapper_check_age_seconds", "") < 10.0);
        assert!(value(&samples, "etcd_wrapper_volume_free_bytes", "") > 0.0);
        assert_eq!(value(&samples, "etcd_wrapper_child_starts_total", ""), 1.0);
        assert!(value(&samples, "process_resident_memory_bytes", "") > 0.0);
        assert!(value(&samples, "process_open_fds", "") > 3.0);
        let steps = "etcd_wrapper_bootstrap_duration_seconds_count";
        assert_eq!(value(&samples, steps, "step=\"starting\""), 1.0);
    }

    signal(wrapper.etcd_pid(), Signal::KILL);
    wrapper.wait_status(5 * SECOND, "a view without a child", |status| {
        status["wrapper"]["phase"] == "backoff" && status["member"].is_null()
    });
    let samples = parse(&page(&wrapper, "text/plain").1, false);
    assert_eq!(value(&samples, "etcd_wrapper_phase", "phase=\"backoff\""), 1.0);
    assert_eq!(value(&samples, "etcd_wrapper_ready", ""), 0.0);
    assert_eq!(value(&samples, "etcd_wrapper_is_leader", ""), 0.0);
    assert_eq!(value(&samples, "etcd_wrapper_child_exits_total", "kind=\"signaled\""), 1.0);
    for unknown in ["etcd_wrapper_raft_term", "etcd_wrapper_db_size_bytes"] {
        assert!(!samples.keys().any(|(name, _)| name == unknown), "{unknown} is of an etcd that has gone");
    }
}

#[test]
fn strangers_cannot_make_series() {
    let scene = Scene::real("3.5");
    scene.leave("hold", "");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    for n in 0..50 {
        wrapper.caller().get(&format!("/nonsense/{n}"));
        wrapper.caller().get(&format!("/readyz/{n}"));
        wrapper.caller().get(&format!("/v1/operations/op-{n}"));
    }
    let samples = parse(&page(&wrapper, "text/plain").1, false);
    let routes: BTreeSet<_> =
        samples.keys().filter(|(name, _)| name == "etcd_wrapper_http_requests_total").collect();
    assert!(routes.len() < 10, "{routes:?}");
}
