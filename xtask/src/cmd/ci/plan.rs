// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask ci plan`: what a run of a workflow needs, by the paths that changed. Which etcd, Kubernetes and machines
//! are combined stands in pipelines/matrix.yaml; here a path is judged, and one that is not known needs everything.

mod matrix;
mod paths;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use self::matrix::{Matrix, Set};
use self::paths::Needs;
use crate::repo;
use crate::sh::Step;

/// Parts into which a night cuts the mutants: each is done in half an hour.
const SHARDS: usize = 24;

/// Tells which jobs a run needs, and with which matrix
///
/// Prints JSON on stdout. Where GITHUB_OUTPUT names a file, the same goes there as outputs of the step: each job's name
/// with true or false, and the matrices. Without a base that can be read, every path counts as changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask ci plan --base origin/main\n  \
    cargo xtask ci plan --event schedule")]
pub(super) struct Args {
    /// What started the run
    #[arg(long, value_enum, default_value_t = Event::PullRequest)]
    event: Event,
    /// Where the change begins; empty or all zeros, as GitHub has it for a new branch, is none
    #[arg(long, value_name = "REV", default_value = "")]
    base: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Event {
    Push,
    PullRequest,
    /// The night: the wide matrix, and everything
    Schedule,
    /// A release: the matrix of a release, and everything
    Release,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let root = repo::root();
    let matrix = Matrix::read(&root)?;
    let changed = match args.event {
        Event::Schedule | Event::Release => None,
        Event::Push | Event::PullRequest => changed(&root, &args.base),
    };
    let plan = plan(args.event, changed.as_ref(), &matrix)?;
    println!("{}", serde_json::to_string_pretty(&plan)?);
    if let Some(path) = std::env::var_os("GITHUB_OUTPUT").filter(|path| !path.is_empty()) {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
        file.and_then(|mut file| file.write_all(outputs(&plan).as_bytes()))
            .with_context(|| format!("add to {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A change that could be looked at.
#[derive(Debug)]
struct Change {
    /// The commit that it begins at.
    base: String,
    paths: Vec<String>,
}

/// What changed since the branch left `base`; none, with a word about it, if that cannot be told.
fn changed(root: &std::path::Path, base: &str) -> Option<Change> {
    if base.bytes().all(|byte| byte == b'0') {
        eprintln!("no base: every path counts as changed");
        return None;
    }
    let git = || Step::new("git").dir(root);
    let look = || -> Result<Change> {
        let from = git().args(["merge-base", base, "HEAD"]).read()?;
        let from = from.trim().to_owned();
        let range = format!("{from}..HEAD");
        let said = git().args(["diff", "--name-only", "-z", "--no-renames", &range]).read()?;
        let paths = said.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
        Ok(Change { base: from, paths })
    };
    match look() {
        Ok(change) => Some(change),
        Err(error) => {
            // A forced push leaves such a base behind.
            eprintln!("the base {base} cannot be read ({error:#}): every path counts as changed");
            None
        }
    }
}

fn plan(event: Event, change: Option<&Change>, matrix: &Matrix) -> Result<Value> {
    let mut why: BTreeMap<&str, &str> = BTreeMap::new();
    let mut needs = Needs::default();
    match change {
        None => needs = Needs::ALL,
        Some(change) => {
            for path in &change.paths {
                let (of, because) = paths::needs(path);
                needs = needs.and(of);
                why.insert(path, because);
            }
        }
    }
    let set = match event {
        Event::Schedule => Set::Wide,
        Event::Release => Set::Release,
        Event::Push | Event::PullRequest => Set::Small,
    };
    let shards: Vec<Value> =
        (1..=SHARDS).map(|shard| json!({"shard": format!("{shard}/{SHARDS}")})).collect();
    Ok(json!({
        "base": change.map_or("HEAD", |change| change.base.as_str()),
        "checks": needs.checks,
        "tests": needs.tests,
        "coverage": needs.coverage,
        "upload": needs.coverage,
        "images": needs.images,
        "e2e": needs.e2e,
        "bench": needs.bench,
        "images_matrix": matrix.images(set),
        "e2e_matrix": matrix.combined(set)?,
        "mutants_matrix": {"include": shards},
        "why": why,
    }))
}

/// Lines `name=value` for a step's outputs.
fn outputs(plan: &Value) -> String {
    let rows = plan.as_object().into_iter().flatten().filter(|(name, _)| *name != "why");
    rows.map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}\n"),
        other => format!("{name}={other}\n"),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Line;

    fn planned(event: Event, paths: &[&str]) -> Value {
        let change =
            Change { base: "abc".into(), paths: paths.iter().map(|path| (*path).to_owned()).collect() };
        plan(event, Some(&change), &Matrix::read(&repo::root()).unwrap()).unwrap()
    }

    #[test]
    fn prose_alone_needs_nothing_heavy() {
        let plan = planned(Event::PullRequest, &["README.md", "docs/security.md"]);
        assert_eq!(plan["checks"], true);
        for job in ["tests", "coverage", "upload", "images", "e2e"] {
            assert_eq!(plan[job], false, "{job}");
        }
        assert_eq!(plan["why"]["README.md"], "prose");
    }

    #[test]
    fn one_path_of_the_product_needs_all_jobs() {
        let plan = planned(Event::PullRequest, &["README.md", "wrapper/src/app.rs"]);
        for job in ["checks", "tests", "coverage", "upload", "images", "e2e"] {
            assert_eq!(plan[job], true, "{job}");
        }
        assert_eq!(plan["base"], "abc");
    }

    #[test]
    fn nothing_that_changed_needs_nothing() {
        assert_eq!(planned(Event::Push, &[])["checks"], false);
    }

    #[test]
    fn without_a_base_everything_is_needed_and_a_night_is_wide() {
        let matrix = Matrix::read(&repo::root()).unwrap();
        let size = |event| {
            let plan = plan(event, None, &matrix).unwrap();
            assert_eq!(plan["e2e"], true);
            plan["e2e_matrix"]["include"].as_array().unwrap().len()
        };
        assert!(size(Event::Push) < size(Event::Schedule));
    }

    /// `release check` takes no report of a part.
    #[test]
    fn a_release_runs_all_scenarios_with_the_etcd_that_it_ships() {
        let plan = plan(Event::Release, None, &Matrix::read(&repo::root()).unwrap()).unwrap();
        let runs = plan["e2e_matrix"]["include"].as_array().unwrap();
        assert!(!runs.is_empty());
        for run in runs {
            assert_eq!(
                (&run["scenarios"], &run["etcd"]),
                (&json!("all"), &json!(Line::DEFAULT.as_str())),
                "{run}"
            );
        }
    }

    #[test]
    fn every_output_is_one_line() {
        let text = outputs(&planned(Event::Schedule, &["wrapper/src/app.rs"]));
        assert!(text.contains("e2e=true\n") && text.contains("base=abc\n"), "{text}");
        let line = text.lines().find_map(|line| line.strip_prefix("e2e_matrix=")).unwrap();
        let matrix: Value = serde_json::from_str(line).unwrap();
        assert!(matrix["include"][0]["runner"].is_string());
        assert!(!text.contains("why="));
    }

    #[test]
    fn a_base_that_cannot_be_read_is_none() {
        let root = repo::root();
        for base in ["", "0000000000000000000000000000000000000000", "no-such-revision"] {
            assert!(changed(&root, base).is_none(), "{base:?}");
        }
    }
}
