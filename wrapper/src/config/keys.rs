// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Which configuration keys which etcd knows, and what kind of value each takes: data, read off etcd's own sources at
//! every tag of 3.4 (to 3.4.45), 3.5 (to 3.5.35), 3.6 (to 3.6.16) and 3.7 (to 3.7.3). Decides nothing about them.

/// A version of etcd, as far as it decides about keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EtcdVersion {
    /// 3.
    pub major: u16,
    /// The line: 4 to 7 are known.
    pub minor: u16,
    /// Within the line.
    pub patch: u16,
}

impl EtcdVersion {
    /// Reads `3.5.35`, `v3.5.35`, `3.6.0-rc.1`; None for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let numbers = text.split(['-', '+']).next()?;
        let mut parts = numbers.split('.').map(|part| part.parse::<u16>().ok());
        let version = Self { major: parts.next()??, minor: parts.next()??, patch: parts.next()?? };
        parts.next().is_none().then_some(version)
    }

    /// Whether this etcd reads a key of the top level; None for a line that we do not know.
    pub(super) fn knows(self, name: &str) -> Option<bool> {
        let line = self.line()?;
        Some(TOP.iter().any(|key| key.name == name && key.known_to(line, self.patch)))
    }

    /// Column of the tables below; None for a line they do not cover.
    pub(super) fn line(self) -> Option<usize> {
        match (self.major, self.minor) {
            (3, minor @ 4..=7) => Some(usize::from(minor - 4)),
            _ => None,
        }
    }
}

/// The newest patch release of each line that the tables were read from.
pub(super) const AS_OF: [&str; 4] = ["3.4.45", "3.5.35", "3.6.16", "3.7.3"];

/// The kind of value a key takes; decides how the flags bridge writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Text for which etcd takes "" in a file as "not set".
    Defaulted,
    Bool,
    Number,
    /// A duration: a number of nanoseconds in a file, Go's spelling in a flag.
    Nanos,
    /// A list of texts in a file, joined by commas in a flag.
    List,
    Section,
    Other,
}
use Kind::{Bool, Defaulted, List, Nanos, Number, Other, Section, Text};

#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// First patch release of 3.4, 3.5, 3.6, 3.7 that has the key.
    since: [u16; 4],
    pub(super) kind: Kind,
}

impl Key {
    pub(super) fn known_to(&self, line: usize, patch: u16) -> bool {
        self.since.get(line).is_some_and(|since| *since <= patch)
    }
}

/// Never in this line.
const X: u16 = u16::MAX;

const fn key(name: &'static str, since: [u16; 4], kind: Kind) -> Key {
    Key { name, since, kind }
}

