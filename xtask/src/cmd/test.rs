// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask test`: all tiers of tests that this machine can run, the others named as not run. It brings its own
//! nextest and its own etcd; what a test is, and how it runs, stands in the tests and `.config/nextest.toml`.

mod engine_tier;
mod peers;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use self::engine_tier::{EngineTier, Short};
use crate::junit::{self, Suite};
use crate::sh::Step;
use crate::tools::{Line, Tool};
use crate::{machine, repo, workspace};

/// Runs the tests
///
/// On first use it builds the pinned cargo-nextest, etcd 3.5, 3.6 and 3.7, and what images are sent to and signed by, into
/// the cache. Ends with a table of the tiers: what ran, what did not, and the command that would run it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask test                  all that this machine can run\n  \
    cargo xtask test unit             without child processes and real etcd\n  \
    cargo xtask test integration -- b2_term --no-capture\n  \
    cargo xtask test container        a short storm of faults in containers\n  \
    cargo xtask test kind             the smoke in a cluster alone\n  \
    cargo xtask test --soak           the long tests alone\n\n\
    The exit code is nextest's: 0 all passed, 100 a test failed, 4 no test was selected; 1 if it never came to that, or \
    if a tier that needs a container engine failed. Those run where one does, unless a tier or tests are chosen.")]
