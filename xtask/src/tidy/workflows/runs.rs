// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What workflows run: one verb a step, as it can be typed on any machine. The line is parsed as the verb itself would
//! parse it, so that a flag that is renamed breaks here and not in the next release. Values reach it as `"$NAME"` out of
//! `env`: what `${{ }}` writes into a script is code.

use serde_json::Value;

use super::super::Finding;
use super::Workflow;
use crate::cmd;

/// A release, and what hosted runs say of it, is never about the sidecar's double.
const DOUBLE: &str = "--allow-double";

pub(super) fn check(workflow: &Workflow<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for step in workflow.steps() {
        let Some(run) = step.get("run").and_then(Value::as_str) else { continue };
        if let Some(wrong) = wrong(run) {
            let first = run.lines().next().unwrap_or_default();
            let line = workflow.text.lines().position(|line| line.contains("run:") && line.contains(first));
            findings.push(Finding::new(workflow.path, line.map_or(0, |at| at + 1), format!("run: {wrong}")));
        }
    }
    for (number, line) in workflow.text.lines().enumerate() {
        if line.contains(DOUBLE) {
            let what = format!("{DOUBLE}: hosted runs are about the real sidecar");
            findings.push(Finding::new(workflow.path, number + 1, what));
        }
    }
    findings
}

fn wrong(run: &str) -> Option<String> {
    let run = run.trim();
    if run.contains('\n') {
        return Some("several lines: put what they do into a verb of xtask".into());
    }
    if run.contains("${{") {
        return Some("a value is written into the script: hand it over in `env`, and use \"$NAME\"".into());
    }
    let words: Vec<&str> = run.split_whitespace().collect();
    if words.iter().take(2).ne(["cargo", "xtask"].iter()) {
        return Some(format!("`{run}` is no verb of xtask"));
    }
    let mut plain = vec!["cargo xtask".to_owned()];
    for word in &words[2..] {
        let Some(word) = self::plain(word) else {
            return Some(format!("`{word}` is logic: put it into the verb"));
        };
        plain.push(word);
    }
    if plain.iter().any(|word| word == DOUBLE) {
        // Told for its line already.
        return None;
    }
    cmd::refuses(&plain).map(|why| format!("`{run}`: {why}"))
}

/// A word without what a shell would do with it: `"$NAME"`, also behind `--flag=`, becomes a value. None if the shell
/// would do more.
fn plain(word: &str) -> Option<String> {
    let (before, variable) = match word.split_once('"') {
        Some((before, rest)) => (before, Some(rest.strip_suffix('"')?.strip_prefix('$')?)),
        None => (word, None),
    };
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+~^".contains(c);
    if !before.chars().all(harmless) {
        return None;
    }
    match variable {
        None => Some(before.to_owned()),
        Some(name) if !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_') => {
            // A value that most flags take; those that do not are named by what they are about.
            let value = match name {
                "ETCD" => "3.5",
                "SHARD" => "1/2",
                "EVENT" => "push",
                "BUMP" => "minor",
                "SCENARIOS" => "smoke",
                _ => "1",
            };
            Some(format!("{before}{value}"))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::spoilt;

    const RUN: &str = "- run: cargo xtask tidy";

    #[test]
    fn a_step_runs_one_verb_and_nothing_else() {
        for (to, what) in [
            ("- run: make test", "no verb of xtask"),
            ("- run: cargo test", "no verb of xtask"),
            ("- run: cargo xtask tidy && echo good", "`&&` is logic"),
            ("- run: cargo xtask tidy | tee log", "`|` is logic"),
            ("- run: cargo xtask tool $(name)", "is logic"),
            ("- run: cargo xtask tool $NAME", "is logic"),
            ("- run: |\n          cargo xtask tidy\n          cargo xtask lint", "several lines"),
            ("- run: cargo xtask tool ${{ inputs.tool }}", "written into the script"),
        ] {
            let told = spoilt(RUN, to);
            assert!(told.contains(what), "{to}: {told}");
        }
    }

    #[test]
    fn the_verb_and_its_flags_are_there() {
        assert!(spoilt(RUN, "- run: cargo xtask tydi").contains("tydi"));
        assert!(spoilt(RUN, "- run: cargo xtask tidy --mend").contains("--mend"));
        assert!(spoilt(RUN, "- run: cargo xtask e2e --etcd 3.9").contains("3.9"));
    }

    #[test]
    fn values_come_by_variables() {
        use super::wrong;
        for good in [
            "cargo xtask e2e --smoke --etcd \"$ETCD\" --kubernetes \"$KUBERNETES\"",
            "cargo xtask coverage --base=\"$BASE\"",
            "cargo xtask release plan --bump \"$BUMP\"",
        ] {
            assert_eq!(wrong(good), None);
        }
    }

    #[test]
    fn hosted_runs_are_never_about_the_double() {
        let told = spoilt(RUN, "- run: cargo xtask e2e --smoke --allow-double");
        assert!(told.starts_with(".github/workflows/w.yml:12: --allow-double"), "{told}");
    }
}
