// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask mutants`: small defects put into the code that must not have any, one at a time, to see whether a test
//! notices. Where they are put stands here; which of them nobody needs to notice, and why, in hack/mutants.toml.

mod list;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use self::list::{Explained, Outcomes};
use crate::sh::Step;
use crate::tools::Tool;
use crate::{machine, repo, workspace};

/// Where a defect would be worst: the machine and its judgements, and what judges the runs of the end-to-end suite.
const FILES: [&str; 7] = [
    "wrapper/src/supervise/state.rs",
    "wrapper/src/supervise/state/*.rs",
    "wrapper/src/bootstrap/marker.rs",
    "wrapper/src/api/auth.rs",
    "wrapper/src/member/readiness.rs",
    "e2e/src/history.rs",
    "e2e/src/history/*.rs",
];
/// What of it is for tests alone.
const NOT: [&str; 3] = ["**/tests.rs", "**/explore.rs", "**/rules.rs"];

/// Puts small defects into the code and looks whether a test notices
///
/// The code is the machine, the marker, access, readiness, and the checker of histories. One defect at a time is made in
/// a copy of the clone, and the unit tests of its crate run. What no test noticed must be explained in hack/mutants.toml;
/// an explanation of a defect that is not there, or that a test noticed, is told too. All of them take hours on two
/// cores: a shard is a part.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask mutants --list                   and is the list of survivors good\n  \
    cargo xtask mutants --shard 1/24\n  \
    cargo xtask mutants --file wrapper/src/api/auth.rs\n\n\
    Exit code 1 if a defect went unnoticed without an explanation, or if an explanation is stale.")]
pub(crate) struct Args {
    /// Only this part of them, such as 1/24
    #[arg(long, value_name = "PART/OF", value_parser = shard)]
    shard: Option<(usize, usize)>,
    /// Only those in this file
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// Make none: list them, and check the list of survivors against them
    #[arg(long)]
    list: bool,
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parsed = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    let (part, of): (usize, usize) = parsed.ok_or_else(|| "not PART/OF".to_owned())?;
    if part == 0 || part > of { Err("parts are 1 to OF".to_owned()) } else { Ok((part, of)) }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    machine::require_linker()?;
    let root = repo::root();
    let program = Tool::CargoMutants.ensure()?;
    let explained = Explained::read(&root)?;
    let all = step(&program, &root, None)?.arg("--list").read()?;
    let all: Vec<String> = all.lines().map(list::name).collect();
    let mut wrong: Vec<String> = explained.stale(&all);
    if args.list {
        let shown =
            step(&program, &root, args.file.as_deref())?.arg("--list").args(part(args.shard)).read()?;
        print!("{shown}");
        eprintln!(
            "{} of {} mutants, {} of them explained",
            shown.lines().count(),
            all.len(),
            explained.len()
        );
        return Ok(told(&wrong));
    }
    let nextest = Tool::CargoNextest.ensure()?;
    let out = workspace::target_folder(&root)?.join("mutants");
    std::fs::create_dir_all(&out).with_context(|| format!("create {}", out.display()))?;
    let status = step(&program, &root, args.file.as_deref())?
        .args(part(args.shard))
        .args(["--no-shuffle", "--colors", "never", "--test-tool", "nextest", "--output"])
        .arg(&out)
        .args(["--timeout-multiplier", "5", "--minimum-test-timeout", "60", "--", "--lib"])
        .env("PATH", beside(&nextest)?)
        // Dependencies are built once, not in each copy; without symbols, which would only take time.
        .env("CARGO_TARGET_DIR", out.join("build"))
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .status()?;
    // Its codes: 2 something went unnoticed, 3 something took too long. What that means is said below.
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        bail!(
            "cargo-mutants: {}; its logs are in {}",
            crate::sh::ended(status),
            out.join("mutants.out").display()
        );
    }
    let outcomes = Outcomes::read(&out.join("mutants.out"))?;
    println!("{outcomes}");
    wrong.extend(explained.judge(&outcomes));
    Ok(told(&wrong))
}

fn told(wrong: &[String]) -> ExitCode {
    for what in wrong {
        println!("{what}");
    }
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// cargo-mutants on the chosen files.
fn step(program: &Path, root: &Path, file: Option<&str>) -> Result<Step> {
    if let Some(file) = file.filter(|file| !root.join(file).is_file()) {
        bail!("{file}: no such file in the clone");
    }
    let mut step =
        Step::new(program).args(["mutants", "--package", "etcd-wrapper", "--package", "e2e"]).dir(root);
    match file {
        Some(file) => step = step.args(["--file", file]),
        None => step = FILES.iter().fold(step, |step, file| step.args(["--file", *file])),
    }
    Ok(NOT.iter().fold(step, |step, file| step.args(["--exclude", *file])))
}

/// cargo-mutants counts parts from 0.
fn part(shard: Option<(usize, usize)>) -> Vec<String> {
    shard.map(|(part, of)| vec!["--shard".to_owned(), format!("{}/{of}", part - 1)]).unwrap_or_default()
}

/// PATH with the folder of a program first: cargo finds its verbs there.
fn beside(program: &Path) -> Result<std::ffi::OsString> {
    let folder = program.parent().context("a program lies in a folder")?.to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&path)))
        .context("put PATH together")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_from_one() {
        assert_eq!(shard("1/12"), Ok((1, 12)));
        assert_eq!(part(Some((1, 12))), ["--shard", "0/12"]);
        assert_eq!(part(None), [""; 0]);
        for wrong in ["0/2", "3/2", "1", "a/b", "1/0"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_file_that_is_named_is_there() {
        for file in FILES {
            let path = repo::root().join(file.trim_end_matches("/*.rs"));
            assert!(path.exists(), "{file}");
        }
    }
}
