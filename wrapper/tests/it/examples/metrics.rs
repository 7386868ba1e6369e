// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The Prometheus rules and the dashboard of examples/: each metric that they ask for is served by a live wrapper, with the
//! labels that they ask for, and each alert is tested. Whether an expression is good PromQL is promtool's to say
//! (`cargo xtask examples`).
use std::collections::{BTreeMap, BTreeSet};

use doubles::ports::ReservedPort;
use rustix::process::Signal;
use serde_json::Value;

use super::{items, read};
use crate::scene::{LONG, SECOND, Scene, Sides, Wrapper, signal};

/// Labels that the scrape gives, and `le` of every histogram.
const OF_THE_SCRAPE: [&str; 4] = ["namespace", "job", "instance", "le"];

/// A metric, and the labels with the values that are asked of it.
type Asked = BTreeMap<String, BTreeSet<(String, Option<String>)>>;

/// What an expression asks for. Labels of a `by (…)` or `on (…)` are asked of every metric of the expression.
fn asked(expression: &str) -> Asked {
    let mut asked = Asked::new();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut grouped = Vec::new();
    let mut rest = expression;
    while let Some(at) = rest.find(is_name) {
        rest = &rest[at..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        if matches!(word, "by" | "on" | "without" | "ignoring" | "group_left" | "group_right") {
            let (labels, after) =
                after.trim_start().strip_prefix('(').and_then(|a| a.split_once(')')).unwrap();
            grouped.extend(labels.split(',').map(|label| label.trim().to_owned()));
            rest = after;
        } else if word.starts_with("etcd_wrapper_") || word.starts_with("process_") {
            let labels = asked.entry(word.to_owned()).or_default();
            if let Some((matchers, after)) = after.strip_prefix('{').and_then(|after| after.split_once('}')) {
                for matcher in matchers.split(',').map(str::trim).filter(|matcher| !matcher.is_empty()) {
                    let (label, value) = matcher.split_once(['=', '!']).unwrap();
                    // `!=` and `!~` leave something out, and a variable is the reader's to fill in.
                    let wanted = !matcher.contains('!') && !matcher.contains('$');
                    for value in value.trim_start_matches(['=', '~']).trim_matches('"').split('|') {
                        labels.insert((label.to_owned(), wanted.then(|| value.to_owned())));
                    }
                }
                rest = after;
            }
        }
    }
    for labels in asked.values_mut() {
        labels.extend(grouped.iter().map(|label| (label.clone(), None)));
    }
    asked
}

fn rules() -> Vec<Value> {
    let rules: Value = serde_saphyr::from_str(&read("prometheus/rules.yaml")).unwrap();
    items(&rules["groups"]).iter().flat_map(|group| items(&group["rules"])).cloned().collect()
}

/// Every expression of the rules and of the dashboard.
fn expressions() -> Vec<String> {
    let mut all: Vec<String> = rules().iter().map(|rule| rule["expr"].as_str().unwrap().to_owned()).collect();
    let dashboard: Value = serde_json::from_str(&read("grafana/dashboard.json")).unwrap();
    for panel in items(&dashboard["panels"]) {
        assert_eq!(items(&panel["targets"]).is_empty(), panel["type"] == "row", "{panel}");
        all.extend(items(&panel["targets"]).iter().map(|target| target["expr"].as_str().unwrap().to_owned()));
    }
    assert!(all.len() > 40, "{}", all.len());
    all
}

/// Label → values.
type Labels = BTreeMap<String, BTreeSet<String>>;

/// Every sample of some pages, by metric.
fn served(pages: &[String]) -> BTreeMap<String, Labels> {
    let mut served = BTreeMap::<String, Labels>::new();
    for line in pages.iter().flat_map(|page| page.lines()).filter(|line| !line.starts_with('#')) {
        let name: String = line.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let labels = served.entry(name).or_default();
        let between = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}'));
        for label in between.map_or("", |(labels, _)| labels).split("\",").filter(|label| !label.is_empty()) {
            let (label, value) = label.split_once("=\"").unwrap();
            labels.entry(label.to_owned()).or_default().insert(value.trim_end_matches('"').to_owned());
        }
    }
    served
}

fn page(wrapper: &Wrapper<'_>) -> String {
    wrapper.caller().tls().get("/metrics").body
}

