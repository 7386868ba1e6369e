// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The served configuration is what etcd runs with, whatever stands around it.
use std::path::Path;

use doubles::pki::{Authority, Leaf};
use rstest::rstest;
use serde_json::json;

use crate::scene::{Etcd, LONG, MEMBER, SECOND, Scene};

const STRANGE: [(&str, &str); 4] = [
    ("ETCD_NAME", "wrong"),
    ("ETCD_DATA_DIR", "/nonexistent"),
    ("ETCD_LISTEN_CLIENT_URLS", "http://127.0.0.1:1"),
    ("ETCD_PORT", "tcp://10.0.0.1:2379"),
];

#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn c1_variables_around_it_do_not_reach_etcd(#[case] line: &'static str) {
    let scene = STRANGE.iter().fold(Scene::real(line), |scene, (name, value)| scene.env(name, value));
    let wrapper = scene.start_ready();
    assert!(scene.etcdctl(&["member", "list"]).contains(MEMBER));
    assert!(scene.data_dir().join("member").is_dir());
    let environment = std::fs::read(format!("/proc/{}/environ", wrapper.etcd_pid())).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let left: Vec<_> = environment.split('\0').filter(|entry| entry.starts_with("ETCD_")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn c3_readiness_needs_no_gateway(#[case] line: &'static str) {
    let scene = Scene::real(line);
    let config = scene.config().without("enable-grpc-gateway");
    let scene = scene.with_config(config);
    scene.start_ready();
}

#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn c11_a_log_file_of_etcd_changes_nothing(#[case] line: &'static str) {
    let scene = Scene::real(line);
    let log = scene.path().join("etcd.log");
    let config = scene.config().with("log-outputs", json!([log]));
    let scene = scene.with_config(config);
    let mut wrapper = scene.start_ready();
    assert!(std::fs::read_to_string(&log).unwrap().contains("ready to serve client requests"));
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));

    let mut wrapper = scene.start_ready();
    crate::scene::signal(wrapper.etcd_pid(), rustix::process::Signal::KILL);
    assert_eq!(wrapper.wait_exit(2 * SECOND), 10);
    assert_eq!(wrapper.record()["etcd"]["signal"], "SIGKILL");
    assert_eq!(scene.marker(), None);
}

/// Two members; the second shows its peers a certificate for 127.0.0.2 while its connections come from 127.0.0.1.
struct Pair {
    good: Scene,
    odd: Scene,
    _pki: tempfile::TempDir,
}

impl Pair {
    fn new(line: &'static str, skip: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ca = Authority::new("peer-ca");
        let bundle = ca.write(&dir.path().join("ca.crt")).unwrap();
        let scenes = [(MEMBER, "127.0.0.1"), ("etcd-main-1", "127.0.0.2")].map(|(name, host)| {
            let scene = Scene::of(&Etcd::Real(line)).named(name);
            let scene = STRANGE.iter().fold(scene, |scene, (name, value)| scene.env(name, value));
            let url = format!("https://{host}:{}", scene.peer_port());
            (scene, host, url)
        });
        let cluster = scenes.each_ref().map(|(scene, _, url)| format!("{}={url}", scene.member())).join(",");
        let [good, odd] = scenes.map(|(scene, host, url)| {
            let files = ca.sign(&Leaf::peer(&[host])).write(&dir.path().join(host)).unwrap();
            let peer = peer_tls(&bundle, &files, skip);
            let config = scene
                .config()
                .with("listen-peer-urls", url.as_str())
                .with("initial-advertise-peer-urls", json!({scene.member(): [url]}))
                .with("initial-cluster", cluster.as_str())
                .with("peer-transport-security", peer);
            scene.with_config(config)
        });
        Self { good, odd, _pki: dir }
    }
}

fn peer_tls(bundle: &Path, files: &doubles::pki::PairFiles, skip: bool) -> serde_json::Value {
    let mut section = json!({
        "cert-file": files.cert, "key-file": files.key, "trusted-ca-file": bundle, "client-cert-auth": true,
    });
    if skip {
        section["skip-client-san-verification"] = true.into();
    }
    section
}

/// What the good member logs when the other one's connection was let in, and when it was not.
const LET_IN: &str = "established TCP streaming connection with remote peer";
const REJECTED: &str = "rejected connection";

#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn c2_a_peer_with_another_san_is_let_in_when_the_config_says_so(#[case] line: &'static str) {
    let pair = Pair::new(line, true);
    let (good, odd) = (pair.good.start(), pair.odd.start());
    good.wait_ready();
    odd.wait_ready();
    good.wait_log(LONG, LET_IN);
    assert!(!good.log().contains(REJECTED));
    pair.odd.etcdctl(&["put", "a", "1"]);
}

/// The control of the test above: without the key the same certificate is turned away.
#[test]
fn c2_without_the_key_such_a_peer_is_turned_away() {
    let pair = Pair::new("3.5", false);
    let (good, _odd) = (pair.good.start(), pair.odd.start());
    good.wait_log(LONG, REJECTED);
    assert!(!good.log().contains(LET_IN));
}

/// On 3.5 the way around are flags: what has none is refused and said, never dropped.
#[test]
fn c2_a_key_that_has_no_flag_is_refused_and_etcd_not_started() {
    let scene = Scene::real("3.5");
    let config = scene
        .config()
        .with("peer-transport-security", json!({"skip-client-san-verification": true}))
        .with("max-wals", "5");
    let scene = scene.with_config(config);
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 12);
    let record = wrapper.record().to_string();
    assert!(record.contains("skip-client-san-verification") && record.contains("max-wals"), "{record}");
    assert_eq!(wrapper.record()["generation"], 0, "never started");
}
