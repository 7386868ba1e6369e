// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Which part of the code may know which: the stages in their order, the pure machine, and the crates beside the
//! wrapper that speak to it only as a user would. The reasons stand in ARCHITECTURE.md.

use anyhow::Result;

use super::tree::Tree;
use super::{Finding, code};

/// A stage below `wrapper/src`, and those that it hands on to and must not know.
const STAGES: [(&str, &[&str]); 3] =
    [("bootstrap", &["member", "api"]), ("supervise", &["api"]), ("member", &["api"])];

/// The pure machine, below `wrapper/src`.
const MACHINE: &str = "supervise/state";
/// Words that the machine has no use for: clocks, I/O, tasks, randomness, logs.
const IMPURE: [&str; 14] = [
    "Instant",
    "SystemTime",
    "tokio",
    "tracing",
    "ring",
    "rustix",
    "libc",
    "fs",
    "io",
    "net",
    "env",
    "thread",
    "futures_util",
    "println",
];
/// What of the crate the machine may know: values.
const MACHINE_KNOWS: [&str; 2] = ["supervise", "config"];

/// Folders whose crates must not depend on the wrapper's.
const OUTSIDE: [&str; 3] = ["xtask/", "bench/", "e2e/"];

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (stage, forbidden) in STAGES {
        for (path, text) in module(tree, stage) {
            let bare = code::bare(text);
            for (line, name) in names_from_root(path, &bare) {
                if forbidden.contains(&&*name) {
                    let what = format!(
                        "`{stage}` must not know `{name}`, a later stage: hand a value or a watch channel on"
                    );
                    findings.push(Finding::new(path, line, what));
                }
            }
        }
    }
    let test_modules = test_modules(tree);
    for (path, text) in module(tree, MACHINE) {
        if !test_modules.iter().any(|module| lies_in(path, module)) {
            findings.extend(impurities(path, text));
        }
    }
    for (path, text) in tree.with_extension("toml") {
        if path.ends_with("/Cargo.toml") && OUTSIDE.iter().any(|folder| path.starts_with(folder)) {
            findings.extend(dependencies_on_wrapper(path, text));
        }
    }
    // A rule over files that are gone would be kept for ever.
    for path in [
        "wrapper/src/bootstrap.rs",
        "wrapper/src/member.rs",
        "wrapper/src/supervise/state.rs",
        "xtask/Cargo.toml",
    ] {
        tree.text(path)?;
    }
    Ok(findings)
}

/// The files of a module of the wrapper: `x.rs` and what lies in `x/`.
fn module<'a>(tree: &'a Tree, name: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    tree.with_extension("rs").filter(move |(path, _)| lies_in(path, &format!("wrapper/src/{name}")))
}

