// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What is read from a configuration and what is refused.
use std::time::Duration;

use proptest::prelude::*;
use rstest::rstest;

use super::*;

const MINIMAL: &str = "name: etcd-main-0\ndata-dir: /var/etcd/data/new.etcd\n\
                       initial-cluster: etcd-main-0=http://127.0.0.1:2380\n";

/// As the sidecar serves it for a member with TLS.
const SERVED: &str = r#"advertise-client-urls: https://etcd-main-0.etcd-main-peer.ns.svc:2379
auto-compaction-mode: periodic
auto-compaction-retention: 30m
client-transport-security:
    auto-tls: false
    cert-file: /var/etcd/ssl/server/tls.crt
    client-cert-auth: true
    key-file: /var/etcd/ssl/server/tls.key
    trusted-ca-file: /var/etcd/ssl/ca/bundle.crt
data-dir: /var/etcd/data/new.etcd
enable-v2: false
initial-advertise-peer-urls: http://etcd-main-0.etcd-main-peer.ns.svc:2380,http://10.0.0.1:2380
initial-cluster: etcd-main-0=http://etcd-main-0:2380,etcd-main-1=http://etcd-main-1:2380,etcd-main-0=http://10.0.0.1:2380
initial-cluster-state: new
initial-cluster-token: etcd-cluster
listen-client-urls: https://0.0.0.0:2379
listen-peer-urls: http://0.0.0.0:2380
member-name-prefix: ""
metrics: extensive
name: etcd-main-0
next-cluster-version-compatible: true
peer-transport-security:
    auto-tls: true
    skip-client-san-verification: true
quota-backend-bytes: 8589934592
snapshot-count: 10000
"#;

fn parse(text: &str) -> Result<EtcdConfig, ConfigError> {
    EtcdConfig::parse(Bytes::copy_from_slice(text.as_bytes()))
}

/// A minimal good configuration plus `extra`.
pub(super) fn parsed(extra: &str) -> EtcdConfig {
    parse(&format!("{MINIMAL}listen-client-urls: http://127.0.0.1:2379\n{extra}")).unwrap()
}

pub(super) fn with_urls(urls: &str) -> EtcdConfig {
    parse(&format!("{MINIMAL}listen-client-urls: {urls}\n")).unwrap()
}

fn refusal(extra: &str) -> ConfigError {
    parse(&format!("{MINIMAL}listen-client-urls: http://127.0.0.1:2379\n{extra}"))
        .expect_err("must be refused")
}

#[test]
fn a_served_config_is_read_with_all_that_matters() {
    let config = parse(SERVED).unwrap();
    assert_eq!(config.name, "etcd-main-0");
    assert_eq!(config.data_dir.to_str(), Some("/var/etcd/data/new.etcd"));
    assert_eq!(config.listen_client_urls, ["https://0.0.0.0:2379"]);
    assert_eq!(config.advertise_peer_urls.len(), 2);
    assert_eq!(config.initial_cluster.len(), 3);
    assert_eq!(config.initial_cluster[1], ("etcd-main-1".to_owned(), "http://etcd-main-1:2380".to_owned()));
    assert!(config.client_tls.client_cert_auth && !config.client_tls.auto_tls);
    assert_eq!(config.client_tls.cert_file.unwrap().to_str(), Some("/var/etcd/ssl/server/tls.crt"));
    assert!(config.peer_tls.auto_tls && config.peer_tls.skip_client_san_verification);
    assert_eq!(config.quota_backend_bytes, 8_589_934_592);
    assert!(!config.unsafe_no_fsync && !config.force_new_cluster);
}

#[test]
fn c5_the_bytes_are_kept_as_they_came() {
    let text = format!("# a comment\r\n{SERVED}\n\n");
    let config = parse(&text).unwrap();
    assert_eq!(config.bytes, text.as_bytes());
}

#[test]
fn the_digest_is_that_of_the_bytes() {
    let config = with_urls("http://127.0.0.1:1");
    assert!(config.digest.starts_with("sha256:") && config.digest.len() == 7 + 64);
    assert_eq!(config.digest, with_urls("http://127.0.0.1:1").digest);
    assert_ne!(config.digest, with_urls("http://127.0.0.1:2").digest);
}

#[rstest]
#[case("name")]
#[case("data-dir")]
#[case("initial-cluster")]
#[case("listen-client-urls")]
fn a12_a_body_without_a_required_key_is_refused(#[case] key: &str) {
    let kept: Vec<&str> = SERVED.lines().filter(|line| !line.starts_with(&format!("{key}:"))).collect();
    for text in [
        kept.join("\n"),
        format!("{}\n{key}:\n", kept.join("\n")),
        format!("{}\n{key}: ''\n", kept.join("\n")),
    ] {
        let error = parse(&text).expect_err("must be refused");
        assert_eq!(error.problems.len(), 1, "{error}");
        assert_eq!(error.problems[0].pointer, format!("/{key}"));
    }
}

#[test]
fn a12_no_cut_body_passes_that_lacks_a_required_key() {
    let last = SERVED.find("name: etcd-main-0\nnext").unwrap() + "name: ".len();
    for end in 0..=last {
        assert!(parse(&SERVED[..end]).is_err(), "{end} bytes were taken");
    }
}