/// Pages of a wrapper to which everything has happened that makes a series.
fn eventful_pages() -> Vec<String> {
    let nobody = ReservedPort::loopback();
    let scene = Scene::real("3.5")
        .with_tls(Sides::ALL)
        .flag("--on-etcd-exit=restart")
        .flag(format!("--notify-url=http://{}/", nobody.addr()));
    let wrapper = scene.start_ready();
    wrapper.wait_status(LONG, "sizes", |status| {
        !status["etcd"]["db"].is_null() && !status["volume"].is_null() && status["leader"]["isLeader"] == true
    });
    let caller = wrapper.caller().tls();
    assert_eq!(caller.post("/v1/etcd/restart?wait=30s").status, 200);
    let hold = r#"{"mode": "unready", "owner": "test", "ttl": "none"}"#;
    let json = [("content-type", "application/json")];
    assert_eq!(caller.call("PUT", "/v1/readiness", &json, hold).status, 200);
    wrapper.wait_status(LONG, "sizes again", |status| !status["etcd"]["db"].is_null());
    let before = page(&wrapper);
    signal(wrapper.etcd_pid(), Signal::KILL);
    wrapper.wait_phase(5 * SECOND, "backoff");
    vec![before, page(&wrapper)]
}

#[test]
fn every_metric_and_label_of_rules_and_dashboard_is_served() {
    let served = served(&eventful_pages());
    // Warnings come one at a time; the page that lists them is held against the sources.
    let told = std::fs::read_to_string(super::folder().join("../docs/operations.md")).unwrap();
    let told = told.split_once("\n## Warnings").unwrap().1;
    for expression in expressions() {
        let asked = asked(&expression);
        assert!(!asked.is_empty(), "asks for nothing of ours: {expression}");
        for (metric, labels) in asked {
            let found = served.get(&metric);
            let found =
                found.unwrap_or_else(|| panic!("{metric} is not served: {expression}\n{:#?}", served.keys()));
            for (label, value) in labels.iter().filter(|(label, _)| !OF_THE_SCRAPE.contains(&&**label)) {
                let values = found.get(label);
                let values = values.unwrap_or_else(|| panic!("{metric} has no label {label}: {expression}"));
                let Some(value) = value else { continue };
                let there =
                    values.contains(value) || (label == "code" && told.contains(&format!("`{value}`")));
                assert!(there, "no {metric}{{{label}={value:?}}} in {values:?}: {expression}");
            }
        }
    }
}

#[test]
fn every_alert_is_tested_and_leads_to_a_page() {
    let tests = read("prometheus/rules_test.yaml");
    for rule in rules() {
        let name = rule["alert"].as_str().unwrap();
        assert!(
            tests.contains(&format!("alertname: {name}\n    exp_alerts:\n")),
            "{name} is not seen to fire"
        );
        let runbook = rule["annotations"]["runbook"].as_str().unwrap();
        let (page, heading) = runbook.split_once('#').unwrap();
        let page = std::fs::read_to_string(super::folder().join("..").join(page)).unwrap();
        let anchors = page
            .lines()
            .filter_map(|line| Some(line.strip_prefix("## ").or(line.strip_prefix("### "))?.to_lowercase()));
        let mut anchors = anchors.map(|title| title.replace(' ', "-").replace(['`', ',', '?', ':', '"'], ""));
        assert!(anchors.any(|anchor| anchor == heading), "{name}: no {runbook}");
    }
}

#[test]
fn what_an_expression_asks_for_is_read_right() {
    let found = asked(
        r#"sum by (le, step) (rate(etcd_wrapper_a{x=~"p|q", ns=~"$ns"}[5m])) / on (job) process_b != 1"#,
    );
    let pair = |label: &str, value: Option<&str>| (label.to_owned(), value.map(str::to_owned));
    let labels = [pair("job", None), pair("le", None), pair("step", None)];
    assert_eq!(found["process_b"], BTreeSet::from(labels.clone()));
    let mut a = BTreeSet::from(labels);
    a.extend([pair("x", Some("p")), pair("x", Some("q")), pair("ns", None)]);
    assert_eq!(found["etcd_wrapper_a"], a);
    assert_eq!(asked(r#"x{y!="z"}"#), Asked::new());
    assert_eq!(asked(r#"etcd_wrapper_c{y!="z"}"#)["etcd_wrapper_c"], BTreeSet::from([pair("y", None)]));
}
