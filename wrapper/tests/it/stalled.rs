// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Neighbours that stop reading, writing or answering: the log's reader, the disk, callers. None of them may hold up a
//! probe or the end.
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use doubles::etcd::Script;
use doubles::programs;
use doubles::sidecar::Route;
use doubles::wait::{self, Poll};
use rstest::rstest;
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::namespace::with_mounts;
use crate::scene::{Etcd, LONG, SECOND, Scene, Wrapper};

/// A probe's own limit.
const PROBE: Duration = SECOND;

#[track_caller]
fn probes_answer(wrapper: &Wrapper<'_>, readyz: u16) {
    for (path, status) in [("/livez", 200), ("/readyz", readyz), ("/metrics", 200)] {
        let answer = wrapper.caller().within(PROBE).get(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
}

/// Control calls that are refused: a line of the log each.
fn fill_the_log(wrapper: &Wrapper<'_>, calls: u32) {
    for _ in 0..calls {
        let answer = wrapper.caller().call("POST", "/stop", &[("x-forwarded-for", "10.0.0.1")], "");
        assert_eq!(answer.status, 403);
    }
}

#[track_caller]
fn stops_within(scene: &Scene, mut wrapper: Wrapper<'_>, limit: Duration) {
    let began = Instant::now();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert!(began.elapsed() < limit, "{:?}", began.elapsed());
    assert_eq!(scene.history().last().unwrap()["code"], 0, "the record is where it can be written");
}

#[test]
fn f9_a_reader_of_stderr_that_stopped_holds_up_nothing() {
    let scene = Scene::scripted(Script::default());
    let (mut reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    let wrapper = scene.start_with_stderr(writer);
    wrapper.wait_ready();
    fill_the_log(&wrapper, 60);
    probes_answer(&wrapper, 200);
    // The last lines get half a second to leave.
    stops_within(&scene, wrapper, SECOND * 2);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));
    let mut first = [0; 64];
    reader.read_exact(&mut first).unwrap();
}

#[test]
fn f9_a_reader_of_stderr_that_went_away_holds_up_nothing() {
    let scene = Scene::scripted(Script::default());
    let (reader, writer) = std::io::pipe().unwrap();
    let wrapper = scene.start_with_stderr(writer);
    wrapper.wait_ready();
    drop(reader);
    fill_the_log(&wrapper, 5);
    probes_answer(&wrapper, 200);
    stops_within(&scene, wrapper, SECOND);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));
}

#[derive(Clone, Copy, Debug)]
enum End {
    Signal,
    Call,
}

/// A pipe in a file's place blocks whoever opens it, as a dead network volume does.
#[rstest]
fn d8_a_disk_that_does_not_answer_holds_up_neither_probes_nor_the_end(
    #[values(End::Signal, End::Call)] end: End,
) {
    let scene = Scene::of(&Etcd::At(programs::etcd_double()));
    let config = scene.path().join("etcd.yaml");
    mkfifoat(CWD, &config, Mode::from_raw_mode(0o600)).unwrap();
    let scene = scene.flag(format!("--etcd-config-file={}", config.display()));
    let mut wrapper = scene.start();
    wrapper.wait_phase(LONG, "configuring");
    probes_answer(&wrapper, 503);
    match end {
        End::Signal => stops_within(&scene, wrapper, SECOND),
        End::Call => {
            assert_eq!(wrapper.caller().post("/stop").status, 200);
            assert_eq!(wrapper.wait_exit(SECOND), 0);
        }
    }
    assert_eq!(scene.marker(), None);
}

/// A file system whose server never answers, in the state directory's place: whoever looks at it waits.
const DEAD_VOLUME: &str =
    "exec 9<>/dev/fuse; mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 none \"$1\"";

#[rstest]
fn d8_a_state_directory_that_does_not_answer_at_the_start_holds_up_neither_probes_nor_the_end(
    #[values(End::Signal, End::Call)] end: End,
) {
    let scene = Scene::scripted(Script::default());
    let state_dir = scene.state_dir();
    let mut wrapper = scene.start_command(with_mounts(&scene.command(), DEAD_VOLUME, &[&state_dir]));
    wrapper.wait_phase(LONG, "initializing");
    probes_answer(&wrapper, 503);
    let refused = wrapper.caller().post("/v1/etcd/start").json();
    assert_eq!(refused["code"], "operation_in_progress", "{refused}");
    // Longer than the loop may stand still: it turns while it waits.
    let began = Instant::now();
    wait::until(LONG, "11 s of probes", || {
        probes_answer(&wrapper, 503);
        Poll::when(began.elapsed() > SECOND * 11, || "all answered so far".into())
    });
    let began = Instant::now();
    match end {
        End::Signal => wrapper.terminate(),
        End::Call => assert_eq!(wrapper.caller().post("/stop").status, 200),
    }
    assert_eq!(wrapper.wait_exit(LONG), 0);
    // Half a second of it is for the exit history, which lies on that volume.
    assert!(began.elapsed() < SECOND * 2, "{:?}", began.elapsed());
    assert_eq!(scene.sidecar().calls(Route::Start), []);
}

#[test]
fn b1_pipes_in_the_places_of_marker_and_hold_file_are_no_marker_and_a_hold() {
    let scene = Scene::scripted(Script::default());
    for name in ["exit_code", "hold"] {
        mkfifoat(CWD, scene.state_dir().join(name), Mode::from_raw_mode(0o600)).unwrap();
    }
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    probes_answer(&wrapper, 503);
    let status = wrapper.caller().get("/v1/status").json();
    let reason = status["wrapper"]["holdReason"].as_str().unwrap_or_default();
    assert!(reason.contains("not a regular file"), "{status}");
    stops_within(&scene, wrapper, SECOND);
}

#[test]
fn f9_callers_that_stop_in_the_middle_hold_up_neither_probes_nor_the_end() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let beginnings: [&[u8]; 5] = [
        b"",
        b"G",
        b"GET /readyz HTTP/1.1\r\nhost: x\r\n",
        b"POST /v1/etcd/start HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nname: ",
        // The first bytes of a TLS handshake.
        b"\x16\x03\x01\x02\x00\x01",
    ];
    let stalled: Vec<_> = beginnings
        .iter()
        .cycle()
        .take(50)
        .map(|beginning| {
            let mut stream = wrapper.caller().connect().unwrap();
            stream.write_all(beginning).unwrap();
            stream
        })
        .collect();
    probes_answer(&wrapper, 200);
    // An end of less than a second: nobody waits for them.
    stops_within(&scene, wrapper, SECOND * 3 / 4);
    drop(stalled);
}
