// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Ends in every phase: by one signal, by two, by `/stop`. What they owe in common: they are quick, nothing of etcd is
//! left, and only a clean end leaves a marker.
use std::time::{Duration, Instant};

use doubles::etcd::{Ending, How, OnSignal, Script};
use doubles::sidecar::Route;
use rstest::rstest;
use rustix::process::Signal;

use crate::scene::{LONG, SECOND, Scene, Wrapper, lives};

/// An end with nothing to wait for takes milliseconds; this is for a machine that is busy with other things.
const QUICK: Duration = Duration::from_millis(1500);

/// A way to bring a wrapper into a phase.
#[derive(Clone, Copy, Debug)]
enum Place {
    Held,
    /// The sidecar validates, and goes on validating.
    Validating,
    /// The sidecar holds the status call.
    Asking,
    Configuring,
    /// etcd lives and does not say READY.
    Starting,
    /// etcd says READY and answers nothing.
    Unconfirmed,
    Running,
    Backoff,
    /// A first `/stop`; etcd takes its time.
    Exiting,
}

impl Place {
    fn scene(self) -> Scene {
        let slow = OnSignal::takes(SECOND * 20);
        match self {
            Self::Held => Scene::scripted(Script::default()).flag("--hold"),
            Self::Validating => {
                Scene::scripted(Script::default()).with_sidecar(|setup| setup.validation_time(LONG))
            }
            Self::Asking => Scene::scripted(Script::default())
                .with_sidecar(|setup| setup.always(Route::Status, doubles::sidecar::Reply::never())),
            Self::Configuring => {
                Scene::scripted(Script::default()).with_sidecar(|setup| setup.config_delay(LONG))
            }
            Self::Starting => Scene::scripted(never_ready()),
            Self::Unconfirmed => {
                let hangs = doubles::etcd::Answer::hangs;
                Scene::scripted(Script { range: hangs(), status: hangs(), ..Script::default() })
            }
            Self::Running => Scene::scripted(Script::default()),
            Self::Backoff => {
                let end = Some(Ending::after_ready(Duration::ZERO, How::Exit(1)));
                Scene::scripted(Script { end, ..Script::default() }).flag("--on-etcd-exit=restart")
            }
            Self::Exiting => Scene::scripted(Script { on_term: slow, ..Script::default() }),
        }
    }

    fn reach(self, scene: &Scene) -> Wrapper<'_> {
        let wrapper = scene.start();
        match self {
            Self::Held => drop(wrapper.wait_phase(LONG, "held")),
            Self::Validating => drop(scene.sidecar().wait_for_end(Route::Start, 1, LONG)),
            Self::Asking => drop(scene.sidecar().wait_for_call(Route::Status, 1, LONG)),
            Self::Configuring => drop(scene.sidecar().wait_for_call(Route::Config, 1, LONG)),
            Self::Starting => drop(scene.stage().wait_for_start(1, LONG)),
            Self::Unconfirmed => wrapper.wait_log(LONG, "etcd says READY"),
            Self::Running => wrapper.wait_ready(),
            Self::Backoff => drop(wrapper.wait_phase(LONG, "backoff")),
            Self::Exiting => {
                wrapper.wait_ready();
                assert_eq!(wrapper.caller().post("/stop").status, 200);
                wrapper.wait_log(LONG, "to etcd");
            }
        }
        wrapper
    }

    /// Would a single polite request end it cleanly with a marker?
    fn earns_marker(self) -> bool {
        match self {
            // READY was seen: whether we could confirm it says nothing of how etcd closes (etcd.md 2).
            Self::Running | Self::Unconfirmed => true,
            Self::Held
            | Self::Validating
            | Self::Asking
            | Self::Configuring
            | Self::Starting
            | Self::Backoff
            | Self::Exiting => false,
        }
    }
}

fn never_ready() -> Script {
    let ready = doubles::etcd::Ready { sender: doubles::etcd::Sender::Nobody, ..Default::default() };
    Script { ready, ..Script::default() }
}

#[track_caller]
fn nothing_lives(scene: &Scene) {
    for (pid, _) in scene.stage().starts() {
        assert!(!lives(pid), "etcd {pid} was left behind");
    }
}

