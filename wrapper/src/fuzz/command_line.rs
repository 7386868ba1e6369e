// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What comes with the process: flags, and the values that have a grammar of their own.
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use super::{Target, assert_short, shape};
use crate::bootstrap::sidecar::SidecarClient;
use crate::cli::host_port::SidecarAddress;
use crate::cli::notify_url::NotifyUrl;
use crate::cli::{Invocation, parse};
use crate::duration::GoDuration;

/// Words of a command line, parted by NUL: none makes the parser panic.
pub const FLAGS: Target = Target {
    words: &[
        "start-etcd\0",
        "\0",
        "--",
        "-",
        "=",
        "--hold",
        "-etcd-wrapper-port=",
        "--etcd-client-port\0",
        "--backup-restore-host-port=",
        "--backup-restore-tls-enabled",
        "--etcd-config-file=/etc/etcd.yaml",
        "--state-dir=",
        "--grace-period=",
        "--status-interval=10ms",
        "--readiness-interval=4s",
        "--on-etcd-exit=restart",
        "--listen-address=[::1]",
        "--log-level=info,etcd_wrapper::api=debug",
        "--control-identities=agent",
        "--help",
        "--version",
        "status\0",
    ],
    longest: 1024,
    cases: 400,
    ..Target::new("flags", flags)
};

/// A duration as Go writes it.
pub const DURATION: Target = Target {
    words: &["ns", "us", "µs", "μs", "ms", "s", "m", "h", ".", "-", "+", "0", "9223372036854775807"],
    longest: 64,
    cases: 10_000,
    ..Target::new("duration", duration)
};

/// `host:port`, and a port alone.
pub const HOST_PORT: Target = Target {
    words: &["localhost", ":", "[", "]", "::1", "%eth0", "8080", "65536", "http://", "@", "xn--"],
    longest: 300,
    cases: 5000,
    ..Target::new("host_port", host_port)
};

/// An address for notifications.
pub const NOTIFY_URL: Target = Target {
    words: &[
        "http://",
        "https://",
        "user:pw@",
        "127.0.0.1",
        "[::1]",
        ":8080",
        ":+80",
        "/notify?token=secret",
        "#x",
        "%zz",
        "%41",
    ],
    longest: 300,
    cases: 5000,
    ..Target::new("notify_url", notify_url)
};

/// Arguments, divided by NUL: no argument can hold one.
pub fn flags(input: &[u8]) -> u64 {
    let arguments = input.split(|byte| *byte == 0).map(|bytes| OsString::from_vec(bytes.to_vec()));
    match parse(arguments) {
        Ok(Invocation::Start(flags)) => {
            assert!(flags.etcd_client_port != 0, "a port of 0 cannot be dialled");
            let ten_seconds = Duration::from_secs(10);
            assert!(flags.status_interval <= ten_seconds && flags.readiness_interval <= ten_seconds / 2);
            assert!(!flags.state_dir.as_os_str().is_empty());
            assert!(flags.control_identities.iter().all(|name| !name.trim().is_empty()));
            shape("start")
        }
        Ok(other) => shape(&format!("{other:?}")),
        Err(error) => {
            let text = error.to_string();
            assert!(!text.trim().is_empty(), "a refusal without words");
            assert_short(&text, 8 * input.len() + 8192);
            shape(&text)
        }
    }
}

/// Texts as durations: none is taken that Go refuses, and what is printed is read back.
pub fn duration(input: &[u8]) -> u64 {
    let Ok(text) = std::str::from_utf8(input) else { return 0 };
    match text.parse::<GoDuration>() {
        Ok(duration) => {
            assert!(is_gos(text), "{text:?} is no duration to Go");
            assert_eq!(duration.to_string().parse(), Ok(duration), "{duration} is read back");
            assert_eq!(duration.to_std().is_ok(), duration.as_nanos() >= 0);
            shape(text)
        }
        Err(error) => shape(&error.to_string()),
    }
}

/// Go's grammar, told a second time and otherwise: `[-+]?(0|([0-9]*(\.[0-9]*)?unit)+)` with a digit in each number.
fn is_gos(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    if text == "0" {
        return true;
    }
    let mut rest = text;
    let mut terms = 0;
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let spelled = &rest[..rest.len() - number.len()];
        if spelled.matches('.').count() > 1 || !spelled.contains(|c: char| c.is_ascii_digit()) {
            return false;
        }
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        // The longest: `ms` is no `m` with an `s` behind it.
        let units = units.iter().filter(|unit| number.starts_with(**unit));
        let Some(unit) = units.max_by_key(|unit| unit.len()) else { return false };
        rest = &number[unit.len()..];
        terms += 1;
    }
    terms > 0
}

/// Texts as an URL to notify: what is taken can be called, and nothing of what may be a secret is shown.
pub fn notify_url(input: &[u8]) -> u64 {
    let Ok(text) = std::str::from_utf8(input) else { return 0 };
    match NotifyUrl::parse(text) {
        Ok(url) => {
            assert!(url.address.port != 0 && !url.address.host.is_empty(), "{text:?}");
            let place = text.split(['/', '?', '#']).nth(2).and_then(|authority| authority.rsplit('@').next());
            assert!(place.is_none_or(|place| !place.contains(":+")), "{text:?}");
            assert!(url.target.as_str().starts_with('/'), "{text:?}");
            let shown = format!("{url:?}");
            let secret = url.target.query().filter(|query| query.len() > 8);
            assert!(secret.is_none_or(|query| !shown.contains(query)), "{shown}");
            let again = format!("{}{}", url.origin(), url.target);
            let bare = NotifyUrl { authorization: None, ..url };
            assert_eq!(NotifyUrl::parse(&again), Ok(bare), "{again:?} is read back");
            1
        }
        Err(error) => {
            assert_short(&error.to_string(), 256);
            shape(&error.to_string())
        }
    }
}

/// Texts as the sidecar's address: what is taken can be dialled, and is read back.
pub fn host_port(input: &[u8]) -> u64 {
    let Ok(text) = std::str::from_utf8(input) else { return 0 };
    match text.parse::<SidecarAddress>() {
        Ok(address) => {
            assert!(address.port != 0 && !address.host.is_empty(), "{address:?}");
            assert_eq!(address.to_string().parse(), Ok(address.clone()), "{address:?} is read back");
            let client = SidecarClient::new(address, None);
            shape(&client.map_or_else(|error| error.to_string(), |_| "client".to_owned()))
        }
        Err(error) => {
            assert_short(&error.to_string(), 4096);
            shape(&error.to_string())
        }
    }
}
