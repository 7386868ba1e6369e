// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a job's token may do, and what it must not be near: no rights by default, each job its own, a caller as much as
//! the called workflow needs, no secret where a pull request starts the run, and no cache where something is published.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::Finding;
use super::{WORKFLOWS, Workflow};

/// Rights with which something gets out: such a job takes nothing that another run left.
const PUBLISHING: [&str; 4] = ["contents", "packages", "id-token", "attestations"];

/// How much a token may do in one scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grant {
    None,
    Read,
    Write,
}

type Grants = BTreeMap<String, Grant>;

pub(super) fn check(workflow: &Workflow<'_>, all: &[Workflow<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if workflow.value["permissions"].as_object().is_none_or(|rights| !rights.is_empty()) {
        let line = workflow.line_of("permissions:");
        let what = "every job would get rights: write `permissions: {}` here, and each job's own at the job";
        findings.push(Finding::new(workflow.path, line, what));
    }
    for (name, job) in workflow.jobs() {
        match job.get("permissions").map(grants) {
            None => findings.push(workflow.finding(name, "no permissions of its own")),
            Some(None) => findings
                .push(workflow.finding(name, "permissions are a map of scopes to read, write or none")),
            Some(Some(granted)) => {
                for lacking in lacking(job, &granted, all) {
                    findings.push(workflow.finding(name, lacking));
                }
                if publishes(&granted) && caches(job) {
                    findings.push(
                        workflow
                            .finding(name, "may publish, and takes a cache that others could have filled"),
                    );
                }
            }
        }
        if job.get("secrets").is_some_and(|secrets| secrets == "inherit") {
            findings.push(
                workflow.finding(name, "`secrets: inherit` hands over all of them: name what is needed"),
            );
        }
    }
    if workflow.starts_on("pull_request") || called_by_pull_requests(workflow, all) {
        for (number, line) in workflow.text.lines().enumerate() {
            if line.contains("secrets.") {
                let what = "a secret, in a run that a pull request starts";
                findings.push(Finding::new(workflow.path, number + 1, what));
            }
        }
    }
    findings
}

fn grants(value: &Value) -> Option<Grants> {
    let grant = |value: &Value| match value.as_str()? {
        "none" => Some(Grant::None),
        "read" => Some(Grant::Read),
        "write" => Some(Grant::Write),
        _ => None,
    };
    value.as_object()?.iter().map(|(scope, value)| Some((scope.clone(), grant(value)?))).collect()
}

/// What a called workflow of ours needs and this job does not grant.
fn lacking(job: &Map<String, Value>, granted: &Grants, all: &[Workflow<'_>]) -> Vec<String> {
    let Some(called) = called(job, all) else { return Vec::new() };
    let mut lacking = Vec::new();
    for (scope, need) in needs(called, all, 0) {
        if granted.get(&scope).copied().unwrap_or(Grant::None) < need {
            let need = if need == Grant::Write { "write" } else { "read" };
            lacking.push(format!("{} needs `{scope}: {need}`, which is not granted here", called.name()));
        }
    }
    lacking
}

fn called<'a, 'b>(job: &Map<String, Value>, all: &'a [Workflow<'b>]) -> Option<&'a Workflow<'b>> {
    let path = job.get("uses")?.as_str()?.strip_prefix("./")?;
    all.iter().find(|workflow| workflow.path == path && path.starts_with(WORKFLOWS))
}

/// The most that any job of a workflow needs, those that it calls included. GitHub allows a few calls deep.
fn needs(workflow: &Workflow<'_>, all: &[Workflow<'_>], depth: usize) -> Grants {
    let mut most = Grants::new();
    for (_, job) in workflow.jobs() {
        let own = job.get("permissions").and_then(grants).unwrap_or_default();
        let below = called(job, all).filter(|_| depth < 10).map(|called| needs(called, all, depth + 1));
        for (scope, grant) in own.into_iter().chain(below.unwrap_or_default()) {
            let most = most.entry(scope).or_insert(Grant::None);
            *most = grant.max(*most);
        }
    }
    most
}

fn publishes(granted: &Grants) -> bool {
    PUBLISHING.iter().any(|scope| granted.get(*scope) == Some(&Grant::Write))
}

