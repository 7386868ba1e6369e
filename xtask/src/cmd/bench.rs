// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench`: builds what is compared and hands it to the program of the crate `bench`, which measures, judges
//! and reports. Measures nothing itself.

mod compare;
mod image;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::sh::{Step, quote};
use crate::tools::{Line, Tool};
use crate::{repo, workspace};

/// Measures what the wrapper costs, beside bare etcd and beside another wrapper
///
/// Builds the wrapper as it is shipped and runs the rows of docs/performance.md, every candidate in turn. Prints medians
/// with least and most, and each bar with its verdict; writes `target/bench/report.html` and `report.json`. What could
/// not be measured is named with the reason; a bar that the machine is too noisy for gets no verdict.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask bench                      all rows, on a machine left alone\n  \
    cargo xtask bench --only 1,3,5,10 --runs 5 --check\n  \
    cargo xtask bench --peer go=/path/to/etcd-wrapper --sidecar /path/to/etcdbrctl\n  \
    cargo xtask bench --only 1 --trace     every start, part by part\n  \
    cargo xtask bench --compare            what the hot paths cost\n\n\
    Exit codes: 0 done, with --check: every bar that was measured holds; 1 a bar was missed (--check), or a row failed; \
    3 no bar was missed, but one was too noisy for a verdict (--check); 2 usage; 130 interrupted.")]
pub(crate) struct Args {
    /// Only these rows, by number or name
    #[arg(long, value_name = "ROW,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Interleaved runs of a row; rows that take minutes take fewer
    #[arg(long, default_value_t = 9, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Another wrapper with Go's nine flags, to compare with
    #[arg(long, value_name = "NAME=PATH")]
    peer: Option<Peer>,
    /// A real etcd-backup-restore (`etcdbrctl`), for the rows that need one
    #[arg(long, value_name = "PATH")]
    sidecar: Option<PathBuf>,
    /// The line of etcd
    #[arg(long, value_name = "LINE", default_value = "3.5", value_parser = line)]
    etcd: Line,
    /// Measure this wrapper instead of building this tree's
    #[arg(long, value_name = "PATH")]
    wrapper: Option<PathBuf>,
    /// A missed bar is a failure
    #[arg(long)]
    check: bool,
    /// With --check: a bar that is too noisy for a verdict is told, and is no failure
    #[arg(long, requires = "check")]
    allow_noise: bool,
    /// Write the JSON document here too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Hold the hot paths against the baseline in bench/baseline.json, by instructions and allocations, and end
    #[arg(long, conflicts_with_all = ["baseline", "check", "only", "peer", "sidecar", "trace", "wrapper"])]
    compare: bool,
    /// Write that baseline anew
    #[arg(long, conflicts_with_all = ["check", "only", "peer", "sidecar", "trace", "wrapper"])]
    baseline: bool,
    /// Draw the parts of every start, not of the median alone
    #[arg(long)]
    trace: bool,
}

/// `NAME=PATH`
#[derive(Debug, Clone, Serialize)]
struct Peer {
    name: String,
    path: PathBuf,
}

impl FromStr for Peer {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty());
        let (name, path) = parts.context("NAME=PATH is wanted, such as go=/path/to/etcd-wrapper")?;
        Ok(Self { name: name.to_owned(), path: path.into() })
    }
}

/// A line whose etcd tells in its log when it said READY: 3.4 does not.
fn line(text: &str) -> Result<Line> {
    match clap::ValueEnum::from_str(text, false) {
        Ok(Line::L34) | Err(_) => bail!("3.5, 3.6 or 3.7 is wanted"),
        Ok(line) => Ok(line),
    }
}

/// What the program is told: it reads this file, and the two share nothing else.
#[derive(Debug, Serialize)]
struct Stage<'a> {
    commit: String,
    command: String,
    wrapper: PathBuf,
    etcd: PathBuf,
    line: &'a str,
    peer: Option<Peer>,
    sidecar: Option<PathBuf>,
    image: Option<BTreeMap<&'static str, u64>>,
    only: &'a [String],
    runs: u16,
    trace: bool,
    check: bool,
    allow_noise: bool,
    report: PathBuf,
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.compare || args.baseline {
        return compare::run(args.baseline);
    }
    let root = repo::root();
    let target = workspace::target_folder(&root)?;
    let report = target.join("bench");
    std::fs::create_dir_all(&report).with_context(|| format!("create {}", report.display()))?;
    let peer = args
        .peer
        .as_ref()
        .map(|peer| Ok::<_, anyhow::Error>(Peer { path: program(&peer.path)?, ..peer.clone() }));
    let peer = peer.transpose()?;
    let sidecar = args.sidecar.as_deref().map(program).transpose()?;
    let json = args.json.as_deref().map(absolute).transpose()?;
    let etcd = Tool::Etcd(args.etcd).ensure()?;
    // Out of the whole workspace and in the ordinary profile, to share what tests build; bench itself is optimised in it.
    Step::new("cargo")
        .args(["build", "--locked", "--workspace", "--bin", "bench"])
        .dir(&root)
        .watch("building the program that measures")?;
    let wrapper = match &args.wrapper {
        Some(path) => program(path)?,
        None => workspace::build("etcd-wrapper", "etcd-wrapper", true)?,
    };
    let wants = |id: &str| args.only.is_empty() || args.only.iter().any(|one| one == id);
    let image = wants("11").then(|| image::compressed(&wrapper, args.etcd, &report)).transpose()?;
    let stage = Stage {
        commit: repo::commit(&root),
        command: command(),
        wrapper,
        etcd,
        line: args.etcd.as_str(),
        peer,
        sidecar,
        image,
        only: &args.only,
        runs: args.runs,
        trace: args.trace,
        check: args.check,
        allow_noise: args.allow_noise,
        report: report.clone(),
        json,
    };
    let path = report.join("stage.json");
    std::fs::write(&path, serde_json::to_string_pretty(&stage)?)
        .with_context(|| format!("write {}", path.display()))?;
    let status = Step::new(target.join("debug/bench")).arg(&path).status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// What was typed, as somebody else would type it.
fn command() -> String {
    let words = std::env::args_os().skip(1).map(|word| {
        // Where a program lies on this machine is nobody else's matter.
        let text = word.to_string_lossy();
        match text.rsplit_once('/') {
            Some((before, name)) => {
                let kept = before.split_once('=').map_or("", |(name, _)| name);
                let kept = if kept.is_empty() { String::new() } else { format!("{kept}=") };
                format!("{kept}…/{name}")
            }
            None => quote(&word),
        }
    });
    format!("cargo xtask {}", words.collect::<Vec<_>>().join(" "))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("find {}", path.display()))
}

/// A program somebody named: it has to be there.
fn program(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path)
        .with_context(|| format!("no program {}: give the path of one", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_a_name_and_a_path() {
        let peer: Peer = "go=/bin/true".parse().unwrap();
        assert_eq!((peer.name.as_str(), peer.path.as_path()), ("go", Path::new("/bin/true")));
        for bad in ["go", "=/bin/true", "go="] {
            assert!(bad.parse::<Peer>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_line_without_the_moment_of_ready_is_refused() {
        assert!(line("3.4").is_err() && line("4.0").is_err());
        assert_eq!(line("3.7").unwrap(), Line::L37);
    }
}
