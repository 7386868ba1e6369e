// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Group B: which validation a start asks for, and which ends leave the marker of a clean end.
use std::path::Path;

use doubles::etcd::script::{Ready, Sender, When};
use doubles::etcd::{OnSignal, Script};
use doubles::sidecar::Route;
use rstest::rstest;
use rustix::process::Signal;

use crate::scene::{LONG, SECOND, Scene, signal, wait_gone};

/// The mode of the first `start` of a process that finds this scene.
#[track_caller]
fn first_mode(scene: &Scene) -> String {
    let before = scene.sidecar().calls(Route::Start).len();
    let wrapper = scene.start();
    let call = scene.sidecar().wait_for_call(Route::Start, before + 1, LONG);
    // The marker goes before the sidecar may touch anything (safety.md 9).
    assert_eq!(scene.marker(), None);
    drop(wrapper);
    call.parameter("mode").unwrap_or_default().to_owned()
}

#[rstest]
#[case::terminated(Some("terminated"), "sanity")]
#[case::interrupt(Some("interrupt"), "sanity")]
#[case::line(Some("terminated\n"), "sanity")]
#[case::white_space(Some(" \t interrupt \r\n"), "sanity")]
#[case::empty(Some(""), "full")]
#[case::killed(Some("killed"), "full")]
#[case::capitals(Some("Terminated"), "full")]
#[case::two_words(Some("terminated terminated"), "full")]
#[case::a_megabyte(None, "full")]
#[case::white_space_and_more(
    Some("terminated                                                                   x"),
    "full"
)]
fn b1_b7_the_marker_decides_the_mode(#[case] marker: Option<&str>, #[case] mode: &str) {
    let scene = Scene::scripted(Script::default());
    match marker {
        Some(text) => scene.leave("exit_code", text),
        None => scene.leave("exit_code", &"noise".repeat(210_000)),
    }
    assert_eq!(first_mode(&scene), mode);
}

#[test]
fn b1_without_a_marker_the_mode_is_full() {
    assert_eq!(first_mode(&Scene::scripted(Script::default())), "full");
}

#[test]
fn b1_a_marker_that_cannot_be_removed_ends_the_process_before_anything_begins() {
    let scene = Scene::scripted(Script::default());
    std::fs::create_dir_all(scene.state_dir().join("exit_code/x")).unwrap();
    let mut wrapper = scene.start();
    assert_eq!(wrapper.wait_exit(5 * SECOND), 12);
    let hint = wrapper.record()["hint"].to_string();
    assert!(hint.contains("exit_code") && hint.contains("mode"), "{hint}");
    assert!(scene.sidecar().calls(Route::Start).is_empty());
    assert!(scene.stage().starts().is_empty());
}

#[rstest]
#[case(Signal::TERM, "terminated")]
#[case(Signal::INT, "interrupt")]
fn b4_a_clean_end_by_a_signal_leaves_its_word(#[case] number: Signal, #[case] word: &str) {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    assert_eq!(scene.marker(), None, "consumed while etcd runs");
    wrapper.signal(number);
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some(word));
    assert_eq!(first_mode(&scene), "sanity");
}

#[rstest]
#[case::as_it_comes(None, Some("terminated"), "sanity")]
#[case::as_gos(Some("--clean-marker-on-stop=false"), None, "full")]
fn b4_stop_leaves_a_marker_unless_it_is_switched_off(
    #[case] flag: Option<&str>,
    #[case] marker: Option<&str>,
    #[case] mode: &str,
) {
    let mut scene = Scene::scripted(Script::default());
    scene.flags.extend(flag.map(str::to_owned));
    let mut wrapper = scene.start_ready();
    assert_eq!(wrapper.caller().post("/stop").status, 200);
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), marker);
    assert_eq!(first_mode(&scene), mode);
}

/// etcd had not said READY: what it was doing to its directory nobody knows, however politely it ends.
#[rstest]
#[case::no_handler_yet(When::AtReady, Sender::Nobody)]
#[case::ends_in_order(When::AtStart, Sender::Nobody)]
#[case::ready_of_somebody_else(When::AtStart, Sender::OtherProcess)]
fn b2_term_before_ready_leaves_no_marker(#[case] handles_signals: When, #[case] sender: Sender) {
    let ready = Ready { sender, ..Ready::default() };
    let scene = Scene::scripted(Script { handles_signals, ready, ..Script::default() });
    scene.leave("exit_code", "terminated");
    let mut wrapper = scene.start();
    wrapper.wait_phase(LONG, "starting");
    // Whoever said it: the double has come as far as it will.
    scene.stage().wait_for_record(LONG, "the lock", |record| record.event == doubles::etcd::Event::LockTaken);
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker(), None);
    assert_eq!(first_mode(&scene), "full");
}

