// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask ci gate`: whether all that a run planned went well. A job that was skipped because of the plan is fine; one
//! that was skipped because another failed is not.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The job that planned.
const PLAN: &str = "plan";
/// Where a workflow hands over what became of the other jobs.
pub(super) const VARIABLE: &str = "NEEDS";

/// Judges what became of the other jobs
///
/// Reads NEEDS, the workflow's `toJSON(needs)`. Every job must have ended well, or have been skipped because the job
/// `plan` has an output of its name that is false.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    NEEDS='{\"plan\":{\"result\":\"success\",\"outputs\":{}}}' \\\n    \
    cargo xtask ci gate\n\n\
    Exit code 1 if the gate stays closed.")]
pub(super) struct Args {}

/// What became of a job.
#[derive(Debug, Deserialize)]
pub(super) struct Job {
    pub(super) result: String,
    /// Some runners write null where there are none.
    #[serde(default)]
    outputs: Option<BTreeMap<String, String>>,
}

pub(super) type Jobs = BTreeMap<String, Job>;

pub(super) fn run(_: &Args) -> Result<ExitCode> {
    let jobs = read()?;
    let wrong = judged(&jobs);
    for (name, job) in &jobs {
        println!("{name:<12} {:<10} {}", job.result, wrong.get(name.as_str()).copied().unwrap_or_default());
    }
    println!("{}", if wrong.is_empty() { "the gate is open" } else { "the gate is closed" });
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(super) fn read() -> Result<Jobs> {
    let text = std::env::var(VARIABLE)
        .with_context(|| format!("read {VARIABLE}: a workflow sets it to ${{{{ toJSON(needs) }}}}"))?;
    serde_json::from_str(&text).with_context(|| format!("parse {VARIABLE}"))
}

/// What keeps the gate closed, by job.
fn judged(jobs: &Jobs) -> BTreeMap<&str, &'static str> {
    let planned =
        |name: &str| jobs.get(PLAN).and_then(|plan| plan.outputs.as_ref()?.get(name)).map(String::as_str);
    let mut wrong = BTreeMap::new();
    for (name, job) in jobs {
        let why = match job.result.as_str() {
            "success" => None,
            "skipped" if name != PLAN && planned(name) == Some("false") => None,
            "skipped" => Some("was not planned to be skipped"),
            _ => Some("did not end well"),
        };
        wrong.extend(why.map(|why| (name.as_str(), why)));
    }
    if !jobs.contains_key(PLAN) {
        wrong.insert(PLAN, "is not among the jobs");
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> Vec<String> {
        let jobs: Jobs = serde_json::from_str(text).unwrap();
        judged(&jobs).into_keys().map(str::to_owned).collect()
    }

    #[test]
    fn planned_jobs_must_end_well_and_others_may_be_skipped() {
        let plan = r#""plan":{"result":"success","outputs":{"e2e":"false","tests":"true"}}"#;
        let with = |jobs: &str| wrong(&format!("{{{plan},{jobs}}}"));
        assert_eq!(
            with(r#""tests":{"result":"success","outputs":{}},"e2e":{"result":"skipped","outputs":null}"#),
            [""; 0]
        );
        for result in ["failure", "cancelled", "skipped", "something new"] {
            assert_eq!(with(&format!(r#""tests":{{"result":"{result}"}}"#)), ["tests"], "{result}");
        }
        assert_eq!(with(r#""unknown":{"result":"skipped"}"#), ["unknown"]);
    }

    #[test]
    fn without_a_plan_the_gate_stays_closed() {
        assert_eq!(wrong("{}"), ["plan"]);
        let jobs = r#"{"plan":{"result":"failure"},"tests":{"result":"skipped"}}"#;
        assert_eq!(wrong(jobs), ["plan", "tests"]);
        assert_eq!(wrong(r#"{"plan":{"result":"skipped","outputs":{"plan":"false"}}}"#), ["plan"]);
    }
}
