// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask e2e`: engine, images, cluster and druid, then the scenarios of the crate `e2e`, then all of it away
//! again. What a scenario does, and what a report looks like, is the crate's. The container tier has a way of its own.

mod container;
mod doctor;
mod etcd;
mod images;
mod stage;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::etcd::Etcd;
use self::images::{Choice, Role};
use self::stage::Stage;
use crate::cluster::{self, Claim, Cluster, State};
use crate::druid;
use crate::engine::Engine;
use crate::interrupt::{self, Interrupt};
use crate::sh::Step;
use crate::{repo, workspace};

/// The machine is not fit, or nothing could run.
const UNFIT: u8 = 4;

/// Runs the end-to-end scenarios
///
/// Brings the image of this tree, etcd-druid and the sidecar into a KinD cluster and runs the scenarios there. Images of
/// others are taken from the local engine, else pulled, else built from pinned modules; the first lines say which were
/// taken, with digests. A cluster that is up is used and left; one that the run made is removed at its end.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask e2e                          all, against the real sidecar\n  \
    cargo xtask e2e --smoke --allow-double   the four that show the most\n  \
    cargo xtask e2e --filter partition --keep on-failure\n  \
    cargo xtask e2e --smoke --etcd 3.6 --kubernetes 1.36\n  \
    cargo xtask e2e --tier container --allow-double --duration 3m --seed 7\n  \
    cargo xtask e2e --tier container --etcd mixed --fault kill-etcd\n  \
    cargo xtask e2e --image sidecar=double\n  \
    cargo xtask e2e --image go-wrapper=localhost/etcd-wrapper-go:v0.8.0\n  \
    cargo xtask e2e doctor                   whether this machine is fit\n\n\
    Exit codes: 0 all that was selected passed; 3 what could run passed, something selected could not; 1 a failure; \
    2 usage; 4 nothing ran, or the machine is not fit; 130 interrupted.")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Where: in a cluster with etcd-druid, or in containers alone with faults drawn from the seed
    #[arg(long, value_enum, default_value_t = Tier::Kind)]
    tier: Tier,
    /// Only the few scenarios that show the most
    #[arg(long)]
    smoke: bool,
    /// Only scenarios whose name contains this; may be repeated: any of them
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// The line of etcd in the image of the wrapper that is under test; in the container tier also `mixed`: one member after
    /// the other moves from 3.5 to 3.7
    #[arg(long, value_enum, value_name = "LINE", default_value_t = Etcd::V35)]
    etcd: Etcd,
    /// Only in a cluster of this minor of Kubernetes, such as 1.36 [default: the newest]
    #[arg(long, value_name = "MINOR")]
    kubernetes: Option<String>,
    /// Only this part of them, such as 1/2
    #[arg(long, value_name = "PART/OF")]
    shard: Option<String>,
    /// Seed of everything random; printed by every run
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// When to leave namespaces, and a cluster that the run made
    #[arg(long, value_enum, default_value_t = Keep::Never)]
    keep: Keep,
    /// Take the sidecar's double where the real one is not to be had
    #[arg(long)]
    allow_double: bool,
    /// Use this image, which the engine has, for a role: wrapper, sidecar, druid, go-wrapper; `sidecar=double` asks for
    /// the double
    #[arg(long = "image", value_name = "ROLE=IMAGE")]
    images: Vec<Choice>,
    /// Where the report and all evidence go [default: target/e2e/RUN]
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// The cluster's name [default: the first of etcd-wrapper, etcd-wrapper-2, … that no other run uses]
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// List the scenarios that would run, and those that could not, and end
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    storm: container::Flags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Tier {
    /// All scenarios in a KinD cluster
    Kind,
    /// Three members as containers, and a storm of faults
    Container,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Looks whether this machine is fit, and names the command that mends each finding
    #[command(after_help = "Example: cargo xtask e2e doctor\n\nExit code 4 if it is not fit.")]
    Doctor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Keep {
    Never,
    Always,
    OnFailure,
}

impl Keep {
    fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Always => "always",
            Self::OnFailure => "on-failure",
        }
    }
}

