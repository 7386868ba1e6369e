// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The hot paths against the baseline that the repository keeps: instructions (counted by valgrind, whatever else the
//! machine does) and allocations. Times are printed and judged by nobody.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::repo;
use crate::sh::Step;

/// Below the clone's root.
const BASELINE: &str = "bench/baseline.json";
/// The packages and their benchmarks, each a program of the crate `micro`.
const PROGRAMS: [(&str, &str); 2] = [("etcd-wrapper", "hot"), ("e2e", "history")];
/// Runs of a hot path under valgrind; the difference of the two is what so many more runs cost.
const COUNTS: [u64; 2] = [2_000, 4_000];
/// Operations of the history that growth is about, and of one that is a tenth of it.
const GROWTH: [u64; 2] = [100_000, 1_000_000];
/// What a change may cost in instructions before it is told: layouts of code shift by less.
const SLACK: f64 = 0.03;
/// Of allocations not one more; less is a buffer that grew, or a timer that fired in between.
const ROUNDING: f64 = 0.25;

/// What one run of a hot path costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cost {
    /// None: no valgrind.
    instructions: Option<f64>,
    allocations: f64,
    /// Allocations that are still there afterwards.
    kept: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Baseline {
    /// Instructions of another compiler or architecture are no baseline.
    rustc: String,
    arch: String,
    cases: BTreeMap<String, Cost>,
}

/// What a program of `micro` prints.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counted {
    count: u64,
    nanos: f64,
    allocations: f64,
    kept: f64,
    most_bytes: f64,
}

/// Measures all hot paths; holds them against the baseline, or writes it anew.
pub(super) fn run(write: bool) -> Result<ExitCode> {
    let root = repo::root();
    let valgrind = Step::new("valgrind").arg("--version").mend("apt-get install valgrind").read();
    if let Err(error) = &valgrind {
        eprintln!("instructions are not counted: {error:#}");
    }
    let mut cases = BTreeMap::new();
    for (package, bench) in PROGRAMS {
        let program = build(&root, package, bench)?;
        for name in Step::new(&program).arg("list").read()?.lines() {
            let (cost, nanos) = measure(&program, name, valgrind.is_ok())?;
            println!(
                "{name:<10} {:>12} instructions {:>9} allocations {:>7} kept {:>10.0} ns",
                cost.instructions.map_or_else(|| "–".to_owned(), |count| format!("{count:.0}")),
                format!("{:.2}", cost.allocations),
                format!("{:.2}", cost.kept),
                nanos
            );
            cases.insert(name.to_owned(), cost);
        }
        if bench == "history" {
            growth(&program)?;
        }
    }
    let rustc = Step::new("rustc").arg("--version").dir(&root).read()?.trim().to_owned();
    let now = Baseline { rustc, arch: std::env::consts::ARCH.to_owned(), cases };
    let path = root.join(BASELINE);
    if write {
        std::fs::write(&path, serde_json::to_string_pretty(&now)? + "\n")
            .with_context(|| format!("write {}", path.display()))?;
        eprintln!("wrote {BASELINE}");
        return Ok(ExitCode::SUCCESS);
    }
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("read {BASELINE}; it is made by: cargo xtask bench --baseline"))?;
    let before: Baseline = serde_json::from_str(&text).with_context(|| format!("parse {BASELINE}"))?;
    let findings = compare(&before, &now);
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        eprintln!("nothing costs more than in {BASELINE}");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("if it is worth it: cargo xtask bench --baseline");
    Ok(ExitCode::FAILURE)
}

fn build(root: &Path, package: &str, bench: &str) -> Result<PathBuf> {
    let said = Step::new("cargo")
        .args(["bench", "--locked", "--package", package, "--bench", bench, "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .dir(root)
        .read_loud()?;
    let messages = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut made = messages
        .filter(|message| message["target"]["name"] == bench && message["target"]["kind"][0] == "bench");
    let path = made.find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)));
    path.with_context(|| format!("cargo bench made no program `{bench}`"))
}

/// The cost of one run, and how long it took without valgrind in nanoseconds.
fn measure(program: &Path, name: &str, valgrind: bool) -> Result<(Cost, f64)> {
    let counted = count(Step::new(program), name, COUNTS[1])?;
    let runs = counted.count as f64;
    let instructions = valgrind.then(|| {
        let [few, many] = COUNTS;
        Ok::<_, anyhow::Error>(
            (instructions(program, name, many)? - instructions(program, name, few)?) / (many - few) as f64,
        )
    });
    let cost = Cost {
        instructions: instructions.transpose()?.map(f64::round),
        allocations: rounded(counted.allocations / runs),
        kept: rounded(counted.kept / runs),
    };
    Ok((cost, counted.nanos / runs))
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn count(step: Step, name: &str, runs: u64) -> Result<Counted> {
    let said = step.arg(name).arg(runs.to_string()).read()?;
    let line = said.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.with_context(|| format!("{name} printed no JSON: {said}"))?)
        .with_context(|| format!("parse what {name} printed"))
}

