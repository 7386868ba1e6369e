// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Tables of ARCHITECTURE.md that follow from the wrapper's sources: which module at the crate's root names which, and the
//! names of the threads. What must not be named is [`super::edges`]' matter; here a new edge shows as a changed table.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

use super::tree::Tree;
use super::{Finding, code, edges};

const PAGE: &str = "ARCHITECTURE.md";
const ROOT: &str = "wrapper/src/";
const BEGIN: &str = "<!-- who names whom: mended by cargo xtask tidy --fix -->\n";
const END: &str = "<!-- end of who names whom -->";
/// What begins the line that gives a thread its name.
const THREAD: &str = "thread::Builder::new()";

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let page = tree.text(PAGE)?;
    let mut findings = Vec::new();
    let (before, written, _) = parts(page)?;
    if written != table(tree) {
        let line = before.lines().count() + 1;
        let what = "the table of who names whom is not what the sources say; is the new edge meant?";
        findings.push(Finding::new(PAGE, line, what).fixable());
    }
    let listed: BTreeSet<String> = page
        .split_once("\n## Threads\n")
        .and_then(|(_, rest)| rest.split("\n## ").next())
        .unwrap_or_default()
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned()))
        .collect();
    let started = threads(tree);
    for name in started.difference(&listed) {
        findings.push(Finding::new(PAGE, 0, format!("thread {name:?} has no row in the table of threads")));
    }
    for name in listed.difference(&started) {
        findings.push(Finding::new(PAGE, 0, format!("thread {name:?} is started nowhere")));
    }
    Ok(findings)
}

/// The page with the table as it must be, if that is another one.
pub(super) fn mended(tree: &Tree) -> Result<Option<(String, String)>> {
    let page = tree.text(PAGE)?;
    let (before, written, after) = parts(page)?;
    let table = table(tree);
    Ok((written != table).then(|| (PAGE.to_owned(), format!("{before}{table}{after}"))))
}

/// The page up to the table, the table, and what follows.
fn parts(page: &str) -> Result<(&str, &str, &str)> {
    let begin = page.find(BEGIN).with_context(|| format!("{PAGE}: no line {}", BEGIN.trim_end()))?;
    let begin = begin + BEGIN.len();
    let length = page[begin..].find(END).with_context(|| format!("{PAGE}: no line {END}"))?;
    let (before, rest) = page.split_at(begin);
    let (written, after) = rest.split_at(length);
    Ok((before, written, after))
}

fn table(tree: &Tree) -> String {
    let mut names = BTreeMap::<&str, BTreeSet<String>>::new();
    for (path, _) in product(tree) {
        names.entry(module(path)).or_default();
    }
    let modules: BTreeSet<&str> = names.keys().copied().collect();
    for (path, text) in product(tree) {
        let own = module(path);
        for (_, name) in edges::names_from_root(path, &code::bare(text)) {
            if name != own && modules.contains(&*name) {
                names.entry(own).or_default().insert(name);
            }
        }
    }
    let mut table = "| Module | Names |\n|---|---|\n".to_owned();
    for (module, named) in names {
        let named: Vec<String> = named.iter().map(|name| format!("`{name}`")).collect();
        let named = if named.is_empty() { "–".to_owned() } else { named.join(", ") };
        table.push_str(&format!("| `{module}` | {named} |\n"));
    }
    table
}

/// The wrapper's sources without what is compiled for tests only, and without the two files that are the crate's root.
fn product(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let tests = test_modules(tree);
    tree.with_extension("rs")
        .filter(|(path, _)| path.starts_with(ROOT) && !matches!(module(path), "lib" | "main" | "fuzz"))
        .filter(move |(path, _)| {
            !tests.iter().any(|module| {
                path.strip_prefix(&**module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            })
        })
        .map(|(path, text)| (path, text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text)))
}

/// The module at the root that a file belongs to.
fn module(path: &str) -> &str {
    let below = path.strip_prefix(ROOT).unwrap_or(path);
    below.split('/').next().unwrap_or(below).trim_end_matches(".rs")
}

/// Modules that are compiled for tests only, as paths without `.rs`.
fn test_modules(tree: &Tree) -> Vec<String> {
    let mut modules = Vec::new();
    for (path, text) in tree.with_extension("rs").filter(|(path, _)| path.starts_with(ROOT)) {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2).filter(|pair| pair[0].starts_with("#[cfg(") && pair[0].contains("test"))
        {
            if let Some((_, name)) = pair[1].strip_suffix(';').and_then(|line| line.rsplit_once("mod ")) {
                modules.push(format!("{}/{name}", path.trim_end_matches(".rs")));
            }
        }
    }
    modules
}

/// Names given to threads, and the first one.
fn threads(tree: &Tree) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in product(tree) {
        for (at, _) in text.match_indices(THREAD) {
            let name = text[at..].split_once(".name(\"").and_then(|(_, rest)| rest.split('"').next());
            names.extend(name.map(str::to_owned));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(page: &str) -> Tree {
        Tree::of(&[
            (PAGE, page),
            ("wrapper/src/lib.rs", "pub mod a;\npub mod b;\n"),
            ("wrapper/src/a.rs", "use crate::b::x;\n#[cfg(test)]\nmod tests;\n"),
            ("wrapper/src/a/tests.rs", "use crate::c::y;\n"),
            ("wrapper/src/b.rs", "// crate::a\n#[cfg(test)]\nmod tests {\n use crate::a;\n}\n"),
            ("wrapper/src/c.rs", "fn f() { std::thread::Builder::new()\n.name(\"disk\".into()) }\n"),
        ])
    }

    const GOOD: &str = "x\n<!-- who names whom: mended by cargo xtask tidy --fix -->\n| Module | Names |\n|---|---|\n\
                        | `a` | `b` |\n| `b` | – |\n| `c` | – |\n<!-- end of who names whom -->\n\
                        ## Threads\n| `disk` | y |\n## More\n| `z` | y |\n";

    #[test]
    fn a_table_that_the_sources_do_not_bear_out_is_found_and_mended() {
        assert_eq!(check(&tree(GOOD)).unwrap(), []);
        let bad = GOOD.replace("| `a` | `b` |", "| `a` | – |");
        let found = check(&tree(&bad)).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].fixable, "{found:?}");
        assert_eq!(mended(&tree(&bad)).unwrap(), Some((PAGE.to_owned(), GOOD.to_owned())));
        assert_eq!(mended(&tree(GOOD)).unwrap(), None);
        assert!(check(&tree("no table")).is_err());
    }

    #[test]
    fn every_thread_has_its_row() {
        let found = check(&tree(&GOOD.replace("`disk`", "`desk`"))).unwrap();
        let said: Vec<String> = found.iter().map(|finding| finding.what.clone()).collect();
        assert_eq!(
            said,
            ["thread \"disk\" has no row in the table of threads", "thread \"desk\" is started nowhere"]
        );
    }
}
