// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the wrapper costs, and whether that is little enough: rows of a table, each measured in interleaved runs beside
//! bare etcd (the limit) and another wrapper (the peer). `cargo xtask bench` builds what is compared and starts this.
//!
//! Knows the wrapper only as its users do: binary, HTTP, log, /proc. Load is bounded in count and time, and stays on
//! loopback.
mod etcd;
mod finding;
mod http;
mod log;
mod machine;
mod minimal;
mod process;
mod report;
mod rows;
mod scene;
mod stage;
mod stats;
mod verdict;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};

use report::Report;
use stage::Stage;

/// Exit code of a run that was interrupted, as a shell has it for SIGINT.
const INTERRUPTED: u8 = 130;

static NOTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

#[expect(clippy::print_stderr, reason = "a program that talks to the person who typed it")]
fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            if interrupted().is_err() { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE }
        }
    }
}

fn run() -> Result<ExitCode> {
    watch_signals()?;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [path] = &arguments[..] else { bail!("one argument, the stage's file; run `cargo xtask bench`") };
    let stage = Stage::read(Path::new(path))?;
    let known = rows::ids();
    if let Some(unknown) = stage.only.iter().find(|id| !known.contains(&id.as_str())) {
        bail!("no row {unknown:?}; there are {}", known.join(", "));
    }
    let facts = machine::facts();
    let rows = rows::run(&stage, report::tell)?;
    let report = Report { stage: &stage, facts, rows };
    report.write()?;
    Ok(report.exit())
}

/// The first signal is noted and leads out by the ordinary way, which takes down what was started.
fn watch_signals() -> Result<()> {
    let noted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&noted))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&noted)))
            .context("take SIGINT and SIGTERM")?;
    }
    // Set once, here.
    let _ = NOTED.set(noted);
    Ok(())
}

/// An error once somebody wants us to end.
pub(crate) fn interrupted() -> Result<()> {
    match NOTED.get() {
        Some(noted) if noted.load(Ordering::Relaxed) => bail!("interrupted"),
        _ => Ok(()),
    }
}
