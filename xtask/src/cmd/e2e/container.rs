// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask e2e --tier container`: images into the engine, then the program `tier` of the crate `e2e`. What it does
//! there is the crate's; here it is told what there is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::images::{self, Found, Kit};
use super::stage::Run;
use super::{Args, Clock, Etcd, Keep, UNFIT};
use crate::engine::Engine;
use crate::interrupt::{self, Interrupt};
use crate::sh::Step;
use crate::{repo, workspace};

/// How long faults go on, unless somebody says so.
const DURATION: Duration = Duration::from_secs(300);
/// The same in the short form, which with start and checks takes twice as long.
const SHORT: Duration = Duration::from_secs(75);

/// Flags of the container tier alone.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Flags {
    /// Container tier: how long faults go on [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// Container tier: only this kind of fault; may be repeated. A wrong name lists all
    #[arg(long, value_name = "KIND")]
    fault: Vec<String>,
    /// Container tier: a lie that the run has to find out; a run that passes with it shows a fault of the tier
    #[arg(long, value_enum, value_name = "LIE")]
    planted: Option<Planted>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Planted {
    /// A proxy before each etcd acknowledges some writes and drops them
    LostWrite,
}

/// What the program reads.
#[derive(Debug, Serialize)]
struct Setting<'a> {
    run: &'a str,
    seed: u64,
    commit: &'a str,
    engine: &'static str,
    images: &'a [Found],
    /// Milliseconds.
    duration: u64,
    faults: &'a [String],
    planted: Option<Planted>,
    keep: &'static str,
    replay: String,
    report: &'a Path,
}

impl Flags {
    /// None of them means anything elsewhere.
    pub(super) fn refuse(&self) -> Result<()> {
        if self.duration.is_some() || !self.fault.is_empty() || self.planted.is_some() {
            bail!("--duration, --fault and --planted go with --tier container");
        }
        Ok(())
    }
}

/// The short form.
pub(super) fn short() -> Result<u8> {
    let words = ["e2e", "--tier", "container", "--allow-double", "--image", "sidecar=double", "--duration"];
    let duration = humantime::format_duration(SHORT).to_string();
    let words = words.into_iter().chain([duration.as_str()]);
    run(&<Args as clap::FromArgMatches>::from_arg_matches(
        &<Args as clap::Args>::augment_args(clap::Command::new("e2e")).try_get_matches_from(words)?,
    )?)
}

/// From engine to report; the exit code.
pub(super) fn run(args: &Args) -> Result<u8> {
    if args.smoke
        || args.list
        || args.cluster.is_some()
        || args.kubernetes.is_some()
        || args.shard.is_some()
        || !args.filter.is_empty()
    {
        bail!(
            "--smoke, --list, --cluster, --kubernetes, --shard and --filter are about scenarios: not with --tier container"
        );
    }
    let interrupt = Interrupt::watch()?;
    let clock = Clock::start();
    let prepared = Engine::running().and_then(|engine| prepare(args, &engine, &clock, &interrupt));
    let code = match prepared {
        Ok(step) => super::program(step, &interrupt)?,
        // Nothing was tried yet: that says nothing about the image.
        Err(error) => {
            eprintln!("error: {error:#}");
            UNFIT
        }
    };
    Ok(if interrupt.came() { interrupt::CODE } else { code })
}

fn prepare(args: &Args, engine: &Engine, clock: &Clock, interrupt: &Interrupt) -> Result<Step> {
    let root = repo::root();
    let target = workspace::target_folder(&root)?;
    clock.say("building the program");
    Step::new("cargo").args(["build", "--locked", "--package", "e2e", "--bin", "tier"]).dir(&root).run()?;
    interrupt.check()?;
    let etcd = args.etcd;
    let kit = Kit { line: etcd.line(), light_double: true };
    let wanted = images::wanted_by_containers(etcd == Etcd::Mixed);
    let found = images::collect(engine, &wanted, kit, &args.images, args.allow_double, &target, clock)?;
    for image in &found {
        image.bring(engine)?;
        interrupt.check()?;
    }
    let run = Run::new(args.seed, args.report.clone(), &target)?;
    let setting = write(args, &run, &found)?;
    clock.say("images are in the engine");
    Ok(Step::new(target.join("debug/tier")).arg("--setting").arg(setting))
}

fn write(args: &Args, run: &Run, found: &[Found]) -> Result<PathBuf> {
    let duration = args.storm.duration.unwrap_or(DURATION);
    let setting = Setting {
        run: &run.name,
        seed: run.seed,
        commit: &run.commit,
        engine: "docker",
        images: found,
        duration: u64::try_from(duration.as_millis()).context("a duration that fits")?,
        faults: &args.storm.fault,
        planted: args.storm.planted,
        keep: args.keep.as_str(),
        replay: replay(args, run.seed, duration),
        report: &run.report,
    };
    std::fs::create_dir_all(&run.report).with_context(|| format!("create {}", run.report.display()))?;
    let path = run.report.join("setting.json");
    std::fs::write(&path, serde_json::to_string_pretty(&setting)?)
        .with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// The command that draws the same once more.
fn replay(args: &Args, seed: u64, duration: Duration) -> String {
    let mut words = vec![format!("cargo xtask e2e --tier container --seed {seed}")];
    words.push(format!("--duration {}", humantime::format_duration(duration).to_string().replace(' ', "")));
    words.push(format!("--etcd {}", args.etcd.as_str()));
    words.extend(args.allow_double.then(|| "--allow-double".to_owned()));
    words.extend(args.images.iter().map(|choice| format!("--image {choice}")));
    words.extend(args.storm.fault.iter().map(|kind| format!("--fault {kind}")));
    words.extend(args.storm.planted.map(|_| "--planted lost-write".to_owned()));
    if args.keep != Keep::Never {
        words.push(format!("--keep {}", args.keep.as_str()));
    }
    words.join(" ")
}
