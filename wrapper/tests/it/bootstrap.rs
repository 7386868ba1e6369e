// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Group A: the handshake with a sidecar that behaves, from process start to a running etcd, and what the world sees
//! meanwhile. A sidecar with faults stands in `sidecar_faults`.
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use doubles::etcd::{Event, Record, Script};
use doubles::pki::{Authority, Leaf};
use doubles::sidecar::{Reply, Route, Sidecar, Status};
use doubles::wait::{self, Poll};
use rstest::rstest;
use rustix::process::Signal;

use crate::scene::{LONG, SECOND, Scene, assert_sidecar_was_respected, wait_gone};
use crate::verbs::FOR_EVER;

/// Looks again and again for so long: `look` must hold every time.
#[track_caller]
pub(crate) fn stays(span: Duration, what: &str, mut look: impl FnMut()) {
    let began = Instant::now();
    wait::until(span + LONG, what, || {
        look();
        Poll::when(began.elapsed() >= span, String::new)
    });
}

/// Routes of the calls after the last one of `route`.
fn routes_after(sidecar: &Sidecar, route: Route) -> Vec<Route> {
    let routes: Vec<Route> = sidecar.log().iter().map(|call| call.route).collect();
    let last = routes.iter().rposition(|one| *one == route).unwrap();
    routes[last + 1..].to_vec()
}

#[test]
fn the_first_start_says_sanity_after_a_clean_end_and_polls_no_more_after_success() {
    let scene = Scene::scripted(Script::default());
    scene.leave("exit_code", "terminated");
    let _wrapper = scene.start_ready();
    assert_eq!(scene.sidecar().modes(), ["sanity"]);
    assert_eq!(routes_after(scene.sidecar(), Route::Status), [Route::Config]);
}

/// `Progress` for so long: one `start`, one line about it, an honest and red `/readyz`, and no etcd.
fn progress_is_waited_for(span: Duration) -> usize {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| setup.validation_time(FOR_EVER));
    let wrapper = scene.start();
    let status =
        wrapper.wait_status(LONG, "Progress", |status| status["bootstrap"]["sidecarState"] == "Progress");
    assert_eq!(status["wrapper"]["phase"], "initializing");
    assert_eq!(status["bootstrap"]["state"], "initializing");
    assert_eq!(status["bootstrap"]["rounds"], 1);
    stays(span, "a red /readyz during Progress", || {
        let answer = wrapper.readyz().expect("/readyz answers");
        assert_eq!(answer.status, 503);
        assert_eq!(answer.header("etcd-wrapper-phase"), Some("initializing"));
        assert!(answer.header("etcd-wrapper-reason").is_some_and(|reason| !reason.is_empty()), "{answer:?}");
    });
    let verbose = wrapper.caller().get("/readyz?verbose");
    assert_eq!(verbose.status, 503);
    assert!(verbose.body.contains("initializing"), "{}", verbose.body);
    assert_eq!(scene.sidecar().modes(), ["full"]);
    assert!(scene.stage().starts().is_empty());
    let log = wrapper.log();
    let told = log.lines().filter(|line| line.contains("Progress") && line.contains(" INFO ")).count();
    assert_eq!(told, 1, "a change is told once:\n{log}");
    log.lines().filter(|line| line.contains("still waiting")).count()
}

#[test]
fn a2_a5_progress_is_told_once_and_readyz_stays_red_with_the_phase() {
    assert_eq!(progress_is_waited_for(3 * SECOND), 0);
}

#[test]
fn soak_a2_ten_minutes_of_progress_are_told_once_a_minute() {
    let told = progress_is_waited_for(Duration::from_secs(610));
    assert!((9..=10).contains(&told), "{told} reminders");
}

