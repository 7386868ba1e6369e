// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask ci rehearse`: runs ci.yml on this machine, with act and without containers, for changes that are made up
//! in a clone of their own. Expressions, conditions, needs, outputs, matrices, the called workflow and the gate are the
//! real ones; actions of others and verbs that take long are stood in for. docs/releasing.md lists what that cannot show.

mod ground;

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context, Result};

use self::ground::Ground;
use crate::repo;
use crate::tools::Tool;

/// Runs ci.yml on this machine, with stand-ins for what takes long
///
/// Three changes are made up: one of the product, which needs every job; the same with a test that fails, which must close
/// the gate; and one of prose, for which nothing heavy may run. `ci` and `tidy` run for real, other verbs are only noted.
/// Takes some 3 minutes on two cores.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask ci rehearse\n  \
    cargo xtask ci rehearse --real lint          also lints for real\n\n\
    Exit code 1 if the workflow did anything else than it should.")]
pub(super) struct Args {
    /// Run this verb for real too; may be repeated
    #[arg(long, value_name = "VERB")]
    real: Vec<String>,
    /// Print all that act says
    #[arg(long)]
    verbose: bool,
}

/// One made-up change, and what the workflow must do about it.
struct Case {
    name: &'static str,
    /// The file that a commit adds a line to.
    touches: (&'static str, &'static str),
    /// What the verb that fails begins with; empty: none does.
    breaks: &'static str,
    /// Beginnings of verbs that must run.
    runs: &'static [&'static str],
    /// Beginnings of verbs that must not.
    spares: &'static [&'static str],
    /// What the gate says last.
    gate: &'static str,
}

const CASES: [Case; 3] = [
    Case {
        name: "a change of the product",
        touches: ("wrapper/src/lib.rs", "// rehearsal\n"),
        breaks: "",
        runs: &[
            "ci plan",
            "setup",
            "lint",
            "tidy",
            "test unit",
            "test integration",
            "coverage",
            "image",
            "e2e doctor",
            "e2e --smoke",
            "ci gate",
        ],
        spares: &[],
        gate: "the gate is open",
    },
    Case {
        name: "a change of the product that breaks a test",
        touches: ("wrapper/src/lib.rs", "// rehearsal, broken\n"),
        breaks: "test unit",
        // Of other jobs only what ran before is sure; the gate runs in any case.
        runs: &["ci plan", "test unit", "ci gate"],
        spares: &["test integration"],
        gate: "the gate is closed",
    },
    Case {
        name: "a change of prose",
        touches: ("README.md", "\nRehearsed.\n"),
        breaks: "",
        runs: &["ci plan", "lint", "tidy", "ci gate"],
        spares: &["test", "coverage", "image", "e2e"],
        gate: "the gate is open",
    },
];

/// Verbs that take seconds.
const REAL: [&str; 2] = ["ci", "tidy"];
/// Lines that are shown of a run that went wrong.
const SHOWN: usize = 80;
/// Matches no verb.
const NONE: &str = "nothing-breaks";

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let act = Tool::Act.ensure()?;
    let ground = Ground::prepare(&repo::root())?;
    let mut real: BTreeSet<&str> = REAL.into();
    real.extend(args.real.iter().map(String::as_str));
    let real: Vec<&str> = real.into_iter().collect();
    let mut wrong = 0;
    for case in &CASES {
        eprintln!("\n== {}", case.name);
        let breaks = if case.breaks.is_empty() { NONE } else { case.breaks };
        let seen =
            ground.play(&act, case.touches, breaks, &real.join(" "), args.verbose).context(case.name)?;
        let found = judged(case, &seen);
        println!("{}: {}", case.name, if found.is_empty() { "as it should be" } else { "WRONG" });
        for what in &found {
            println!("  {what}");
        }
        for verb in &seen.verbs {
            println!("  ran: {verb}");
        }
        if !found.is_empty() && !args.verbose {
            eprintln!("the end of what act said, all of it with --verbose:\n{}", end(&seen.said));
        }
        wrong += found.len();
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The last lines.
fn end(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(SHOWN)..].join("\n")
}

/// What was seen of one run.
#[derive(Debug)]
pub(super) struct Seen {
    /// Whether act says that all jobs ended well.
    good: bool,
    /// Command lines after `cargo xtask`, in the order in which they ran.
    verbs: Vec<String>,
    said: String,
}

/// What a run did otherwise than it should.
fn judged(case: &Case, seen: &Seen) -> Vec<String> {
    let ran =
        |begin: &str| seen.verbs.iter().any(|verb| verb == begin || verb.starts_with(&format!("{begin} ")));
    let mut wrong = Vec::new();
    wrong.extend(case.runs.iter().filter(|verb| !ran(verb)).map(|verb| format!("did not run: {verb}")));
    wrong.extend(
        case.spares.iter().filter(|verb| ran(verb)).map(|verb| format!("ran and should not: {verb}")),
    );
    if !seen.said.contains(case.gate) {
        wrong.push(format!("did not end with: {}", case.gate));
    }
    if seen.good != case.breaks.is_empty() {
        wrong.push(format!("the whole run ended {}", if seen.good { "well" } else { "badly" }));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(good: bool, verbs: &[&str], said: &str) -> Seen {
        Seen { good, verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(), said: said.into() }
    }

    #[test]
    fn a_run_that_does_too_little_or_too_much_is_told() {
        let [_, _, prose] = &CASES;
        let verbs = ["ci plan --event push", "lint --skip x", "tidy", "ci gate"];
        assert_eq!(judged(prose, &seen(true, &verbs, "| the gate is open")), [""; 0]);
        let found = judged(
            prose,
            &seen(true, &["ci plan", "lint", "tidy", "ci gate", "e2e doctor"], "the gate is open"),
        );
        assert_eq!(found, ["ran and should not: e2e"]);
        let found = judged(prose, &seen(false, &verbs[..3], "x"));
        assert_eq!(
            found,
            ["did not run: ci gate", "did not end with: the gate is open", "the whole run ended badly"]
        );
    }

    #[test]
    fn a_broken_test_has_to_close_the_gate() {
        let [_, broken, _] = &CASES;
        let verbs = ["ci plan", "test unit", "ci gate"];
        assert_eq!(judged(broken, &seen(false, &verbs, "the gate is closed")), [""; 0]);
        assert_eq!(judged(broken, &seen(true, &verbs, "the gate is open")).len(), 2);
    }
}
