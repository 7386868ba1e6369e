// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask coverage`: which lines of the wrapper the tests run, as files for others to read, and which of the lines
//! that a change adds they do not. What a share is stands in [`crate::coverage`], how it is measured in `measure`.

mod measure;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use self::measure::Bench;
use crate::coverage::{Added, Lines, Patch, cobertura, percent};
use crate::{machine, repo, workspace};

/// Measures what the tests cover
///
/// Builds the wrapper and its tests with counters, in a folder of its own below target/coverage, and runs the unit and
/// the integration tests. Wrappers that integration tests start count too, also those that are killed. Writes lcov and
/// Cobertura for each flag and for both together; only lines of the wrapper that are no test count. With --base it
/// reports on the lines that were added since, uncommitted ones too.
///
/// Files in target/coverage: lcov.info, cobertura.xml, the same as unit.* and integration.*, html/, patch.md, patch.json.
/// Where GITHUB_STEP_SUMMARY names a file, the reports are added to it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask coverage --html\n  \
    cargo xtask coverage --base origin/main --fail-under-patch 80\n  \
    cargo xtask coverage --base HEAD~5 --measured    of what the last run measured\n  \
    cargo xtask coverage unit\n\n\
    Exit code 1 if a test failed, or if a share is below what is asked for.")]
pub(crate) struct Args {
    /// Only this flag
    flag: Option<Flag>,
    /// Report on the lines that were added since this branch left REV
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Fail if less of the added lines is covered, in per cent
    #[arg(long, value_name = "PERCENT", requires = "base", value_parser = share)]
    fail_under_patch: Option<f64>,
    /// Fail if less of the whole wrapper is covered, in per cent
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    fail_under: Option<f64>,
    /// Write pages for people too
    #[arg(long)]
    html: bool,
    /// Run no test: report on what the last run measured
    #[arg(long, conflicts_with_all = ["flag", "html"])]
    measured: bool,
}

/// What was measured apart, as codecov calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Flag {
    /// Logic in one process
    Unit,
    /// The real binary with child processes, doubles and real etcd
    Integration,
}

impl Flag {
    const ALL: [Self; 2] = [Self::Unit, Self::Integration];

    fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Integration => "integration",
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    if (0.0..=100.0).contains(&share) { Ok(share) } else { Err("not between 0 and 100".to_owned()) }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let root = repo::root();
    let folder = workspace::target_folder(&root)?.join("coverage");
    // A revision that is not there must not cost a run.
    let added = args.base.as_deref().map(|base| Added::since(&root, base)).transpose()?;
    let mut good = true;
    let whole = folder.join("lcov.info");
    if args.measured {
        if !whole.is_file() {
            bail!("{} is not there: nothing was measured yet; run: cargo xtask coverage", whole.display());
        }
    } else {
        machine::require_linker()?;
        good = measure(args, &root, &folder)?;
    }
    let lines = read(&whole, &root)?.of_product(&root)?;
    println!("{}", overview(&folder, &root, &lines)?);
    if let Some(least) = args.fail_under {
        let (covered, of) = lines.totals();
        if percent(covered, of) < least {
            println!("the wrapper is covered by less than {least} %");
            good = false;
        }
    }
    if let Some(added) = &added {
        let patch = Patch::new(added, &lines);
        let text = patch.markdown();
        write(&folder.join("patch.md"), &text)?;
        write(&folder.join("patch.json"), &format!("{}\n", serde_json::to_string_pretty(&patch)?))?;
        print!("{text}");
        summarize(&text)?;
        if let Some(least) = args.fail_under_patch.filter(|least| patch.is_below(*least)) {
            println!("\nthe added lines are covered by less than {least} %; test those above");
            good = false;
        }
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the tests and writes the files. Whether all tests passed.
fn measure(args: &Args, root: &Path, folder: &Path) -> Result<bool> {
    let bench = Bench::build(root, folder)?;
    let flags = args.flag.map_or(Flag::ALL.to_vec(), |flag| vec![flag]);
    let mut passed = true;
    for flag in Flag::ALL {
        // What an earlier run measured is not this run's.
        for file in [format!("{}.info", flag.name()), format!("{}.xml", flag.name())] {
            let path = folder.join(file);
            if path.exists() {
                std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
            }
        }
    }
    for flag in &flags {
        passed &= bench.run(*flag)?;
        export(&bench, root, folder, flag.name(), &[*flag], args.html)?;
    }
    // Under the names that others look for.
    export(&bench, root, folder, "", &flags, args.html)?;
    Ok(passed)
}

/// Writes lcov, Cobertura and pages of some flags together; without a name under the names of the whole.
fn export(bench: &Bench, root: &Path, folder: &Path, name: &str, flags: &[Flag], html: bool) -> Result<()> {
    let lines = Lines::parse(&bench.lcov(flags)?, root)?.of_product(root)?;
    let (info, xml) = if name.is_empty() { ("lcov", "cobertura") } else { (name, name) };
    write(&folder.join(format!("{info}.info")), &lines.lcov())?;
    write(&folder.join(format!("{xml}.xml")), &cobertura(&lines))?;
    if html {
        bench.html(&folder.join("html").join(if name.is_empty() { "all" } else { name }))?;
    }
    Ok(())
}

fn read(path: &Path, root: &Path) -> Result<Lines> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    Lines::parse(&text, root)
}

/// The shares of each flag and of all, as a table.
fn overview(folder: &Path, root: &Path, all: &Lines) -> Result<String> {
    let mut rows = vec![format!("{:<12} {:>8} {:>8} {:>8}", "coverage", "covered", "of", "share")];
    let mut row = |name: &str, lines: &Lines| {
        let (covered, of) = lines.totals();
        rows.push(format!("{name:<12} {covered:>8} {of:>8} {:>6.1} %", percent(covered, of)));
    };
    for flag in Flag::ALL {
        let path = folder.join(format!("{}.info", flag.name()));
        if path.is_file() {
            row(flag.name(), &read(&path, root)?.of_product(root)?);
        }
    }
    row("wrapper", all);
    Ok(rows.join("\n") + "\n")
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Adds a report to the page of a workflow's run, where there is one.
fn summarize(text: &str) -> Result<()> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("add to {}", Path::new(&path).display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_in_per_cent() {
        assert_eq!(share("80"), Ok(80.0));
        assert!(share("101").is_err() && share("-1").is_err() && share("most").is_err());
    }

    #[test]
    fn the_overview_has_a_row_for_each_flag_that_was_measured() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("wrapper/src")).unwrap();
        std::fs::write(folder.path().join("wrapper/src/a.rs"), "fn a() {\n}\n").unwrap();
        std::fs::write(folder.path().join("unit.info"), "SF:wrapper/src/a.rs\nDA:1,1\nDA:2,0\n").unwrap();
        let all = Lines::parse("SF:wrapper/src/a.rs\nDA:1,1\nDA:2,3\n", folder.path()).unwrap();
        let text = overview(folder.path(), folder.path(), &all).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["unit", "1", "2", "50.0", "%"]);
        assert_eq!(rows[2], ["wrapper", "2", "2", "100.0", "%"]);
    }
}
