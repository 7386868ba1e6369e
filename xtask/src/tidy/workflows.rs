// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The workflows and actions of `.github/`: they only wire. What a program runs, and what a token may do, is held to the
//! rules here; whether the YAML is well-formed for its reader is actionlint's business, and weak spots are zizmor's.

mod grants;
mod runs;
mod uses;

use anyhow::Result;
use serde_json::{Map, Value};

use super::Finding;
use super::tree::Tree;

const WORKFLOWS: &str = ".github/workflows/";
const ACTIONS: &str = ".github/actions/";
/// Minutes after which a hosted runner ends a job by itself.
const LONGEST: u64 = 360;
/// The workflow whose last job is the one that a merge waits for, and that job.
const GATED: (&str, &str) = ("ci.yml", "gate");

/// One workflow.
#[derive(Debug)]
struct Workflow<'a> {
    path: &'a str,
    text: &'a str,
    value: Value,
}

impl<'a> Workflow<'a> {
    /// All of the clone; a file that is no YAML becomes a finding.
    fn all(tree: &'a Tree) -> (Vec<Self>, Vec<Finding>) {
        let mut workflows = Vec::new();
        let mut findings = Vec::new();
        for (path, text) in tree.files() {
            let yaml = path.ends_with(".yml") || path.ends_with(".yaml");
            if !yaml || !(path.starts_with(WORKFLOWS) || path.starts_with(ACTIONS)) {
                continue;
            }
            match serde_saphyr::from_str(text) {
                Ok(value) => workflows.push(Self { path, text, value }),
                Err(error) => findings.push(Finding::new(path, 0, format!("no YAML: {error}"))),
            }
        }
        (workflows, findings)
    }

    fn is_action(&self) -> bool {
        self.path.starts_with(ACTIONS)
    }

    fn name(&self) -> &'a str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }

    fn jobs(&self) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
        let jobs = self.value["jobs"].as_object().into_iter().flatten();
        jobs.filter_map(|(name, job)| Some((name.as_str(), job.as_object()?)))
    }

    /// The steps of all jobs, or of an action.
    fn steps(&self) -> Vec<&Value> {
        let of_action = self.value["runs"]["steps"].as_array();
        let of_jobs = self.jobs().filter_map(|(_, job)| job.get("steps")?.as_array());
        of_action.into_iter().chain(of_jobs).flatten().collect()
    }

    /// Whether the event starts it; `on` is a word, a list or a map.
    fn starts_on(&self, event: &str) -> bool {
        match &self.value["on"] {
            Value::String(one) => one == event,
            Value::Array(list) => list.iter().any(|one| one == event),
            Value::Object(map) => map.contains_key(event),
            _ => false,
        }
    }

    fn finding(&self, job: &str, what: impl std::fmt::Display) -> Finding {
        let line = self.line_of(&format!("  {job}:"));
        Finding::new(self.path, line, format!("job {job}: {what}"))
    }

    /// The first line that is this, or begins with it; 0 if there is none.
    fn line_of(&self, begin: &str) -> usize {
        self.text.lines().position(|line| line.starts_with(begin)).map_or(0, |at| at + 1)
    }
}

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let (workflows, mut findings) = Workflow::all(tree);
    for workflow in &workflows {
        findings.extend(uses::check(workflow, tree));
        findings.extend(runs::check(workflow));
        if !workflow.is_action() {
            findings.extend(limits(workflow));
            findings.extend(grants::check(workflow, &workflows));
        }
    }
    Ok(findings)
}