#[test]
fn a3_i7_failed_rounds_are_repeated_in_full_with_growing_pauses_and_counted() {
    let failures = [Status::Failed; 2];
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| {
        // Long enough to be looked at.
        setup.outcomes(&failures).config_delay(SECOND)
    });
    scene.leave("exit_code", "terminated");
    let wrapper = scene.start();
    scene.sidecar().wait_for_call(Route::Start, 3, LONG);
    assert!(scene.stage().starts().is_empty());
    let starts: Vec<Instant> = scene.sidecar().calls(Route::Start).iter().map(|call| call.began).collect();
    let pauses: Vec<Duration> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (pause, least) in pauses.iter().zip([1, 2]) {
        assert!(*pause >= least * SECOND, "{pauses:?}");
    }
    assert_eq!(scene.sidecar().modes(), ["sanity", "full", "full"]);
    let status = wrapper.wait_status(LONG, "three rounds", |status| status["bootstrap"]["rounds"] == 3);
    assert_eq!(status["bootstrap"]["validation"], "full");
    wrapper.wait_ready();
}

#[rstest]
#[case(Signal::TERM)]
#[case(Signal::INT)]
fn a4_a_signal_during_progress_ends_the_process_at_once_and_starts_nothing(#[case] signal: Signal) {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| setup.validation_time(FOR_EVER));
    let mut wrapper = scene.start();
    scene.sidecar().wait_for_call(Route::Status, 3, LONG);
    wrapper.signal(signal);
    let began = Instant::now();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert!(began.elapsed() < 2 * SECOND, "{:?}", began.elapsed());
    assert!(scene.stage().starts().is_empty());
    assert_eq!(scene.marker(), None);
}

#[rstest]
#[case::in_status(Route::Status)]
#[case::in_start(Route::Start)]
#[case::in_config(Route::Config)]
fn a4_a_signal_during_a_call_that_hangs_ends_the_process_at_once(#[case] route: Route) {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| setup.reply(route, Reply::never()));
    let mut wrapper = scene.start();
    scene.sidecar().wait_for_call(route, 1, LONG);
    wrapper.terminate();
    let began = Instant::now();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert!(began.elapsed() < 2 * SECOND, "{:?}", began.elapsed());
    assert!(scene.stage().starts().is_empty());
    assert_eq!(scene.marker(), None);
}

#[rstest]
#[case::plain(false)]
#[case::tls(true)]
fn a8_an_ipv6_sidecar_is_reached_and_verified(#[case] tls: bool) {
    let authority = Authority::new("sidecar-ca");
    let pair = authority.sign(&Leaf::server(&["::1"]));
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| {
        let setup = setup.listen((Ipv6Addr::LOCALHOST, 0).into());
        if tls { setup.tls(&pair.cert_pem, &pair.key_pem) } else { setup }
    });
    let mut command = scene.command();
    if tls {
        let ca = authority.write(&scene.path().join("ca.crt")).unwrap();
        command.arg("--backup-restore-tls-enabled");
        command.arg(format!("--backup-restore-ca-cert-bundle-path={}", ca.display()));
    }
    let argument = format!("--backup-restore-host-port=[::1]:{}", scene.sidecar().addr().port());
    assert!(command.get_args().any(|one| one == argument.as_str()), "{command:?}");
    scene.start_command(command).wait_ready();
}

#[test]
fn a8_a_certificate_for_another_address_is_refused_and_named() {
    let authority = Authority::new("sidecar-ca");
    let pair = authority.sign(&Leaf::server(&["127.0.0.1", "localhost"]));
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| {
        setup.listen((Ipv6Addr::LOCALHOST, 0).into()).tls(&pair.cert_pem, &pair.key_pem)
    });
    let ca = authority.write(&scene.path().join("ca.crt")).unwrap();
    let mut command = scene.command();
    command.arg("--backup-restore-tls-enabled");
    command.arg(format!("--backup-restore-ca-cert-bundle-path={}", ca.display()));
    let wrapper = scene.start_command(command);
    let status = wrapper.wait_status(LONG, "an error", |status| status["bootstrap"]["lastError"].is_string());
    let error = status["bootstrap"]["lastError"].as_str().unwrap();
    assert!(error.contains("[::1]") || error.contains("::1"), "{error}");
    assert!(scene.sidecar().log().is_empty(), "nothing is said to a stranger");
}

