// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Conditions in which etcd's own health check misleads: learners, alarms, auth, a dead sidecar.
use doubles::pki::PodPki;
use doubles::ports::ReservedPort;
use rstest::rstest;
use serde_json::json;

use crate::scene::{Etcd, LONG, MEMBER, SECOND, Scene, Wrapper, client_tls};

/// A learner beside `first`, added to its cluster and not started yet.
fn joining(first: &Scene, line: &'static str) -> Scene {
    let joining = Scene::of(&Etcd::Real(line)).named("etcd-main-1");
    let cluster = format!("{MEMBER}={},etcd-main-1={}", peer_url(first), peer_url(&joining));
    let config = joining.config().with("initial-cluster", cluster);
    let joining = joining.with_config(config);
    joining.sidecar().set_cluster(None, true);
    let urls = format!("--peer-urls={}", peer_url(&joining));
    first.etcdctl(&["member", "add", "etcd-main-1", "--learner", &urls]);
    joining
}

fn peer_url(scene: &Scene) -> String {
    format!("http://127.0.0.1:{}", scene.peer_port())
}

/// The member's own status once it is told to be a learner.
#[track_caller]
fn learns(learner: &Wrapper<'_>) -> serde_json::Value {
    learner.wait_status(LONG, "a learner that is told", |status| {
        status["health"]["diagnosis"] == "learner" && status["leader"]["isLearner"] == true
    })
}

#[track_caller]
fn promote(first: &Scene, id: &str) {
    doubles::wait::until(LONG, "the promotion", || {
        let output = first.try_etcdctl(&["member", "promote", id]);
        // Refused until the learner has caught up.
        doubles::wait::Poll::when(output.status.success(), || {
            String::from_utf8_lossy(&output.stderr).into_owned()
        })
    });
}

#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn d6_a_learner_is_not_ready_until_it_is_promoted(#[case] line: &'static str) {
    let first = Scene::real(line);
    let _voter = first.start_ready();
    let joining = joining(&first, line);
    let learner = joining.start();
    let status = learns(&learner);
    assert_eq!(status["wrapper"]["phase"], "running");
    assert_eq!(status["health"]["role"], "learner");
    assert_eq!(status["leader"]["isLeader"], false);
    let answer = learner.readyz().unwrap();
    assert_eq!((answer.status, answer.header("etcd-wrapper-reason")), (503, Some("learner")));
    assert_eq!(answer.header("etcd-wrapper-phase"), Some("running"));

    promote(&first, status["leader"]["memberId"].as_str().unwrap());
    learner.wait_readyz(5 * SECOND, 200);
    learner.wait_status(SECOND, "a voter", |status| {
        status["health"]["diagnosis"] == "healthy" && status["leader"]["isLearner"] == false
    });
}

/// Its own URLs change and the voter's, by member update and a start with the new configuration, as a move to TLS does it.
#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn i3_a_learner_whose_peer_urls_change_stays_a_learner(#[case] line: &'static str) {
    let first = Scene::real(line);
    let voter = first.start_ready();
    let joining = joining(&first, line);
    let mut learner = joining.start();
    let id = learns(&learner)["leader"]["memberId"].as_str().unwrap().to_owned();
    let voters = voter.status()["leader"]["memberId"].as_str().unwrap().to_owned();

    let moved = [ReservedPort::loopback(), ReservedPort::loopback()];
    let [url, voters_url] = moved.each_ref().map(|port| format!("http://127.0.0.1:{}", port.port()));
    first.etcdctl(&["member", "update", &id, &format!("--peer-urls={url}")]);
    first.etcdctl(&["member", "update", &voters, &format!("--peer-urls={voters_url}")]);
    let cluster = format!("{MEMBER}={voters_url},etcd-main-1={url}");
    for (scene, url) in [(&joining, &url), (&first, &voters_url)] {
        let config = scene
            .config()
            .with("listen-peer-urls", url.as_str())
            .with("initial-advertise-peer-urls", json!({scene.member(): [url]}))
            .with("initial-cluster", cluster.as_str());
        scene.sidecar().set_config(config);
    }
    assert_eq!(voter.caller().post("/v1/etcd/restart?config=sidecar&wait=20s").told(), "200 succeeded");
    voter.wait_ready();
    // By `/stop` or the kubelet, as a container does it.
    learner.terminate();
    assert_eq!(learner.wait_exit(LONG), 0);
    let learner = joining.start();
    let status = learns(&learner);
    assert_eq!(status["leader"]["memberId"], id.as_str(), "the same member");

    let listed: serde_json::Value =
        serde_json::from_str(&first.etcdctl(&["member", "list", "--write-out=json"])).unwrap();
    let mut seen: Vec<_> = listed["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (m["peerURLs"][0].as_str().unwrap(), m["isLearner"].as_bool().unwrap_or_default()))
        .collect();
    seen.sort_by_key(|(_, learner)| *learner);
    assert_eq!(seen, [(voters_url.as_str(), false), (url.as_str(), true)]);
    assert_eq!(learner.readyz().unwrap().status, 503);
    promote(&first, &id);
    learner.wait_readyz(5 * SECOND, 200);
}