/// Events, time limits and the gate.
fn limits(workflow: &Workflow<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if workflow.starts_on("pull_request_target") {
        let what = "pull_request_target runs a stranger's code with our token: use pull_request";
        findings.push(Finding::new(workflow.path, workflow.line_of("on:"), what));
    }
    for (name, job) in workflow.jobs() {
        if job.contains_key("uses") {
            continue;
        }
        match job.get("timeout-minutes").and_then(Value::as_u64) {
            None => findings.push(workflow.finding(name, "no timeout-minutes")),
            Some(minutes) if minutes > LONGEST => {
                findings.push(workflow.finding(name, format!("timeout-minutes is above {LONGEST}")));
            }
            Some(_) => {}
        }
    }
    if workflow.name() == GATED.0 {
        findings.extend(gate(workflow));
    }
    findings
}

/// The gate waits for every other job, and runs whatever became of them.
fn gate(workflow: &Workflow<'_>) -> Vec<Finding> {
    let Some((name, gate)) = workflow.jobs().find(|(name, _)| *name == GATED.1) else {
        return vec![Finding::new(workflow.path, 0, format!("no job `{}` for a merge to wait for", GATED.1))];
    };
    let waits: Vec<&str> = match gate.get("needs") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let others = workflow.jobs().map(|(name, _)| name).filter(|other| *other != name);
    let mut findings: Vec<Finding> = others
        .filter(|other| !waits.contains(other))
        .map(|other| workflow.finding(name, format!("does not wait for {other}")))
        .collect();
    if gate.get("if").and_then(Value::as_str).is_none_or(|condition| !condition.contains("always()")) {
        findings.push(workflow.finding(name, "is skipped when another job fails: it needs `if: always()`"));
    }
    findings
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What the rules say about one workflow of this text, without its path.
    pub(crate) fn told(files: &[(&str, &str)]) -> Vec<String> {
        let mut findings = check(&Tree::of(files)).unwrap();
        findings.sort();
        findings.iter().map(ToString::to_string).collect()
    }

    /// A workflow that breaks no rule.
    pub(crate) const GOOD: &str = "on:\n  push:\npermissions: {}\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    \
        timeout-minutes: 5\n    permissions:\n      contents: read\n    steps:\n      \
        - uses: actions/checkout@0123456789012345678901234567890123456789 # v1.2.3\n      - run: cargo xtask tidy\n";

    /// The one finding about [`GOOD`] with `from` changed to `to`.
    pub(crate) fn spoilt(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        let told = told(&[(".github/workflows/w.yml", &GOOD.replacen(from, to, 1))]);
        assert_eq!(told.len(), 1, "{from} → {to}: {told:#?}");
        told[0].clone()
    }

    #[test]
    fn a_workflow_that_only_wires_is_fine() {
        assert_eq!(told(&[(".github/workflows/w.yml", GOOD)]), [""; 0]);
        assert_eq!(told(&[("docs/w.yml", "a: [")]), [""; 0]);
    }

    #[test]
    fn every_job_ends() {
        assert!(spoilt("    timeout-minutes: 5\n", "").contains("w.yml:5: job a: no timeout-minutes"));
        assert!(spoilt("timeout-minutes: 5", "timeout-minutes: 361").contains("above 360"));
    }

    #[test]
    fn strangers_run_without_our_token() {
        assert!(spoilt("  push:", "  pull_request_target:").contains("use pull_request"));
    }

    #[test]
    fn what_is_no_yaml_is_told() {
        assert!(told(&[(".github/workflows/w.yml", "a: [")])[0].contains("no YAML"));
    }

    #[test]
    fn the_gate_waits_for_all_others_whatever_became_of_them() {
        let gate = "  gate:\n    runs-on: x\n    timeout-minutes: 5\n    permissions: {}\n    needs: [a]\n    if: always()\n    steps: []\n";
        let with = |gate: &str| told(&[(".github/workflows/ci.yml", &format!("{GOOD}{gate}"))]);
        assert_eq!(with(gate), [""; 0]);
        assert!(with("")[0].contains("no job `gate`"));
        assert!(with(&gate.replace("needs: [a]", "needs: []"))[0].contains("does not wait for a"));
        assert!(with(&gate.replace("always()", "success()"))[0].contains("needs `if: always()`"));
    }
}
