// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The verbs of the client and their flags, as clap declares them. What they do is client.rs's; what the server makes
//! of a value is the server's to say, so only what could never be meant is refused here.
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::duration::{DurationError, GoDuration};

/// The server waits no longer than this for an operation.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// What the client is asked to do.
#[derive(Clone, Debug, Subcommand)]
pub enum ClientVerb {
    /// Show this member: phase, readiness and why not, leader, quorum, operation, warnings
    #[command(after_help = "Examples:\n  etcd-wrapper status\n  etcd-wrapper status -o json\n  \
        etcd-wrapper status --server https://etcd-main-1:9095 --cacert ca.crt\n\n\
        Exit code 0 if the member is ready, 4 if not, 3 if nobody was reached.")]
    Status(Read),
    /// Show who leads; with --watch a line at each change
    #[command(after_help = "Examples:\n  etcd-wrapper leader\n  etcd-wrapper leader --watch\n  \
        etcd-wrapper leader --confirm\n\nExit code 0 if this member leads, 4 if not, 3 if nobody was reached.")]
    Leader(Leader),
    /// Show what happens, as it happens
    #[command(after_help = "Examples:\n  etcd-wrapper events\n  \
        etcd-wrapper events --topics leader,readiness -o json")]
    Events(Events),
    /// Ask whether the member is ready, say that it is, or end such an override
    #[command(after_help = "Examples:\n  etcd-wrapper ready                       is it?\n  \
        etcd-wrapper ready --owner me --ttl 10m  say that it is\n  \
        etcd-wrapper ready --owner me --clear    let its own checks count again\n\n\
        Exit code 0 if the member is ready, 4 if not, 3 if nobody was reached.")]
    Ready(Ready),
    /// Hold the member unready
    #[command(after_help = "Example:\n  etcd-wrapper unready --owner me --ttl 10m --reason drill\n\n\
        Undone by: etcd-wrapper ready --owner me --clear")]
    Unready(Unready),
    /// Start etcd, from the sidecar's configuration or a given one
    #[command(after_help = "Examples:\n  etcd-wrapper start --wait 2m\n  \
        etcd-wrapper start --config etcd.yaml --validation full")]
    Start(Start),
    /// Stop etcd; the wrapper stays
    #[command(after_help = "Examples:\n  etcd-wrapper stop --wait 1m\n  \
        etcd-wrapper stop --hold --owner me --reason repair")]
    Stop(Stop),
    /// Restart etcd in place
    #[command(after_help = "Examples:\n  etcd-wrapper restart --wait 2m\n  \
        etcd-wrapper restart --guard serial --wait 5m")]
    Restart(Restart),
    /// Hand leadership over to another member
    #[command(after_help = "Example:\n  etcd-wrapper transfer-leadership --wait 30s")]
    TransferLeadership(Transfer),
    /// Check an etcd configuration without any server
    #[command(after_help = "Examples:\n  etcd-wrapper validate-config etcd.yaml\n  \
        etcd-wrapper validate-config --files --etcd-version 3.5.35 etcd.yaml")]
    ValidateConfig(ValidateConfig),
    /// Print ready-to-paste commands and all paths of this pod; also while etcd is down
    #[command(after_help = "Examples:\n  etcd-wrapper cheatsheet\n  etcd-wrapper cheatsheet --ephemeral")]
    Cheatsheet(Cheatsheet),
    /// Show how the last processes ended
    #[command(after_help = "Examples:\n  etcd-wrapper history\n  \
        etcd-wrapper history --state-dir /var/etcd/data -o json")]
    History(History),
    /// Write one text for a bug report, without secrets
    #[command(after_help = "Example:\n  etcd-wrapper report > report.txt")]
    Report(Report),
    /// Print a completion script
    #[command(after_help = "Example:\n  etcd-wrapper completions bash > /etc/bash_completion.d/etcd-wrapper")]
    Completions {
        /// The shell to complete in
        shell: Shell,
    },
    /// Print the manual page, as roff
    #[command(after_help = "Example:\n  etcd-wrapper man | man -l -")]
    Man,
}