/// Keys of the top level.
#[rustfmt::skip]
pub(super) const TOP: &[Key] = &[
    key("advertise-client-urls", [0, 0, 0, 0], Defaulted),
    key("auth-token", [0, 0, 0, 0], Text),
    key("auth-token-ttl", [10, 0, 0, 0], Number),
    key("auto-compaction-mode", [0, 0, 0, 0], Text),
    key("auto-compaction-retention", [0, 0, 0, 0], Text),
    key("backend-batch-interval", [0, 0, 0, 0], Nanos),
    key("backend-batch-limit", [0, 0, 0, 0], Number),
    key("backend-bbolt-freelist-type", [X, 0, 0, 0], Text),
    key("bcrypt-cost", [0, 0, 0, 0], Number),
    key("bootstrap-defrag-threshold-megabytes", [X, X, 0, 0], Number),
    key("cipher-suites", [0, 0, 0, 0], List),
    key("client-transport-security", [0, 0, 0, 0], Section),
    key("compact-hash-check-time", [X, X, 0, 0], Nanos),
    key("compaction-batch-limit", [X, X, 0, 0], Number),
    key("compaction-sleep-interval", [X, X, 0, 0], Nanos),
    key("corrupt-check-time", [X, X, 0, 0], Nanos),
    key("cors", [0, 0, 0, 0], Defaulted),
    key("data-dir", [0, 0, 0, 0], Text),
    key("debug", [0, X, X, X], Bool),
    key("discovery", [0, 0, 0, X], Text),
    key("discovery-config", [X, X, 0, 0], Other),
    key("discovery-fallback", [0, 0, X, X], Defaulted),
    key("discovery-proxy", [0, 0, 0, X], Text),
    key("discovery-srv", [0, 0, 0, 0], Text),
    key("discovery-srv-name", [0, 0, 0, 0], Text),
    key("distributed-tracing-address", [X, X, 0, 0], Text),
    key("distributed-tracing-instance-id", [X, X, 0, 0], Text),
    key("distributed-tracing-sampling-rate", [X, X, 0, 0], Number),
    key("distributed-tracing-service-name", [X, X, 0, 0], Text),
    key("downgrade-check-time", [X, X, 0, 0], Nanos),
    key("election-timeout", [0, 0, 0, 0], Number),
    key("enable-distributed-tracing", [X, X, 0, 0], Bool),
    key("enable-grpc-gateway", [0, 0, 0, 0], Bool),
    key("enable-log-rotation", [X, 0, 0, 0], Bool),
    key("enable-pprof", [0, 0, 0, 0], Bool),
    key("enable-v2", [0, 0, X, X], Bool),
    key("experimental-backend-bbolt-freelist-type", [0, X, X, X], Text),
    key("experimental-bootstrap-defrag-threshold-megabytes", [X, 0, 0, X], Number),
    key("experimental-compact-hash-check-enabled", [X, 5, 0, X], Bool),
    key("experimental-compact-hash-check-time", [X, 5, 0, X], Nanos),
    key("experimental-compaction-batch-limit", [0, 0, 0, X], Number),
    key("experimental-compaction-sleep-interval", [X, 16, 0, X], Nanos),
    key("experimental-corrupt-check-time", [0, 0, 0, X], Nanos),
    key("experimental-distributed-tracing-address", [X, 0, 0, X], Text),
    key("experimental-distributed-tracing-instance-id", [X, 0, 0, X], Text),
    key("experimental-distributed-tracing-sampling-rate", [X, 11, 0, X], Number),
    key("experimental-distributed-tracing-service-name", [X, 0, 0, X], Text),
    key("experimental-downgrade-check-time", [X, 0, 0, X], Nanos),
    key("experimental-enable-distributed-tracing", [X, 0, 0, X], Bool),
    key("experimental-enable-lease-checkpoint", [0, 0, 0, X], Bool),
    key("experimental-enable-lease-checkpoint-persist", [20, 2, 0, X], Bool),
    key("experimental-enable-v2v3", [0, 0, X, X], Text),
    key("experimental-initial-corrupt-check", [0, 0, 0, X], Bool),
    key("experimental-memory-mlock", [X, 0, 0, X], Bool),
    key("experimental-peer-skip-client-san-verification", [X, X, 0, X], Bool),
    key("experimental-snapshot-catch-up-entries", [X, 14, 0, X], Number),
    key("experimental-stop-grpc-service-on-defrag", [X, 14, 0, X], Bool),
    key("experimental-txn-mode-write-with-shared-buffer", [X, 0, 0, X], Bool),
    key("experimental-warning-apply-duration", [16, 0, 0, X], Nanos),
    key("experimental-warning-unary-request-duration", [X, X, 0, X], Nanos),
    key("experimental-watch-progress-notify-interval", [11, 0, 0, X], Nanos),
    key("feature-gates", [X, X, 0, 0], Text),
    key("force-new-cluster", [0, 0, 0, 0], Bool),
    key("grpc-additional-server-options", [X, X, 0, 0], Other),
    key("grpc-keepalive-interval", [0, 0, 0, 0], Nanos),
    key("grpc-keepalive-min-time", [0, 0, 0, 0], Nanos),
    key("grpc-keepalive-timeout", [0, 0, 0, 0], Nanos),
    key("heartbeat-interval", [0, 0, 0, 0], Number),
    key("host-whitelist", [0, 0, 0, 0], Defaulted),
    key("initial-advertise-peer-urls", [0, 0, 0, 0], Defaulted),
    key("initial-cluster", [0, 0, 0, 0], Text),
    key("initial-cluster-state", [0, 0, 0, 0], Defaulted),
    key("initial-cluster-token", [0, 0, 0, 0], Text),
    key("initial-election-tick-advance", [0, 0, 0, 0], Bool),
    key("listen-client-http-urls", [25, 8, 0, 0], Defaulted),
    key("listen-client-urls", [0, 0, 0, 0], Defaulted),
    key("listen-metrics-urls", [0, 0, 0, 0], Defaulted),
    key("listen-peer-urls", [0, 0, 0, 0], Defaulted),
    key("log-format", [X, X, 0, 0], Text),
    key("log-level", [0, 0, 0, 0], Text),
    key("log-output", [0, X, X, X], List),
    key("log-outputs", [0, 0, 0, 0], List),
    key("log-package-levels", [0, X, X, X], Text),
    key("log-rotation-config-json", [X, 0, 0, 0], Text),
    key("logger", [0, 0, 0, 0], Text),
    key("max-concurrent-streams", [20, 5, 0, 0], Number),
    key("max-learners", [X, X, 0, 0], Number),
    key("max-request-bytes", [0, 0, 0, 0], Number),
    key("max-snapshots", [0, 0, 0, 0], Number),
    key("max-txn-ops", [0, 0, 0, 0], Number),
    key("max-wals", [0, 0, 0, 0], Number),
    key("memory-mlock", [X, X, 0, 0], Bool),
    key("metrics", [0, 0, 0, 0], Text),
    key("name", [0, 0, 0, 0], Text),
    key("next-cluster-version-compatible", [31, X, X, X], Bool),
    key("peer-transport-security", [0, 0, 0, 0], Section),
    key("pre-vote", [0, 0, 0, 0], Bool),
    key("proxy", [0, 0, X, X], Defaulted),
    key("proxy-dial-timeout", [0, 0, X, X], Number),
    key("proxy-failure-wait", [0, 0, X, X], Number),
    key("proxy-read-timeout", [0, 0, X, X], Number),
    key("proxy-refresh-interval", [0, 0, X, X], Number),
    key("proxy-write-timeout", [0, 0, X, X], Number),
    key("quota-backend-bytes", [0, 0, 0, 0], Number),
    key("self-signed-cert-validity", [X, 1, 0, 0], Number),
    key("snapshot-catchup-entries", [X, X, 0, 0], Number),
    key("snapshot-count", [0, 0, 0, 0], Number),
    key("socket-options", [X, 10, 0, 0], Section),
    key("strict-reconfig-check", [0, 0, 0, 0], Bool),
    key("tls-max-version", [25, 8, 0, 0], Text),
    key("tls-min-version", [25, 8, 0, 0], Text),
    key("unsafe-no-fsync", [10, 0, 0, 0], Bool),
    key("v2-deprecation", [X, 0, 0, 0], Defaulted),
    key("wal-dir", [0, 0, 0, 0], Text),
    key("warning-apply-duration", [X, X, 0, 0], Nanos),
    key("warning-unary-request-duration", [X, X, 0, 0], Nanos),
    key("watch-progress-notify-interval", [X, X, 0, 0], Nanos),
];

