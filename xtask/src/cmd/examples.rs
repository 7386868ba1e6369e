// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask examples`: what Prometheus itself says of the rules and of the dashboard's queries in examples/. Whether
//! the metrics exist is the integration tests' to say; nothing here starts a wrapper.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::repo;
use crate::sh::Step;
use crate::tools::Tool;

/// Variables of the dashboard, and what stands for them in an expression.
const VARIABLES: [(&str, &str); 3] = [("$__rate_interval", "5m"), ("$namespace", ".*"), ("$job", ".*")];

/// Checks the Prometheus rules and the dashboard of examples/
///
/// Builds the pinned promtool on first use. The rules are checked and their tests are run; each query of the dashboard
/// is checked as the expression of a rule. That the metrics exist is shown by the integration tests.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: cargo xtask examples\n\n\
    Exit code 1 if promtool finds something; it says what and where.")]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> Result<ExitCode> {
    let promtool = Tool::Promtool.ensure()?;
    let folder = repo::root().join("examples");
    let rules = folder.join("prometheus/rules.yaml");
    check(&promtool, &rules)?;
    Step::new(&promtool)
        .args(["test", "rules"])
        .arg(folder.join("prometheus/rules_test.yaml"))
        .run()
        .context("the rules do not do what their tests say")?;
    let dashboard = folder.join("grafana/dashboard.json");
    let text =
        std::fs::read_to_string(&dashboard).with_context(|| format!("read {}", dashboard.display()))?;
    let queries = queries(&text).with_context(|| format!("read {}", dashboard.display()))?;
    let scratch = tempfile::tempdir().context("make a folder for the dashboard's queries")?;
    let as_rules = scratch.path().join("dashboard.yaml");
    std::fs::write(&as_rules, rules_of(&queries)).with_context(|| format!("write {}", as_rules.display()))?;
    check(&promtool, &as_rules).context("a query of examples/grafana/dashboard.json is no PromQL")?;
    println!("rules and their tests are good, and so are {} queries of the dashboard", queries.len());
    Ok(ExitCode::SUCCESS)
}

fn check(promtool: &PathBuf, rules: &Path) -> Result<()> {
    Step::new(promtool).args(["check", "rules", "--lint=all", "--lint-fatal"]).arg(rules).run()
}

/// A dashboard's queries, each with its panel's title in front.
fn queries(dashboard: &str) -> Result<Vec<(String, String)>> {
    let dashboard: Value = serde_json::from_str(dashboard)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let mut queries = Vec::new();
    for panel in panels {
        let title = panel["title"].as_str().context("a panel without a title")?;
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression =
                target["expr"].as_str().with_context(|| format!("panel {title:?}: a query without expr"))?;
            queries.push((title.to_owned(), expression.to_owned()));
        }
    }
    ensure!(!queries.is_empty(), "no query in any panel");
    Ok(queries)
}

/// A file of rules with the queries as expressions; the number says which one promtool speaks of.
fn rules_of(queries: &[(String, String)]) -> String {
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for (number, (title, query)) in queries.iter().enumerate() {
        let query = VARIABLES.iter().fold(query.clone(), |query, (name, value)| query.replace(name, value));
        let query = Value::from(query);
        write!(rules, "  # {title}\n  - record: dashboard:query:{number}\n    expr: {query}\n")
            .expect("writing to a string");
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_become_rules_without_variables() {
        let text = r#"{"panels": [{"title": "row"}, {"title": "T", "targets": [{"expr": "rate(a{n=~\"$namespace\"}[$__rate_interval])"}]}]}"#;
        let queries = queries(text).unwrap();
        assert_eq!(queries.len(), 1);
        let rules = rules_of(&queries);
        assert!(
            rules.contains(
                r#"  # T
  - record: dashboard:query:0
    expr: "rate(a{n=~\".*\"}[5m])"
"#
            ),
            "{rules}"
        );
        let parsed: Value = serde_saphyr::from_str(&rules).unwrap();
        assert_eq!(parsed["groups"][0]["rules"][0]["expr"], r#"rate(a{n=~".*"}[5m])"#);
    }

    #[test]
    fn a_dashboard_without_queries_is_no_success() {
        assert!(queries(r#"{"panels": [{"title": "row"}]}"#).is_err());
        assert!(queries(r#"{"panels": [{"title": "T", "targets": [{}]}]}"#).is_err());
    }

    #[test]
    fn no_variable_of_the_dashboard_is_left() {
        let text = std::fs::read_to_string(repo::root().join("examples/grafana/dashboard.json")).unwrap();
        let rules = rules_of(&queries(&text).unwrap());
        assert!(!rules.contains('$'), "{rules}");
    }
}
