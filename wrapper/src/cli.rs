// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The command line: from arguments to a checked `Invocation`. Pure: reads no environment (Kubernetes injects names
//! such as `ETCD_WRAPPER_PORT`, so no variable may set a flag) and no files; exit codes are exit.rs's.
use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub mod client;
mod flags;
pub mod host_port;
pub mod notify_url;
mod spelling;
pub mod start;

pub use client::ClientVerb;
pub use start::{Bootstrap, ClientPair, LogFormat, OnEtcdExit, SidecarFlags, StartFlags};

/// The verb of the server; every other one is a client's.
pub const SERVER: &str = "start-etcd";

/// What the process was asked to do.
#[derive(Clone, Debug)]
pub enum Invocation {
    /// Run the server.
    Start(Box<StartFlags>),
    /// Ask a wrapper, or look at what it left behind.
    Client(Box<ClientVerb>),
    /// Text for stdout: `--help` or `--version`; nothing else is to be done.
    Print(String),
}

/// A command line that cannot be carried out (exit 2). Displays what is wrong, and where there is one a suggestion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

#[derive(Debug, Parser)]
#[command(
    name = "etcd-wrapper",
    version,
    about = "Runs one etcd member: bootstraps it with the backup sidecar, supervises it, and tells others about it",
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "start-etcd is the server; every other verb is a client, and asks the wrapper of its own pod unless \
                  told otherwise. More on a verb: etcd-wrapper VERB --help\n\n\
                  Examples:\n  etcd-wrapper status\n  etcd-wrapper restart --guard serial --wait 5m\n  \
                  etcd-wrapper cheatsheet\n\n\
                  Exit codes of a client: 0 done, 1 refused or failed, 2 usage, 3 nobody reached, 4 not ready or not \
                  leading, 5 the wait ran out."
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Initialise the data directory with the backup sidecar, then start and supervise etcd
    #[command(
        args_override_self = true,
        disable_help_flag = true,
        after_help = "Flags may have one or two dashes. A flag given twice: the last one counts. Booleans take their \
                      value only with '=' (--hold=false). Durations are Go's: 300ms, 1.5h, 2m0s. No environment \
                      variable sets a flag."
    )]
    StartEtcd(Box<flags::RawFlags>),
    #[command(flatten)]
    Client(Box<ClientVerb>),
}

/// The whole command line as clap knows it, for completions and the manual page.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Reads the arguments after the program's name.
///
/// # Errors
/// Unknown verb or flag, a value of the wrong kind, flags that contradict each other.
pub fn parse<I>(args: I) -> Result<Invocation, UsageError>
where
    I: IntoIterator,
    I::Item: Into<OsString>,
{
    let command = command();
    let mut args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    // The verbs of the client are ours alone: no Go program ever took them.
    if args.first().is_some_and(|verb| verb == SERVER) {
        args = spelling::from_go(args, &command);
    }
    let program = std::iter::once(OsString::from("etcd-wrapper"));
    let matches = match command.try_get_matches_from(program.chain(args)) {
        Ok(matches) => matches,
        Err(error) if error.exit_code() == 0 => return Ok(Invocation::Print(error.to_string())),
        Err(error) => return Err(UsageError(trim(&error))),
    };
    let cli = Cli::from_arg_matches(&matches).map_err(|error| UsageError(trim(&error)))?;
    match cli.verb {
        Verb::Client(verb) => Ok(Invocation::Client(verb)),
        Verb::StartEtcd(raw) => {
            let given = |flag: &str| {
                matches.subcommand().is_some_and(|(_, matches)| {
                    matches.value_source(flag) == Some(clap::parser::ValueSource::CommandLine)
                })
            };
            start::check(*raw, given).map(|flags| Invocation::Start(Box::new(flags))).map_err(UsageError)
        }
    }
}

/// clap's own text without the `error: ` that whoever prints it adds again.
fn trim(error: &clap::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned()
}

#[cfg(test)]
mod tests;
