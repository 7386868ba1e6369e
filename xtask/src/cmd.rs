// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The verbs: one file each below. Here they are named and chosen, and their errors reach the terminal.
//!
//! Exit codes of every verb: 0 done, 1 failed, 2 usage; a verb that has others says so in its `--help`.

mod bench;
mod ci;
mod coverage;
mod dev;
mod e2e;
mod examples;
mod fuzz;
mod image;
mod kind;
mod lint;
mod mutants;
mod release;
mod setup;
mod test;
mod tidy;
mod tool;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Exit code of a command line that cannot be meant, as clap has it.
const USAGE: u8 = 2;

/// Builds, tests and runs etcd-wrapper from a clone.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
#[command(after_help = "A newcomer's first command: cargo xtask dev\nThe tests: cargo xtask test")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Setup(setup::Args),
    Dev(dev::Args),
    Tool(tool::Args),
    Test(test::Args),
    Ci(ci::Args),
    Coverage(coverage::Args),
    Fuzz(fuzz::Args),
    Lint(lint::Args),
    Mutants(mutants::Args),
    Tidy(tidy::Args),
    Examples(examples::Args),
    Image(image::Args),
    Kind(kind::Args),
    E2e(e2e::Args),
    Release(release::Args),
    Bench(bench::Args),
    #[command(hide = true)]
    DevGuard(dev::guard::Args),
}

/// The whole command line, for those who check what others write about it.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Runs the verb of this process's command line.
pub(crate) fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Setup(args) => setup::run(&args),
        Verb::Dev(args) => dev::run(&args),
        Verb::Tool(args) => tool::run(&args),
        Verb::Test(args) => test::run(&args),
        Verb::Ci(args) => ci::run(&args),
        Verb::Coverage(args) => coverage::run(&args),
        Verb::Fuzz(args) => fuzz::run(&args),
        Verb::Lint(args) => lint::run(&args),
        Verb::Mutants(args) => mutants::run(&args),
        Verb::Tidy(args) => tidy::run(&args),
        Verb::Examples(args) => examples::run(&args),
        Verb::Image(args) => image::run(&args),
        Verb::Kind(args) => kind::run(&args),
        Verb::E2e(args) => e2e::run(&args),
        Verb::Release(args) => release::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::DevGuard(args) => dev::guard::run(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Why a command line would be refused before its verb ran; the first word is the program's.
pub(crate) fn refuses(words: &[String]) -> Option<String> {
    let error = Cli::try_parse_from(words).err()?;
    // Help is no refusal, and no run either.
    let why = error.to_string();
    Some(why.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// clap breaks longer ones at the edge of a terminal, and an example that is cut in two cannot be pasted.
    #[test]
    fn the_examples_of_every_verb_fit_80_columns() {
        let mut verbs = vec![command()];
        while let Some(verb) = verbs.pop() {
            let after = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let wide = after.lines().find(|line| line.starts_with("  ") && line.chars().count() > 80);
            assert_eq!(wide, None, "{}", verb.get_name());
            verbs.extend(verb.get_subcommands().cloned());
        }
    }

    #[test]
    fn the_help_of_every_verb_has_an_example() {
        for verb in Cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let after = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains(&format!("cargo xtask {}", verb.get_name())), "{}", verb.get_name());
        }
    }
}