/// Keys of `client-transport-security` and `peer-transport-security`.
#[rustfmt::skip]
pub(super) const SECURITY: &[Key] = &[
    key("allowed-cn", [X, 14, 0, 0], List),
    key("allowed-hostname", [X, 14, 0, 0], List),
    key("auto-tls", [0, 0, 0, 0], Bool),
    key("cert-file", [0, 0, 0, 0], Text),
    key("client-cert-auth", [0, 0, 0, 0], Bool),
    key("client-cert-file", [X, 0, 0, 0], Text),
    key("client-key-file", [X, 0, 0, 0], Text),
    key("key-file", [0, 0, 0, 0], Text),
    key("skip-client-san-verification", [X, X, 0, 0], Bool),
    key("trusted-ca-file", [0, 0, 0, 0], Text),
];

/// Keys of `socket-options`.
#[rustfmt::skip]
pub(super) const SOCKET: &[Key] = &[
    key("reuse-address", [X, 10, 0, 0], Bool),
    key("reuse-port", [X, 10, 0, 0], Bool),
];

/// Fields of etcd's Go structs that have no key of their own: the JSON decoder takes them by name, undocumented.
/// Never called unknown.
pub(super) const GO_FIELDS: &[&str] = &[
    "AdvertiseClientUrls",
    "AdvertisePeerUrls",
    "ACUrls",
    "APUrls",
    "CORS",
    "ClientAutoTLS",
    "ClientTLSInfo",
    "Fallback",
    "FlagsExplicitlySet",
    "HostWhitelist",
    "LCUrls",
    "LPUrls",
    "ListenClientHttpUrls",
    "ListenClientUrls",
    "ListenMetricsUrls",
    "ListenPeerUrls",
    "PeerAutoTLS",
    "PeerTLSInfo",
    "Proxy",
    "ServerFeatureGate",
    "SocketOpts",
    "ZapLoggerBuilder",
];

/// Keys that the sidecar or etcd-druid adds for itself or for some versions only: harmless to an etcd that does not
/// know them, and no news to anybody.
pub(super) const HARMLESS: &[&str] = &["member-name-prefix", "next-cluster-version-compatible"];

/// Equal to Go's JSON decoder, which takes keys whatever their case (and folds two letters beyond ASCII).
pub(super) fn same_key(a: &str, b: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    a.chars().map(fold).eq(b.chars().map(fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_etcd_prints_them() {
        let version = |major, minor, patch| Some(EtcdVersion { major, minor, patch });
        assert_eq!(EtcdVersion::parse("3.5.35"), version(3, 5, 35));
        assert_eq!(EtcdVersion::parse("v3.4.34\n"), version(3, 4, 34));
        assert_eq!(EtcdVersion::parse("3.6.0-rc.1"), version(3, 6, 0));
        for text in ["", "unknown", "3.5", "3.5.x", "3.5.1.2", "3..1"] {
            assert_eq!(EtcdVersion::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_tables_have_no_key_twice() {
        for table in [TOP, SECURITY, SOCKET] {
            let mut names: Vec<_> = table.iter().map(|key| key.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), table.len());
        }
    }

    #[test]
    fn keys_are_folded_as_by_go() {
        assert!(same_key("Data-Dir", "data-dir"));
        assert!(same_key("un\u{17f}afe-no-f\u{17f}ync", "unsafe-no-fsync"));
        assert!(!same_key("data_dir", "data-dir"));
    }
}
