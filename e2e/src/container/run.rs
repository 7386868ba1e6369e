// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One run of the tier, from its setting to its report and exit code. Everything that was made goes at the end, also
//! after a failure or a signal, unless it was asked to stay.
mod verdicts;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;

use super::cluster::{Cluster, UP};
use super::fault::Faults;
use super::hand::Hand;
use super::liar;
use super::setting::{Planted, Setting};
use super::witness::{TRAFFIC, Testimony, Witnesses};
use crate::check::{Exit as End, Operation};
use crate::history::History;
use crate::host;
use crate::load::HISTORY;
use crate::outcome::{Exit, Outcome, Results, Verdict};
use crate::runner::show::{complain, line, summary};
use crate::runner::{stop_on_signals, until_stopped};
use crate::schedule::{Schedule, Step};
use crate::stage::Role;
use crate::timeline::{Timeline, What, now};
use crate::traffic::{Plan, Traffic};

/// From the end of a step until all members are well again.
const RECOVERY: Duration = Duration::from_secs(180);
/// Until all kinds of traffic have begun.
const BEGIN: Duration = Duration::from_secs(60);
/// Many, each slow: etcd syncs its log once for all that wait, so a slow disk costs each of them time and all together little.
const CLIENTS: usize = 60;
const KEYS: usize = 30;
/// Of one client, from call to call: together some 400 a second when nothing is wrong.
const PACE: Duration = Duration::from_millis(150);
const LIMIT: Duration = Duration::from_secs(3);
const MOST: usize = 2_000_000;
/// The folder of the evidence, below the report.
const EVIDENCE: &str = "storm";

/// Runs faults against three members in containers.
#[derive(Debug, Parser)]
#[command(name = "tier", after_help = "Example: tier --setting target/e2e/RUN/setting.json")]
struct Args {
    /// The file that `cargo xtask e2e --tier container` wrote
    #[arg(long, value_name = "FILE")]
    setting: PathBuf,
}

/// What a storm left, for the checks.
#[derive(Debug)]
pub(super) struct Storm {
    pub(super) testimony: Testimony,
    pub(super) history: History,
    pub(super) exits: Vec<End>,
    pub(super) operations: Vec<Operation>,
    /// Steps that time did not suffice for.
    pub(super) left: usize,
    /// How long clients were at work.
    pub(super) lasted: Duration,
}

/// The whole program.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("error: start the runtime: {error}"));
            return ExitCode::from(Exit::NothingRan.code());
        }
    };
    let exit = match Setting::read(&args.setting) {
        Ok(setting) => runtime.block_on(run(&setting)),
        Err(error) => Err(error),
    };
    let exit = exit.unwrap_or_else(|error| {
        complain(&format!("error: {error:#}"));
        Exit::NothingRan
    });
    runtime.shutdown_background();
    ExitCode::from(exit.code())
}

async fn run(setting: &Setting) -> Result<Exit> {
    let schedule = Schedule::draw(setting.seed, &setting.kinds()?, setting.length());
    introduce(setting, &schedule);
    let evidence = setting.report.join(EVIDENCE);
    std::fs::create_dir_all(&evidence).with_context(|| format!("create {}", evidence.display()))?;
    let mut results = results(setting);
    results.write(&setting.report)?;
    let stopped = stop_on_signals();

    let hand =
        Hand::new(&setting.engine, &setting.run, &setting.image(Role::Hand).context("no hand")?.reference);
    let claim = hand.claim()?;
    let timeline = Timeline::default();
    let outcomes = tokio::select! {
        outcomes = at_work(setting, &hand, &schedule, &evidence, &timeline) => outcomes,
        () = until_stopped(stopped.clone()) => Err(anyhow::anyhow!("interrupted")),
    };
    let is_well = outcomes.as_ref().is_ok_and(|all| all.iter().all(|one| one.verdict == Verdict::Passed));
    let was_stopped = *stopped.borrow();
    if setting.keeps(is_well)? && !was_stopped {
        let label = hand.label();
        line(&format!("containers are kept; a later run removes them, or: docker ps --filter label={label}"));
    } else if let Err(error) = hand.remove_all().await {
        // The next run tries again; what this one has to tell is worth more.
        complain(&format!("what this run made is not all gone: {error:#}"));
    }
    drop(claim);

    results.finished = Some(now());
    results.interrupted = was_stopped;
    results.outcomes = match outcomes {
        Ok(outcomes) => outcomes,
        Err(_) if was_stopped => Vec::new(),
        // It never came to a cluster: that says nothing about the image.
        Err(error) => {
            complain(&format!("error: {error:#}"));
            Vec::new()
        }
    };
    results.write(&setting.report)?;
    summary(&results, &setting.report)?;
    verdicts::tell(&results);
    if !is_well {
        line(&format!("the same schedule once more: {}", setting.replay));
    }
    Ok(results.exit())
}