/// Whether `path` is the file of the module at `module`, or one of its children.
fn lies_in(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// Names right below the crate's root: after `crate::`, and after as many `super::` as lead there.
pub(super) fn names_from_root(path: &str, bare: &str) -> Vec<(usize, String)> {
    let mut names = code::names_after(bare, "crate::");
    let depth = path.trim_start_matches("wrapper/src/").matches('/').count() + 1;
    // One more from within a module of the file itself.
    for supers in depth..=depth + 1 {
        names.extend(code::names_after(bare, &"super::".repeat(supers)));
    }
    names
}

/// Modules of the machine that are compiled for tests only, as paths without `.rs`.
fn test_modules(tree: &Tree) -> Vec<String> {
    let mut modules = Vec::new();
    for (path, text) in module(tree, MACHINE) {
        let mut lines = text.lines().map(str::trim).peekable();
        while let Some(line) = lines.next() {
            if line == "#[cfg(test)]"
                && let Some(name) = lines.peek().and_then(|next| next.strip_suffix(';'))
                && let Some((_, name)) = name.rsplit_once("mod ")
            {
                modules.push(format!("{}/{name}", path.trim_end_matches(".rs")));
            }
        }
    }
    modules
}

fn impurities(path: &str, text: &str) -> Vec<Finding> {
    // What follows is the file's own tests.
    let product = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let bare = code::bare(product);
    let mut findings = Vec::new();
    for word in IMPURE {
        let what =
            format!("the machine is pure: `{word}` belongs into its runtime, and comes in as an event");
        findings.extend(
            code::lines_with_word(&bare, word).into_iter().map(|line| Finding::new(path, line, &*what)),
        );
    }
    for (line, name) in code::names_after(&bare, "crate::") {
        if !MACHINE_KNOWS.contains(&&*name) {
            findings.push(Finding::new(
                path,
                line,
                format!("the machine is pure: it must not know `{name}`"),
            ));
        }
    }
    findings
}

fn dependencies_on_wrapper(path: &str, text: &str) -> Vec<Finding> {
    let mut section = "";
    let mut findings = Vec::new();
    for (number, line) in text.lines().map(str::trim).enumerate() {
        if line.starts_with('[') {
            section = line;
        }
        let named = line.starts_with("etcd-wrapper")
            || line.contains("\"etcd-wrapper\"")
            || line.contains("../wrapper\"");
        let table = section.contains("dependencies.etcd-wrapper") && line.starts_with('[');
        if section.contains("dependencies") && (named || table) {
            let what = "no dependency on the wrapper's crate: talk to the binary, so that changes on the wire show up";
            findings.push(Finding::new(path, number + 1, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Vec<String> {
        let bones = [
            ("wrapper/src/bootstrap.rs", ""),
            ("wrapper/src/member.rs", ""),
            (
                "wrapper/src/supervise/state.rs",
                "#[cfg(test)]\npub(crate) mod explore;\n#[cfg(test)]\nmod tests;\n",
            ),
            ("xtask/Cargo.toml", ""),
        ];
        let files: Vec<(&str, &str)> = bones.into_iter().chain(files.iter().copied()).collect();
        check(&Tree::of(&files)).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn no_stage_reaches_forward() {
        for (path, text) in [
            ("wrapper/src/bootstrap/x.rs", "use crate::member::view;"),
            ("wrapper/src/bootstrap/x.rs", "use crate::{config, member};"),
            ("wrapper/src/supervise/x.rs", "fn a() { crate::api::b() }"),
            ("wrapper/src/supervise/x.rs", "use super::super::api::b;"),
            ("wrapper/src/supervise/x.rs", "mod tests {\n use super::super::super::api;\n}"),
            ("wrapper/src/member/a/b.rs", "use super::super::super::api::c;"),
        ] {
            assert_eq!(lines(&[(path, text)]).len(), 1, "{text}");
        }
        for (path, text) in [
            ("wrapper/src/bootstrap/x.rs", "// crate::member\nuse crate::supervise::view;"),
            ("wrapper/src/supervise/x.rs", "use crate::member::view; use super::api;"),
            ("wrapper/src/member/a.rs", "use super::view; const A: &str = \"crate::api\";"),
            ("wrapper/src/members.rs", "use crate::api;"),
        ] {
            assert_eq!(lines(&[(path, text)]), [""; 0], "{text}");
        }
    }

    #[test]
    fn the_machine_stays_pure_and_its_tests_need_not() {
        for text in [
            "use std::time::Instant;",
            "use std::time::{Duration, SystemTime};",
            "fn a() { std::fs::read(\"x\") }",
            "use tokio::sync::watch;",
            "use crate::metrics::Metrics;",
        ] {
            assert_eq!(lines(&[("wrapper/src/supervise/state/x.rs", text)]).len(), 1, "{text}");
            for path in ["explore.rs", "explore/world.rs", "tests/a.rs"] {
                assert_eq!(
                    lines(&[(&format!("wrapper/src/supervise/state/{path}"), text)]),
                    [""; 0],
                    "{path}"
                );
            }
        }
        let good = "use std::time::Duration;\nuse crate::supervise::view;\n#[cfg(test)]\nmod tests {\n use std::time::Instant;\n}";
        assert_eq!(lines(&[("wrapper/src/supervise/state/x.rs", good)]), [""; 0]);
    }

    #[test]
    fn crates_beside_the_wrapper_do_not_depend_on_it() {
        for line in [
            "[dependencies]\netcd-wrapper = { path = \"../wrapper\" }",
            "[dev-dependencies]\nw = { package = \"etcd-wrapper\", version = \"1\" }",
            "[dependencies.etcd-wrapper]\npath = \"../../wrapper\"",
        ] {
            assert!(!lines(&[("e2e/doubles/Cargo.toml", line)]).is_empty(), "{line}");
            assert_eq!(lines(&[("wrapper/Cargo.toml", line)]), [""; 0]);
        }
        assert_eq!(
            lines(&[("e2e/doubles/Cargo.toml", "[package]\ndescription = \"etcd-wrapper's\"")]),
            [""; 0]
        );
    }
}
