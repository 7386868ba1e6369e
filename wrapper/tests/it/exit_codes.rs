// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The exit codes of api.md §7, each from the real process, with its record in all three places: the last line of the
//! log, the history, and the termination log. Codes 1 (phases.rs) and 11 (crash.rs) stand with what leads to them.
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use doubles::etcd::{Ending, How, OnSignal, Ready, Script, Sender};
use rstest::rstest;

use crate::namespace::{SeenFolder, with_mounts};
use crate::scene::{LONG, SECOND, Scene, Wrapper, replacing};

/// A `/dev` of its own with `$2` as its termination log, as the kubelet mounts one.
const TERMINATION_LOG: &str = r#"
mount -t tmpfs -o mode=755 dev "$1"
for device in null zero full random urandom; do
    : > "$1/$device"
    mount --bind "/dev/$device" "$1/$device"
done
: > "$1/termination-log"
mount --bind "$2" "$1/termination-log"
mount --rbind "$1" /dev
"#;

/// A wrapper that has a termination log; its content is `termination_log(scene)`.
fn start<'s>(scene: &'s Scene, command: &Command) -> Wrapper<'s> {
    let (dev, log) = (scene.path().join("dev"), scene.path().join("termination-log"));
    std::fs::create_dir(&dev).unwrap();
    // Longer than any record: what was there before must be gone afterwards.
    std::fs::write(&log, "x".repeat(9000)).unwrap();
    scene.start_command(with_mounts(command, TERMINATION_LOG, &[&dev, &log]))
}

fn termination_log(scene: &Scene) -> String {
    std::fs::read_to_string(scene.path().join("termination-log")).unwrap()
}

/// The end with this code and cause; the record, the same in all places.
#[track_caller]
fn ends_with(scene: &Scene, wrapper: &mut Wrapper<'_>, code: i32, cause: &str) -> serde_json::Value {
    assert_eq!(wrapper.wait_exit(LONG), code);
    let log = wrapper.log();
    let last = log.lines().last().unwrap();
    assert_eq!(last, termination_log(scene), "the last line of the log is what the kubelet shows");
    let record: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!((record["code"].as_i64(), record["cause"].as_str()), (Some(code.into()), Some(cause)));
    assert_eq!(scene.history().last(), Some(&record));
    record
}

#[test]
fn code_0_a_requested_stop_tells_how_etcd_ended() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = start(&scene, &scene.command());
    wrapper.wait_ready();
    wrapper.terminate();
    let record = ends_with(&scene, &mut wrapper, 0, "stopped");
    assert_eq!((record["phase"].as_str(), record["generation"].as_u64()), (Some("running"), Some(1)));
    let etcd =
        serde_json::json!({"exitCode": null, "signal": "SIGTERM", "requested": true, "readySeen": true});
    assert_eq!(record["etcd"], etcd);
}

#[test]
fn code_2_an_unknown_flag_names_itself() {
    let scene = Scene::scripted(Script::default()).flag("--etcd-wraper-port=1");
    let mut wrapper = start(&scene, &scene.command());
    assert_eq!(wrapper.wait_exit(LONG), 2);
    assert!(wrapper.log().contains("--etcd-wraper-port"), "{}", wrapper.log());
    let record: serde_json::Value = serde_json::from_str(&termination_log(&scene)).unwrap();
    assert_eq!((record["code"].as_u64(), record["cause"].as_str()), (Some(2), Some("usage")));
    assert!(record["hint"].as_str().unwrap().contains("--etcd-wraper-port"), "{record}");
}

#[test]
fn code_3_a_port_in_use_names_the_address() {
    let scene = Scene::scripted(Script::default());
    let _other = TcpListener::bind(scene.api_addr()).unwrap();
    let mut wrapper = start(&scene, &scene.command());
    let record = ends_with(&scene, &mut wrapper, 3, "bind_failed");
    assert!(record["hint"].as_str().unwrap().contains(&scene.api_addr().to_string()), "{record}");
    assert!(record["etcd"].is_null());
    assert!(scene.sidecar().log().is_empty() && scene.stage().records().is_empty(), "nothing was begun");
}