pub(crate) struct Args {
    /// Only this tier
    tier: Option<Tier>,
    /// Run the tests whose name begins with `soak_`, and no others
    #[arg(long)]
    soak: bool,
    /// Handed to `cargo nextest run`
    #[arg(last = true, value_name = "NEXTEST ARGS")]
    nextest: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Tier {
    /// Logic in one process: unit, property and model tests
    Unit,
    /// Real child processes, the doubles, and real etcd
    Integration,
    /// Three members as containers under faults: `cargo xtask e2e --tier container`, short
    Container,
    /// A cluster with etcd-druid: `cargo xtask e2e --smoke --allow-double`
    Kind,
}

/// The etcd binaries that tests get, by the variable that names each.
const ETCD: [(&str, Tool); 4] = [
    ("E2E_ETCD_35", Tool::Etcd(Line::L35)),
    ("E2E_ETCD_36", Tool::Etcd(Line::L36)),
    ("E2E_ETCD_37", Tool::Etcd(Line::L37)),
    ("E2E_ETCDCTL_35", Tool::Etcdctl(Line::L35)),
];
const ETCD_34: (&str, Tool) = ("E2E_ETCD_34", Tool::Etcd(Line::L34));

/// All tests that need etcd 3.4 have this in their path.
const MODULE_34: &str = "etcd_3_4::";

/// The tests that speak to a registry; they are xtask's own.
const REGISTRY: &str = "image::registry::live::";

/// The rehearsal of a release, which signs too.
const REHEARSAL: &str = "a_release_is_rehearsed_whole";

/// The tests that mount a file system whose server never answers.
const DEAD_VOLUME: &str = "d8_a_state_directory_that_does_not_answer_at_the_start";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    machine::require_linker()?;
    let alone = match args.tier {
        Some(Tier::Container) => Some(EngineTier::Container),
        Some(Tier::Kind) => Some(EngineTier::Kind),
        Some(Tier::Unit | Tier::Integration) | None => None,
    };
    if let Some(tier) = alone {
        let short = tier.run();
        print!("\n{}", table(&[tier.row(&short)]));
        return Ok(if short.is_bad(true) { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    let root = repo::root();
    let nextest = Tool::CargoNextest.ensure()?;

    // Whoever asks for the tier, or stands for everybody (CI), is not served by a run without it.
    let demanded = args.tier == Some(Tier::Integration) || std::env::var_os("CI").is_some();
    let mut notes = Vec::new();
    let etcd = match args.tier {
        Some(Tier::Unit) => None,
        _ => match etcd_binaries(&mut notes) {
            Ok(binaries) => Some(binaries),
            Err(error) if demanded => return Err(error.context("the integration tests need their etcd")),
            Err(error) => {
                notes.push(format!("integration: {error:#}"));
                None
            }
        },
    };
    let tier = if etcd.is_none() { Some(Tier::Unit) } else { args.tier };
    if etcd.is_some() {
        // With the tests, so that both come out of one build: a build of the binaries alone would use other features
        // of the same crates. The tests find the programs beside each other in the target folder.
        Step::new("cargo").args(["build", "--workspace", "--lib", "--bins", "--tests"]).dir(&root).run()?;
    }

    let profile = profile(args.soak, std::env::var_os("CI").is_some());
    let report = workspace::target_folder(&root)?.join("nextest").join(profile).join("junit.xml");
    // What an earlier run left is not this run's result.
    if report.exists() {
        std::fs::remove_file(&report).with_context(|| format!("remove {}", report.display()))?;
    }
    let mut left_out = left_out(etcd.as_deref(), &mut notes);
    let registry = etcd.is_some() && peers::registry(&mut notes);
    if !registry {
        left_out.push(REGISTRY);
    }
    if !registry || !peers::signing(&mut notes) {
        left_out.push(REHEARSAL);
    }
    let mut step = Step::new(&nextest)
        .args(["nextest", "run", "--workspace", "--profile", profile])
        .args(selection(tier))
        .args(arguments(&args.nextest, &left_out))
        .dir(&root);
    for (name, path) in etcd.unwrap_or_default() {
        step = step.env(name, path);
    }
    let status = step.status()?;
    let suites = if report.is_file() { junit::read(&report)? } else { Vec::new() };
    // Whoever chose tests waits for those.
    let whole = args.tier.is_none() && !args.soak && args.nextest.is_empty();
    let mut rows = rows(&suites, tier, args.soak, &notes);
    let demanded = std::env::var_os("CI").is_some();
    let mut well = status.success();
    for tier in [EngineTier::Container, EngineTier::Kind] {
        let short = match (whole, well) {
            (false, _) => Short::NotAsked,
            (true, false) => Short::NotReached,
            (true, true) => tier.run(),
        };
        well &= !short.is_bad(demanded);
        rows.push(tier.row(&short));
    }
    print!("\n{}", table(&rows));
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    if status.success() && !well {
        return Ok(ExitCode::FAILURE);
    }
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The etcd binaries of the integration tests, for another verb that runs them.
#[derive(Debug)]
pub(super) struct Etcds(Vec<(&'static str, PathBuf)>);

impl Etcds {
    /// Builds them; what this machine cannot have is told.
    pub(super) fn ensure() -> Result<Self> {
        let mut notes = Vec::new();
        let binaries = etcd_binaries(&mut notes)?;
        for note in notes {
            eprintln!("{note}");
        }
        Ok(Self(binaries))
    }

    /// By the variable that names each.
    pub(super) fn binaries(&self) -> &[(&'static str, PathBuf)] {
        &self.0
    }

    /// Names of tests that would fail for want of something that this machine cannot have.
    pub(super) fn left_out(&self) -> Vec<&'static str> {
        left_out(Some(&self.0), &mut Vec::new())
    }
}

/// Builds what is needed; 3.4 is there only where Debian's package can be had, and its absence is a note.
fn etcd_binaries(notes: &mut Vec<String>) -> Result<Vec<(&'static str, PathBuf)>> {
    let mut binaries = Vec::new();
    for (name, tool) in ETCD {
        binaries.push((name, tool.ensure()?));
    }
    match ETCD_34.1.ensure() {
        Ok(path) => binaries.push((ETCD_34.0, path)),
        Err(error) => {
            notes.push(format!("etcd 3.4: {error:#}; the tests of module {MODULE_34} were not run"));
        }
    }
    Ok(binaries)
}

/// Names of tests that would fail for want of something that not every machine can have. Without any etcd no
/// integration test is selected at all.
fn left_out(etcd: Option<&[(&str, PathBuf)]>, notes: &mut Vec<String>) -> Vec<&'static str> {
    let Some(etcd) = etcd else { return Vec::new() };
    let mut names = Vec::new();
    if !etcd.iter().any(|(name, _)| *name == ETCD_34.0) {
        names.push(MODULE_34);
    }
    // Opened as the tests do it.
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        notes.push(format!("fuse: open /dev/fuse: {error}; {DEAD_VOLUME}… was not run"));
        names.push(DEAD_VOLUME);
    }
    names
}

/// The caller's arguments, and what leaves these tests out. By `--skip`, since a second filter expression would widen
/// the caller's own.
fn arguments(given: &[OsString], left_out: &[&str]) -> Vec<OsString> {
    let mut arguments = given.to_vec();
    if !left_out.is_empty() && !given.iter().any(|argument| argument == "--") {
        arguments.push("--".into());
    }
    for name in left_out {
        arguments.extend(["--skip".into(), (*name).into()]);
    }
    arguments
}

fn profile(soak: bool, ci: bool) -> &'static str {
    match (soak, ci) {
        (true, _) => "soak",
        (false, true) => "ci",
        (false, false) => "default",
    }
}

/// What of the workspace nextest runs. Always chosen within the whole workspace: choosing a package would build the
/// crates that all share with other features once more.
fn selection(tier: Option<Tier>) -> &'static [&'static str] {
    match tier {
        None => &[],
        Some(Tier::Unit) => &["--lib", "--bins"],
        Some(Tier::Integration) => &[
            "-E",
            "(package(etcd-wrapper) or package(e2e) or package(cluster-sidecar) or package(xtask)) and binary(it)",
        ],
        Some(Tier::Container | Tier::Kind) => unreachable!("they are no tiers of nextest's"),
    }
}

/// One line of the closing table.
#[derive(Debug, PartialEq)]
struct Row {
    tier: &'static str,
    /// What became of it, or why it was not run.
    outcome: String,
    time: String,
    /// What runs it, when it was not run.
    command: &'static str,
}

fn rows(suites: &[Suite], tier: Option<Tier>, soak: bool, notes: &[String]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, is, command) in [
        ("unit", Tier::Unit, "cargo xtask test unit"),
        ("integration", Tier::Integration, "cargo xtask test integration"),
    ] {
        let mine = suites.iter().filter(|suite| (tier_of(suite) == is) && suite.tests > 0);
        let (tests, failed, seconds) = mine.fold((0, 0, 0.0), |(tests, failed, seconds), suite| {
            (tests + suite.tests, failed + suite.failed, seconds + suite.seconds)
        });
        rows.push(if tests > 0 {
            let good = if failed == 0 { "all good".to_owned() } else { format!("{failed} NOT GOOD") };
            let outcome = format!("ran {tests} tests, {good}");
            Row { tier: name, outcome, time: format!("{seconds:.1} s"), command: "" }
        } else {
            let why = match notes.iter().find_map(|note| note.strip_prefix(name)) {
                Some(note) => format!("not run{note}"),
                None if tier.is_some_and(|tier| tier != is) => "not run: not asked for".to_owned(),
                None => "not run: no test of it was selected, or it did not come to that".to_owned(),
            };
            Row { tier: name, outcome: why, time: "-".into(), command }
        });
    }
    if !soak {
        let outcome = "not run: hours long, chosen by a flag".to_owned();
        rows.push(Row { tier: "soak", outcome, time: "-".into(), command: "cargo xtask test --soak" });
    }
    for (tier, command) in [
        ("etcd 3.4", "cargo xtask setup"),
        ("fuse", "modprobe fuse, then the same again"),
        ("registry", "cargo xtask tool registry"),
        ("rehearsal", "cargo xtask tool cosign"),
    ] {
        let note = notes.iter().find_map(|note| note.strip_prefix(tier)?.strip_prefix(": "));
        if let Some(note) = note {
            rows.push(Row { tier, outcome: format!("left out: {note}"), time: "-".into(), command });
        }
    }
    rows
}

fn tier_of(suite: &Suite) -> Tier {
    if suite.name.ends_with("::it") { Tier::Integration } else { Tier::Unit }
}

fn table(rows: &[Row]) -> String {
    let head =
        Row { tier: "tier", outcome: "outcome".into(), time: "test time".into(), command: "run it with" };
    let width = rows.iter().map(|row| row.outcome.chars().count()).max().unwrap_or(0).min(70);
    std::iter::once(&head)
        .chain(rows)
        .map(|row| {
            let line = format!("{:<12} {:<width$} {:>9}  {}", row.tier, row.outcome, row.time, row.command);
            format!("{}\n", line.trim_end())
        })
        .collect()
}

#[cfg(test)]
mod tests;
