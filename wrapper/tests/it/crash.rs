// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Ends of etcd that nobody asked for: what the record says of them, and what `--on-etcd-exit=restart` makes of them.
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use doubles::etcd::{Ending, Event, How, Script};
use rstest::rstest;

use crate::scene::{LONG, SECOND, Scene, Wrapper};

/// The record of a wrapper that ends with 10 soon after etcd did; etcd's own line stands above it.
#[track_caller]
fn etcd_ends(mut wrapper: Wrapper<'_>, status: i64, said: &str) {
    assert_eq!(wrapper.wait_exit(LONG), 10);
    let record = wrapper.record();
    assert_eq!(record["etcd"]["exitCode"], status, "{record}");
    assert_eq!(record["etcd"]["signal"], serde_json::Value::Null);
    let log = wrapper.log();
    let at = log.find(said).unwrap_or_else(|| panic!("etcd's own words, {said:?}, are not in the log"));
    assert!(at < log.rfind(r#""cause":"#).unwrap(), "etcd's words stand above the record");
}

#[rstest]
#[case("3.5")]
#[case("3.7")]
fn c6_c7_a_port_in_use_is_status_1(#[case] line: &'static str) {
    let scene = Scene::real(line);
    let _stranger = TcpListener::bind(("127.0.0.1", scene.peer_port())).unwrap();
    etcd_ends(scene.start(), 1, "address already in use");
}

#[test]
fn c7_a_name_that_is_not_in_initial_cluster_is_status_1() {
    let scene = Scene::real("3.5");
    let stranger = format!("stranger=http://127.0.0.1:{}", scene.peer_port());
    let config = scene.config().with("initial-cluster", stranger);
    let scene = scene.with_config(config);
    etcd_ends(scene.start(), 1, "initial cluster");
}

#[rstest]
#[case("3.5")]
#[case("3.6")]
fn c7_a_damaged_database_is_status_2(#[case] line: &'static str) {
    let scene = Scene::real(line);
    let mut wrapper = scene.start_ready();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    let db = std::fs::File::options().write(true).open(scene.data_dir().join("member/snap/db")).unwrap();
    db.write_all_at(&[0; 8192], 0).unwrap();
    etcd_ends(scene.start(), 2, "panic");
}

#[test]
fn c6_an_etcd_that_ends_at_once_ends_the_wrapper_within_a_second() {
    let end = Some(Ending::after_start(Duration::ZERO, How::Exit(1)));
    let scene = Scene::scripted(Script { end, ..Script::default() });
    let mut wrapper = scene.start();
    scene.stage().wait_for_start(1, LONG);
    assert_eq!(wrapper.wait_exit(SECOND), 10);
    let record = wrapper.record();
    assert_eq!((record["etcd"]["exitCode"].as_u64(), record["phase"].as_str()), (Some(1), Some("starting")));
}

/// An etcd that ends a moment after it was ready, for ever.
fn crashing() -> Scene {
    let end = Some(Ending::after_ready(SECOND / 5, How::Exit(1)));
    Scene::scripted(Script { end, ..Script::default() }).flag("--on-etcd-exit=restart")
}

/// Pauses between an end of etcd and the next start.
fn pauses(scene: &Scene) -> Vec<Duration> {
    let mut ended = None;
    let mut pauses = Vec::new();
    for record in scene.stage().records() {
        match record.event {
            Event::Ending { .. } => ended = Some(record.at_us),
            Event::Started(_) => {
                pauses.extend(ended.take().map(|end| Duration::from_micros(record.at_us - end)));
            }
            _ => {}
        }
    }
    pauses
}

#[test]
fn restart_in_place_backs_off_and_validates_fully_each_time() {
    let scene = crashing();
    scene.leave("exit_code", "terminated");
    let mut wrapper = scene.start();
    let first = wrapper.wait_phase(LONG, "backoff");
    assert_eq!(first["etcd"]["generation"], 1, "{first}");
    assert_eq!(first["health"]["diagnosis"], "backoff");
    assert_eq!(first["etcd"]["lastExit"]["cause"], "crash");
    assert_eq!(wrapper.readyz().unwrap().status, 503);
    scene.stage().wait_for_start(3, LONG);
    assert_eq!(scene.sidecar().modes(), ["sanity", "full", "full"], "always through full validation");
    assert_eq!(scene.sidecar().lock_clashes(), [], "invariant 2: never beside a living etcd");
    assert_eq!(scene.sidecar().max_in_flight(), 1);
    let pauses = pauses(&scene);
    // 1 s, 2 s, and up to a fifth more; what a validation and a busy machine add comes on top.
    let [one, two] = pauses[..] else { panic!("{pauses:?}") };
    assert!(one >= SECOND && one < SECOND * 5, "{one:?}");
    assert!(two >= SECOND * 2 && two < SECOND * 6, "{two:?}");

    scene.stage().write(Script::default()).unwrap();
    let status = wrapper.wait_phase(LONG, "running");
    let generation = status["etcd"]["generation"].as_u64().unwrap();
    assert_eq!(generation, scene.stage().starts().len() as u64, "invariant 5");
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some("terminated"), "this one has ended cleanly");
}

#[test]
fn soak_code_11_the_budget_of_five_restarts_in_ten_minutes() {
    let scene = crashing();
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(SECOND * 90), 11);
    let record = wrapper.record();
    assert_eq!((record["cause"].as_str(), record["generation"].as_u64()), (Some("crash_budget"), Some(6)));
    assert_eq!(scene.history().last(), Some(&record));
    assert_eq!(scene.stage().starts().len(), 6);
    assert_eq!(scene.sidecar().modes(), ["full"; 6]);
    let pauses = pauses(&scene);
    assert!(pauses.windows(2).all(|pair| pair[0] < pair[1]), "{pauses:?}");
}

#[test]
fn e16_a_removed_member_is_never_restarted_in_place() {
    let end = Some(Ending::after_ready(SECOND / 5, How::Exit(0)));
    let scene = Scene::scripted(Script { end, ..Script::default() }).flag("--on-etcd-exit=restart");
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(LONG), 20);
    assert_eq!(wrapper.record()["cause"], "member_removed");
    assert_eq!(scene.stage().starts().len(), 1);
    assert_eq!(scene.marker(), None);
}

#[test]
fn f5_what_a_restart_in_place_starts_ends_with_the_wrapper_too() {
    let scene = crashing();
    let mut wrapper = scene.start();
    let (second, _) = scene.stage().wait_for_start(2, LONG);
    wrapper.signal(rustix::process::Signal::KILL);
    let began = Instant::now();
    wrapper.wait_exit(SECOND);
    crate::scene::wait_gone(second, SECOND);
    assert!(began.elapsed() < SECOND);
}