#[test]
fn a9_after_the_config_the_sidecar_is_not_needed_any_more() {
    let scene = Scene::scripted(Script { ready: late_ready(), ..Script::default() });
    let wrapper = scene.start();
    scene.sidecar().wait_for_end(Route::Config, 1, LONG);
    // As one that does nothing else until etcd's client port answers.
    for route in [Route::Status, Route::Start, Route::Config, Route::Other] {
        scene.sidecar().set_default(route, Some(Reply::never()));
    }
    let before = scene.sidecar().log().len();
    wrapper.wait_ready();
    assert_eq!(scene.sidecar().log().len(), before, "{:?}", scene.sidecar().log());
}

fn late_ready() -> doubles::etcd::script::Ready {
    doubles::etcd::script::Ready { after: SECOND.into(), ..Default::default() }
}

#[rstest]
#[case::killed(false)]
#[case::answering_500(true)]
fn a10_d1_a_broken_sidecar_touches_neither_etcd_nor_readiness(#[case] answers: bool) {
    let mut scene = Scene::scripted(Script::default());
    let command = scene.command();
    let mut sidecar = scene.sidecar.take().unwrap();
    let wrapper = scene.start_command(command);
    wrapper.wait_ready();
    let pid = wrapper.etcd_pid();
    let before = sidecar.log().len();
    if answers {
        for route in [Route::Status, Route::Start, Route::Config, Route::Healthz, Route::Other] {
            sidecar.set_default(route, Some(Reply::code(500)));
        }
    } else {
        sidecar.stop();
    }
    stays(3 * SECOND, "a green /readyz without a sidecar", || {
        assert_eq!(wrapper.readyz().expect("/readyz answers").status, 200);
    });
    assert_eq!(wrapper.etcd_pid(), pid);
    assert!(scene.stage().signals(pid).is_empty());
    assert_eq!(sidecar.log().len(), before, "a serving member has nothing to ask");
    assert_sidecar_was_respected(&sidecar, false);
}

#[test]
fn a13_five_starts_beside_one_sidecar_each_go_the_whole_way() {
    let scene = Scene::real("3.5");
    let mut wanted = Vec::new();
    let mut mode = "full";
    for round in 0..5 {
        let mut wrapper = scene.start_ready();
        wanted.push(mode);
        assert_eq!(scene.sidecar().modes(), wanted, "start {round}");
        assert_eq!(routes_after(scene.sidecar(), Route::Status), [Route::Config]);
        assert_eq!(scene.sidecar().status(), Status::New, "what was read is consumed");
        let etcd = wrapper.etcd_pid();
        // By turns: ended in order, and killed.
        if round % 2 == 0 {
            wrapper.terminate();
            assert_eq!(wrapper.wait_exit(LONG), 0);
            mode = "sanity";
        } else {
            wrapper.signal(Signal::KILL);
            assert_eq!(wrapper.wait_exit(LONG), 128 + 9);
            mode = "full";
        }
        wait_gone(etcd, 5 * SECOND);
    }
}

#[rstest]
#[case::success(Status::Successful, None)]
#[case::success_after_a_clean_end(Status::Successful, Some("terminated"))]
#[case::failure(Status::Failed, None)]
#[case::failure_after_a_clean_end(Status::Failed, Some("terminated"))]
fn a15_a_result_that_an_earlier_process_left_unread_is_not_ours(
    #[case] left: Status,
    #[case] marker: Option<&str>,
) {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| setup.initial_status(left));
    if let Some(word) = marker {
        scene.leave("exit_code", word);
    }
    let _wrapper = scene.start_ready();
    // Something was read that is no New, so the kindness of a clean end is gone (safety.md 2).
    assert_eq!(scene.sidecar().modes(), ["full"]);
    let started = |record: &Record| matches!(record.event, Event::Started(_));
    let spawned = scene.stage().wait_for_record(SECOND, "the spawn", started).at();
    let start = &scene.sidecar().calls(Route::Start)[0];
    assert!(start.at < spawned, "validated before the spawn");
}

#[test]
fn a15_a_round_begun_by_the_process_before_us_is_waited_for_and_counts() {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| setup.validation_time(2 * SECOND));
    let mut first = scene.start();
    scene.sidecar().wait_for_end(Route::Start, 1, LONG);
    first.signal(Signal::KILL);
    first.wait_exit(LONG);
    let second = scene.start();
    second.wait_ready();
    assert_eq!(scene.sidecar().modes(), ["full"], "one validation is enough for both");
}
