// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask fuzz`: the wrapper's fuzz targets for longer than the tests run them, on the stable compiler. Which
//! targets there are, and what a failure is, stands in the wrapper's own `fuzz` module; here its tests are found and
//! run one by one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::USAGE;
use crate::sh::Step;
use crate::{machine, repo};

/// How the test of a target is called, around the target's name.
const TEST: (&str, &str) = ("fuzz::tests::", "::survives_any_bytes");
/// Always fails: it shows that a defect would be found. Only run when it is asked for.
const PLANTED: &str = "planted";

/// Feeds the wrapper's parsers mutated bytes
///
/// Runs one target, or each of them in turn, for a time each, and shows what it does: inputs, inputs a second, the
/// slowest input, the seed. The first input that fails is made short, kept below target/fuzz, and named with the command
/// that replays it. The ordinary tests run every target too, for about a second.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask fuzz                    every target, 60 s each\n  \
    cargo xtask fuzz config --time 10m\n  \
    cargo xtask fuzz config --seed 42   the same inputs once more\n  \
    cargo xtask fuzz config --input target/fuzz/config-0123456789abcdef\n  \
    cargo xtask fuzz planted            must fail: shows that a defect is found\n\n\
    Exit codes: 0 nothing found, 1 an input failed, 2 no such target.")]
pub(crate) struct Args {
    /// Only this one; an unknown name shows the list
    target: Option<String>,
    /// Time for each target, such as 30s or 10m
    #[arg(long, default_value = "60s", value_parser = duration)]
    time: Duration,
    /// Start of the random numbers; every run says its own
    #[arg(long)]
    seed: Option<u64>,
    /// Run this one file instead, such as a failing input that was kept
    #[arg(long, value_name = "FILE", requires = "target", conflicts_with = "seed")]
    input: Option<PathBuf>,
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if duration.as_secs() == 0 { Err("at least one second".to_owned()) } else { Ok(duration) }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    machine::require_linker()?;
    let root = repo::root();
    let input = args.input.as_ref().map(std::path::absolute).transpose()?;
    let program = test_program(&root)?;
    let listed = Step::new(&program).args(["--list", "--format", "terse"]).dir(&root).read()?;
    let targets = targets(&listed);
    ensure!(!targets.is_empty(), "{} has no fuzz target", program.display());
    let chosen: Vec<&str> = match args.target.as_deref() {
        None => targets.iter().copied().filter(|name| *name != PLANTED).collect(),
        Some(name) if targets.contains(&name) => vec![name],
        Some(name) => {
            eprintln!("error: {name:?} is no target; there are {}", targets.join(", "));
            return Ok(ExitCode::from(USAGE));
        }
    };
    let seed = args.seed.unwrap_or_else(random_seed);
    let mut failed = Vec::new();
    for target in &chosen {
        let mut step = Step::new(&program)
            .arg(format!("{}{target}{}", TEST.0, TEST.1))
            .args(["--exact", "--nocapture", "--quiet"])
            .dir(&root.join("wrapper"))
            // The place of the panic that reports is of no use.
            .env("RUST_BACKTRACE", "0")
            .env("E2E_FUZZ_SECONDS", args.time.as_secs().to_string())
            .env("E2E_FUZZ_SEED", seed.to_string());
        if let Some(input) = &input {
            step = step.env("E2E_FUZZ_INPUT", input);
        }
        if !step.status()?.success() {
            failed.push(*target);
        }
    }
    if failed.is_empty() {
        println!("nothing found in {}", chosen.join(", "));
        return Ok(ExitCode::SUCCESS);
    }
    println!("failed: {}; the lines above name the input and the command that replays it", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Builds the unit tests as `cargo xtask test` does, and finds the wrapper's among them.
fn test_program(root: &Path) -> Result<PathBuf> {
    let said = Step::new("cargo")
        .args(["test", "--workspace", "--lib", "--no-run", "--message-format", "json-render-diagnostics"])
        .dir(root)
        .read_loud()?;
    let found =
        said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|message| {
            let ours = message["target"]["name"] == "etcd_wrapper" && message["profile"]["test"] == true;
            message["executable"].as_str().filter(|_| ours).map(PathBuf::from)
        });
    found.context("cargo built no unit tests of etcd-wrapper")
}

/// The names of the targets out of a list of tests.
fn targets(listed: &str) -> Vec<&str> {
    listed
        .lines()
        .filter_map(|line| line.strip_prefix(TEST.0)?.strip_suffix(": test")?.strip_suffix(TEST.1))
        .collect()
}

fn random_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) << 20 ^ now.as_secs() ^ u64::from(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_tests_of_one_name() {
        let listed = "fuzz::tests::config::survives_any_bytes: test\nfuzz::tests::other: test\n\
                      config::tests::x: test\nfuzz::tests::planted::survives_any_bytes: test\n";
        assert_eq!(targets(listed), ["config", "planted"]);
    }

    #[test]
    fn a_time_is_at_least_a_second() {
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert!(duration("10ms").is_err() && duration("soon").is_err());
    }
}
