// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! When a file stays a file, and what a file becomes as flags.
use super::*;
use crate::config::tests::parsed;

const SKIP: &str = "peer-transport-security: {cert-file: /p.crt, skip-client-san-verification: true}\n";

fn bridged(extra: &str, version: &str) -> Vec<String> {
    match launch(&parsed(&format!("{SKIP}{extra}")), Some(version)) {
        Ok(Launch::Flags(flags)) => flags,
        other => panic!("expected flags, got {other:?}"),
    }
}

fn refused(extra: &str, version: Option<&str>) -> String {
    launch(&parsed(&format!("{SKIP}{extra}")), version).expect_err("must be refused").to_string()
}

#[test]
fn c5_without_the_key_the_file_is_given_whatever_the_version() {
    for version in [None, Some("nonsense"), Some("3.4.34"), Some("3.5.35"), Some("3.6.16"), Some("4.0.0")] {
        assert_eq!(launch(&parsed(""), version), Ok(Launch::ConfigFile), "{version:?}");
    }
    let off = parsed("peer-transport-security: {skip-client-san-verification: false}\n");
    assert_eq!(launch(&off, Some("3.5.35")), Ok(Launch::ConfigFile));
}

#[test]
fn c2_from_3_6_on_the_key_works_in_the_file() {
    for version in ["3.6.0", "3.7.3", "3.8.0", "4.0.0"] {
        assert_eq!(launch(&parsed(SKIP), Some(version)), Ok(Launch::ConfigFile), "{version}");
    }
}

#[test]
fn c2_on_3_4_and_3_5_everything_becomes_flags() {
    let flags = bridged("quota-backend-bytes: 8589934592\n", "3.5.35");
    for flag in [
        "--name=etcd-main-0",
        "--data-dir=/var/etcd/data/new.etcd",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--initial-cluster=etcd-main-0=http://127.0.0.1:2380",
        "--peer-cert-file=/p.crt",
        "--quota-backend-bytes=8589934592",
        "--experimental-peer-skip-client-san-verification=true",
    ] {
        assert!(flags.iter().any(|have| have == flag), "{flag} is not in {flags:#?}");
    }
    assert!(
        bridged("", "3.4.34").contains(&"--experimental-peer-skip-client-san-verification=true".to_owned())
    );
}

#[test]
fn c2_an_unknown_version_is_refused_and_said() {
    assert!(refused("", None).contains("skip-client-san-verification"));
    assert!(refused("", Some("garbage")).contains("garbage"));
    assert!(refused("", Some("3.3.27")).contains("3.3"));
}

#[test]
fn values_are_written_as_flags_want_them() {
    let text = "client-transport-security: {cert-file: /c.crt, client-cert-auth: true, allowed-hostname: [a, b]}\n\
                grpc-keepalive-min-time: 5000000000\nlog-outputs: [stderr, /tmp/x]\nname2: x\n\
                auto-compaction-retention: 30\nsnapshot-count: 0x10\npre-vote: off\nwal-dir:\n\
                socket-options: {reuse-port: true}\nexperimental-snapshot-catch-up-entries: 7\n\
                self-signed-cert-validity: 0\nproxy: ''\nmax-wals: 1e1\n";
    let flags = bridged(text, "3.5.35");
    for flag in [
        "--cert-file=/c.crt",
        "--client-cert-auth=true",
        "--client-cert-allowed-hostname=a,b",
        "--grpc-keepalive-min-time=5000000000ns",
        "--log-outputs=stderr,/tmp/x",
        "--auto-compaction-retention=30",
        "--snapshot-count=16",
        "--pre-vote=false",
        "--socket-reuse-port=true",
        "--experimental-snapshot-catchup-entries=7",
        "--max-wals=10",
    ] {
        assert!(flags.iter().any(|have| have == flag), "{flag} is not in {flags:#?}");
    }
    for absent in ["--name2", "--wal-dir", "--self-signed-cert-validity", "--proxy="] {
        assert!(!flags.iter().any(|have| have.starts_with(absent)), "{absent} is in {flags:#?}");
    }
}

#[test]
fn what_a_files_silence_means_is_said_in_flags() {
    let flags = bridged("", "3.4.34");
    for flag in [
        "--enable-grpc-gateway=false",
        "--auto-compaction-mode=",
        "--advertise-client-urls=http://localhost:2379",
    ] {
        assert!(flags.iter().any(|have| have == flag), "{flag} is not in {flags:#?}");
    }
    let early = bridged("", "3.4.23");
    assert!(
        !early.iter().any(|flag| flag.starts_with("--tls-min-version")),
        "3.4.23 does not know that flag"
    );
    assert!(!bridged("", "3.5.35").iter().any(|flag| flag.starts_with("--enable-grpc-gateway")));
    let said = bridged("auto-compaction-mode: revision\n", "3.5.35");
    assert_eq!(said.iter().filter(|flag| flag.starts_with("--auto-compaction-mode")).count(), 1);
}

#[test]
fn keys_that_this_version_would_have_ignored_are_left_out() {
    let flags = bridged("member-name-prefix: x\nnext-cluster-version-compatible: true\n", "3.5.35");
    assert!(!flags.iter().any(|flag| flag.contains("member-name") || flag.contains("next-cluster")));
    let flags = bridged("next-cluster-version-compatible: true\n", "3.4.31");
    assert!(flags.contains(&"--next-cluster-version-compatible=true".to_owned()));
    assert!(
        !bridged("next-cluster-version-compatible: true\n", "3.4.30")
            .iter()
            .any(|f| f.contains("next-cluster"))
    );
}

#[test]
fn c2_a_key_without_a_flag_is_refused_by_name() {
    for (text, named) in [
        ("client-transport-security: {allowed-cn: [me]}\n", "/client-transport-security/allowed-cn"),
        ("log-outputs: ['a,b']\n", "/log-outputs"),
        ("max-wals: '5'\n", "/max-wals"),
        ("pre-vote: 'true'\n", "/pre-vote"),
        ("grpc-keepalive-min-time: 5s\n", "/grpc-keepalive-min-time"),
        ("auto-compaction-retention: 1.10\n", "/auto-compaction-retention"),
        ("Metrics: extensive\n", "/Metrics"),
        ("PeerTLSInfo: {}\n", "/PeerTLSInfo"),
    ] {
        let error = refused(text, Some("3.5.35"));
        assert!(error.contains(named), "{named} is not in {error}");
    }
    assert!(bridged("client-transport-security: {allowed-cn: []}\n", "3.5.35").len() > 4);
}
