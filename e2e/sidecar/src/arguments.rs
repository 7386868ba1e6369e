// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The command line that etcd-druid gives to its sidecar. What concerns snapshots alone is taken by name and
//! forgotten; what nobody knows is an error, so that a new druid's new flag does not pass unnoticed. Reads no files.
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Arg, ArgAction, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

/// Flags of `server` that change nothing here: there are no snapshots, no compaction, no defragmentation, and no
/// embedded etcd.
const WITHOUT_EFFECT: &[&str] = &[
    "auto-compaction-mode",
    "auto-compaction-retention",
    "backoff-attempt-limit",
    "backoff-multiplier",
    "backoff-threshold-time",
    "compress-snapshots",
    "compression-policy",
    "defragmentation-schedule",
    "delta-snapshot-memory-limit",
    "delta-snapshot-retention-period",
    "embedded-etcd-quota-bytes",
    "enable-profiling",
    "etcd-connection-timeout",
    "etcd-defrag-timeout",
    "etcd-snapshot-timeout",
    "garbage-collection-period",
    "garbage-collection-policy",
    "max-backups",
    "max-parallel-chunk-uploads",
    "min-chunk-size",
    "restoration-temp-snapshots-dir",
    "schedule",
    "snapstore-temp-directory",
    "store-container",
    "store-endpoint-override",
    "store-prefix",
];

/// Takes the place of etcd-backup-restore in a pod made by etcd-druid. Takes no snapshots and restores none.
#[derive(Debug, Parser)]
#[command(name = "etcdbrctl", version, args_override_self = true)]
struct Line {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serves one member, as the container backup-restore does
    Server(Box<Options>),
}

/// What is left of the command line once the flags without effect are gone.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are the real one's")]
pub(crate) struct Options {
    #[arg(long, default_value_t = 8080)]
    pub(crate) server_port: u16,
    /// With `server-key`: serve HTTPS
    #[arg(long, requires = "server_key")]
    pub(crate) server_cert: Option<PathBuf>,
    #[arg(long, requires = "server_cert")]
    pub(crate) server_key: Option<PathBuf>,
    /// etcd's data directory, below the volume
    #[arg(long)]
    pub(crate) data_dir: PathBuf,
    /// The member beside us; the first counts
    #[arg(long, value_delimiter = ',', default_value = "http://127.0.0.1:2379")]
    pub(crate) endpoints: Vec<Endpoint>,
    /// Where ready members answer; without it, all members of the config
    #[arg(long, value_delimiter = ',')]
    pub(crate) service_endpoints: Vec<Endpoint>,
    #[arg(long)]
    pub(crate) cacert: Option<PathBuf>,
    #[arg(long, requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    #[arg(long, requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Said by the endpoints' schemes already; both must agree
    #[arg(long, default_value = "true", value_parser = go_bool, action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) insecure_transport: bool,
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) insecure_skip_tls_verify: bool,
    /// Ends the wrapper after a change of peer URLs
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) use_etcd_wrapper: bool,
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) enable_member_lease_renewal: bool,
    #[arg(long, value_parser = go_duration, default_value = "30s")]
    pub(crate) k8s_heartbeat_duration: Duration,
    /// None or empty: there is no store, the snapshot routes answer 405
    #[arg(long)]
    pub(crate) storage_provider: Option<String>,
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) enable_snapshot_lease_renewal: bool,
    #[arg(long, default_value = "full-snapshot-revisions")]
    pub(crate) full_snapshot_lease_name: String,
    #[arg(long, default_value = "delta-snapshot-revisions")]
    pub(crate) delta_snapshot_lease_name: String,
    /// How often the snapshot leases are renewed
    #[arg(long, value_parser = go_duration, default_value = "20s")]
    pub(crate) delta_snapshot_period: Duration,
    /// How often the member beside us is asked whether it leads
    #[arg(long, value_parser = go_duration, default_value = "5s")]
    pub(crate) reelection_period: Duration,
    /// How long it may take to answer that
    #[arg(long, value_parser = go_duration, default_value = "5s")]
    pub(crate) etcd_connection_timeout_leader_election: Duration,
}

