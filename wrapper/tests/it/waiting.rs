// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! How long the wrapper waits for an etcd that cannot get ready: one whose other member is not there.
use std::time::{Duration, Instant};

use doubles::etcd::{Answer, Script};
use doubles::wait::{self, Poll};
use rstest::rstest;

use crate::scene::{LONG, MEMBER, SECOND, Scene, lives};

/// One of two members; nobody is at the other one's place.
fn half(line: &'static str) -> (Scene, doubles::ports::ReservedPort) {
    let scene = Scene::real(line);
    let nobody = doubles::ports::ReservedPort::loopback();
    let cluster = format!(
        "{MEMBER}=http://127.0.0.1:{},etcd-main-1=http://127.0.0.1:{}",
        scene.peer_port(),
        nobody.port()
    );
    let config = scene.config().with("initial-cluster", cluster);
    (scene.with_config(config), nobody)
}

/// etcd's pid, once there is one.
fn spawned(wrapper: &crate::scene::Wrapper<'_>) -> u32 {
    let status = wrapper.wait_status(LONG, "an etcd", |status| status["etcd"]["pid"].is_u64());
    u32::try_from(status["etcd"]["pid"].as_u64().unwrap()).unwrap()
}

#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn e11_without_a_quorum_the_ready_timeout_ends_etcd_and_the_process(#[case] line: &'static str) {
    let (scene, _nobody) = half(line);
    let scene = scene.flag("--etcd-ready-timeout=5s");
    let mut wrapper = scene.start();
    let etcd = spawned(&wrapper);
    let began = Instant::now();
    assert_eq!(wrapper.wait_exit(7 * SECOND), 14);
    // The pid was seen a moment after the spawn.
    assert!(began.elapsed() > 4 * SECOND, "after {:?} already", began.elapsed());
    assert!(!lives(etcd));
    assert_eq!(scene.marker(), None);
    let record = wrapper.record();
    assert_eq!((record["cause"].as_str(), record["phase"].as_str()), (Some("not_ready"), Some("starting")));
}

/// READY alone does not make a member ready: a read through it must have come back.
#[test]
fn e11_ready_that_no_read_confirms_does_not_stop_the_timeout() {
    let hangs = Answer { hangs: true, ..Answer::default() };
    let scene = Scene::scripted(Script { range: hangs, ..Script::default() });
    let scene = scene.flag("--etcd-ready-timeout=1500ms");
    let mut wrapper = scene.start();
    wrapper.wait_log(LONG, "etcd says READY");
    assert_eq!(wrapper.wait_exit(5 * SECOND), 14);
    assert_eq!(scene.marker(), None);
}

#[rstest]
#[case::zero(Some("--etcd-ready-timeout=0"))]
#[case::unset(None)]
fn e12_without_a_limit_it_waits_and_nothing_is_aborted(#[case] flag: Option<&str>) {
    let (scene, _nobody) = half("3.5");
    let scene = match flag {
        Some(flag) => scene.flag(flag),
        None => scene,
    };
    let mut wrapper = scene.start();
    let etcd = spawned(&wrapper);
    let began = Instant::now();
    // Longer than the limit of the tests above would have been, and than any default that one could think of.
    wait::until(LONG, "some seconds of waiting", || {
        let status = wrapper.status();
        assert_eq!(status["wrapper"]["phase"], "starting");
        assert_eq!(status["etcd"]["pid"], etcd);
        Poll::when(began.elapsed() > Duration::from_secs(8), || "waiting".into())
    });
    // An etcd that has not joined serves no client, so there is nobody to ask why.
    let answer = wrapper.readyz().unwrap();
    assert_eq!((answer.status, answer.header("etcd-wrapper-phase")), (503, Some("starting")));
    assert_eq!(wrapper.caller().get("/startupz").status, 503);
    assert_eq!(wrapper.caller().get("/livez").status, 200);
    let log = wrapper.log().to_lowercase();
    for word in ["abort", "timed out waiting for etcd", "not ready within"] {
        let said: Vec<_> = log.lines().filter(|line| line.contains(word) && !line.starts_with('{')).collect();
        assert!(said.is_empty(), "{said:?}");
    }
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker(), None, "it had never been ready");
}
