// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The whole way once: up, ready, down, with the marker.
use doubles::etcd::Script;
use rstest::rstest;

use crate::scene::{LONG, SECOND, Scene};

#[rstest]
#[case("3.5")]
#[case("3.6")]
#[case("3.7")]
fn a_member_starts_serves_and_ends_cleanly(#[case] line: &'static str) {
    let scene = Scene::real(line);
    let mut wrapper = scene.start_ready();
    assert_eq!(scene.sidecar().modes(), ["full"]);
    scene.etcdctl(&["put", "a", "1"]);
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));
    assert_eq!(wrapper.record()["code"], 0);

    let mut wrapper = scene.start_ready();
    assert_eq!(scene.sidecar().modes(), ["full", "sanity"]);
    assert_eq!(scene.marker(), None);
    assert!(scene.etcdctl(&["get", "a"]).contains('1'));
    let etcd = wrapper.etcd_pid();
    crate::scene::signal(etcd, rustix::process::Signal::KILL);
    assert_eq!(wrapper.wait_exit(SECOND), 10);
    assert_eq!(scene.marker(), None);
}

#[test]
fn a_scripted_etcd_takes_a_real_ones_place() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));
}