/// Puts 100 KB values until etcd refuses one, or `enough` says so.
fn fill(scene: &Scene, mut enough: impl FnMut() -> bool) {
    let value = "x".repeat(100_000);
    for n in 0..100 {
        if enough() {
            return;
        }
        if !scene.try_etcdctl(&["put", &format!("k{n}"), &value]).status.success() {
            return;
        }
    }
    panic!("10 MB went in");
}

#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn d3_d4_nospace_stays_ready_and_is_told(#[case] line: &'static str) {
    let scene = Scene::real(line);
    let config = scene.config().with("quota-backend-bytes", 1_000_000);
    nospace_stays_ready_and_is_told(&scene.with_config(config));
}

/// `scene` has a small quota.
pub(crate) fn nospace_stays_ready_and_is_told(scene: &Scene) {
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let metrics = || wrapper.caller().get("/metrics").body;
    assert!(metrics().contains("etcd_wrapper_check_ok{check=\"nospace\"} 1\n"));
    assert_eq!(wrapper.caller().get("/readyz/nospace").status, 200);

    fill(scene, || false);
    let status = wrapper
        .wait_status(5 * SECOND, "the alarm", |status| status["health"]["diagnosis"] == "alarm_nospace");
    let alarm = check(&status, "nospace");
    assert_eq!((&alarm["ok"], &alarm["required"]), (&json!(false), &json!(false)), "{alarm}");
    assert_eq!(status["readiness"]["ready"], true);
    let verbose = wrapper.caller().get("/readyz?verbose");
    assert_eq!(verbose.status, 200);
    assert!(verbose.body.contains("[-]nospace failed, not counted: alarm raised\n"), "{}", verbose.body);
    assert_eq!(wrapper.caller().get("/readyz/nospace").status, 503, "red for whoever asks for it");
    assert_eq!(wrapper.caller().get("/livez").status, 200);
    assert!(metrics().contains("etcd_wrapper_check_ok{check=\"nospace\"} 0\n"));
    // Repair works through a member that stays in the service: no restart in between.
    scene.etcdctl(&["alarm", "disarm"]);
    wrapper.wait_status(5 * SECOND, "no alarm", |status| status["health"]["diagnosis"] == "healthy");
    assert_eq!(wrapper.etcd_pid(), etcd);
}

#[track_caller]
fn check(status: &serde_json::Value, name: &str) -> serde_json::Value {
    let checks = status["readiness"]["checks"].as_array().unwrap();
    checks
        .iter()
        .find(|check| check["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {status}"))
        .clone()
}

fn warning(status: &serde_json::Value, code: &str) -> Option<serde_json::Value> {
    status["warnings"].as_array().unwrap().iter().find(|warning| warning["code"] == code).cloned()
}

#[rstest]
#[case("3.5")]
#[case("3.7")]
fn i12_the_quota_warns_from_80_percent_on_with_what_a_defragmentation_frees(#[case] line: &'static str) {
    let scene = Scene::real(line);
    let config = scene.config().with("quota-backend-bytes", 4_000_000);
    let scene = scene.with_config(config);
    let wrapper = scene.start_ready();
    let near = |status: &serde_json::Value| warning(status, "db_near_quota").is_some();
    assert!(!near(&wrapper.status()));
    assert!(!wrapper.caller().get("/metrics").body.contains("db_near_quota"));
    // etcd is asked for the size: what the wrapper tells may be a second old, and by then the quota is passed.
    fill(&scene, || {
        let told = scene.etcdctl(&["endpoint", "status", "--write-out=json"]);
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        told[0]["Status"]["dbSize"].as_u64().unwrap() >= 3_200_000
    });
    let status = wrapper.wait_status(5 * SECOND, "the warning", near);
    let db = &status["etcd"]["db"];
    let number = |key: &str| db[key].as_u64().unwrap();
    assert_eq!(number("quota"), 4_000_000);
    assert!(number("size") * 100 / number("quota") >= 80 && number("size") < number("quota"), "{db}");
    assert!(number("inUse") <= number("size"), "{db}");
    let detail = warning(&status, "db_near_quota").unwrap()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("defragmentation would free"), "{detail}");
    let metrics = wrapper.caller().get("/metrics").body;
    assert!(metrics.contains("etcd_wrapper_warning_active{code=\"db_near_quota\"} 1\n"));
    assert!(metrics.contains("etcd_wrapper_db_quota_bytes 4000000\n"));
    assert_eq!(wrapper.readyz().unwrap().status, 200);
    assert!(status["volume"]["freeBytes"].as_u64().unwrap() > 0, "{}", status["volume"]);
}