/// An etcd to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Options {
    /// Reads a command line, the program's name first. `--help` and mistakes end the process with clap's text.
    pub(crate) fn from_line() -> anyhow::Result<Self> {
        Self::parse(std::env::args_os()).unwrap_or_else(|error| error.exit()).checked()
    }

    fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let matches = command().try_get_matches_from(line)?;
        let Verb::Server(options) = Line::from_arg_matches(&matches)?.verb;
        Ok(*options)
    }

    /// What clap cannot see: flags that contradict each other, and wishes nobody has fulfilled.
    fn checked(self) -> anyhow::Result<Self> {
        let encrypted = self.endpoints.iter().chain(&self.service_endpoints).any(|endpoint| endpoint.tls);
        if encrypted && self.insecure_transport {
            bail!("an endpoint is https, and --insecure-transport is true: set it to false");
        }
        if encrypted && self.insecure_skip_tls_verify {
            bail!("--insecure-skip-tls-verify is not done by this double: give it --cacert");
        }
        for (flag, span) in [
            ("k8s-heartbeat-duration", self.k8s_heartbeat_duration),
            ("delta-snapshot-period", self.delta_snapshot_period),
            ("reelection-period", self.reelection_period),
        ] {
            if span.is_zero() {
                bail!("--{flag} is 0: give it a time");
            }
        }
        Ok(self)
    }

    /// The etcd of this pod.
    pub(crate) fn member_endpoint(&self) -> anyhow::Result<&Endpoint> {
        self.endpoints.first().context("--endpoints names no etcd")
    }

    pub(crate) fn has_store(&self) -> bool {
        self.storage_provider.as_ref().is_some_and(|provider| !provider.is_empty())
    }
}

fn command() -> Command {
    Line::command().mut_subcommand("server", |server| {
        WITHOUT_EFFECT.iter().fold(server, |server, name| {
            // A flag without a value is a switch in Go's reading: `--enable-profiling`.
            server.arg(Arg::new(*name).long(*name).num_args(0..=1).hide(true))
        })
    })
}

impl FromStr for Endpoint {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = text.split_once("://").context("no scheme: write http://host:port")?;
        let tls = match scheme {
            "http" => false,
            "https" => true,
            other => bail!("scheme {other}: use http or https"),
        };
        let (host, port) = rest.trim_end_matches('/').rsplit_once(':').context("no port")?;
        let host = host.trim_matches(['[', ']']);
        if host.is_empty() {
            bail!("no host");
        }
        Ok(Self { tls, host: host.into(), port: port.parse().context("no port number")? })
    }
}

/// Go's spelling of truth.
fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(format!("neither true nor false: {other:?}")),
    }
}

