// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The tests that the sources hold, and the requirements that they show: those that the name begins with, and those of
//! a line `// Shows: P1, Invariant 7` above it, for tests that show more than a name can hold. The scenarios of the
//! end-to-end suite count as tests. Runs none of them.

use super::code;
use super::tree::Tree;

/// A test that shows requirements.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Test {
    /// As in docs/requirements.md: `B2`, `P4`, `Invariant 7`.
    pub(super) ids: Vec<String>,
    /// Package, target if it is not the crate itself, module and function: `etcd-wrapper::it::stop::e2_five_calls`.
    pub(super) name: String,
    pub(super) path: String,
    pub(super) line: usize,
}

/// All tests with ids, in the order of their names.
pub(super) fn find(tree: &Tree) -> Vec<Test> {
    let mut tests = Vec::new();
    for (path, text) in tree.with_extension("rs") {
        let Some(prefix) = crate_path(tree, path) else { continue };
        for (line, modules, function, shown) in functions(text) {
            let mut ids = ids(&function);
            ids.extend(shown);
            if !ids.is_empty() {
                let parts = prefix.iter().chain(&modules).chain([&function]);
                let name = parts.map(String::as_str).collect::<Vec<_>>().join("::");
                tests.push(Test { ids, name, path: path.to_owned(), line });
            }
        }
    }
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    tests
}

/// The ids that a name begins with, after `soak_`.
fn ids(function: &str) -> Vec<String> {
    let name = function.strip_prefix("soak_").unwrap_or(function);
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mut words = name.split('_');
    if let Some(rest) = name.strip_prefix("invariant_") {
        return rest.split('_').take_while(|word| number(word)).map(|n| format!("Invariant {n}")).collect();
    }
    let mut ids = Vec::new();
    while let Some(word) = words.next().filter(|word| !word.is_empty()) {
        let (letter, rest) = word.split_at(1);
        if !letter.bytes().all(|b| b.is_ascii_lowercase()) || !number(rest) {
            break;
        }
        ids.push(word.to_uppercase());
    }
    ids
}

/// Package, target and modules of a source file; none for build scripts and the like.
fn crate_path(tree: &Tree, path: &str) -> Option<Vec<String>> {
    let (folder, source, target) = match path.split_once("/src/") {
        Some((folder, source)) => (folder, source, None),
        None => {
            let (folder, rest) = path.split_once("/tests/")?;
            match rest.split_once('/') {
                Some((target, source)) => (folder, source, Some(target)),
                // The scenarios' program has its modules beside each other.
                None => (folder, rest, None),
            }
        }
    };
    let manifest = tree.text(&format!("{folder}/Cargo.toml")).ok()?;
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = "))?;
    let mut parts = vec![name.trim_matches('"').to_owned()];
    parts.extend(target.map(str::to_owned));
    let modules = source.trim_end_matches(".rs");
    parts.extend(modules.split('/').filter(|part| !matches!(*part, "main" | "lib")).map(str::to_owned));
    Some(parts)
}

/// A test function: line, modules within the file, name, and what a comment says that it shows.
type Function = (usize, Vec<String>, String, Vec<String>);

fn functions(text: &str) -> Vec<Function> {
    let bare = code::bare(text);
    let mut found = Vec::new();
    let mut modules: Vec<(usize, String)> = Vec::new();
    let mut marked = false;
    let mut shown = Vec::new();
    for (number, (line, raw)) in bare.lines().zip(text.lines()).enumerate() {
        if let Some(ids) = raw.trim().strip_prefix("// Shows: ") {
            shown = ids.split(',').map(|id| id.trim().trim_end_matches('.').to_owned()).collect();
        }
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some((_, row)) = line.split_once("scenario!(") {
            // A row of a table of scenarios; the name may stand on the line below.
            let next = bare.lines().nth(number + 1).unwrap_or_default();
            let word = if row.is_empty() { next.trim() } else { row };
            let name: String = word.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            found.push((number + 1, Vec::new(), name, std::mem::take(&mut shown)));
        }
        if line == "}" && modules.last().is_some_and(|(at, _)| *at == indent) {
            modules.pop();
        } else if let Some(name) = line.strip_suffix(" {").and_then(|line| word_after(line, "mod ")) {
            modules.push((indent, name));
        } else if line.starts_with("#[test]")
            || line.starts_with("#[rstest")
            || line.starts_with("#[tokio::test")
        {
            marked = true;
        } else if let Some(name) = word_after(line, "fn ") {
            let shown = std::mem::take(&mut shown);
            if std::mem::take(&mut marked) {
                found.push((number + 1, modules.iter().map(|(_, name)| name.clone()).collect(), name, shown));
            }
        }
    }
    found
}