#[test]
fn code_10_an_end_of_etcd_by_itself_carries_its_status() {
    let end = Some(Ending::after_ready(SECOND / 5, How::Exit(42)));
    let scene = Scene::scripted(Script { end, ..Script::default() });
    let mut wrapper = start(&scene, &scene.command());
    let record = ends_with(&scene, &mut wrapper, 10, "etcd_ended");
    let etcd = serde_json::json!({"exitCode": 42, "signal": null, "requested": false, "readySeen": true});
    assert_eq!(record["etcd"], etcd);
}

#[rstest]
#[case::etcd_missing(&["--etcd-path=/nonexistent/etcd"], "/nonexistent/etcd")]
#[case::state_dir_missing(&["--state-dir=/nonexistent/state"], "/nonexistent/state")]
#[case::sidecar_ca_missing(
    &["--backup-restore-tls-enabled", "--backup-restore-ca-cert-bundle-path=/nonexistent/ca.crt"],
    "/nonexistent/ca.crt"
)]
#[case::client_pair_missing(
    &["--etcd-client-cert-path=/nonexistent/tls.crt", "--etcd-client-key-path=/nonexistent/tls.key"],
    "/nonexistent/tls.crt"
)]
fn code_12_what_can_never_work_ends_at_once_and_is_named(#[case] flags: &[&str], #[case] named: &str) {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = start(&scene, &replacing(&scene.command(), flags));
    // 2 s; a file of ours that is missing is found in milliseconds.
    assert_eq!(wrapper.wait_exit(SECOND * 2), 12);
    let record: serde_json::Value = serde_json::from_str(&termination_log(&scene)).unwrap();
    assert_eq!(record, wrapper.record());
    assert!(record["hint"].as_str().unwrap().contains(named), "{record}");
    assert!(scene.stage().starts().is_empty());
}

#[test]
fn code_13_an_etcd_that_had_to_be_killed() {
    let scene = Scene::scripted(Script { on_term: OnSignal::ignored(), ..Script::default() });
    let scene = scene.flag("--grace-period=100ms");
    let mut wrapper = start(&scene, &scene.command());
    wrapper.wait_ready();
    wrapper.terminate();
    let record = ends_with(&scene, &mut wrapper, 13, "etcd_killed");
    assert_eq!(record["etcd"]["requested"], true);
}

#[test]
fn code_14_e12_not_ready_in_time_stops_etcd_in_order() {
    let ready = Ready { sender: Sender::Nobody, ..Ready::default() };
    let handles_signals = doubles::etcd::When::AtStart;
    let scene = Scene::scripted(Script { ready, handles_signals, ..Script::default() });
    let scene = scene.flag("--etcd-ready-timeout=1s");
    let mut wrapper = start(&scene, &scene.command());
    let (etcd, _) = scene.stage().wait_for_start(1, LONG);
    let record = ends_with(&scene, &mut wrapper, 14, "not_ready");
    assert_eq!(scene.stage().signals(etcd), [15]);
    assert_eq!(scene.marker(), None);
    assert_eq!(record["phase"], "starting");
    assert_eq!(record["etcd"]["readySeen"], false);
}

/// A state directory that is a tiny volume of its own.
const TINY: &str = r#"mount -t tmpfs -o size=256k,mode=700 tiny "$1""#;

#[test]
fn b5_a_full_volume_takes_no_marker_and_the_exit_goes_on() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_command(with_mounts(&scene.command(), TINY, &[&scene.state_dir()]));
    wrapper.wait_ready();
    let folder = SeenFolder::of(wrapper.pid(), &scene.state_dir());
    let full = fill(&folder.path().join("filling"));
    assert_eq!(rustix::io::Errno::from_io_error(&full), Some(rustix::io::Errno::NOSPC));
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    for name in ["exit_code", ".exit_code.tmp", ".exit_history.jsonl.tmp"] {
        assert!(!folder.path().join(name).exists(), "{name} was left behind");
    }
    assert!(wrapper.log().contains("exit_code"), "the log says why there is no marker");
    assert_eq!(wrapper.record()["code"], 0);
}

/// Writes until the volume says no.
fn fill(path: &Path) -> std::io::Error {
    let mut file = std::fs::File::create(path).unwrap();
    loop {
        match std::io::Write::write_all(&mut file, &[0; 512]) {
            Ok(()) => {}
            Err(error) => return error,
        }
    }
}