#[test]
fn b2_term_before_the_spawn_leaves_no_marker() {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| setup.validation_time(2 * LONG));
    scene.leave("exit_code", "terminated");
    let mut wrapper = scene.start();
    scene.sidecar().wait_for_end(Route::Start, 1, LONG);
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker(), None, "a validation runs: no start may take the directory for clean");
}

/// What kills whom.
#[derive(Clone, Copy, Debug)]
enum Killed {
    Etcd,
    Wrapper,
    WrapperWhileStopping,
}

#[rstest]
#[case(Killed::Etcd)]
#[case(Killed::Wrapper)]
#[case(Killed::WrapperWhileStopping)]
fn b3_after_a_kill_there_is_no_marker(#[case] killed: Killed) {
    let script = Script { on_term: OnSignal::takes(2 * LONG), ..Script::default() };
    let scene = Scene::scripted(script);
    let mut wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let code = match killed {
        Killed::Etcd => {
            signal(etcd, Signal::KILL);
            10
        }
        Killed::Wrapper => {
            wrapper.signal(Signal::KILL);
            137
        }
        Killed::WrapperWhileStopping => {
            wrapper.terminate();
            scene.stage().wait_for_record(LONG, "SIGTERM", |record| {
                record.event == doubles::etcd::Event::Signal { number: 15 }
            });
            wrapper.signal(Signal::KILL);
            137
        }
    };
    assert_eq!(wrapper.wait_exit(LONG), code);
    wait_gone(etcd, 5 * SECOND);
    assert_eq!(scene.marker(), None);
    assert_eq!(first_mode(&scene), "full");
}

/// Asked to end, and ended in a way that says nothing good of the directory.
#[rstest]
#[case::panic(OnSignal::then(doubles::etcd::script::Then::Exit(2)), 10)]
#[case::oom(OnSignal::then(doubles::etcd::script::Then::Signal(9)), 10)]
#[case::never(OnSignal::ignored(), 13)]
fn b3_an_unclean_end_on_request_leaves_no_marker(#[case] on_term: OnSignal, #[case] code: i32) {
    let on_quit = OnSignal::ignored();
    let scene = Scene::scripted(Script { on_term, on_quit, ..Script::default() }).flag("--grace-period=1s");
    let mut wrapper = scene.start_ready();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), code);
    assert_eq!(scene.marker(), None);
}

#[test]
fn b5_a_marker_that_cannot_be_written_does_not_hold_up_the_exit() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    // A folder in its place: the rename fails, as it does on a full disk.
    std::fs::create_dir_all(scene.state_dir().join("exit_code/x")).unwrap();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    wrapper.wait_log(SECOND, "exit_code");
    assert_eq!(scene.marker(), None);
    assert_eq!(leftovers(&scene.state_dir()), Vec::<String>::new());
}

/// Temporary files that nobody cleaned up.
fn leftovers(dir: &Path) -> Vec<String> {
    let known = ["exit_code", "exit_history.jsonl", "etcd.lock", "new.etcd", "hold"];
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| !known.contains(&name.as_str()))
        .collect()
}

#[test]
fn b6_an_older_images_marker_is_removed() {
    let scene = Scene::scripted(Script::default());
    scene.leave("validation_marker", "");
    let _wrapper = scene.start_ready();
    assert_eq!(leftovers(&scene.state_dir()), Vec::<String>::new());
}

#[test]
fn b6_an_older_images_marker_that_cannot_be_removed_only_warns() {
    let scene = Scene::scripted(Script::default());
    std::fs::create_dir_all(scene.state_dir().join("validation_marker/x")).unwrap();
    let wrapper = scene.start_ready();
    let log = wrapper.log();
    assert!(log.lines().any(|line| line.contains("WARN") && line.contains("validation_marker")), "{log}");
}

#[test]
fn b8_an_end_without_fsync_says_nothing_of_the_directory() {
    let scene = Scene::scripted(Script::default());
    let config = scene.config().with("unsafe-no-fsync", true);
    let scene = scene.with_config(config);
    let mut wrapper = scene.start_ready();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker(), None);
    assert_eq!(first_mode(&scene), "full");
}

#[test]
fn the_second_start_after_a_clean_end_validates_in_full_if_the_first_dies() {
    let scene = Scene::scripted(Script { ready: Ready::never(), ..Script::default() });
    scene.leave("exit_code", "terminated");
    let mut wrapper = scene.start();
    wrapper.wait_phase(LONG, "starting");
    wrapper.signal(Signal::KILL);
    wrapper.wait_exit(LONG);
    assert_eq!(scene.sidecar().modes(), ["sanity"]);
    assert_eq!(first_mode(&scene), "full");
}