/// Whether a job takes a cache: by the action itself, or by our own set-up.
fn caches(job: &Map<String, Value>) -> bool {
    let steps = job.get("steps").and_then(Value::as_array).into_iter().flatten();
    steps.into_iter().any(|step| {
        let uses = step["uses"].as_str().unwrap_or_default();
        let ours = uses.starts_with("./.github/actions/")
            && (step["with"]["cache"] == "true" || step["with"]["cache"] == true);
        uses.starts_with("actions/cache") || ours
    })
}

fn called_by_pull_requests(workflow: &Workflow<'_>, all: &[Workflow<'_>]) -> bool {
    all.iter().filter(|other| other.starts_on("pull_request")).any(|other| {
        other.jobs().any(|(_, job)| called(job, all).is_some_and(|called| called.path == workflow.path))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{GOOD, spoilt, told};

    #[test]
    fn nothing_is_granted_by_default() {
        assert!(spoilt("permissions: {}\n", "").contains("every job would get rights"));
        assert!(spoilt("permissions: {}", "permissions: read-all").contains("every job would get rights"));
        assert!(
            spoilt("permissions: {}", "permissions:\n  contents: read")
                .contains("every job would get rights")
        );
    }

    #[test]
    fn every_job_names_its_own_rights() {
        assert!(
            spoilt("    permissions:\n      contents: read\n", "")
                .contains("job a: no permissions of its own")
        );
        let all = spoilt("permissions:\n      contents: read", "permissions: write-all");
        assert!(all.contains("job a: permissions are a map"), "{all}");
    }

    #[test]
    fn a_caller_grants_what_the_called_workflow_needs() {
        let called = GOOD.replace("contents: read", "contents: read\n      packages: write");
        let caller = |rights: &str| {
            format!(
                "on: [push]\npermissions: {{}}\njobs:\n  c:\n    uses: ./.github/workflows/called.yml\n    permissions:\n      {rights}\n"
            )
        };
        let check = |rights: &str| {
            told(&[
                (".github/workflows/called.yml", &called),
                (".github/workflows/caller.yml", &caller(rights)),
            ])
        };
        assert_eq!(check("contents: read\n      packages: write"), [""; 0]);
        assert_eq!(
            check("contents: write\n      packages: read"),
            [
                ".github/workflows/caller.yml:4: job c: called.yml needs `packages: write`, which is not granted here"
            ]
        );
        assert_eq!(check("packages: write").len(), 1);
    }

    #[test]
    fn a_job_that_publishes_takes_no_cache() {
        let write = GOOD.replace("contents: read", "packages: write");
        let step = "- uses: actions/cache@0123456789012345678901234567890123456789 # v1.2.3\n      - run:";
        let cached = write.replace("- run:", step);
        assert!(told(&[(".github/workflows/w.yml", &cached)])[0].contains("takes a cache"));
        let ours = write.replace(
            "- run:",
            "- uses: ./.github/actions/setup\n        with:\n          cache: \"true\"\n      - run:",
        );
        let action = (".github/actions/setup/action.yml", "runs:\n  using: composite\n  steps: []\n");
        assert!(told(&[(".github/workflows/w.yml", &ours), action])[0].contains("takes a cache"));
        assert_eq!(
            told(&[(".github/workflows/w.yml", &ours.replace("\"true\"", "\"false\"")), action]),
            [""; 0]
        );
    }

    #[test]
    fn a_pull_request_meets_no_secret() {
        let secret = GOOD.replace("- run:", "- env:\n          T: ${{ secrets.T }}\n        run:");
        assert_eq!(told(&[(".github/workflows/w.yml", &secret)]), [""; 0]);
        let started = secret.replace("  push:", "  pull_request:");
        assert!(told(&[(".github/workflows/w.yml", &started)])[0].contains("a secret"));
        let caller = "on: pull_request\npermissions: {}\njobs:\n  c:\n    uses: ./.github/workflows/w.yml\n    secrets: inherit\n    permissions:\n      contents: read\n";
        let told = told(&[(".github/workflows/w.yml", &secret), (".github/workflows/c.yml", caller)]);
        assert!(told[0].contains("secrets: inherit") && told[1].contains("a secret"), "{told:?}");
    }
}
