// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `POST /stop` against the real process: one stop however often it is asked for, answered before the end.
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown};
use std::time::{Duration, Instant};

use doubles::etcd::{OnSignal, Script};
use doubles::wait::{self, Poll};
use rstest::rstest;

use crate::scene::{LONG, SECOND, Scene, Wrapper};

fn request(scene: &Scene) -> String {
    format!("POST /stop HTTP/1.1\r\nhost: {}\r\ncontent-length: 0\r\n\r\n", scene.api_addr())
}

/// The clean end that `/stop` asks for.
#[track_caller]
fn ends_cleanly(scene: &Scene, wrapper: &mut Wrapper<'_>, etcd: u32) {
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.stage().signals(etcd), [15], "exactly one stop");
    assert_eq!(scene.marker().as_deref(), Some("terminated"));
    assert_eq!(scene.history().len(), 1, "one exit");
}

#[test]
fn e2_five_calls_at_once_are_one_stop_and_each_is_answered() {
    let scene = Scene::scripted(Script { on_term: OnSignal::takes(SECOND / 2), ..Script::default() });
    let mut wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let callers: Vec<_> = (0..5)
        .map(|_| {
            let caller = wrapper.caller();
            std::thread::spawn(move || caller.try_call("POST", "/stop", &[], ""))
        })
        .collect();
    for caller in callers {
        // etcd takes half a second: the listener lives long enough for all of them.
        assert_eq!(caller.join().unwrap().unwrap().status, 200);
    }
    ends_cleanly(&scene, &mut wrapper, etcd);
}

#[test]
fn e2_calls_that_come_too_late_are_cut_off_and_never_refused() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let callers: Vec<_> = (0..20)
        .map(|_| {
            let caller = wrapper.caller();
            std::thread::spawn(move || caller.try_call("POST", "/stop", &[], ""))
        })
        .collect();
    for caller in callers {
        // A 2xx or a closed connection; a 503 or a 409 would make the sidecar's next step wrong.
        if let Ok(answer) = caller.join().unwrap() {
            assert_eq!(answer.status, 200);
        }
    }
    ends_cleanly(&scene, &mut wrapper, etcd);
}

#[test]
fn invariant_14_the_200_is_there_before_anything_ends() {
    let scene = Scene::scripted(Script::default());
    // Nothing to stop: the process could be gone before its answer is.
    let scene = scene.flag("--hold");
    let mut wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let answer = wrapper.caller().post("/stop");
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    assert_eq!(wrapper.wait_exit(LONG), 0);
}

#[derive(Clone, Copy, Debug)]
enum HangUp {
    Close,
    /// With a reset, as a process does that is killed with unread data.
    Reset,
    /// Half: no more requests, but it reads.
    Write,
}

#[rstest]
fn e2_a_caller_that_hangs_up_at_once_has_stopped_it_all_the_same(
    #[values(HangUp::Close, HangUp::Reset, HangUp::Write)] how: HangUp,
) {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let mut stream = wrapper.caller().connect().unwrap();
    match how {
        HangUp::Close => stream.write_all(request(&scene).as_bytes()).unwrap(),
        HangUp::Reset => {
            // The whole request is with the wrapper before the reset takes the rest away.
            stream.write_all(request(&scene).as_bytes()).unwrap();
            let mut first = [0; 1];
            stream.read_exact(&mut first).unwrap();
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        }
        HangUp::Write => {
            stream.write_all(request(&scene).as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            // E2 asks for no more: when the end comes with the request, the connection may be closed unanswered.
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
    }
    drop(stream);
    ends_cleanly(&scene, &mut wrapper, etcd);
}

#[test]
fn e2_a_caller_that_reads_nothing_does_not_hold_up_the_stop() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let mut stream = wrapper.caller().connect().unwrap();
    stream.write_all(request(&scene).as_bytes()).unwrap();
    let began = Instant::now();
    ends_cleanly(&scene, &mut wrapper, etcd);
    assert!(began.elapsed() < SECOND * 2, "{:?}", began.elapsed());
}

#[test]
fn e4_other_methods_stop_nothing() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let answer = wrapper.caller().call(method, "/stop", &[], "");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{method}");
    }
    for path in ["/stop/", "//stop", "/STOP", "/stop?force=true/", "/%73top"] {
        if path.contains('?') {
            continue;
        }
        assert_eq!(wrapper.caller().post(path).status, 404, "{path}");
    }
    assert_eq!(wrapper.readyz().unwrap().status, 200);
    assert!(scene.stage().signals(etcd).is_empty());
    assert_eq!(wrapper.caller().post("/stop").status, 200);
    ends_cleanly(&scene, &mut wrapper, etcd);
}

/// An address of this machine that is no loopback peer of the wrapper.
fn elsewhere() -> IpAddr {
    Ipv4Addr::new(127, 0, 0, 2).into()
}

#[test]
fn invariant_11_a_stranger_stops_nothing_unless_that_is_allowed() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let stranger = wrapper.caller().from(elsewhere());
    assert_eq!(stranger.post("/stop").status, 403);
    assert_eq!(stranger.get("/readyz").status, 200);
    let forwarded = wrapper.caller().call("POST", "/stop", &[("x-forwarded-for", "10.0.0.1")], "");
    assert_eq!(forwarded.status, 403);
    assert!(scene.stage().signals(etcd).is_empty());
    drop(wrapper);

    let scene = Scene::scripted(Script::default()).flag("--allow-remote-stop");
    let mut wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    assert_eq!(wrapper.caller().from(elsewhere()).post("/stop").status, 200);
    ends_cleanly(&scene, &mut wrapper, etcd);
}

#[test]
fn b4_the_marker_of_a_stop_call_can_be_switched_off() {
    let scene = Scene::scripted(Script::default()).flag("--clean-marker-on-stop=false");
    let mut wrapper = scene.start_ready();
    assert_eq!(wrapper.caller().post("/stop").status, 200);
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker(), None);
    let mut wrapper = scene.start_ready();
    assert_eq!(scene.sidecar().modes(), ["full", "full"]);
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some("terminated"), "a signal's end keeps its marker");
}

#[test]
fn invariant_3_not_ready_from_the_first_moment_of_a_stop() {
    let scene = Scene::scripted(Script { on_term: OnSignal::takes(SECOND), ..Script::default() });
    let mut wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    assert_eq!(wrapper.caller().post("/stop").status, 200);
    scene.stage().wait_for_record(LONG, "SIGTERM", |record| {
        matches!(record.event, doubles::etcd::Event::Signal { number: 15 })
    });
    // etcd still serves, and says so.
    let answer = wrapper.readyz().unwrap();
    assert_eq!((answer.status, answer.header("etcd-wrapper-phase")), (503, Some("exiting")));
    assert_eq!(wrapper.caller().get("/livez").status, 200);
    let leader = wrapper.caller().get("/v1/leader").json();
    assert_eq!((leader["isLeader"].as_bool(), leader["leaving"].as_bool()), (Some(false), Some(true)));
    // Nothing else is begun any more.
    let refused = wrapper.caller().post("/v1/etcd/start");
    assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("shutting_down")));
    ends_cleanly(&scene, &mut wrapper, etcd);
    wait::until(SECOND, "a closed port", || {
        Poll::when(wrapper.caller().connect().is_err(), || "it still accepts".into())
    });
}
