// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Rules about single files: the licence lines and the words at their head, their length, and where `unsafe` may stand.

use super::tree::Tree;
use super::{Finding, code};

const LICENCE: [&str; 2] =
    ["SPDX-FileCopyrightText: The etcd-wrapper authors", "SPDX-License-Identifier: Apache-2.0"];
/// Lines from which on a source file has to say why it is not two.
const LONG: usize = 400;
/// How the head of a long file begins the line that says why.
const REASON: &str = "//! Long: ";
/// The only file with `unsafe`.
const UNSAFE: &str = "wrapper/src/supervise/process.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = licences(tree);
    for (path, text) in tree.with_extension("rs") {
        if !text.lines().nth(LICENCE.len()).is_some_and(|line| line.starts_with("//! ")) {
            let what = "no head: a `//!` after the SPDX lines says what the file owns and refuses to do";
            findings.push(Finding::new(path, LICENCE.len() + 1, what));
        }
        let lines = text.lines().count();
        let reason =
            text.lines().take_while(|line| line.starts_with("//")).any(|line| line.starts_with(REASON));
        if lines > LONG && !reason {
            let what = format!(
                "{lines} lines: split it past {LONG}, or say why not in a line `{REASON}…` of its head"
            );
            findings.push(Finding::new(path, 0, what));
        }
        if path != UNSAFE {
            let lines = code::lines_with_word(&code::bare(text), "unsafe");
            findings.extend(lines.into_iter().map(|line| {
                Finding::new(
                    path,
                    line,
                    format!("`unsafe` may stand in {UNSAFE} only: put the call there, with its reason"),
                )
            }));
        }
    }
    findings
}

/// Files that have to bear licence lines, and do not.
pub(super) fn licences(tree: &Tree) -> Vec<Finding> {
    let lacking = tree.files().filter(|(path, text)| lacks_licence(path, text).is_some());
    lacking.map(|(path, _)| Finding::new(path, 1, "no SPDX lines at its head").fixable()).collect()
}

/// The files that lack their licence lines, with them.
pub(super) fn mended(tree: &Tree) -> Vec<(String, String)> {
    let mended = |(path, text): (&str, &str)| {
        let comment = lacks_licence(path, text)?;
        let lines: String = LICENCE.iter().map(|line| format!("{comment} {line}\n")).collect();
        let (shebang, rest) = match text.split_once('\n') {
            Some((first, rest)) if first.starts_with("#!/") => (format!("{first}\n"), rest),
            _ => (String::new(), text),
        };
        Some((path.to_owned(), format!("{shebang}{lines}{rest}")))
    };
    tree.files().filter_map(mended).collect()
}

/// How a comment of this file begins, if the file has to bear licence lines and does not. All other files are covered
/// by REUSE.toml: generated ones, and prose that a reader should not have to scroll past a header for.
fn lacks_licence(path: &str, text: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let comment = match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("rs" | "proto") => "//",
        Some("toml" | "yaml" | "yml" | "sh") => "#",
        _ if text.starts_with("#!/") => "#",
        _ => return None,
    };
    let after_shebang = text.lines().skip(usize::from(text.starts_with("#!/")));
    let borne = LICENCE
        .iter()
        .zip(after_shebang)
        .filter(|(want, line)| **line == format!("{comment} {want}"))
        .count();
    (borne < LICENCE.len()).then_some(comment)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BORNE: &str =
        "// SPDX-FileCopyrightText: The etcd-wrapper authors\n// SPDX-License-Identifier: Apache-2.0\n";

    #[test]
    fn licence_lines_are_demanded_and_put_after_a_shebang() {
        let good = format!("{BORNE}//! Owns x.\nfn main() {{}}\n");
        let bad = "//! Owns b.\nfn b() {}\n";
        let tree = Tree::of(&[("a.rs", &good), ("b.rs", bad), ("run", "#!/bin/sh\nx\n"), ("c.md", "x")]);
        let licence = |finding: &Finding| finding.what.contains("SPDX lines at");
        let paths: Vec<String> =
            check(&tree).into_iter().filter(licence).map(|finding| finding.path).collect();
        assert_eq!(paths, ["b.rs", "run"]);
        let mended = mended(&tree);
        assert_eq!(mended[0], ("b.rs".to_owned(), format!("{BORNE}{bad}")));
        assert_eq!(mended[1].1, format!("#!/bin/sh\n{}x\n", BORNE.replace("//", "#")));
    }

    #[test]
    fn a_file_has_a_head_right_after_its_licence_lines() {
        for (text, right) in [
            ("//! Owns x.\nfn a() {}\n", true),
            ("use x;\n", false),
            ("\n//! Owns x.\n", false),
            ("// Owns x.\n", false),
        ] {
            let text = format!("{BORNE}{text}");
            assert_eq!(check(&Tree::of(&[("a.rs", &text)])).is_empty(), right, "{text}");
        }
    }

    #[test]
    fn a_long_file_says_why() {
        let long = format!("{BORNE}//! Owns x.\nfn a() {{}}\n{}", "// y\n".repeat(400));
        let why = long.replacen("//! Owns x.", "//! Owns x.\n//!\n//! Long: one table.", 1);
        let tree = Tree::of(&[("long.rs", &long), ("why.rs", &why)]);
        let paths: Vec<String> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["long.rs"]);
    }

    #[test]
    fn unsafe_stands_in_one_file() {
        let text = format!("{BORNE}//! A.\nfn a() {{ unsafe {{ b() }} }}\nconst C: &str = \"unsafe\";\n");
        let tree = Tree::of(&[(UNSAFE, &text), ("wrapper/src/x.rs", &text)]);
        let findings = check(&tree);
        assert_eq!(findings.len(), 1);
        assert_eq!((&*findings[0].path, findings[0].line), ("wrapper/src/x.rs", 4));
    }
}
