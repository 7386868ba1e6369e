// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The patch report: which of the lines that a change adds a test has run, as Markdown for people and JSON for programs.

use std::fmt::Write;

use serde::Serialize;

use super::diff::Added;
use super::{Lines, is_product, percent};

/// Uncovered places that the Markdown shows; the JSON has all.
const SHOWN: usize = 50;

/// What a change adds to the product, and what of it ran.
#[derive(Debug, Serialize)]
pub(crate) struct Patch {
    /// The commit that the change begins at.
    base: String,
    /// Added lines that hold code.
    pub(crate) coverable: usize,
    /// Those of them that ran.
    pub(crate) covered: usize,
    percent: f64,
    files: Vec<File>,
}

#[derive(Debug, Serialize)]
struct File {
    path: String,
    added: usize,
    coverable: usize,
    covered: usize,
    /// Numbers of the lines that did not run.
    uncovered: Vec<usize>,
}

impl Patch {
    pub(crate) fn new(added: &Added, lines: &Lines) -> Self {
        let files = added.files.iter().filter(|(path, _)| is_product(path)).map(|(path, added)| {
            // A file without code, or one that no program of the tests holds, has no counts.
            let runs = |line: &usize| lines.file(path).and_then(|file| file.get(line)).copied();
            let counted: Vec<(usize, u64)> =
                added.iter().filter_map(|line| Some((*line, runs(line)?))).collect();
            let uncovered: Vec<usize> =
                counted.iter().filter(|(_, runs)| *runs == 0).map(|(line, _)| *line).collect();
            File {
                path: path.clone(),
                added: added.len(),
                coverable: counted.len(),
                covered: counted.len() - uncovered.len(),
                uncovered,
            }
        });
        let files: Vec<File> = files.filter(|file| file.coverable > 0).collect();
        let coverable = files.iter().map(|file| file.coverable).sum();
        let covered = files.iter().map(|file| file.covered).sum();
        Self { base: added.base.clone(), coverable, covered, percent: percent(covered, coverable), files }
    }

    /// Whether the share that ran is below this many per cent. A change without code cannot be.
    pub(crate) fn is_below(&self, least: f64) -> bool {
        self.coverable > 0 && self.percent < least
    }

    pub(crate) fn markdown(&self) -> String {
        let base: String = self.base.chars().take(12).collect();
        let mut text = String::from("### Coverage of this change\n\n");
        if self.coverable == 0 {
            let _ = writeln!(text, "Since {base} no line of the wrapper was added that holds code.");
            return text;
        }
        let Self { covered, coverable, percent, .. } = self;
        let _ = writeln!(
            text,
            "Since {base}: **{percent:.1} %**, {covered} of {coverable} added lines with code.\n"
        );
        text.push_str("| File | Covered | Of | Share |\n|---|--:|--:|--:|\n");
        for File { path, coverable, covered, .. } in &self.files {
            let share = super::percent(*covered, *coverable);
            let _ = writeln!(text, "| `{path}` | {covered} | {coverable} | {share:.1} % |");
        }
        let places: Vec<String> = self
            .files
            .iter()
            .flat_map(|file| runs(&file.uncovered).into_iter().map(|run| place(&file.path, run)))
            .collect();
        if !places.is_empty() {
            text.push_str("\nNot covered:\n\n");
            for place in places.iter().take(SHOWN) {
                let _ = writeln!(text, "- `{place}`");
            }
            if places.len() > SHOWN {
                let _ = writeln!(text, "- and {} more places: patch.json has them", places.len() - SHOWN);
            }
        }
        text
    }
}

fn place(path: &str, (first, last): (usize, usize)) -> String {
    if first == last { format!("{path}:{first}") } else { format!("{path}:{first}-{last}") }
}

/// Neighbouring numbers as first and last.
fn runs(numbers: &[usize]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn patch() -> Patch {
        let lcov = "SF:wrapper/src/a.rs\nDA:1,1\nDA:2,0\nDA:3,0\nDA:5,0\nDA:6,4\nDA:9,0\n";
        let lines = Lines::parse(lcov, Path::new("/r")).unwrap();
        let mut added = Added { base: "0123456789abcdef".into(), ..Added::default() };
        let mut add =
            |path: &str, lines: &[usize]| added.files.insert(path.into(), lines.iter().copied().collect());
        add("wrapper/src/a.rs", &[1, 2, 3, 4, 5, 6]);
        add("wrapper/src/only_comments.rs", &[1]);
        add("xtask/src/main.rs", &[1]);
        Patch::new(&added, &lines)
    }

    #[test]
    fn only_added_lines_with_code_of_the_product_count() {
        let patch = patch();
        assert_eq!((patch.covered, patch.coverable, patch.files.len()), (2, 5, 1));
        assert!(patch.is_below(80.0) && patch.is_below(40.1) && !patch.is_below(40.0));
        let json = serde_json::to_value(&patch).unwrap();
        assert_eq!(json["files"][0]["uncovered"], serde_json::json!([2, 3, 5]));
        assert_eq!(json["files"][0]["added"], 6);
    }

    #[test]
    fn the_report_names_every_place_by_file_and_line() {
        let text = patch().markdown();
        assert!(text.contains("Since 0123456789ab: **40.0 %**, 2 of 5"), "{text}");
        assert!(text.contains("- `wrapper/src/a.rs:2-3`\n- `wrapper/src/a.rs:5`\n"), "{text}");
    }

    #[test]
    fn a_change_without_code_is_never_below() {
        let patch = Patch::new(&Added::default(), &Lines::default());
        assert!(!patch.is_below(100.0) && patch.markdown().contains("no line of the wrapper"));
    }
}
