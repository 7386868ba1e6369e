// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Command lines of our own verbs in pages, scripts and workflows: the verb is there, and so are its flags. What a command
//! does is its tests' matter.

use clap::Command;

use super::Finding;
use super::tree::Tree;

const PROGRAM: &str = "cargo xtask ";

/// The page that lists every verb.
const LIST: &str = "docs/development.md";

/// `known`: the command line as clap has it.
pub(super) fn check(tree: &Tree, known: &Command) -> Vec<Finding> {
    let list = tree.text(LIST).unwrap_or_default();
    let unlisted = known.get_subcommands().filter(|verb| !verb.is_hide_set()).filter(|verb| {
        let row = format!("| `{PROGRAM}{}", verb.get_name());
        !list.lines().any(|line| line.strip_prefix(&*row).is_some_and(|rest| rest.starts_with(['`', ' '])))
    });
    let unlisted = unlisted.map(|verb| {
        let what = format!("verb `{PROGRAM}{}` has no row in a table here", verb.get_name());
        Finding::new(LIST, 0, what)
    });
    let mut findings: Vec<Finding> = unlisted.collect();
    for (path, text) in tree.files().filter(|(path, _)| speaks_to_people(path)) {
        for (number, line) in text.lines().enumerate() {
            for (at, _) in line.match_indices(PROGRAM) {
                if let Some(wrong) = wrong(known, &line[at + PROGRAM.len()..]) {
                    findings.push(Finding::new(path, number + 1, wrong));
                }
            }
        }
    }
    findings
}

fn speaks_to_people(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let written = [".md", ".yaml", ".yml", ".toml"].iter().any(|end| name.ends_with(end));
    written || path.starts_with(".ci/") || path.starts_with("hack/")
}

/// What is wrong with the words behind `cargo xtask`, up to what ends a command.
fn wrong(known: &Command, rest: &str) -> Option<String> {
    let ends = ['`', '|', ';', ')', '"', '\'', '#', '<', '&'];
    let line = rest.split(ends).next().unwrap_or_default();
    let mut command = known;
    let mut path = "cargo xtask".to_owned();
    for (place, word) in line.split_whitespace().enumerate() {
        if word == "--" {
            return None;
        }
        // In a sentence the command may end anywhere.
        let word = word.trim_end_matches(['.', ',', ':']);
        if let Some(flag) =
            word.strip_prefix("--").filter(|flag| flag.starts_with(|c: char| c.is_ascii_alphabetic()))
        {
            let flag = flag.split('=').next().unwrap_or_default();
            let declared = command.get_arguments().any(|argument| argument.get_long() == Some(flag));
            if !declared && flag != "help" {
                return Some(format!("`{path}` has no flag --{flag}"));
            }
        } else if let Some(verb) = command.find_subcommand(word) {
            path = format!("{path} {word}");
            command = verb;
        } else if place == 0 && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        {
            return Some(format!("there is no `{path} {word}`"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: (&str, &str) = (LIST, "| `cargo xtask kind up` | x |\n| `cargo xtask test` | y |\n");

    #[test]
    fn every_verb_has_its_row() {
        let tree = Tree::of(&[(LIST, "| `cargo xtask kinds` | x |\n| `cargo xtask test` | y |\n")]);
        let found: Vec<String> = check(&tree, &known()).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/development.md: verb `cargo xtask kind` has no row in a table here",
                "docs/development.md:1: there is no `cargo xtask kinds`",
            ]
        );
    }

    fn known() -> Command {
        let up = Command::new("up").arg(clap::Arg::new("name").long("name"));
        let kind = Command::new("kind").subcommand(up);
        let test = Command::new("test").arg(clap::Arg::new("soak").long("soak").num_args(0));
        Command::new("cargo xtask").subcommand(kind).subcommand(test)
    }

    #[test]
    fn verbs_and_flags_that_are_not_there_are_told() {
        for (line, said) in [
            ("$ cargo xtask tset", Some("there is no `cargo xtask tset`")),
            ("run `cargo xtask test --sok`, then", Some("`cargo xtask test` has no flag --sok")),
            ("cargo xtask kind up --nam=x", Some("`cargo xtask kind up` has no flag --nam")),
            ("cargo xtask kind --name x", Some("`cargo xtask kind` has no flag --name")),
            ("cargo xtask kind up --name x", None),
            ("cargo xtask test unit -- --no-capture", None),
            ("`cargo xtask test`, or --else", None),
            ("cargo xtask VERB --flag", Some("`cargo xtask` has no flag --flag")),
            ("cargo xtask test --help. And `cargo xtask`", None),
            ("<!-- mended by cargo xtask test -->", None),
        ] {
            let tree = Tree::of(&[("docs/a.md", line), ("src/a.rs", line), LISTED]);
            let found: Vec<String> = check(&tree, &known()).into_iter().map(|finding| finding.what).collect();
            assert_eq!(found, said.into_iter().collect::<Vec<_>>(), "{line}");
        }
    }

    #[test]
    fn the_places_where_commands_stand_are_looked_at() {
        for path in ["README.md", ".github/workflows/ci.yml", ".ci/run", "hack/x", ".config/nextest.toml"] {
            let tree = Tree::of(&[(path, "a\ncargo xtask nothing\n"), LISTED]);
            assert_eq!(check(&tree, &known())[0].line, 2, "{path}");
        }
    }
}
