// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Where in a source file the code is compiled for tests alone. That a test ran says nothing about the product, and its
//! lines would make every share look better. Relies on rustfmt: an item ends where a brace stands at its own indent.

use std::ops::RangeInclusive;

use crate::tidy::bare;

/// The lines of items under `#[cfg(test)]`, or another `cfg` that begins with `test` or `any(test`.
pub(super) fn ranges(text: &str) -> Vec<RangeInclusive<usize>> {
    let code = bare(text);
    let lines: Vec<&str> = code.lines().collect();
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim_start();
        if line.starts_with("#[cfg(test") || line.starts_with("#[cfg(any(test") {
            let indent = lines[at].len() - line.len();
            let end = end(&lines, at + 1, indent);
            ranges.push(at + 1..=end + 1);
            at = end;
        }
        at += 1;
    }
    ranges
}

/// The modules that a source file declares for tests alone, each as the beginning of the paths of its files without
/// `.rs`: `wrapper/src/member/testing`.
pub(super) fn modules(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let (folder, file) = stem.rsplit_once('/').unwrap_or(("", stem));
    // The root of a crate has its modules beside it, every other file in a folder of its own name.
    let home = if matches!(file, "lib" | "main") { folder } else { stem };
    let declared = ranges(text).into_iter().filter_map(|range| {
        let last = lines.get(range.end() - 1)?.trim().strip_suffix(';')?;
        let name = last.split_once("mod ")?.1;
        Some(format!("{home}/{name}"))
    });
    declared.collect()
}

/// The last line of the item that begins at `from`, as an index.
fn end(lines: &[&str], from: usize, indent: usize) -> usize {
    let own = |line: &str| line.len() - line.trim_start().len() == indent && !line.trim().is_empty();
    for (number, line) in lines.iter().enumerate().skip(from).filter(|(_, line)| own(line)) {
        let line = line.trim();
        // Further attributes, and what opens the item, do not end it.
        let ends = line.ends_with(';') || line.ends_with('}') || line.ends_with(',');
        if ends && !line.starts_with("#[") {
            return number;
        }
    }
    lines.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_functions_and_single_lines_are_found() {
        let text = "fn a() {\n    b();\n}\n#[cfg(test)]\nmod outside;\n\n#[cfg(any(test, fuzzing))]\npub mod fuzz;\n\
                    impl X {\n    #[cfg(test)]\n    #[must_use]\n    fn of(\n        x: u8,\n    ) -> Self {\n        Self\n    }\n\n    fn y() {}\n}\n\
                    #[cfg(test)]\nmod tests {\n    const T: &str = \"\n}\n\";\n    fn t() {}\n}\nfn z() {}\n";
        assert_eq!(ranges(text), [4..=5, 7..=8, 10..=16, 20..=26]);
    }

    #[test]
    fn modules_of_tests_alone_are_told_by_where_they_lie() {
        let text = "#[cfg(test)]\npub(crate) mod testing;\nmod real;\n#[cfg(test)]\nuse x;\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(modules("w/src/member.rs", text), ["w/src/member/testing"]);
        assert_eq!(modules("w/src/lib.rs", text), ["w/src/testing"]);
    }

    #[test]
    fn a_file_without_tests_has_none() {
        assert!(ranges("fn a() {}\n// #[cfg(test)]\n").is_empty());
    }
}
