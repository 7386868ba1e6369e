// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The flags of `start-etcd` as clap declares them: names, defaults, help. Rules between flags are in start.rs.
use std::net::IpAddr;
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{ArgAction, Args};

use super::start::{LogFormat, OnEtcdExit};
use crate::duration::GoDuration;

const GO: &str = "Flags of the Go etcd-wrapper";
const ETCD: &str = "etcd and its bootstrap";
const HTTP: &str = "HTTP port";
const LOG: &str = "Logs and help";

/// Values as clap hands them over; `start::check` makes `StartFlags` of them.
#[derive(Debug, Args)]
pub(super) struct RawFlags {
    /// Port of the wrapper's own HTTP server; 0 lets the system choose
    #[arg(long, default_value_t = 9095, value_name = "PORT", help_heading = GO)]
    pub(super) etcd_wrapper_port: u16,

    /// Talk TLS to the backup sidecar
    #[arg(long, help_heading = GO, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set, value_parser = go_bool(), value_name = "BOOL")]
    pub(super) backup_restore_tls_enabled: bool,

    /// Where the backup sidecar listens: host:port without a scheme, IPv6 in brackets, an empty host is localhost
    #[arg(long, default_value = ":8080", value_name = "HOST:PORT", help_heading = GO)]
    pub(super) backup_restore_host_port: String,

    /// CA bundle that signed the sidecar's certificate; needed with TLS
    #[arg(long, value_parser = path(), value_name = "PATH", help_heading = GO)]
    pub(super) backup_restore_ca_cert_bundle_path: Option<PathBuf>,

    /// Port at which the wrapper's own client reaches etcd
    #[arg(long, default_value_t = 2379, value_name = "PORT", help_heading = GO,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) etcd_client_port: u16,

    /// Client certificate of the wrapper's own etcd client
    #[arg(long, value_parser = path(), value_name = "PATH", help_heading = GO)]
    pub(super) etcd_client_cert_path: Option<PathBuf>,

    /// Key of that client certificate
    #[arg(long, value_parser = path(), value_name = "PATH", help_heading = GO)]
    pub(super) etcd_client_key_path: Option<PathBuf>,

    /// Name to ask for and to verify in etcd's server certificate
    #[arg(long, value_name = "NAME", help_heading = GO)]
    pub(super) etcd_server_name: Option<String>,

    /// Limit of the wait for etcd to become ready; 0 waits for ever
    #[arg(long, default_value = "0", value_name = "DURATION", help_heading = GO)]
    pub(super) etcd_ready_timeout: GoDuration,

    /// The etcd binary [default: etcd beside this binary, else on PATH]
    #[arg(long, value_parser = path(), value_name = "PATH", help_heading = ETCD)]
    pub(super) etcd_path: Option<PathBuf>,

    /// Start from this etcd configuration file, without any sidecar
    #[arg(long, value_parser = path(), value_name = "PATH", help_heading = ETCD)]
    pub(super) etcd_config_file: Option<PathBuf>,

    /// Start nothing; wait for POST /v1/etcd/start
    #[arg(long, help_heading = ETCD, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set, value_parser = go_bool(), value_name = "BOOL")]
    pub(super) hold: bool,

    /// Where exit_code, hold, exit_history.jsonl and etcd.lock lie
    #[arg(long, default_value = "/var/etcd/data", value_parser = path(), value_name = "DIR", help_heading = ETCD)]
    pub(super) state_dir: PathBuf,

    /// Time etcd has from SIGTERM until SIGQUIT; SIGKILL follows 2 s later
    #[arg(long, default_value = "25s", value_name = "DURATION", help_heading = ETCD)]
    pub(super) grace_period: GoDuration,

    /// What follows an end of etcd that nobody asked for
    #[arg(long, default_value = "exit", value_name = "POLICY", help_heading = ETCD)]
    pub(super) on_etcd_exit: OnEtcdExit,

    /// false: a stop by POST /stop leaves no marker of a clean end, as with the Go etcd-wrapper
    #[arg(long, help_heading = ETCD, num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", action = ArgAction::Set, value_parser = go_bool(), value_name = "BOOL")]
    pub(super) clean_marker_on_stop: bool,

    /// Pause between Status polls of the local member
    #[arg(long, default_value = "250ms", value_name = "DURATION", help_heading = ETCD)]
    pub(super) status_interval: GoDuration,

    /// Pause between linearizable reads through the local member
    #[arg(long, default_value = "2s", value_name = "DURATION", help_heading = ETCD)]
    pub(super) readiness_interval: GoDuration,

    /// IP address of the wrapper's HTTP port [default: all addresses]
    #[arg(long, value_name = "IP", value_parser = parse_ip, help_heading = HTTP)]
    pub(super) listen_address: Option<IpAddr>,

    /// Let anybody who reaches the port POST /stop, as with the Go etcd-wrapper
    #[arg(long, help_heading = HTTP, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set, value_parser = go_bool(), value_name = "BOOL")]
    pub(super) allow_remote_stop: bool,

    /// false: loopback callers have no rights of their own, as needed in the host's network
    #[arg(long, help_heading = HTTP, num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", action = ArgAction::Set, value_parser = go_bool(), value_name = "BOOL")]
    pub(super) control_loopback: bool,

    /// Common name or alternative name in a verified client certificate whose owner may control; may be repeated
    #[arg(long, value_name = "NAME", help_heading = HTTP, action = ArgAction::Append)]
    pub(super) control_identities: Vec<String>,

    /// POST every change of leader, phase, readiness and operation to this URL, the newest of each until it was heard;
    /// https is verified against --backup-restore-ca-cert-bundle-path; may be repeated
    #[arg(long, value_name = "URL", help_heading = HTTP, action = ArgAction::Append)]
    pub(super) notify_url: Vec<String>,

    /// Level, or filter by module: info,etcd_wrapper::api=debug
    #[arg(long, default_value = "info", value_name = "FILTER", help_heading = LOG)]
    pub(super) log_level: String,

    /// json, or text for people
    #[arg(long, default_value = "json", value_name = "FORMAT", help_heading = LOG)]
    pub(super) log_format: LogFormat,

    /// Print this help
    // A flag of clap's own would stand before Go's nine.
    #[arg(short = 'h', long, action = ArgAction::HelpShort, help_heading = LOG)]
    help: Option<bool>,
}

/// What Go's `strconv.ParseBool` takes.
fn go_bool() -> impl TypedValueParser<Value = bool> {
    clap::builder::StringValueParser::new().try_map(|text| match text.as_str() {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        _ => Err("a boolean is true or false (or 1, 0, t, f)"),
    })
}

/// clap's own parser refuses an empty path; to Go's flags it means "not given".
fn path() -> impl TypedValueParser<Value = PathBuf> {
    clap::builder::OsStringValueParser::new().map(PathBuf::from)
}

fn parse_ip(text: &str) -> Result<IpAddr, &'static str> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(|_| "an IP address is needed, such as 127.0.0.1 or ::1")
}