fn introduce(setting: &Setting, schedule: &Schedule) {
    if setting.has_double() {
        line("the sidecar is the DOUBLE: what passes says nothing about the real one");
    }
    if let Some(lie) = setting.planted {
        line(&format!("PLANTED: {lie:?}; a run that passes shows a fault of this program"));
    }
    line(&format!("run {}, seed {}, commit {}", setting.run, setting.seed, setting.commit));
    for image in &setting.images {
        let role = image.role.to_string();
        line(&format!("  {role:<12} {} {} ({})", image.reference, image.digest, image.from));
    }
    let kinds = schedule.kinds().len();
    line(&format!(
        "schedule of seed {}, {} steps with {kinds} kinds of faults:",
        schedule.seed,
        schedule.steps.len()
    ));
    for step in &schedule.steps {
        line(&format!("  {step}"));
    }
}

fn results(setting: &Setting) -> Results {
    Results {
        run: setting.run.clone(),
        seed: setting.seed,
        commit: setting.commit.clone(),
        cluster: "three pods of containers".into(),
        kubernetes: "none".into(),
        images: setting.images.clone(),
        double: setting.has_double(),
        started: now(),
        finished: None,
        interrupted: false,
        host: host::facts(),
        selection: "--tier container".into(),
        replay: setting.replay.clone(),
        outcomes: Vec::new(),
    }
}

async fn at_work(
    setting: &Setting,
    hand: &Hand,
    schedule: &Schedule,
    evidence: &Path,
    timeline: &Timeline,
) -> Result<Vec<Outcome>> {
    let begun = now();
    hand.reach_out().await?;
    for run in hand.sweep().await? {
        line(&format!("removed what run {run} had left"));
    }
    let mut cluster = Cluster::start(setting, hand, evidence, timeline).await?;
    let faults = Faults::new(setting);
    let stormed = storm(setting, &mut cluster, &faults, schedule, evidence, begun).await;
    cluster.keep_logs().await;
    match stormed {
        Ok(storm) => verdicts::outcomes(&storm, schedule, timeline, evidence, begun),
        Err(error) => Ok(vec![verdicts::broken(&error, timeline, begun)]),
    }
}

async fn storm(
    setting: &Setting,
    cluster: &mut Cluster,
    faults: &Faults,
    schedule: &Schedule,
    evidence: &Path,
    begun: u64,
) -> Result<Storm> {
    cluster.well(UP).await?;
    say(begun, "all members are up");
    let revision = cluster.clients[0].status().await?.revision;
    let witnesses = Witnesses::begin(cluster, setting.seed, revision + 1);
    let plan = Plan {
        clients: CLIENTS,
        roaming: true,
        keys: KEYS,
        pace: PACE,
        limit: LIMIT,
        most: MOST,
        file: Some(evidence.join(HISTORY)),
        ..Plan::new(TRAFFIC, setting.seed)
    };
    let mut targets = cluster.targets();
    if setting.planted == Some(Planted::LostWrite) {
        targets.iter_mut().for_each(|target| target.client = liar::before(&target.client));
    }
    let traffic = Traffic::start(plan, targets).await.context("start the traffic")?;
    let at_work = Instant::now();
    traffic.acknowledged(100, BEGIN).await?;
    let left = steps(setting, cluster, faults, schedule, begun).await?;
    traffic.acknowledged(100, RECOVERY).await?;
    let lasted = at_work.elapsed();
    let history = traffic.stop().await.context("stop the traffic")?;
    say(begun, "the storm is over; looking at what it left");
    cluster.well(RECOVERY).await?;
    let revision = history.answered().map(|(_, answer)| answer.written.unwrap_or(0)).max().unwrap_or(0);
    faults.look_again(cluster).await;
    let testimony = witnesses.end(cluster, revision).await?;
    let exits = cluster.pods.iter().flat_map(super::pod::Pod::exits).collect();
    let operations = faults.operations().await;
    Ok(Storm { testimony, history, exits, operations, left, lasted })
}

/// Runs the steps, as many as there is time for; how many are left.
async fn steps(
    setting: &Setting,
    cluster: &mut Cluster,
    faults: &Faults,
    schedule: &Schedule,
    begun: u64,
) -> Result<usize> {
    let began = Instant::now();
    for (done, step) in schedule.steps.iter().enumerate() {
        if began.elapsed() >= setting.length() {
            return Ok(schedule.steps.len() - done);
        }
        tokio::time::sleep(step.rest).await;
        say(begun, &step.to_string());
        take(cluster, faults, step).await.with_context(|| format!("step {step}"))?;
    }
    Ok(0)
}

async fn take(cluster: &mut Cluster, faults: &Faults, step: &Step) -> Result<()> {
    cluster.timeline.add(What::Step { text: format!("step {step}") });
    let taken = {
        let cluster = &*cluster;
        let all = step.faults.iter().map(|fault| faults.carry_out(cluster, fault));
        let whole = async {
            futures_util::future::try_join_all(all).await?;
            cluster.well(RECOVERY).await
        };
        tokio::time::timeout(3 * RECOVERY, whole).await
    };
    match taken {
        Ok(done) => done,
        Err(_) => anyhow::bail!("it does not end"),
    }?;
    // Whatever it could not start is somebody's wait above; why it could not is said here.
    match tokio::time::timeout(Duration::ZERO, cluster.kubelet_ended()).await {
        Ok(error) => Err(error),
        Err(_) => Ok(()),
    }
}

/// With the time since the run began.
fn say(begun: u64, what: &str) {
    let seconds = now().saturating_sub(begun) / 1000;
    line(&format!("[{seconds:>5} s] {what}"));
}
