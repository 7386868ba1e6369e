// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The checks of `cargo xtask lint`: which program, on which files, with which options. Judges nothing itself.

use std::path::Path;

use anyhow::{Context, Result};

use crate::sh::Step;
use crate::tidy;
use crate::tools::Tool;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Check {
    Fmt,
    Clippy,
    /// Pages of the crates: links that lead nowhere
    Doc,
    /// Licences, bans and sources of all crates
    Deny,
    /// Known weak spots of all crates; needs the database of the RustSec project
    Advisories,
    /// Dependencies that nothing uses
    Machete,
    /// A licence and a copyright for every file
    Reuse,
    /// Workflows: syntax, expressions, types
    Actionlint,
    /// Workflows: weak spots
    Zizmor,
    Shellcheck,
}

/// What became of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// What it said was printed; `mend` is a command, or what to do.
    Failed {
        mend: String,
    },
    NotRun {
        why: String,
    },
}

impl Check {
    /// The quick ones first.
    pub(super) const ALL: [Self; 10] = [
        Self::Fmt,
        Self::Reuse,
        Self::Actionlint,
        Self::Zizmor,
        Self::Shellcheck,
        Self::Machete,
        Self::Deny,
        Self::Advisories,
        Self::Clippy,
        Self::Doc,
    ];
}

impl std::fmt::Display for Check {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use clap::ValueEnum;
        let value = self.to_possible_value().expect("no check is hidden");
        // Padding is the caller's.
        out.pad(value.get_name())
    }
}

/// Runs one in the clone at `root`; with `fix` the programs that can do so mend what they find. What the programs say goes to
/// the terminal, and to `kept` if there is such a file.
pub(super) fn run(check: Check, root: &Path, fix: bool, kept: Option<&Path>) -> Result<Outcome> {
    let outcome = |step, mend| outcome(step, mend, kept);
    let cargo = |args: &[&str]| Step::new("cargo").args(args).dir(root);
    match check {
        Check::Fmt if fix => outcome(cargo(&["fmt", "--all"]), "see above"),
        Check::Fmt => outcome(cargo(&["fmt", "--all", "--check"]), "cargo xtask lint --fix fmt"),
        Check::Clippy => {
            let mut step = cargo(&["clippy", "--workspace", "--all-targets", "--locked"]);
            if fix {
                step = step.args(["--fix", "--allow-dirty", "--allow-staged"]);
            }
            outcome(step.args(["--", "-D", "warnings"]), "cargo xtask lint --fix clippy, or by hand")
        }
        Check::Doc => {
            let step = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
            outcome(step.env("RUSTDOCFLAGS", "-D warnings"), "by hand")
        }
        Check::Deny => {
            let step = deny(root)?.args(["--offline", "check", "--hide-inclusion-graph"]);
            outcome(step.args(["licenses", "bans", "sources"]), "deny.toml says what is allowed, and why")
        }
        Check::Advisories => {
            if let Err(error) = deny(root)?.args(["fetch", "db"]).read() {
                return Ok(Outcome::NotRun { why: unfetched(&format!("{error:#}")) });
            }
            let step = deny(root)?.args(["check", "--disable-fetch", "advisories"]);
            outcome(step, "cargo update -p CRATE, or another crate")
        }
        Check::Machete => {
            // As `cargo machete`, whether cargo runs us or not: it then takes its first argument for its own name.
            let step = Step::new(Tool::CargoMachete.ensure()?).arg("machete").env("CARGO", "cargo").dir(root);
            let step = if fix { step.arg("--fix") } else { step };
            outcome(step.args(["wrapper", "xtask", "e2e", "bench"]), "cargo xtask lint --fix machete")
        }
        Check::Reuse => {
            let findings = tidy::licences(root)?;
            let said: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
            print!("{said}");
            if let Some(path) = kept {
                std::fs::write(path, said).with_context(|| format!("write {}", path.display()))?;
            }
            let mend = "cargo xtask tidy --fix, or a row in REUSE.toml".to_owned();
            Ok(if findings.is_empty() { Outcome::Passed } else { Outcome::Failed { mend } })
        }
        Check::Actionlint => {
            // It finds the workflows by itself; shellcheck reads what they run.
            let step =
                Step::new(Tool::Actionlint.ensure()?).arg("-shellcheck").arg(Tool::Shellcheck.ensure()?);
            outcome(step.args(["-pyflakes", ""]).dir(root), "by hand")
        }
        Check::Zizmor => {
            let step = Step::new(Tool::Zizmor.ensure()?);
            let step = step.args(["--offline", "--no-progress", "--quiet"]).dir(root);
            let step = if fix { step.arg("--fix=safe") } else { step };
            outcome(step.arg(".github"), "cargo xtask lint --fix zizmor, or by hand")
        }
        Check::Shellcheck => {
            let scripts = tidy::shell_scripts(root)?;
            let step = Step::new(Tool::Shellcheck.ensure()?).arg("--").args(&scripts).dir(root);
            outcome(step, "by hand")
        }
    }
}

fn deny(root: &Path) -> Result<Step> {
    let program = Tool::CargoDeny.ensure()?;
    Ok(Step::new(program).args(["--workspace", "--all-features"]).dir(root))
}

/// Runs it with its output on ours; the same goes to `kept`.
fn outcome(step: Step, mend: &str, kept: Option<&Path>) -> Result<Outcome> {
    let good = match kept {
        None => step.status().context("not to be started")?.success(),
        Some(path) => {
            let (good, said) = step.listen(true).context("not to be started")?;
            std::fs::write(path, said).with_context(|| format!("write {}", path.display()))?;
            good
        }
    };
    Ok(if good { Outcome::Passed } else { Outcome::Failed { mend: mend.to_owned() } })
}

/// Why the database cannot be had, out of all that the program said: the innermost cause stands last.
fn unfetched(said: &str) -> String {
    let cause = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("nothing was said");
    format!("the database of advisories cannot be fetched: {cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_run_when_none_is_chosen() {
        use clap::ValueEnum;
        let all = Check::value_variants();
        assert_eq!(all.len(), Check::ALL.len());
        assert!(all.iter().all(|check| Check::ALL.contains(check)));
    }

    #[test]
    fn the_innermost_cause_is_told() {
        let why = unfetched("x: exit code 1: failed to fetch\n  Caused by:\n    no such host\n\n");
        assert!(why.ends_with("fetched: no such host"), "{why}");
    }
}