#[test]
fn all_problems_are_told_at_once_with_pointers() {
    let text = "data_dir: /a\nname: [x]\nclient-transport-security: {client-cert-auth: 'yes'}\nquota-backend-bytes: 8Gi\n\
                initial-cluster: nonsense\nlisten-client-urls: http://127.0.0.1:1\n";
    let error = parse(text).unwrap_err();
    let pointers: Vec<&str> = error.problems.iter().map(|problem| problem.pointer.as_str()).collect();
    assert_eq!(
        pointers,
        [
            "/name",
            "/data-dir",
            "/initial-cluster",
            "/quota-backend-bytes",
            "/client-transport-security/client-cert-auth"
        ]
    );
    assert_eq!(error.problems[1].suggestion.as_deref(), Some("write data-dir instead of data_dir"));
    assert!(error.problems[4].detail.contains("line 3"), "{error}");
}

#[rstest]
#[case("", "empty")]
#[case("- a\n- b\n", "list")]
#[case("just text\n", "text")]
#[case("12\n", "number")]
#[case("a: [\n", "YAML")]
#[case("<html><body>503</body></html>", "text")]
#[case("name: a\n---\nname: b\n", "second document")]
fn what_is_no_mapping_is_refused(#[case] text: &str, #[case] said: &str) {
    let error = parse(text).unwrap_err();
    assert!(error.to_string().contains(said), "{error}");
    assert_eq!(error.problems[0].pointer, "");
}

#[test]
fn what_is_no_utf_8_is_refused() {
    let error = EtcdConfig::parse(Bytes::from_static(b"name: \xff\xfe\n")).unwrap_err();
    assert!(error.to_string().contains("UTF-8"), "{error}");
}

#[test]
fn numbers_and_booleans_become_text_where_etcd_makes_text_of_them() {
    let text = "name: 0x10\ndata-dir: yes\ninitial-cluster: a=http://b:1\nlisten-client-urls: 7\n";
    let config = parse(text).unwrap();
    assert_eq!((config.name.as_str(), config.data_dir.to_str()), ("16", Some("true")));
}

#[test]
fn text_that_etcd_would_spell_anew_must_be_quoted() {
    let error = parse(&MINIMAL.replace("etcd-main-0\n", "1.10\n")).unwrap_err();
    assert!(error.to_string().contains("put it in quotes"), "{error}");
}

#[test]
fn a_key_in_another_case_is_refused_because_etcd_would_obey_it() {
    for (text, key) in [
        ("Force-New-Cluster: true\n", "/Force-New-Cluster"),
        ("un\u{17f}afe-no-fsync: true\n", "/un\u{17f}afe-no-fsync"),
        ("client-transport-security: {Cert-File: /a}\n", "/client-transport-security/Cert-File"),
    ] {
        let error = refusal(text);
        assert_eq!(error.problems[0].pointer, key);
        assert!(error.problems[0].suggestion.is_some());
    }
}

#[rstest]
#[case("quota-backend-bytes: 0\n", 0)]
#[case("quota-backend-bytes:\n", 0)]
#[case("quota-backend-bytes: 8e9\n", 8_000_000_000)]
#[case("quota-backend-bytes: 8_589_934_592\n", 8_589_934_592)]
#[case("quota-backend-bytes: -1\n", u64::MAX)]
fn quotas_are_read_as_etcd_does(#[case] text: &str, #[case] bytes: u64) {
    assert_eq!(parsed(text).quota_backend_bytes, bytes);
}

#[rstest]
#[case("election-timeout:\n", 1_000)]
#[case("election-timeout: 0\n", 1_000)]
#[case("election-timeout: 5000\n", 5_000)]
fn the_election_timeout_is_in_milliseconds(#[case] text: &str, #[case] millis: u64) {
    assert_eq!(parsed(text).election_timeout, Duration::from_millis(millis));
}

#[rstest]
#[case("election-timeout: 5s\n")]
#[case("election-timeout: -1\n")]
#[case("quota-backend-bytes: '5'\n")]
#[case("quota-backend-bytes: 1.5\n")]
#[case("quota-backend-bytes: 18446744073709551615\n")]
#[case("unsafe-no-fsync: 'true'\n")]
#[case("unsafe-no-fsync: 1\n")]
#[case("peer-transport-security: on\n")]
#[case("peer-transport-security: [a]\n")]
#[case("advertise-client-urls: {a: [b]}\n")]
fn kinds_that_etcd_refuses_are_refused_before_it(#[case] text: &str) {
    assert_eq!(refusal(text).problems.len(), 1);
}

#[test]
fn keys_that_do_not_concern_us_may_hold_anything() {
    parsed(
        "discovery-config: {endpoints: [a]}\nsnapshot-count: what\nx: {y: {z: [1, {a: b}]}}\nflow: [[[]]]\n",
    );
}

#[test]
fn a_null_section_is_an_absent_one() {
    assert_eq!(parsed("client-transport-security:\n").client_tls, TlsSection::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = EtcdConfig::parse(Bytes::from(bytes));
    }

    #[test]
    fn no_mutation_of_a_good_config_makes_anything_panic(
        cut in 0..SERVED.len(), length in 0_usize..20, insert in "[ -~\\n\\t]{0,8}", version in "3\\.[3-8]\\.[0-9]{1,2}"
    ) {
        let end = (cut + length).min(SERVED.len());
        let text = format!("{}{insert}{}", &SERVED[..cut], &SERVED[end..]);
        if let Ok(config) = parse(&text) {
            let _ = client_endpoint(&config, Some(2379));
            let _ = unknown_keys(&config, Some(&version));
            if let Ok(Launch::Flags(flags)) = launch(&config, Some(&version)) {
                prop_assert!(flags.iter().all(|flag| flag.starts_with("--")));
            }
            prop_assert_eq!(config.bytes, text.as_bytes());
        }
    }
}