/// How to reach a wrapper.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Whom to ask")]
pub struct Reach {
    /// The wrapper to ask, http://HOST:PORT or https://HOST:PORT [default: the one on this loopback]
    #[arg(long, value_name = "URL", conflicts_with = "etcd_wrapper_port")]
    pub server: Option<String>,
    /// Its port on loopback
    #[arg(long, default_value_t = 9095, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub etcd_wrapper_port: u16,
    /// Authorities to trust, instead of what etcd's configuration names
    #[arg(long, value_name = "PATH")]
    pub cacert: Option<PathBuf>,
    /// Client certificate to show
    #[arg(long, value_name = "PATH", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Key of that certificate
    #[arg(long, value_name = "PATH", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Name to verify in the server's certificate
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
    /// Limit of a call; what --wait allows comes on top
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = positive)]
    pub timeout: Duration,
    /// The wrapper's state directory; without a HOME etcd's configuration lies there too
    #[arg(long, default_value = "/var/etcd/data", value_name = "DIR")]
    pub state_dir: PathBuf,
}

/// For people or for machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Table,
    /// For programs: the document as it came
    Json,
}

/// Of every verb that only asks.
#[derive(Clone, Debug, Args)]
pub struct Read {
    /// How to show it
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub output: Output,
    /// Where the server is, and how to be somebody.
    #[command(flatten)]
    pub reach: Reach,
}

/// Of `leader`.
#[derive(Clone, Debug, Args)]
pub struct Leader {
    /// Go on, and print a line at each change
    #[arg(long)]
    pub watch: bool,
    /// Have the server confirm it by a read that needs a quorum
    #[arg(long, conflicts_with = "watch")]
    pub confirm: bool,
    /// Of every verb that only asks.
    #[command(flatten)]
    pub read: Read,
}

/// Of `events`.
#[derive(Clone, Debug, Args)]
pub struct Events {
    /// Only these: leader, phase, readiness, operation [default: all]
    #[arg(long, value_name = "TOPIC", value_delimiter = ',')]
    pub topics: Vec<String>,
    /// Of every verb that only asks.
    #[command(flatten)]
    pub read: Read,
}

/// Without `--owner` and `--clear` only a question.
#[derive(Clone, Debug, Args)]
pub struct Ready {
    /// Who says so; needed to change anything
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// How long it holds: 1s to 24h
    #[arg(long, value_name = "DURATION", value_parser = ttl, requires = "owner")]
    pub ttl: Option<String>,
    /// Why, for those who find it
    #[arg(long, value_name = "TEXT", requires = "owner")]
    pub reason: Option<String>,
    /// Take the override from another owner
    #[arg(long)]
    pub force: bool,
    /// End the override, ready or unready: the member's own checks count again
    #[arg(long, conflicts_with_all = ["ttl", "reason"])]
    pub clear: bool,
    /// Of every verb that only asks.
    #[command(flatten)]
    pub read: Read,
}

/// Of `unready`.
#[derive(Clone, Debug, Args)]
pub struct Unready {
    /// Who says so
    #[arg(long, value_name = "NAME")]
    pub owner: String,
    /// How long it holds: 1s to 24h, or none: until somebody ends it
    #[arg(long, value_name = "DURATION", value_parser = ttl)]
    pub ttl: String,
    /// Why, for those who find it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Take the override from another owner
    #[arg(long)]
    pub force: bool,
    /// Of every verb that only asks.
    #[command(flatten)]
    pub read: Read,
}

/// What all verbs that make an operation take.
#[derive(Clone, Debug, Args)]
pub struct Operate {
    /// Wait for the end of the operation, at most 5m [default: only until it is accepted]
    #[arg(long, value_name = "DURATION", value_parser = wait)]
    pub wait: Option<Duration>,
    /// Of every verb that only asks.
    #[command(flatten)]
    pub read: Read,
}

/// Of `start`.
#[derive(Clone, Debug, Args)]
pub struct Start {
    /// Start with this etcd configuration; - reads it from stdin [default: the sidecar's]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How the data directory is checked before
    #[arg(long, value_name = "MODE", value_parser = ["auto", "none", "sanity", "full"])]
    pub validation: Option<String>,
    /// hold: stay unready until somebody says otherwise; needs --owner
    #[arg(long, value_name = "MODE", value_parser = ["auto", "hold"], requires_if("hold", "owner"))]
    pub ready: Option<String>,
    /// Who holds it, or whose hold is to end
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// Why, for those who find it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Start although another owner holds the member
    #[arg(long)]
    pub force: bool,
    /// Only if etcd is of this generation
    #[arg(long, value_name = "NUMBER")]
    pub if_generation: Option<u64>,
    /// Of every verb that makes an operation.
    #[command(flatten)]
    pub operate: Operate,
}

