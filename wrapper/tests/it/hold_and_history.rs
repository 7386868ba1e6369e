// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! I11 and the files that a state directory keeps: the hold that an operator makes by hand, and the history of exits.
use doubles::etcd::{Ending, How, Script};
use doubles::sidecar::{Reply, Route, Status};
use rstest::rstest;
use serde_json::Value;

use crate::bootstrap::stays;
use crate::scene::{LONG, SECOND, Scene, Wrapper};

/// Held: nothing is started, nothing is asked for, and everybody is told why.
#[track_caller]
fn assert_held(scene: &Scene, wrapper: &Wrapper<'_>, reason: &str) {
    let status = wrapper.wait_phase(LONG, "held");
    assert_eq!(status["wrapper"]["holdReason"], reason);
    assert_eq!(status["wrapper"]["intent"], "down");
    assert_eq!(status["health"]["diagnosis"], "held");
    let answer = wrapper.wait_readyz(LONG, 503);
    assert_eq!(answer.header("etcd-wrapper-phase"), Some("held"));
    scene.sidecar().wait_for_end(Route::Status, 1, LONG);
    stays(2 * SECOND, "held", || {
        assert_eq!(scene.marker(), None, "consumed before anybody may work on the directory");
        assert!(scene.stage().starts().is_empty());
        assert!(scene.sidecar().modes().is_empty() && scene.sidecar().calls(Route::Config).is_empty());
    });
    assert!(wrapper.log().contains(reason), "{}", wrapper.log());
}

#[track_caller]
fn release(wrapper: &Wrapper<'_>) {
    let answer = wrapper.caller().post("/v1/etcd/start");
    assert_eq!(answer.status, 202, "{}", answer.body);
}

#[test]
fn i11_a_hold_file_holds_with_its_text_until_a_start_has_led_to_running() {
    let scene = Scene::scripted(Script::default());
    scene.leave("hold", "the database is being repaired, ask alice\n");
    scene.leave("exit_code", "terminated");
    let wrapper = scene.start();
    assert_held(&scene, &wrapper, "the database is being repaired, ask alice");
    let file = scene.state_dir().join("hold");
    assert!(file.exists());
    release(&wrapper);
    wrapper.wait_ready();
    // Somebody has worked on the directory: the clean end before that says nothing.
    assert_eq!(scene.sidecar().modes(), ["full"]);
    wrapper.wait_status(LONG, "running", |_| !file.exists());
}

#[test]
fn i11_a_hold_outlives_the_process_and_a_start_that_fails() {
    let end = Ending::after_start(SECOND / 5, How::Exit(1));
    let scene =
        Scene::scripted(Script { end: Some(end), ready: doubles::etcd::Ready::never(), ..Script::default() });
    scene.leave("hold", "by hand");
    let mut wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    let mut wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    release(&wrapper);
    assert_eq!(wrapper.wait_exit(LONG), 10);
    assert!(scene.state_dir().join("hold").exists(), "safety.md 16");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    assert_eq!(scene.stage().starts().len(), 1);
}

#[test]
fn i11_the_flag_holds_and_leaves_no_file() {
    let scene = Scene::scripted(Script::default()).flag("--hold");
    scene.leave("exit_code", "terminated");
    let mut wrapper = scene.start();
    assert_held(&scene, &wrapper, "--hold");
    assert!(!scene.state_dir().join("hold").exists());
    release(&wrapper);
    wrapper.wait_ready();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));
}

#[test]
fn i11_stand_alone_a_hold_holds_too() {
    let mut scene = Scene::scripted(Script::default());
    let path = scene.path().join("etcd.yaml");
    std::fs::write(&path, scene.config().render(crate::scene::MEMBER, None, false).unwrap()).unwrap();
    scene.flags.push(format!("--etcd-config-file={}", path.display()));
    scene.sidecar = None;
    scene.leave("hold", "by hand");
    let wrapper = scene.start();
    let status = wrapper.wait_phase(LONG, "held");
    assert_eq!(status["wrapper"]["holdReason"], "by hand");
    release(&wrapper);
    wrapper.wait_ready();
}

/// What is read in `held` is shown, and never counts.
#[test]
fn a15_i11_a_success_read_while_held_does_not_count() {
    let scene = Scene::scripted(Script::default()).flag("--hold");
    scene.sidecar().set_status(Status::Successful);
    let wrapper = scene.start();
    wrapper.wait_status(LONG, "the word", |status| status["bootstrap"]["sidecarState"] == "Successful");
    release(&wrapper);
    wrapper.wait_ready();
    assert_eq!(scene.sidecar().modes(), ["full"]);
}

#[test]
fn i11_a_busy_sidecar_is_warned_of_while_held() {
    let scene = Scene::scripted(Script::default()).flag("--hold");
    scene.sidecar().set_default(Route::Status, Some(Reply::text("Progress")));
    let wrapper = scene.start();
    wrapper.wait_status(LONG, "sidecar_busy", |status| {
        status["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "sidecar_busy")
    });
}

fn history(scene: &Scene) -> Vec<Value> {
    let text = std::fs::read_to_string(scene.state_dir().join("exit_history.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn the_history_keeps_the_last_64_exits_as_they_were_logged() {
    let scene = Scene::scripted(Script::default()).flag("--hold");
    let mut last = Value::Null;
    let mut exit = || {
        let mut wrapper = scene.start();
        wrapper.wait_phase(LONG, "held");
        wrapper.terminate();
        assert_eq!(wrapper.wait_exit(LONG), 0);
        last = wrapper.record();
    };
    exit();
    exit();
    let records = history(&scene);
    assert_eq!(records.len(), 2);
    // Fill it up as 63 more would have, with garbage between.
    let line = records[0].to_string();
    let full = format!("{}no JSON\n", format!("{line}\n").repeat(64));
    scene.leave("exit_history.jsonl", &full);
    exit();
    let records = history(&scene);
    assert_eq!(records.len(), 64);
    assert_eq!(records[63], last);
    assert_eq!(records[62].to_string(), line);
}

/// Every way out is in it, each with its code.
#[test]
fn the_history_tells_ends_apart() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    let mut wrapper = scene.start_ready();
    crate::scene::signal(wrapper.etcd_pid(), rustix::process::Signal::KILL);
    assert_eq!(wrapper.wait_exit(LONG), 10);
    let mut command = scene.command();
    command.arg("--etcd-path=/nowhere/etcd");
    let mut wrapper = scene.start_command(command);
    assert_eq!(wrapper.wait_exit(LONG), 12);
    let codes: Vec<u64> = history(&scene).iter().map(|record| record["code"].as_u64().unwrap()).collect();
    assert_eq!(codes, [0, 10, 12]);
    let records = history(&scene);
    assert_eq!(records[1]["etcd"]["signal"], "SIGKILL");
    assert_eq!(records[2]["etcd"], Value::Null);
}

#[rstest]
#[case::a_folder(|scene: &Scene| std::fs::create_dir_all(scene.state_dir().join("exit_history.jsonl/x")).unwrap())]
#[case::garbage(|scene: &Scene| scene.leave("exit_history.jsonl", &"\u{0}garbage".repeat(100_000)))]
fn a_history_that_cannot_be_used_is_never_a_reason_to_fail(#[case] spoil: fn(&Scene)) {
    let scene = Scene::scripted(Script::default());
    spoil(&scene);
    let mut wrapper = scene.start_ready();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));
}
