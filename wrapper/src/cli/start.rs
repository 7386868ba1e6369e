// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `start-etcd`'s flags as typed values that cannot contradict each other. Opens no file: whether a path can be read
//! is found out, and told, by the stage that reads it.
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::flags::RawFlags;
pub use super::host_port::SidecarAddress;
use super::notify_url::NotifyUrl;
use crate::duration::GoDuration;
use crate::member::prober::LONGEST_READINESS_INTERVAL;

/// Everything `start-etcd` was told.
#[derive(Clone, Debug)]
pub struct StartFlags {
    /// 0: the system chooses one.
    pub wrapper_port: u16,
    /// None: all addresses.
    pub listen_address: Option<IpAddr>,
    /// Who provides the configuration and looks after the data directory.
    pub bootstrap: Bootstrap,
    /// 1–65535.
    pub etcd_client_port: u16,
    /// What our own client shows to etcd; None: nothing.
    pub etcd_client_pair: Option<ClientPair>,
    /// For SNI and verification only.
    pub etcd_server_name: Option<String>,
    /// None: without limit.
    pub etcd_ready_timeout: Option<Duration>,
    /// None: beside our own binary, else on `PATH`.
    pub etcd_path: Option<PathBuf>,
    /// Start nothing; wait for a `start`.
    pub hold: bool,
    /// Absolute or as given; holds marker, hold, lock and history.
    pub state_dir: PathBuf,
    /// From SIGTERM to SIGQUIT, longer than zero.
    pub grace_period: Duration,
    /// After an end that nobody asked for.
    pub on_etcd_exit: OnEtcdExit,
    /// A clean `/stop` leaves a marker.
    pub clean_marker_on_stop: bool,
    /// 10 ms – 10 s.
    pub status_interval: Duration,
    /// 10 ms – 5 s: a read may take 5 s more, and at an age of 10 s a success no longer counts.
    pub readiness_interval: Duration,
    /// Anybody may `/stop`.
    pub allow_remote_stop: bool,
    /// Loopback callers have rights of their own.
    pub control_loopback: bool,
    /// Names of verified client certificates that may control; none is empty.
    pub control_identities: Vec<String>,
    /// Who is told what changed.
    pub notify: Vec<NotifyUrl>,
    /// Whom those with https are verified against; there when there is one.
    pub notify_ca: Option<PathBuf>,
    /// Levels by module.
    pub log_filter: Targets,
    /// How a line is written.
    pub log_format: LogFormat,
}

/// Who provides the configuration and looks after the data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bootstrap {
    /// The sidecar does both.
    Sidecar(SidecarFlags),
    /// `--etcd-config-file`: stand-alone, no sidecar.
    File(PathBuf),
}

/// How to reach the sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarFlags {
    /// Host and port; an empty host is localhost already.
    pub address: SidecarAddress,
    /// Some: talk TLS and trust this bundle; None: plain HTTP.
    pub ca: Option<PathBuf>,
}

/// Certificate and key of the wrapper's own etcd client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientPair {
    /// PEM, the leaf first.
    pub cert: PathBuf,
    /// PEM.
    pub key: PathBuf,
}

/// What follows an end of etcd that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnEtcdExit {
    /// The process exits, whoever runs the container starts it again
    Exit,
    /// Start etcd again in place, after a full validation
    Restart,
}

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One object a line.
    Json,
    /// For people.
    Text,
}

/// `given` tells whether a flag (by clap's id, with underscores) stood on the command line.
pub(super) fn check(raw: RawFlags, given: impl Fn(&str) -> bool) -> Result<StartFlags, String> {
    let notify = notify(&raw)?;
    Ok(StartFlags {
        notify_ca: given_path(raw.backup_restore_ca_cert_bundle_path.as_ref())
            .filter(|_| notify.iter().any(|url| url.tls)),
        notify,
        bootstrap: bootstrap(&raw, given)?,
        etcd_client_pair: client_pair(&raw)?,
        wrapper_port: raw.etcd_wrapper_port,
        listen_address: raw.listen_address,
        etcd_client_port: raw.etcd_client_port,
        etcd_server_name: raw.etcd_server_name.filter(|name| !name.is_empty()),
        etcd_ready_timeout: Some(wait("--etcd-ready-timeout", raw.etcd_ready_timeout)?)
            .filter(|limit| !limit.is_zero()),
        etcd_path: raw.etcd_path.map(|path| named("--etcd-path", path)).transpose()?,
        hold: raw.hold,
        state_dir: named("--state-dir", raw.state_dir)?,
        grace_period: wait("--grace-period", raw.grace_period)?,
        on_etcd_exit: raw.on_etcd_exit,
        clean_marker_on_stop: raw.clean_marker_on_stop,
        status_interval: pause("--status-interval", raw.status_interval, Duration::from_secs(10))?,
        readiness_interval: pause("--readiness-interval", raw.readiness_interval, LONGEST_READINESS_INTERVAL)
            .map_err(|error| format!("{error}, since a read may take 5s and counts for 10s"))?,
        allow_remote_stop: raw.allow_remote_stop,
        control_loopback: raw.control_loopback,
        control_identities: identities(raw.control_identities)?,
        log_filter: log_filter(&raw.log_level)?,
        log_format: raw.log_format,
    })
}