/// The short form, with the double where the real sidecar is not to be had. Gives the exit code.
pub(crate) fn smoke() -> Result<u8> {
    all(&Args {
        what: None,
        tier: Tier::Kind,
        smoke: true,
        filter: Vec::new(),
        etcd: Etcd::V35,
        kubernetes: None,
        shard: None,
        seed: None,
        keep: Keep::Never,
        allow_double: true,
        images: Vec::new(),
        report: None,
        cluster: None,
        list: false,
        storm: container::Flags::default(),
    })
}

/// The short form of the container tier, with the double. Gives the exit code.
pub(crate) fn short_storm() -> Result<u8> {
    container::short()
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(What::Doctor) = args.what {
        return Ok(if doctor::run()? { ExitCode::SUCCESS } else { ExitCode::from(UNFIT) });
    }
    match args.tier {
        Tier::Kind if args.etcd == Etcd::Mixed => bail!("--etcd mixed goes with --tier container"),
        Tier::Kind => args.storm.refuse()?,
        Tier::Container => return container::run(args).map(ExitCode::from),
    }
    all(args).map(ExitCode::from)
}

/// Everything from engine to report; gives the exit code.
fn all(args: &Args) -> Result<u8> {
    // Before anything is started: from here on an interrupt leads to the way out below.
    let interrupt = Interrupt::watch()?;
    let engine = match doctor::fit() {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("error: {error:#}\nall findings: cargo xtask e2e doctor");
            return Ok(UNFIT);
        }
    };
    let clock = Clock::start();
    let (cluster, claim) = claim(&engine, args.cluster.as_deref())?;
    let mut made = false;
    let code = match prepare(args, &engine, &cluster, &clock, &interrupt, &mut made) {
        Ok(prepared) => scenarios(args, &prepared, &interrupt),
        // Nothing was tried yet: that says nothing about the image.
        Err(error) => {
            eprintln!("error: {error:#}");
            Ok(UNFIT)
        }
    };
    let failed = !matches!(&code, Ok(0 | 3));
    let kept = args.keep == Keep::Always || (args.keep == Keep::OnFailure && failed && !interrupt.came());
    if made && !kept {
        clock.say(&format!("removing cluster {}", cluster.name));
        cluster.delete()?;
    } else if made {
        cluster.set_temporary(false)?;
        eprintln!("cluster {name} is kept: cargo xtask kind shell --name {name}", name = cluster.name);
    }
    drop(claim);
    if interrupt.came() {
        eprintln!("interrupted; what this run had started is gone");
        return Ok(interrupt::CODE);
    }
    code
}

/// The cluster of this run, claimed: the one that was named, else the first of a few that is free and well.
fn claim(engine: &Engine, name: Option<&str>) -> Result<(Cluster, Claim)> {
    if let Some(name) = name {
        let cluster = Cluster::named(name)?;
        let Some(claim) = cluster.claim()? else {
            bail!("cluster {name} is in use by another run; choose another --cluster");
        };
        if let Some(why) = in_the_way(engine, &cluster)? {
            bail!("an old cluster is in the way: {why}; remove it: cargo xtask kind down --name {name}");
        }
        return Ok((cluster, claim));
    }
    for number in 1..10 {
        let name = match number {
            1 => cluster::DEFAULT.to_owned(),
            number => format!("{}-{number}", cluster::DEFAULT),
        };
        let cluster = Cluster::named(&name)?;
        let Some(claim) = cluster.claim()? else {
            eprintln!("cluster {name} is in use by another run");
            continue;
        };
        match in_the_way(engine, &cluster)? {
            None => return Ok((cluster, claim)),
            Some(why) => eprintln!("{why}; remove it: cargo xtask kind down --name {name}"),
        }
    }
    bail!(
        "nine clusters are in use or in the way; `cargo xtask kind status` lists them; or name another: --cluster NAME"
    )
}

/// Why a cluster that we claim cannot be used; none if it can be, or can be made. What a run that was cut off had made
/// for itself is removed.
fn in_the_way(engine: &Engine, cluster: &Cluster) -> Result<Option<String>> {
    let state = cluster.state(engine)?;
    if state != State::Absent && cluster.is_temporary() {
        eprintln!("removing cluster {}, which a run that was cut off had made", cluster.name);
        cluster.delete()?;
        return Ok(None);
    }
    Ok(match state {
        State::Absent | State::Up(_) => None,
        State::Stopped(state) => Some(format!("the node of cluster {} is {state}", cluster.name)),
        State::Deaf(why) => {
            let why = why.lines().next_back().unwrap_or_default();
            Some(format!("the API server of cluster {} does not answer ({why})", cluster.name))
        }
    })
}

