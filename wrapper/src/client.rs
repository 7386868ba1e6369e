// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The same binary as a client: asks a wrapper over its HTTP API, or looks at what one left behind, and shows it to
//! people or machines. Shares with the server the wire documents, the reading of files (configuration, certificates,
//! history) and for `report` the caller of etcd; keeps nothing, changes no file, and needs neither a shell nor a HOME.
//!
//! A verb goes through `reach` (whom to ask, by which scheme), `call` (one request), and one of the files that shows
//! an answer: `status`, `lines`, `operate`, `watch`; `pod` knows this pod for `cheatsheet` and `report`.
mod call;
mod certificates;
mod cheatsheet;
mod check;
mod history;
mod lines;
mod operate;
mod pages;
mod pod;
mod reach;
mod readiness;
mod report;
mod scrub;
mod sse;
mod status;
mod term;
mod watch;

use std::io::{self, Write};

use crate::api::wire;
use crate::cli::ClientVerb;
use crate::cli::client::{Output, Reach};
use crate::exit::client::ClientCode;

/// The name under which `ps` and `pgrep` see a client. `pgrep wrapper` has to find the server alone (H6), and the
/// kernel keeps 15 letters.
const PROCESS_NAME: &std::ffi::CStr = c"etcd-member-cli";

/// Renames this process. Call it on the main thread, before anything else may take time.
pub fn take_own_name() {
    // Only for those who look: a name that cannot be set harms nobody.
    let _ = rustix::thread::set_name(PROCESS_NAME);
}

/// Why a verb came to nothing.
#[derive(Debug, thiserror::Error)]
enum ClientError {
    /// What was asked for cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// No connection, no trust, or no whole answer in time.
    #[error("{0}")]
    Nobody(String),
    /// Our own side, or an answer that makes no sense.
    #[error("{0}")]
    Failed(String),
    /// The server said no, with its document as it came.
    #[error("{}", lines::problem(.0))]
    Refused(Box<wire::Problem>, bytes::Bytes),
}

impl ClientError {
    fn code(&self) -> ClientCode {
        match self {
            Self::Usage(_) => ClientCode::Usage,
            Self::Nobody(_) => ClientCode::Nobody,
            Self::Failed(_) | Self::Refused(..) => ClientCode::Failed,
        }
    }
}

/// What a verb has to show, and how it ended.
struct Shown {
    text: String,
    code: ClientCode,
}

impl Shown {
    fn done(text: String) -> Self {
        Self { text, code: ClientCode::Done }
    }
}

/// Carries out a verb, and prints what there is to print.
pub async fn run(verb: ClientVerb) -> ClientCode {
    let output = match &verb {
        ClientVerb::Status(read) => read.output,
        ClientVerb::Leader(leader) => leader.read.output,
        ClientVerb::Events(events) => events.read.output,
        ClientVerb::Ready(ready) => ready.read.output,
        ClientVerb::Unready(unready) => unready.read.output,
        ClientVerb::Start(start) => start.operate.read.output,
        ClientVerb::Stop(stop) => stop.operate.read.output,
        ClientVerb::Restart(restart) => restart.operate.read.output,
        ClientVerb::TransferLeadership(transfer) => transfer.operate.read.output,
        ClientVerb::ValidateConfig(check) => check.output,
        ClientVerb::History(history) => history.output,
        ClientVerb::Cheatsheet(_)
        | ClientVerb::Report(_)
        | ClientVerb::Completions { .. }
        | ClientVerb::Man => Output::Table,
    };
    match carry_out(verb).await {
        Ok(shown) => {
            // Who does not want the rest of our text wants no word about it either.
            let _ = io::stdout().write_all(shown.text.as_bytes()).and_then(|()| io::stdout().flush());
            shown.code
        }
        Err(error) => {
            match (&error, output) {
                (ClientError::Refused(_, document), Output::Json) => {
                    let _ = io::stdout().write_all(&with_line_break(document));
                }
                _ => {
                    let _ = writeln!(io::stderr(), "etcd-wrapper: {}", term::plain(&error.to_string()));
                }
            }
            error.code()
        }
    }
}

async fn carry_out(verb: ClientVerb) -> Result<Shown, ClientError> {
    match verb {
        ClientVerb::Status(read) => status::run(read).await,
        ClientVerb::Leader(leader) if leader.watch => watch::leader(leader).await,
        ClientVerb::Leader(leader) => lines::run_leader(leader).await,
        ClientVerb::Events(events) => watch::events(events).await,
        ClientVerb::Ready(ready) => readiness::ready(ready).await,
        ClientVerb::Unready(unready) => readiness::unready(unready).await,
        ClientVerb::Start(start) => operate::start(start).await,
        ClientVerb::Stop(stop) => operate::stop(stop).await,
        ClientVerb::Restart(restart) => operate::restart(restart).await,
        ClientVerb::TransferLeadership(transfer) => operate::transfer(transfer).await,
        ClientVerb::ValidateConfig(check) => check::run(&check),
        ClientVerb::Cheatsheet(sheet) => cheatsheet::run(sheet).await,
        ClientVerb::History(history) => history::run(&history),
        ClientVerb::Report(report) => report::run(report).await,
        ClientVerb::Completions { shell } => Ok(Shown::done(pages::completions(shell))),
        ClientVerb::Man => Ok(Shown::done(pages::manual())),
    }
}

/// Files and processes of here would be mixed up with those of elsewhere.
fn only_this_pod(flags: &Reach) -> Result<(), ClientError> {
    match flags.server {
        None => Ok(()),
        Some(_) => {
            Err(ClientError::Usage("this is about the pod it runs in, so it takes no --server".to_owned()))
        }
    }
}

/// A document for machines: as it came, on a line of its own.
fn with_line_break(document: &[u8]) -> Vec<u8> {
    let mut text = document.to_vec();
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text
}

/// As it came, for `-o json`.
fn as_it_came(answer: &[u8]) -> String {
    String::from_utf8_lossy(&with_line_break(answer)).into_owned()
}

fn decode<T: serde::de::DeserializeOwned>(what: &str, body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body)
        .map_err(|error| ClientError::Failed(format!("the answer is no {what} document: {error}")))
}