/// How etcd is to end.
#[derive(Clone, Debug, Args)]
pub struct Ending {
    /// Time etcd has to end, instead of the wrapper's own
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    pub grace_period: Option<Duration>,
    /// What must hold of the other voters; serial also waits for our turn
    #[arg(long, value_name = "GUARD", value_parser = ["quorum", "serial", "none"])]
    pub guard: Option<String>,
    /// Kill etcd at once; does not pass the guard
    #[arg(long)]
    pub force: bool,
    /// Do not hand leadership over before
    #[arg(long)]
    pub no_transfer_leadership: bool,
    /// Why, for those who find it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Only if etcd is of this generation
    #[arg(long, value_name = "NUMBER")]
    pub if_generation: Option<u64>,
}

/// Of `stop`.
#[derive(Clone, Debug, Args)]
pub struct Stop {
    /// Leave the hold file: etcd stays down beyond this process
    #[arg(long)]
    pub hold: bool,
    /// Whose hold it is
    #[arg(long, value_name = "NAME", requires = "hold")]
    pub owner: Option<String>,
    /// How etcd is to end.
    #[command(flatten)]
    pub ending: Ending,
    /// Of every verb that makes an operation.
    #[command(flatten)]
    pub operate: Operate,
}

/// Of `restart`.
#[derive(Clone, Debug, Args)]
pub struct Restart {
    /// With the same configuration, or the sidecar's newest [default: the newest, unless it was posted]
    #[arg(long, value_name = "SOURCE", value_parser = ["same", "sidecar"])]
    pub config: Option<String>,
    /// How the data directory is checked in between
    #[arg(long, value_name = "MODE", value_parser = ["auto", "none", "sanity", "full"])]
    pub validation: Option<String>,
    /// How etcd is to end.
    #[command(flatten)]
    pub ending: Ending,
    /// Of every verb that makes an operation.
    #[command(flatten)]
    pub operate: Operate,
}

/// Of `transfer-leadership`.
#[derive(Clone, Debug, Args)]
pub struct Transfer {
    /// Of every verb that makes an operation.
    #[command(flatten)]
    pub operate: Operate,
}

/// Of `validate-config`, which asks nobody.
#[derive(Clone, Debug, Args)]
pub struct ValidateConfig {
    /// The configuration; - reads it from stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The etcd that is to read it, such as 3.5.35 [default: a key is known if any version knows it]
    #[arg(long, value_name = "VERSION")]
    pub etcd_version: Option<String>,
    /// Also look whether the files that it names can be read here
    #[arg(long)]
    pub files: bool,
    /// How to show it
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub output: Output,
}

/// Of `cheatsheet`.
#[derive(Clone, Debug, Args)]
pub struct Cheatsheet {
    /// Paths as an ephemeral container sees them, below /proc/PID/root (kubectl debug --target)
    #[arg(long)]
    pub ephemeral: bool,
    /// Where the server is, and how to be somebody.
    #[command(flatten)]
    pub reach: Reach,
}

/// Of `history`, which reads a file.
#[derive(Clone, Debug, Args)]
pub struct History {
    /// The wrapper's state directory
    #[arg(long, default_value = "/var/etcd/data", value_name = "DIR")]
    pub state_dir: PathBuf,
    /// How to show it
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub output: Output,
}

/// Of `report`.
#[derive(Clone, Debug, Args)]
pub struct Report {
    /// Where the server is, and how to be somebody.
    #[command(flatten)]
    pub reach: Reach,
}

/// Whose completions are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "clap would print it beside words that say it already")]
pub enum Shell {
    Bash,
    Fish,
    Zsh,
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: GoDuration = text.parse().map_err(|error: DurationError| error.to_string())?;
    parsed.to_std().map_err(|error| error.to_string())
}

fn positive(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be longer than 0".to_owned()),
        length => Ok(length),
    }
}

fn wait(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        length if length > LONGEST_WAIT => Err("the server waits at most 5m".to_owned()),
        length => Ok(length),
    }
}

/// Which lengths are allowed the server knows.
fn ttl(text: &str) -> Result<String, String> {
    if text != "none" {
        duration(text)?;
    }
    Ok(text.to_owned())
}