/// Go's spelling of a time: `0`, `300ms`, `1.5s`, `24h0m0s`.
fn go_duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("no time, {text:?}: write 10s or 1m30s");
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() && rest != "0" {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| at + digits);
        let count: f64 = rest[..digits].parse().map_err(|_| bad())?;
        total += count
            * match &rest[digits..unit_end] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return Err(bad()),
            };
        rest = &rest[unit_end..];
    }
    if text.is_empty() { Err(bad()) } else { Duration::try_from_secs_f64(total).map_err(|_| bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What druid v0.37 writes for an Etcd with a store and TLS everywhere.
    const TLS: &str = "server --server-port=8080 --enable-snapshot-lease-renewal=true \
        --full-snapshot-lease-name=tls-full-snap --delta-snapshot-lease-name=tls-delta-snap \
        --storage-provider=Local --store-prefix=tls --delta-snapshot-period=5m0s \
        --delta-snapshot-memory-limit=104857600 --garbage-collection-policy=Exponential \
        --garbage-collection-period=12h0m0s --compress-snapshots=false --compression-policy=gzip \
        --etcd-snapshot-timeout=15m --etcd-defrag-timeout=15m --auto-compaction-mode=periodic \
        --auto-compaction-retention=30m --cacert=/var/etcd/ssl/ca/bundle.crt \
        --cert=/var/etcd/ssl/client/tls.crt --key=/var/etcd/ssl/client/tls.key --insecure-transport=false \
        --insecure-skip-tls-verify=false --endpoints=https://tls-local:2379 \
        --service-endpoints=https://tls-client:2379 --server-cert=/var/etcdbr/ssl/server/tls.crt \
        --server-key=/var/etcdbr/ssl/server/tls.key --data-dir=/var/etcd/data/new.etcd \
        --restoration-temp-snapshots-dir=/var/etcd/data/restoration.temp \
        --snapstore-temp-directory=/var/etcd/data/temp --etcd-connection-timeout=5m \
        --use-etcd-wrapper=true --enable-member-lease-renewal=true --k8s-heartbeat-duration=10s \
        --embedded-etcd-quota-bytes=1073741824 --etcd-connection-timeout-leader-election=5s \
        --reelection-period=5s";

    fn read(line: &str) -> Result<Options, clap::Error> {
        let words = std::iter::once("etcdbrctl").chain(line.split_whitespace());
        Options::parse(words.map(OsString::from))
    }

    #[test]
    fn the_flags_are_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn druids_own_line_is_understood() {
        // Schedules hold blanks and stars, as druid writes them.
        let words =
            ["etcdbrctl", "server", "--schedule=0 */24 * * *", "--defragmentation-schedule=0 */24 * * *"];
        let words = words.into_iter().chain(TLS.split_whitespace().skip(1)).map(OsString::from);
        let options = Options::parse(words).unwrap().checked().unwrap();
        let member = Endpoint { tls: true, host: "tls-local".into(), port: 2379 };
        assert_eq!(options.member_endpoint().unwrap(), &member);
        assert_eq!(options.service_endpoints[0].host, "tls-client");
        assert_eq!(options.delta_snapshot_period, Duration::from_secs(300));
        assert_eq!(options.k8s_heartbeat_duration, Duration::from_secs(10));
        assert!(options.has_store() && options.use_etcd_wrapper && options.enable_member_lease_renewal);
        assert!(options.server_cert.is_some());
    }

    #[test]
    fn a_cluster_without_store_and_tls_is_understood() {
        let plain = "server --server-port=8080 --insecure-transport=true --insecure-skip-tls-verify=true \
            --endpoints=http://a-local:2379 --service-endpoints=http://a-client:2379 --data-dir=/d \
            --enable-profiling --enable-member-lease-renewal";
        let options = read(plain).unwrap().checked().unwrap();
        assert!(!options.has_store() && !options.enable_snapshot_lease_renewal);
        assert!(options.enable_member_lease_renewal, "a switch without a value is true");
    }

    #[test]
    fn a_flag_that_nobody_knows_is_an_error_that_names_it() {
        let error = read("server --data-dir=/d --restore-from-moon=yes").unwrap_err().to_string();
        assert!(error.contains("--restore-from-moon"), "{error}");
        let error = read("compact --data-dir=/d").unwrap_err().to_string();
        assert!(error.contains("compact"), "{error}");
    }

    #[test]
    fn wishes_that_are_not_fulfilled_are_errors() {
        for line in [
            "server --data-dir=/d --endpoints=https://a:1 --insecure-transport=true",
            "server --data-dir=/d --endpoints=https://a:1 --insecure-transport=false --insecure-skip-tls-verify=true",
            "server --data-dir=/d --reelection-period=0",
        ] {
            assert!(read(line).unwrap().checked().is_err(), "{line}");
        }
        for line in [
            "server",
            "server --data-dir=/d --endpoints=a:1",
            "server --data-dir=/d --endpoints=ftp://a:1",
            "server --data-dir=/d --endpoints=http://:1",
            "server --data-dir=/d --server-cert=/c",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn times_are_read_as_go_writes_them() {
        for (text, millis) in
            [("0", 0), ("0s", 0), ("300ms", 300), ("1.5s", 1500), ("24h0m0s", 86_400_000), ("1m30s", 90_000)]
        {
            assert_eq!(go_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1x", "1.2.3s"] {
            assert!(go_duration(text).is_err(), "{text}");
        }
    }
}