#[rstest]
fn a4_e5_e13_sigterm_ends_every_phase_at_once_with_0(
    #[values(
        Place::Held,
        Place::Validating,
        Place::Asking,
        Place::Configuring,
        Place::Starting,
        Place::Unconfirmed,
        Place::Running,
        Place::Backoff
    )]
    place: Place,
) {
    let scene = place.scene();
    scene.leave("exit_code", "terminated");
    let mut wrapper = place.reach(&scene);
    let began = Instant::now();
    wrapper.terminate();
    let code = wrapper.wait_exit(LONG);
    let took = began.elapsed();
    assert_eq!(code, 0, "{place:?}");
    assert!(took < QUICK, "{place:?} took {took:?}");
    nothing_lives(&scene);
    let marker = scene.marker();
    match place {
        // The status call stands before the first start: nothing has been touched, so the marker still tells the truth.
        Place::Asking => assert_eq!(marker.as_deref(), Some("terminated")),
        _ if place.earns_marker() => assert_eq!(marker.as_deref(), Some("terminated")),
        _ => assert_eq!(marker, None, "b2: no marker without READY"),
    }
    let starts = match place {
        Place::Held | Place::Validating | Place::Asking | Place::Configuring => 0,
        Place::Starting | Place::Unconfirmed | Place::Running | Place::Backoff | Place::Exiting => 1,
    };
    assert_eq!(scene.stage().starts().len(), starts, "invariant 4: no spawn after the end was asked for");
}

#[rstest]
fn e13_stop_ends_every_phase_at_once_with_0(
    #[values(
        Place::Held,
        Place::Validating,
        Place::Asking,
        Place::Configuring,
        Place::Starting,
        Place::Unconfirmed,
        Place::Running,
        Place::Backoff
    )]
    place: Place,
) {
    let scene = place.scene();
    let mut wrapper = place.reach(&scene);
    let began = Instant::now();
    assert_eq!(wrapper.caller().post("/stop").status, 200, "{place:?}");
    assert_eq!(wrapper.wait_exit(LONG), 0, "{place:?}");
    let took = began.elapsed();
    assert!(took < QUICK, "{place:?} took {took:?}");
    nothing_lives(&scene);
    // b4: a stop by `/stop` may earn the marker too.
    assert_eq!(scene.marker().is_some(), place.earns_marker(), "{place:?}");
}

#[rstest]
fn e14_two_signals_end_every_phase_within_a_second(
    #[values(
        Place::Held,
        Place::Validating,
        Place::Asking,
        Place::Configuring,
        Place::Starting,
        Place::Unconfirmed,
        Place::Running,
        Place::Backoff,
        Place::Exiting
    )]
    place: Place,
    #[values((Signal::TERM, Signal::INT), (Signal::INT, Signal::TERM))] signals: (Signal, Signal),
) {
    let scene = place.scene();
    let mut wrapper = place.reach(&scene);
    let began = Instant::now();
    wrapper.signal(signals.0);
    wrapper.signal(signals.1);
    let code = wrapper.wait_exit(LONG);
    let took = began.elapsed();
    // Without a child the first one has already ended it.
    assert!(code == 1 || code == 0 && !matches!(place, Place::Exiting), "{place:?}: {code}");
    assert!(took < QUICK, "{place:?} took {took:?}");
    nothing_lives(&scene);
}

#[test]
fn e14_a_second_signal_kills_an_etcd_that_takes_its_time() {
    let scene = Scene::scripted(Script { on_term: OnSignal::takes(LONG), ..Script::default() });
    let mut wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    wrapper.terminate();
    scene.stage().wait_for_record(LONG, "SIGTERM", |record| {
        matches!(record.event, doubles::etcd::Event::Signal { number: 15 })
    });
    let began = Instant::now();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 1);
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    assert!(!lives(etcd));
    assert_eq!(scene.marker(), None);
    assert_eq!(scene.stage().signals(etcd), [15], "invariant 7: no SIGQUIT on the way");
    let record = wrapper.record();
    assert_eq!((record["code"].as_u64(), record["cause"].as_str()), (Some(1), Some("forced")));
    assert_eq!(record["etcd"]["signal"], "SIGKILL");
}

#[test]
fn e14_stop_calls_and_one_signal_force_nothing() {
    let scene = Scene::scripted(Script { on_term: OnSignal::takes(SECOND), ..Script::default() });
    let mut wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    assert_eq!(wrapper.caller().post("/stop").status, 200);
    assert_eq!(wrapper.caller().post("/stop").status, 200);
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.stage().signals(etcd), [15]);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));
}