fn instructions(program: &Path, name: &str, runs: u64) -> Result<f64> {
    let said = Step::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", "--log-fd=1"])
        .arg(program)
        .arg(name)
        .arg(runs.to_string())
        .read()?;
    refs(&said).with_context(|| format!("valgrind told no instructions of {name}: {said}"))
}

/// `==12== I refs:        1,234,567`
fn refs(said: &str) -> Option<f64> {
    let (_, number) =
        said.lines().find(|line| line.contains("I") && line.contains("refs:"))?.rsplit_once("refs:")?;
    number.trim().replace(',', "").parse().ok()
}

/// Whether the checker takes ten times as long for a history ten times as long.
fn growth(program: &Path) -> Result<()> {
    let mut each = Vec::new();
    for operations in GROWTH {
        let counted = count(Step::new(program), "history", operations)?;
        println!(
            "a history of {operations:>9} operations: {:.2} s, {:.0} MiB at most",
            counted.nanos / 1e9,
            counted.most_bytes / 1024.0 / 1024.0
        );
        each.push(counted.nanos / operations as f64);
    }
    // Times are noisy, and the bigger one leaves the caches: twice is still far from what a square would be.
    if let [small, big] = each[..]
        && big > 4.0 * small
    {
        bail!("an operation of the longer history takes {:.1} times as long", big / small);
    }
    Ok(())
}

/// One line for everything that costs more.
fn compare(before: &Baseline, now: &Baseline) -> Vec<String> {
    let same = (&before.rustc, &before.arch) == (&now.rustc, &now.arch);
    let mut findings = Vec::new();
    if !same {
        eprintln!(
            "instructions are not compared: the baseline is of {} on {}, this is {} on {}",
            before.rustc, before.arch, now.rustc, now.arch
        );
    }
    for (name, was) in &before.cases {
        let Some(is) = now.cases.get(name) else {
            findings.push(format!("{name}: the baseline knows it, and it is gone"));
            continue;
        };
        if let (Some(was), Some(is), true) = (was.instructions, is.instructions, same)
            && is > was * (1.0 + SLACK)
        {
            let more = (is / was - 1.0) * 100.0;
            findings.push(format!("{name}: {is:.0} instructions instead of {was:.0}, {more:.1} % more"));
        }
        if is.allocations > was.allocations + ROUNDING {
            findings
                .push(format!("{name}: {:.2} allocations instead of {:.2}", is.allocations, was.allocations));
        }
        if is.kept > was.kept + ROUNDING {
            findings.push(format!(
                "{name}: keeps {:.2} allocations instead of {:.2}: a leak?",
                is.kept, was.kept
            ));
        }
    }
    let new = now.cases.keys().filter(|name| !before.cases.contains_key(*name));
    findings.extend(new.map(|name| format!("{name}: the baseline does not know it")));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(instructions: f64, allocations: f64, kept: f64) -> Baseline {
        let cost = Cost { instructions: Some(instructions), allocations, kept };
        Baseline { rustc: "r".into(), arch: "a".into(), cases: BTreeMap::from([("probe".into(), cost)]) }
    }

    #[test]
    fn one_allocation_and_one_leak_more_are_findings_and_less_is_none() {
        let before = baseline(1000.0, 9.0, 0.0);
        assert_eq!(compare(&before, &baseline(1020.0, 9.0, 0.0)), [""; 0]);
        assert_eq!(compare(&before, &baseline(500.0, 3.0, -1.0)), [""; 0]);
        for worse in [baseline(1040.0, 9.0, 0.0), baseline(1000.0, 10.0, 0.0), baseline(1000.0, 9.0, 1.0)] {
            assert_eq!(compare(&before, &worse).len(), 1, "{worse:?}");
        }
    }

    #[test]
    fn instructions_of_another_compiler_are_not_compared() {
        let other = Baseline { rustc: "s".into(), ..baseline(9000.0, 9.0, 0.0) };
        assert_eq!(compare(&baseline(1000.0, 9.0, 0.0), &other), [""; 0]);
    }

    #[test]
    fn a_case_that_only_one_side_knows_is_a_finding() {
        let none = Baseline { cases: BTreeMap::new(), ..baseline(0.0, 0.0, 0.0) };
        assert_eq!(compare(&baseline(1.0, 1.0, 0.0), &none).len(), 1);
        assert_eq!(compare(&none, &baseline(1.0, 1.0, 0.0)).len(), 1);
    }

    #[test]
    fn valgrinds_count_is_read() {
        assert_eq!(refs("==1== Cachegrind\n==1== I refs:        1,234,567\n"), Some(1_234_567.0));
        assert_eq!(refs("nothing"), None);
    }
}
