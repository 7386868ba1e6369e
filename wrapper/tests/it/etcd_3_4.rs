// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! etcd 3.4, which druid still starts by default, and the way from its data to 3.5. The binary is Debian's; where it
//! cannot be had `cargo xtask test` leaves this module out, and says so.
use crate::scene::{LONG, MEMBER, SECOND, Scene};

/// As druid serves it to 3.4: without the key for the gateway.
fn scene() -> Scene {
    let scene = Scene::real("3.4");
    let config = scene.config().without("enable-grpc-gateway");
    scene.with_config(config)
}

#[test]
fn c3_it_gets_ready_without_a_gateway_and_ends_cleanly() {
    let scene = scene().env("ETCD_NAME", "wrong").env("ETCD_DATA_DIR", "/nonexistent");
    let mut wrapper = scene.start_ready();
    let status = wrapper.wait_status(LONG, "leading", |status| status["leader"]["isLeader"] == true);
    assert!(status["etcd"]["version"].as_str().unwrap().starts_with("3.4."), "{}", status["etcd"]);
    assert_eq!(status["health"]["diagnosis"], "healthy");
    assert_eq!(status["leader"]["isLearner"], false);
    assert!(scene.etcdctl(&["member", "list"]).contains(MEMBER));
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));
    assert_eq!(wrapper.record()["etcd"]["readySeen"], true);
}

#[test]
fn i4_a_data_directory_of_3_4_is_taken_over_by_3_5() {
    let scene = scene();
    let mut old = scene.start_ready();
    scene.etcdctl(&["put", "a", "written by 3.4"]);
    old.terminate();
    assert_eq!(old.wait_exit(LONG), 0);
    drop(old);

    let scene = scene.with_etcd("3.5");
    let new = scene.start_ready();
    assert_eq!(scene.sidecar().modes().last().map(String::as_str), Some("sanity"), "the end was clean");
    let status = new.wait_status(LONG, "its version", |status| {
        status["etcd"]["version"].as_str().is_some_and(|version| version.starts_with("3.5."))
    });
    assert_eq!(status["health"]["diagnosis"], "healthy");
    assert!(scene.etcdctl(&["get", "a"]).contains("written by 3.4"));
}

#[test]
fn d9_it_is_unready_while_frozen() {
    let scene = scene();
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    crate::scene::signal(etcd, rustix::process::Signal::STOP);
    wrapper.wait_readyz(8 * SECOND, 503);
    crate::scene::signal(etcd, rustix::process::Signal::CONT);
    wrapper.wait_readyz(5 * SECOND, 200);
}

#[test]
fn d3_d4_nospace_stays_ready_and_is_told() {
    let scene = Scene::real("3.4");
    let config = scene.config().without("enable-grpc-gateway").with("quota-backend-bytes", 1_000_000);
    crate::standing::nospace_stays_ready_and_is_told(&scene.with_config(config));
}

#[test]
fn d5_auth_without_a_client_certificate_stays_ready() {
    let scene = scene().flag("--readiness-interval=100ms");
    let wrapper = scene.start_ready();
    crate::standing::enable_auth(&scene);
    crate::standing::stays_ready_though_reads_are_refused(&wrapper);
}
