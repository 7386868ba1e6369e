// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The program around the scenarios: it says what there is, what will run and what cannot, runs, and ends with a code that
//! tells a full pass from everything else ([`Exit`]). What one scenario's turn is like is `runner/turn`'s.
mod args;
mod select;
pub(crate) mod show;
mod turn;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::host;
use crate::namespace::{self, Claim};
use crate::outcome::{Exit, Outcome, Results, Verdict};
use crate::scenario::Scenario;
use crate::stage::Stage;
use crate::timeline::now;

pub use args::{Args, Keep};

/// The whole program: reads the command line, and returns what it ends with.
pub fn main(table: &'static [Scenario]) -> ExitCode {
    let args = match Args::from_command_line() {
        Ok(args) => args,
        Err(error) => {
            // Help and version are no mistakes.
            let code = if error.use_stderr() { Exit::Usage.code() } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    turn::remember_panics();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            show::complain(&format!("error: start the runtime: {error}"));
            return ExitCode::from(Exit::NothingRan.code());
        }
    };
    let exit = match runtime.block_on(run(&args, table)) {
        Ok(exit) => exit,
        Err(error) => {
            show::complain(&format!("error: {error:#}"));
            Exit::NothingRan
        }
    };
    // A scenario that hangs without awaiting anything has a thread of its own: it is not waited for.
    runtime.shutdown_background();
    ExitCode::from(exit.code())
}

async fn run(args: &Args, table: &[Scenario]) -> Result<Exit> {
    let mut stage = Stage::read(&args.stage)?;
    stage.seed = args.seed.unwrap_or(stage.seed);
    let selection = select::select(table, args, &stage);
    show::stage(&stage);
    show::expected(&selection);
    if args.list {
        return Ok(if selection.can_run.is_empty() { Exit::NothingRan } else { Exit::Passed });
    }
    let results = Mutex::new(Results {
        run: stage.run.clone(),
        seed: stage.seed,
        commit: stage.commit.clone(),
        cluster: stage.cluster.clone(),
        kubernetes: stage.kubernetes.clone(),
        images: stage.images.clone(),
        double: stage.has_double(),
        started: now(),
        finished: None,
        interrupted: false,
        host: host::facts(),
        selection: args.selection(),
        replay: replay(&args.selection(), &stage),
        outcomes: selection.cannot_run.iter().map(|(scenario, needs)| missing(scenario, needs)).collect(),
    });
    std::fs::create_dir_all(&stage.report).with_context(|| format!("make {}", stage.report.display()))?;
    let folder = stage.report.clone();
    let keep = |change: &mut dyn FnMut(&mut Results)| {
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut results);
        results.write(&folder)
    };
    keep(&mut |_| {})?;
    if selection.can_run.is_empty() {
        show::line("nothing of what was selected can run here");
        keep(&mut |results| results.finished = Some(now()))?;
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        show::summary(&results, &folder)?;
        return Ok(Exit::NothingRan);
    }

    let stopped = stop_on_signals();
    let cluster = Cluster::new(stage).await?;
    tokio::select! {
        fit = cluster.check() => fit?,
        () = until_stopped(stopped.clone()) => return Ok(Exit::Interrupted),
    }
    let claim = Arc::new(Claim::new(&cluster.stage.run));
    claim.renew(&cluster.client).await?;
    let keeper = tokio::spawn({
        let (claim, cluster) = (Arc::clone(&claim), cluster.clone());
        async move { claim.keep(&cluster).await }
    });
    for name in namespace::sweep(&cluster).await? {
        show::line(&format!("removed {name}, left by a run that is over"));
    }

    let total = selection.can_run.len();
    let turns = selection.can_run.iter().enumerate().map(|(place, scenario)| {
        let turn = turn::Turn {
            scenario: **scenario,
            place: place + 1,
            total,
            cluster: cluster.clone(),
            claim: Arc::clone(&claim),
            keep: args.keep,
            stopped: stopped.clone(),
        };
        turn.take()
    });
    let mut outcomes = stream::iter(turns).buffer_unordered(args.jobs);
    while let Some(outcome) = outcomes.next().await {
        keep(&mut |results| insert(results, table, outcome.clone()))?;
    }
    keeper.abort();
    claim.end(&cluster.client).await.unwrap_or_else(|error| show::line(&format!("{error:#}")));
    keep(&mut |results| {
        results.finished = Some(now());
        results.interrupted = *stopped.borrow();
    })?;
    let results = results.lock().unwrap_or_else(PoisonError::into_inner).clone();
    show::summary(&results, &cluster.stage.report)?;
    Ok(results.exit())
}

/// The command that does this run once more.
fn replay(selection: &str, stage: &Stage) -> String {
    let mut words = vec!["cargo xtask e2e", selection];
    words.extend(stage.has_double().then_some("--allow-double"));
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    format!("{} --seed {}", words.join(" "), stage.seed)
}

fn missing(scenario: &Scenario, needs: &[crate::scenario::Need]) -> Outcome {
    let needs: Vec<String> = needs.iter().map(ToString::to_string).collect();
    Outcome {
        reason: Some(format!("needs {}", needs.join(", and "))),
        ..Outcome::new(scenario.name, scenario.about, Verdict::Missing)
    }
}

/// Keeps the outcomes in the order of the table.
fn insert(results: &mut Results, table: &[Scenario], outcome: Outcome) {
    let place = |name: &str| table.iter().position(|scenario| scenario.name == name);
    results.outcomes.push(outcome);
    results.outcomes.sort_by_key(|outcome| place(&outcome.name));
}

/// Becomes true at the first SIGINT or SIGTERM. A second one ends the process as if it had no handler.
pub(crate) fn stop_on_signals() -> watch::Receiver<bool> {
    use tokio::signal::unix::{SignalKind, signal};
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        let (Ok(mut interrupt), Ok(mut terminate)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            show::complain("signals cannot be watched: an interrupt leaves namespaces behind");
            return;
        };
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        show::line("interrupted: removing what this run made");
        sender.send_replace(true);
        // As long as this lives, the channel does.
        std::future::pending::<()>().await;
    });
    receiver
}

/// Ends when a signal has come, and never when none can be watched.
pub(crate) async fn until_stopped(mut stopped: watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
