// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The pause container of a pod in the container tier, and the hand that reaches into the pod: signals, files, the
//! volume, the processes. Images there have no shell, so this is all that can be done inside. Decides nothing.
#![expect(clippy::print_stdout, reason = "a program that tells what it sees")]
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand, ValueEnum};
use doubles::pod::{self, Sample};
use rustix::process::Signal;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Exit code of `read` for a file that is not there.
const ABSENT: u8 = 3;

/// What engines are called.
const ENGINES: [&str; 2] = ["dockerd", "podman"];

/// Holds a pod's namespaces, and reaches into the pod.
#[derive(Debug, Parser)]
#[command(name = "pod-hand", version, after_help = "Example: pod-hand signal etcd kill")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Live until SIGTERM, reap, and tell of all processes: a line of JSON at each change, and every 5 s
    Hold,
    /// Send a signal to every process of this name; prints how many there were
    Signal { name: String, signal: Word },
    /// Print a file; exit code 3 if it is not there
    Read { file: PathBuf },
    /// Take all space of the volume by a file that grows; prints its size
    Fill { file: PathBuf },
    /// Remove files and folders with all that is in them; what is not there is no error
    Remove { paths: Vec<PathBuf> },
    /// Overwrite the beginning of a file with zeros
    Zero { file: PathBuf, bytes: usize },
    /// Run a shell script on the machine that runs the engine; needs a privileged container with that machine's pids
    Outside { script: String, args: Vec<String> },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Word {
    Kill,
    Term,
    Stop,
    Cont,
    Hup,
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().verb {
        Verb::Hold => hold()?,
        Verb::Signal { name, signal } => println!("{}", pod::signal(&name, signal.into())?),
        Verb::Read { file } => match fs::read(&file) {
            Ok(content) => std::io::stdout().write_all(&content).context("print")?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(ExitCode::from(ABSENT)),
            Err(error) => bail!("read {}: {error}", file.display()),
        },
        Verb::Fill { file } => println!("{}", pod::fill(&file)?),
        Verb::Remove { paths } => paths.iter().try_for_each(|path| remove(path))?,
        Verb::Zero { file, bytes } => {
            let opened = fs::File::options().write(true).open(&file);
            let mut opened = opened.with_context(|| format!("open {}", file.display()))?;
            opened.write_all(&vec![0; bytes]).context("write zeros")?;
            opened.sync_all().context("write zeros to the disk")?;
        }
        Verb::Outside { script, args } => return Err(outside(&script, &args)),
    }
    Ok(ExitCode::SUCCESS)
}

fn hold() -> anyhow::Result<()> {
    let over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&over)).context("take signals")?;
    }
    let mut told: Option<(Sample, Instant)> = None;
    while !over.load(Ordering::SeqCst) {
        pod::reap();
        let sample = Sample::take();
        if told.as_ref().is_none_or(|(last, at)| sample.differs(last) || at.elapsed() >= pod::WHOLE) {
            println!("{}", serde_json::to_string(&sample)?);
            told = Some((sample, Instant::now()));
        }
        std::thread::park_timeout(pod::LOOK);
    }
    Ok(())
}

fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    removed.with_context(|| format!("remove {}", path.display()))
}

/// Becomes the script; returns why not.
fn outside(script: &str, args: &[String]) -> anyhow::Error {
    let entered = machine_mounts().and_then(|mounts| {
        use std::os::fd::AsFd;
        let kind = Some(rustix::thread::LinkNameSpaceType::Mount);
        rustix::thread::move_into_link_name_space(mounts.as_fd(), kind).context("enter the machine's mounts")
    });
    match entered {
        Ok(()) => Command::new("sh").args(["-ec", script, "sh"]).args(args).exec().into(),
        Err(error) => error,
    }
}

/// The mounts of the machine's first process; where that one has rights that not even we have, those of the engine.
fn machine_mounts() -> anyhow::Result<fs::File> {
    let engines = Sample::take().processes.into_iter().filter(|process| ENGINES.contains(&&*process.name));
    let mut refused = None;
    for pid in std::iter::once(1).chain(engines.map(|process| process.pid)) {
        match fs::File::open(format!("/proc/{pid}/ns/mnt")) {
            Ok(file) => return Ok(file),
            Err(error) => refused = Some(error),
        }
    }
    bail!("open the machine's mounts: {}", refused.map_or_else(String::new, |error| error.to_string()))
}

impl From<Word> for Signal {
    fn from(word: Word) -> Self {
        match word {
            Word::Kill => Self::KILL,
            Word::Term => Self::TERM,
            Word::Stop => Self::STOP,
            Word::Cont => Self::CONT,
            Word::Hup => Self::HUP,
        }
    }
}