/// What the scenarios' program is started with.
struct Prepared {
    program: PathBuf,
    stage: PathBuf,
}

fn prepare(
    args: &Args,
    engine: &Engine,
    cluster: &Cluster,
    clock: &Clock,
    interrupt: &Interrupt,
    made: &mut bool,
) -> Result<Prepared> {
    let root = repo::root();
    let target = workspace::target_folder(&root)?;
    clock.say("building the scenarios");
    Step::new("cargo").args(["build", "--locked", "--package", "e2e", "--bin", "e2e"]).dir(&root).run()?;
    interrupt.check()?;

    let wanted = images::wanted(args.smoke);
    let kit = images::Kit { line: args.etcd.line(), light_double: false };
    let mut found = images::collect(engine, &wanted, kit, &args.images, args.allow_double, &target, clock)?;
    interrupt.check()?;

    if let State::Up(version) = cluster.state(engine)? {
        if !cluster::is_minor(&version, args.kubernetes.as_deref()) {
            bail!("cluster {} is up with Kubernetes {version}; choose another --cluster", cluster.name);
        }
        clock.say(&format!("cluster {} is up, Kubernetes {version}", cluster.name));
    } else {
        *made = true;
        cluster.set_temporary(true)?;
        cluster.create(engine, args.kubernetes.as_deref())?;
        clock.say(&format!("cluster {} is made", cluster.name));
    }
    let State::Up(kubernetes) = cluster.state(engine)? else {
        bail!("cluster {} was made, and its API server does not answer", cluster.name);
    };
    interrupt.check()?;

    clock.say("loading images into the node");
    for image in &mut found {
        image.load(engine, cluster)?;
    }
    let reference = |role: Role| {
        let image = found.iter().find(|image| image.role == role);
        image.map(|image| image.reference.as_str()).with_context(|| format!("no image for {role}"))
    };
    let pods = druid::PodImages {
        wrapper: reference(Role::Wrapper)?,
        sidecar: reference(Role::Sidecar)?,
        chown: reference(Role::Init)?,
    };
    druid::deploy(cluster, reference(Role::Druid)?, &pods)?;
    clock.say("etcd-druid runs");
    interrupt.check()?;

    let stage = Stage::new(args.seed, args.report.clone(), &target, cluster, &kubernetes, &found)?;
    let path = stage.write()?;
    Ok(Prepared { program: target.join("debug/e2e"), stage: path })
}

/// Runs the scenarios' program; its exit code is the run's.
fn scenarios(args: &Args, prepared: &Prepared, interrupt: &Interrupt) -> Result<u8> {
    let mut words: Vec<OsString> = vec!["--stage".into(), prepared.stage.clone().into()];
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.push(name.into());
            words.push(value.into());
        }
    };
    for text in &args.filter {
        add("--filter", Some(text.clone()));
    }
    add("--shard", args.shard.clone());
    add("--keep", Some(args.keep.as_str().to_owned()));
    words.extend(args.smoke.then(|| "--smoke".into()));
    words.extend(args.list.then(|| "--list".into()));
    program(Step::new(&prepared.program).args(&words), interrupt)
}

/// Runs a program of the crate `e2e`, and hands an interrupt on to it; its exit code.
fn program(step: Step, interrupt: &Interrupt) -> Result<u8> {
    // In a group of its own: it gets one signal, from us, and not a second one from the terminal.
    let mut child = step.start(Stdio::inherit(), Stdio::inherit())?;
    let mut told = false;
    let status = loop {
        if let Some(status) = child.try_wait().context("wait for the scenarios")? {
            break status;
        }
        if interrupt.came() && !told {
            told = true;
            let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
            let pid = pid.context("a child has a pid")?;
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).context("end the scenarios")?;
        }
        std::thread::park_timeout(Duration::from_millis(100));
    };
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => Ok(code),
        None => bail!("the scenarios' program: {}", crate::sh::ended(status)),
    }
}

/// Says what happens, with the time since the run began.
#[derive(Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn say(&self, what: &str) {
        eprintln!("[{:>5.0} s] {what}", self.0.elapsed().as_secs_f64());
    }
}