fn bootstrap(raw: &RawFlags, given: impl Fn(&str) -> bool) -> Result<Bootstrap, String> {
    if let Some(path) = &raw.etcd_config_file {
        let sidecar =
            ["backup_restore_host_port", "backup_restore_tls_enabled", "backup_restore_ca_cert_bundle_path"];
        if let Some(flag) = sidecar.into_iter().find(|flag| given(flag)) {
            let flag = flag.replace('_', "-");
            return Err(format!(
                "--etcd-config-file starts without a sidecar and cannot stand beside --{flag}: give one of them"
            ));
        }
        return named("--etcd-config-file", path.clone()).map(Bootstrap::File);
    }
    let text = &raw.backup_restore_host_port;
    let address = text
        .parse()
        .map_err(|error| format!("invalid value {text:?} for --backup-restore-host-port: {error}"))?;
    let ca = given_path(raw.backup_restore_ca_cert_bundle_path.as_ref());
    match (raw.backup_restore_tls_enabled, ca) {
        (false, _) => Ok(Bootstrap::Sidecar(SidecarFlags { address, ca: None })),
        (true, Some(ca)) => Ok(Bootstrap::Sidecar(SidecarFlags { address, ca: Some(ca) })),
        (true, None) => {
            Err("--backup-restore-tls-enabled needs --backup-restore-ca-cert-bundle-path: the CA \
                             bundle that the sidecar's certificate is verified with"
                .to_owned())
        }
    }
}

fn client_pair(raw: &RawFlags) -> Result<Option<ClientPair>, String> {
    let cert = given_path(raw.etcd_client_cert_path.as_ref());
    let key = given_path(raw.etcd_client_key_path.as_ref());
    let pair = |one: &str, other: &str| format!("--{one} needs --{other}: they come as a pair");
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some(ClientPair { cert, key })),
        (Some(_), None) => Err(pair("etcd-client-cert-path", "etcd-client-key-path")),
        (None, Some(_)) => Err(pair("etcd-client-key-path", "etcd-client-cert-path")),
    }
}

/// An empty name would let in every certificate whose subject has an empty one.
fn identities(names: Vec<String>) -> Result<Vec<String>, String> {
    match names.iter().any(|name| name.trim().is_empty()) {
        true => {
            Err("--control-identities is empty: give a name as it stands in a client certificate".to_owned())
        }
        false => Ok(names),
    }
}

/// The value itself is not shown: it may hold a password or a token.
fn notify(raw: &RawFlags) -> Result<Vec<NotifyUrl>, String> {
    let parse = |text: &String| {
        NotifyUrl::parse(text).map_err(|error| format!("invalid value for --notify-url (not shown): {error}"))
    };
    let urls: Vec<_> = raw.notify_url.iter().map(parse).collect::<Result<_, _>>()?;
    let ca = given_path(raw.backup_restore_ca_cert_bundle_path.as_ref());
    match urls.iter().find(|url| url.tls && ca.is_none()) {
        Some(url) => Err(format!(
            "--notify-url with {} needs --backup-restore-ca-cert-bundle-path: the CA bundle that its certificate is \
             verified with",
            url.origin()
        )),
        None => Ok(urls),
    }
}

/// An empty value stands for "not given", as with Go's string flags.
fn given_path(path: Option<&PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !blank(path)).cloned()
}

fn blank(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.trim().is_empty())
}

fn named(flag: &str, path: PathBuf) -> Result<PathBuf, String> {
    if blank(&path) { Err(format!("{flag} is empty: give a path")) } else { Ok(path) }
}

fn wait(flag: &str, value: GoDuration) -> Result<Duration, String> {
    value.to_std().map_err(|error| format!("invalid value for {flag}: {error}"))
}

fn pause(flag: &str, value: GoDuration, longest: Duration) -> Result<Duration, String> {
    let shortest = Duration::from_millis(10);
    let duration = wait(flag, value)?;
    if (shortest..=longest).contains(&duration) {
        return Ok(duration);
    }
    let (shortest, longest) = (GoDuration::from(shortest), GoDuration::from(longest));
    Err(format!("invalid value {value} for {flag}: it must lie between {shortest} and {longest}"))
}

/// `Targets` takes any bare word for a module and switches it to trace; a mistyped level must not pass for that.
fn log_filter(text: &str) -> Result<Targets, String> {
    let invalid = |why: String| {
        format!("invalid value {text:?} for --log-level: {why} (as in info, or info,etcd_wrapper::api=debug)")
    };
    for part in text.split(',').map(str::trim) {
        let level = part.split_once('=').map_or(part, |(_, level)| level);
        if level.is_empty() || level.parse::<LevelFilter>().is_err() {
            return Err(invalid(format!("{level:?} is not one of off, error, warn, info, debug, trace")));
        }
    }
    text.replace(' ', "").parse().map_err(|error| invalid(format!("{error}")))
}
