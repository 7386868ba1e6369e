// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The table in docs/requirements.md: an id a row, what it demands, and the tests that show it. The last column follows
//! from the tests' names; only its notes (`later: …`) are written by hand.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::Finding;
use super::test_names::{self, Test};
use super::tree::Tree;

const PATH: &str = "docs/requirements.md";
/// What stands where there is no test and no note.
const NONE: &str = "none yet";
const BREAK: &str = "<br>";

#[derive(Debug)]
pub(super) struct Table {
    text: String,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    /// From 1.
    line: usize,
    id: String,
    requirement: String,
    /// The last cell as it stands.
    tests: String,
}

impl Table {
    pub(super) fn read(tree: &Tree) -> Result<Self> {
        let text = tree.text(PATH)?.to_owned();
        let rows =
            text.lines().enumerate().filter_map(|(number, line)| Row::parse(number + 1, line)).collect();
        Ok(Self { text, rows })
    }

    pub(super) fn check(&self, tree: &Tree) -> Vec<Finding> {
        let tests = test_names::find(tree);
        let by_id = by_id(&tests);
        let mut findings = Vec::new();
        let mut seen = BTreeSet::new();
        for row in &self.rows {
            if !seen.insert(&*row.id) {
                findings.push(Finding::new(PATH, row.line, format!("{} stands here twice", row.id)));
            }
            if row.tests != row.generated(&by_id) {
                let what = format!("{}: its tests are not those that the sources hold", row.id);
                findings.push(Finding::new(PATH, row.line, what).fixable());
            }
        }
        for test in &tests {
            for id in test.ids.iter().filter(|id| !seen.contains(&***id)) {
                let what = format!(
                    "{}: {PATH} has no requirement {id}; add it there, or name the test otherwise",
                    test.name
                );
                findings.push(Finding::new(&test.path, test.line, what));
            }
        }
        if self.rows.is_empty() {
            findings.push(Finding::new(PATH, 0, "no row of the form `| A1 | requirement | tests |`"));
        }
        findings
    }

    /// The file with the last column as it must be, if that is another one.
    pub(super) fn mended(&self, tree: &Tree) -> Option<(String, String)> {
        let tests = test_names::find(tree);
        let by_id = by_id(&tests);
        let rows: BTreeMap<usize, &Row> = self.rows.iter().map(|row| (row.line, row)).collect();
        let mut text = String::with_capacity(self.text.len());
        for (number, line) in self.text.lines().enumerate() {
            match rows.get(&(number + 1)) {
                Some(row) => {
                    text.push_str(&format!(
                        "| {} | {} | {} |",
                        row.id,
                        row.requirement,
                        row.generated(&by_id)
                    ));
                }
                None => text.push_str(line),
            }
            text.push('\n');
        }
        (text != self.text).then(|| (PATH.to_owned(), text))
    }

    pub(super) fn untested(&self, tree: &Tree) -> Vec<String> {
        let tests = test_names::find(tree);
        let by_id = by_id(&tests);
        self.rows.iter().filter(|row| row.generated(&by_id) == NONE).map(|row| row.id.clone()).collect()
    }
}

impl Row {
    fn parse(line: usize, text: &str) -> Option<Self> {
        let text = text.trim().strip_prefix('|')?.strip_suffix('|')?;
        let mut cells = text.splitn(2, '|');
        let id = cells.next()?.trim();
        let number = id
            .strip_prefix("Invariant ")
            .or_else(|| id.strip_prefix(|letter: char| letter.is_ascii_uppercase()))?;
        if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        // The requirement may hold an escaped bar, the tests hold none.
        let (requirement, tests) = cells.next()?.rsplit_once('|')?;
        let cell = |text: &str| text.trim().to_owned();
        Some(Self { line, id: id.to_owned(), requirement: cell(requirement), tests: cell(tests) })
    }

    /// Notes first, then the tests.
    fn generated(&self, by_id: &BTreeMap<&str, Vec<&Test>>) -> String {
        let notes = self.tests.split(BREAK).map(str::trim);
        let notes = notes.filter(|part| !part.is_empty() && !part.starts_with('`') && *part != NONE);
        let tests = by_id.get(&*self.id).into_iter().flatten().map(|test| format!("`{}`", test.name));
        let parts: Vec<String> = notes.map(str::to_owned).chain(tests).collect();
        if parts.is_empty() { NONE.to_owned() } else { parts.join(BREAK) }
    }
}

fn by_id(tests: &[Test]) -> BTreeMap<&str, Vec<&Test>> {
    let mut by_id = BTreeMap::<&str, Vec<&Test>>::new();
    for test in tests {
        for id in &test.ids {
            by_id.entry(id).or_default().push(test);
        }
    }
    by_id
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = "# R\n\n| Id | Requirement | Tests |\n|---|---|---|\n| A1 | one \\| two | none yet |\n\
                       | A2 | three | later: with part 2<br>`gone::a2_x` |\n| P4 | four | `p::a1_p4_y` |\n";

    fn tree<'a>(doc: &'a str, source: &'a str) -> Tree {
        Tree::of(&[(PATH, doc), ("p/Cargo.toml", "name = \"p\"\n"), ("p/src/lib.rs", source)])
    }

    fn lines(tree: &Tree) -> Vec<String> {
        Table::read(tree).unwrap().check(tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_table_that_does_not_say_what_the_sources_hold_is_found_and_mended() {
        let source = "#[test]\nfn a1_p4_y() {}\n";
        let before = tree(DOC, source);
        let found = lines(&before);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("A1: its tests") && found[1].contains("A2: its tests"), "{found:?}");

        let (_, mended) = Table::read(&before).unwrap().mended(&before).unwrap();
        assert!(mended.contains("| A1 | one \\| two | `p::a1_p4_y` |\n"), "{mended}");
        assert!(mended.contains("| A2 | three | later: with part 2 |\n"), "{mended}");
        let after = tree(&mended, source);
        assert_eq!(lines(&after), [""; 0]);
        assert_eq!(Table::read(&after).unwrap().mended(&after), None);
    }

    #[test]
    fn an_id_that_the_table_does_not_know_is_found_at_the_test() {
        let tree = tree(DOC, "#[test]\nfn a1_p4_y() {}\n#[test]\nfn b7_z() {}\n");
        let found = lines(&tree);
        assert!(found.iter().any(|line| line.starts_with("p/src/lib.rs:4: p::b7_z: ")), "{found:?}");
    }

    #[test]
    fn rows_that_come_twice_and_rows_without_a_test_are_told() {
        let doc = "| A1 | x | none yet |\n| A1 | x | none yet |\n| A3 | y | later: soon |\n";
        let tree = tree(doc, "");
        assert_eq!(lines(&tree), ["docs/requirements.md:2: A1 stands here twice"]);
        assert_eq!(Table::read(&tree).unwrap().untested(&tree), ["A1", "A1"]);
    }
}