/// The name in `pub(x) async fn NAME(…`; none where the keyword is not at its place.
fn word_after(line: &str, keyword: &str) -> Option<String> {
    let at = line.find(keyword)?;
    let before_is_plain = line[..at].chars().all(|c| c.is_ascii_lowercase() || matches!(c, ' ' | '(' | ')'));
    let name: String =
        line[at + keyword.len()..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (before_is_plain && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_what_a_name_begins_with() {
        assert_eq!(ids("b2_term_before_ready"), ["B2"]);
        assert_eq!(ids("e14_e15_signals"), ["E14", "E15"]);
        assert_eq!(ids("soak_a5_two_hours"), ["A5"]);
        assert_eq!(ids("invariant_3_7_ready"), ["Invariant 3", "Invariant 7"]);
        assert_eq!(ids("the_a1_case"), [""; 0]);
        assert_eq!(ids("a_start_joins"), [""; 0]);
        assert_eq!(ids("a1"), ["A1"]);
    }

    #[test]
    fn a_comment_says_what_a_name_cannot_hold() {
        let source = "// Shows: P1, Invariant 7\n#[test]\nfn everybody() {}\n#[test]\nfn a1_b() {}\n";
        let tree = Tree::of(&[("p/Cargo.toml", "name = \"p\"\n"), ("p/src/lib.rs", source)]);
        let found: Vec<Vec<String>> = find(&tree).into_iter().map(|test| test.ids).collect();
        assert_eq!(found, [vec!["A1"], vec!["P1", "Invariant 7"]]);
    }

    #[test]
    fn scenarios_are_found_by_the_rows_of_their_tables() {
        let rows = "const SCENARIOS: &[Scenario] = &[\n    scenario!(i9_x, \"about\").smoke(),\n    scenario!(\n        i8_y,\n        \"about\"\n    ),\n];\n\
                    async fn i9_x(case: &Case) {}\nmacro_rules! scenario {}\n";
        let tree = Tree::of(&[("e2e/Cargo.toml", "name = \"e2e\"\n"), ("e2e/tests/damage.rs", rows)]);
        let names: Vec<String> = find(&tree).into_iter().map(|test| test.name).collect();
        assert_eq!(names, ["e2e::damage::i8_y", "e2e::damage::i9_x"]);
    }

    #[test]
    fn tests_are_found_with_their_modules() {
        let unit = "fn a1_no_test() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a2_x() {}\n\n    mod deep {\n        \
                    #[rstest]\n        #[case(1)]\n        fn a3_y(#[case] n: u8) {}\n    }\n    fn helper() {}\n}\n\
                    proptest! {\n    #[test]\n    fn a4_z(x in 0..1) {}\n}\n";
        let tree = Tree::of(&[
            ("p/Cargo.toml", "[package]\nname = \"pack\"\n"),
            ("p/src/m/n.rs", unit),
            ("p/src/lib.rs", "#[tokio::test]\nasync fn a5_w() {}\n"),
            ("p/tests/it/stop.rs", "#[test]\nfn a6_v() {}\n// #[test]\nfn a7_u() {}\n"),
        ]);
        let names: Vec<String> = find(&tree).into_iter().map(|test| test.name).collect();
        assert_eq!(
            names,
            [
                "pack::a5_w",
                "pack::it::stop::a6_v",
                "pack::m::n::a4_z",
                "pack::m::n::tests::a2_x",
                "pack::m::n::tests::deep::a3_y",
            ]
        );
    }
}