pub(crate) fn enable_auth(scene: &Scene) {
    scene.etcdctl(&["user", "add", "root:pw"]);
    scene.etcdctl(&["user", "grant-role", "root", "root"]);
    scene.etcdctl(&["auth", "enable"]);
}

#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn d5_auth_without_a_client_certificate_stays_ready(#[case] line: &'static str) {
    let scene = Scene::real(line).flag("--readiness-interval=100ms");
    let wrapper = scene.start_ready();
    enable_auth(&scene);
    let status = wrapper.wait_status(5 * SECOND, "told by /metrics", |status| {
        warning(status, "auth_hides_status").is_some()
            && status["leader"]["source"] == "metrics"
            && status["leader"]["isLeader"] == true
    });
    assert!(status["leader"]["term"].is_null() && status["leader"]["leaderId"].is_null(), "{status}");
    stays_ready_though_reads_are_refused(&wrapper);
    assert_eq!(wrapper.status()["health"]["diagnosis"], "healthy");
}

/// `listen-client-http-urls` takes `/metrics` away from the client URLs, and with auth on it is all that tells.
#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn d5_auth_stays_understood_when_http_has_a_listener_of_its_own(#[case] line: &'static str) {
    let http = ReservedPort::loopback();
    let scene = Scene::of(&Etcd::Real(line)).flag("--readiness-interval=100ms");
    let url = format!("http://127.0.0.1:{}", http.port());
    let config = scene.config().with("listen-client-http-urls", url);
    let scene = scene.with_config(config);
    let wrapper = scene.start_ready();
    enable_auth(&scene);
    let status = wrapper.wait_status(5 * SECOND, "told by /metrics", |status| {
        status["leader"]["source"] == "metrics" && status["leader"]["isLeader"] == true
    });
    assert!(warning(&status, "auth_hides_status").is_some(), "{status}");
    stays_ready_though_reads_are_refused(&wrapper);
    assert_eq!(wrapper.status()["health"]["diagnosis"], "healthy");
}

#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn d5_auth_with_a_client_certificate_stays_ready(#[case] line: &'static str) {
    let dir = tempfile::tempdir().unwrap();
    let pki = PodPki::write(dir.path(), &[&format!("{MEMBER}-local")]).unwrap();
    let scene = Scene::of(&Etcd::Real(line)).with_pki(&pki).flag("--readiness-interval=100ms");
    let config = scene.config();
    let config = config
        .with("listen-client-urls", scene.client_url())
        .with("advertise-client-urls", json!({MEMBER: [scene.client_url()]}))
        .with("client-transport-security", client_tls(&pki));
    let scene = scene.with_config(config);
    let wrapper = scene.start_ready();
    enable_auth(&scene);
    stays_ready_though_reads_are_refused(&wrapper);
    let status = wrapper.wait_status(5 * SECOND, "leading", |status| status["leader"]["isLeader"] == true);
    assert_eq!(status["health"]["diagnosis"], "healthy");
}

/// The refusal is seen in a check's detail, and counts as success.
#[track_caller]
pub(crate) fn stays_ready_though_reads_are_refused(wrapper: &Wrapper<'_>) {
    wrapper.wait_status(5 * SECOND, "a read that auth refuses", |status| {
        assert_eq!(status["readiness"]["ready"], true, "{status}");
        let read = check(status, "linearizable_read");
        assert_eq!(read["ok"], true, "{read}");
        read["detail"].as_str().unwrap().contains("auth: ")
    });
    assert_eq!(wrapper.readyz().unwrap().status, 200);
}

#[test]
fn d1_d8_a_dead_sidecar_changes_nothing() {
    let mut scene = Scene::real("3.5").flag("--readiness-interval=50ms");
    let mut sidecar = scene.sidecar.take().unwrap();
    let scene = scene.flag(format!("--backup-restore-host-port={}", sidecar.addr()));
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    sidecar.stop();
    let read_at = |status: &serde_json::Value| check(status, "linearizable_read")["at"].clone();
    let before = read_at(&wrapper.status());
    let mut reads = std::collections::BTreeSet::from([before.to_string()]);
    wrapper.wait_status(10 * SECOND, "ten more reads", |status| {
        assert_eq!(status["readiness"]["ready"], true, "{status}");
        reads.insert(read_at(status).to_string());
        reads.len() > 10
    });
    assert_eq!(wrapper.readyz().unwrap().status, 200);
    assert_eq!(wrapper.caller().get("/livez").status, 200);
    assert_eq!(wrapper.etcd_pid(), etcd);
}
