// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Group A: a sidecar that dies, hangs, is slow, or whose answers are lost, cut or senseless. Whatever it does, etcd
//! comes up in the end, on a directory that was validated as far as the loss demands, with a config that is whole.
use std::time::Duration;

use doubles::etcd::Script;
use doubles::etcd::record::sha256;
use doubles::sidecar::{End, Reply, Route, Script as SidecarScript, Sidecar, Status};
use rstest::rstest;

use crate::bootstrap::stays;
use crate::scene::{LONG, MEMBER, SECOND, Scene, assert_sidecar_was_respected};

/// Digest of the config that etcd was given, and that a faithful sidecar serves.
#[track_caller]
fn assert_whole_config(scene: &Scene, served: &str) {
    let (_, facts) = scene.stage().wait_for_start(1, LONG);
    let config = facts.config.expect("etcd is started with a config file");
    assert_eq!(config.sha256, sha256(served.as_bytes()), "{served}");
    assert_eq!(config.mode, 0o600);
}

fn rendered(scene: &Scene) -> String {
    scene.config().render(MEMBER, None, false).unwrap()
}

fn count(sidecar: &Sidecar, route: Route) -> usize {
    sidecar.calls(route).len()
}

/// The reply that says `Successful` gets lost: what the sidecar did meanwhile is not known.
#[rstest]
#[case::after_the_head(End::AfterHead)]
#[case::in_the_word(End::Short(4))]
#[case::before_the_head(End::BeforeHead)]
#[case::reset(End::Reset)]
#[case::garbage(End::Garbage("HTTP/1.1 2".into()))]
fn a1_a_lost_success_leads_to_a_full_validation(#[case] end: End) {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| {
        setup
            // So late that the validation is over when the first poll comes.
            .reply(Route::Start, Reply::faithful().before_head(Duration::from_millis(300)))
            .reply(Route::Status, Reply::faithful())
            .reply(Route::Status, Reply::faithful().end(end).effect(true))
    });
    scene.leave("exit_code", "terminated");
    let _wrapper = scene.start_ready();
    assert_eq!(scene.sidecar().modes(), ["sanity", "full"]);
    let last = scene.sidecar().log().pop().unwrap();
    assert_eq!(last.route, Route::Config, "no poll after a success that was read");
}

/// The first word of all gets lost; no kindness after that.
#[test]
fn a1_a_lost_first_word_makes_the_first_start_full() {
    let scene = Scene::scripted(Script::default())
        .with_sidecar(|setup| setup.reply(Route::Status, Reply::faithful().end(End::AfterHead)));
    scene.leave("exit_code", "terminated");
    let _wrapper = scene.start_ready();
    assert_eq!(scene.sidecar().modes(), ["full"]);
}

/// The answer to `start` is lost, whether or not the validation has begun.
#[rstest]
#[case::begun(true)]
#[case::not_begun(false)]
fn a1_a_lost_answer_to_start_never_leads_to_an_unvalidated_directory(#[case] begun: bool) {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| {
        setup.reply(Route::Start, Reply::faithful().end(End::BeforeHead).effect(begun))
    });
    scene.leave("exit_code", "terminated");
    let _wrapper = scene.start_ready();
    let wanted: &[&str] = if begun { &["sanity"] } else { &["sanity", "full"] };
    assert_eq!(scene.sidecar().modes(), wanted);
    assert_eq!(scene.sidecar().status(), Status::New, "a final word was read");
}

#[rstest]
#[case::http_500(Reply::code(500))]
#[case::http_404(Reply::code(404))]
#[case::another_word(Reply::text("Succesful"))]
#[case::an_empty_word(Reply::text(""))]
#[case::the_word_in_a_page(Reply::text("<html>Successful</html>"))]
#[case::a_flood(Reply::filled(1 << 20))]
#[case::no_http(Reply::garbage("SSH-2.0-OpenSSH_9.7\r\n"))]
fn a_senseless_status_is_no_success_and_is_shown(#[case] reply: Reply) {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| setup.always(Route::Status, reply));
    let wrapper = scene.start();
    scene.sidecar().wait_for_end(Route::Status, 4, LONG);
    let status = wrapper.status();
    assert_eq!(status["wrapper"]["phase"], "initializing");
    assert!(status["bootstrap"]["lastError"].is_string(), "{status}");
    assert!(scene.stage().starts().is_empty());
    scene.sidecar().clear_replies();
    wrapper.wait_ready();
}

#[test]
fn an_answer_that_never_comes_is_given_up_on_and_asked_for_again() {
    let scene =
        Scene::scripted(Script::default()).with_sidecar(|setup| setup.reply(Route::Status, Reply::never()));
    let wrapper = scene.start();
    wrapper.wait_ready();
    assert_eq!(scene.sidecar().modes(), ["full"]);
    let first = &scene.sidecar().calls(Route::Status)[0];
    assert!(first.ended.unwrap() - first.began >= 5 * SECOND, "a slow sidecar has time");
}

#[test]
fn slow_answers_are_waited_for() {
    let slow = |route| (route, Reply::faithful().before_head(SECOND));
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| {
        [slow(Route::Status), slow(Route::Start), slow(Route::Config)]
            .into_iter()
            .fold(setup, |setup, (route, reply)| setup.reply(route, reply))
    });
    let _wrapper = scene.start_ready();
    assert_eq!(scene.sidecar().modes(), ["full"]);
    assert_eq!(count(scene.sidecar(), Route::Config), 1);
}

/// One slow `/config` is enough.
fn a_slow_config_is_asked_for_once(span: Duration) {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| setup.config_delay(span));
    let wrapper = scene.start();
    wrapper.wait_ready_within(span + LONG);
    assert_eq!(count(scene.sidecar(), Route::Config), 1);
    assert_whole_config(&scene, &rendered(&scene));
}

#[test]
fn a11_one_slow_config_is_enough() {
    a_slow_config_is_asked_for_once(3 * SECOND);
}

#[test]
fn soak_a11_one_config_of_20_s_is_enough() {
    a_slow_config_is_asked_for_once(20 * SECOND);
}

/// 500 for so long, then 200: etcd comes up, and before that there is nothing on disk that it could be given.
fn a_config_that_fails_for_a_while(span: Duration) {
    let scene = Scene::scripted(Script::default())
        .with_sidecar(|setup| setup.reply(Route::Config, Reply::code(500).lasting(span)));
    let wrapper = scene.start();
    scene.sidecar().wait_for_end(Route::Config, 2, LONG);
    assert!(!scene.home().join("etcd.conf.yaml").exists());
    assert_eq!(wrapper.status()["wrapper"]["phase"], "configuring");
    wrapper.wait_ready_within(span + LONG);
    assert_whole_config(&scene, &rendered(&scene));
    assert_eq!(scene.sidecar().modes(), ["full"], "the validation stands");
    let calls = count(scene.sidecar(), Route::Config);
    assert!(calls < 20 + usize::try_from(span.as_secs()).unwrap(), "{calls} calls");
}

#[test]
fn a11_a_config_that_fails_for_a_while_is_asked_for_until_it_comes() {
    a_config_that_fails_for_a_while(2 * SECOND);
}

#[test]
fn soak_a11_a_config_that_fails_for_a_minute_is_asked_for_until_it_comes() {
    a_config_that_fails_for_a_while(60 * SECOND);
}

#[rstest]
#[case::no_mapping("just words\n")]
#[case::no_yaml("a: [\n")]
#[case::empty("")]
#[case::keys_missing("name: etcd-main-0\nlisten-client-urls: http://127.0.0.1:1\n")]
fn a11_a_served_config_that_cannot_be_right_is_never_written_and_asked_for_again(#[case] body: &str) {
    let scene = Scene::scripted(Script::default())
        .with_sidecar(|setup| setup.always(Route::Config, Reply::text(body)));
    let wrapper = scene.start();
    scene.sidecar().wait_for_end(Route::Config, 3, LONG);
    assert!(!scene.home().join("etcd.conf.yaml").exists());
    assert!(scene.stage().starts().is_empty());
    let error = wrapper.status()["bootstrap"]["lastError"].to_string();
    assert!(error.contains("configuration"), "{error}");
    scene.sidecar().clear_replies();
    wrapper.wait_ready();
    assert_whole_config(&scene, &rendered(&scene));
}

/// A config of 256 KiB, as long comments make it.
fn large(scene: &Scene) -> String {
    let mut text = rendered(scene);
    while text.len() < 256 * 1024 {
        text += &format!("# line {} of a config that somebody explained at length\n", text.len());
    }
    text
}

#[test]
fn a12_a_large_body_in_slow_chunks_is_used_whole() {
    let scene = Scene::scripted(Script::default());
    let text = large(&scene);
    let scene = scene.with_sidecar(|setup| {
        setup
            .script(SidecarScript { config: Some(text.clone()), ..SidecarScript::default() })
            .reply(Route::Config, Reply::faithful().chunked(50, 3 * SECOND))
    });
    let _wrapper = scene.start_ready();
    assert_eq!(count(scene.sidecar(), Route::Config), 1);
    assert_whole_config(&scene, &text);
}

/// The body ends early although its head promised more; the sidecar's file may be half written after that, so only a
/// body that comes twice counts.
#[rstest]
#[case::one_byte_short(End::Short(1))]
#[case::half(End::Short(150_000))]
#[case::no_body(End::AfterHead)]
#[case::reset(End::Reset)]
fn a12_a_cut_config_is_refused_and_asked_for_again(#[case] end: End) {
    let scene = Scene::scripted(Script::default());
    let text = large(&scene);
    let scene = scene.with_sidecar(|setup| {
        setup
            .script(SidecarScript { config: Some(text.clone()), ..SidecarScript::default() })
            .reply(Route::Config, Reply::faithful().end(end))
    });
    let _wrapper = scene.start_ready();
    assert_eq!(count(scene.sidecar(), Route::Config), 3);
    assert_whole_config(&scene, &text);
}

#[test]
fn a12_after_a_cut_config_two_different_bodies_are_not_enough() {
    let scene = Scene::scripted(Script::default());
    let text = rendered(&scene);
    // A cut that is YAML with all keys: only its coming once gives it away.
    let spoilt = format!("{text}# x\n");
    let scene = scene.with_sidecar(|setup| {
        setup
            .reply(Route::Config, Reply::faithful().end(End::AfterHead))
            .reply(Route::Config, Reply::text(&spoilt))
    });
    let _wrapper = scene.start_ready();
    assert_eq!(count(scene.sidecar(), Route::Config), 4);
    assert_whole_config(&scene, &text);
}

/// Nobody listens for so long.
fn refused_connections_are_waited_out(span: Duration) {
    let mut scene = Scene::scripted(Script::default());
    scene.leave("exit_code", "terminated");
    let command = scene.command();
    let mut sidecar = scene.sidecar.take().unwrap();
    sidecar.stop();
    let wrapper = scene.start_command(command);
    wrapper.wait_status(LONG, "an error", |status| status["bootstrap"]["lastError"].is_string());
    stays(span, "waiting for the sidecar", || {
        let answer = wrapper.readyz().expect("/readyz answers");
        assert_eq!((answer.status, answer.header("etcd-wrapper-phase")), (503, Some("initializing")));
        assert!(scene.stage().starts().is_empty());
    });
    let repeated =
        wrapper.log().lines().filter(|line| line.contains("WARN") && line.contains("refused")).count();
    assert!(repeated as u64 <= 1 + span.as_secs() / 60, "{repeated} lines about it");
    sidecar.restart().unwrap();
    wrapper.wait_ready();
    assert_eq!(sidecar.modes(), ["sanity"], "one that was not up yet has lost nothing");
    assert_sidecar_was_respected(&sidecar, false);
}

#[test]
fn a14_a_sidecar_that_refuses_connections_is_waited_for() {
    refused_connections_are_waited_out(2 * SECOND);
}

#[test]
fn soak_a14_five_minutes_of_refused_connections_are_waited_out() {
    refused_connections_are_waited_out(Duration::from_secs(300));
}

/// The sidecar dies at each step, and comes back knowing nothing.
#[rstest]
#[case::reading_the_first_status(Route::Status, 1, &["full"])]
#[case::taking_the_start(Route::Start, 1, &["sanity", "full"])]
#[case::telling_of_success(Route::Status, 2, &["sanity", "full"])]
#[case::serving_the_config(Route::Config, 1, &["sanity"])]
fn a17_a_sidecar_that_dies_at_any_step_is_asked_anew(
    #[case] route: Route,
    #[case] nth: usize,
    #[case] modes: &[&str],
) {
    let mut scene = Scene::scripted(Script::default());
    scene.leave("exit_code", "terminated");
    let command = scene.command();
    let mut sidecar = scene.sidecar.take().unwrap();
    for _ in 1..nth {
        sidecar.push_reply(route, Reply::faithful());
    }
    // Its effect is done, its answer never comes. The process after it knows nothing of this either.
    sidecar.push_reply(route, Reply::faithful().before_head(LONG * 10));
    let wrapper = scene.start_command(command);
    sidecar.wait_for_call(route, nth, LONG);
    sidecar.restart().unwrap();
    wrapper.wait_ready();
    assert_eq!(sidecar.modes(), modes);
    assert_whole_config(&scene, &rendered(&scene));
    assert_sidecar_was_respected(&sidecar, false);
}

/// A validation is cut in its middle: what a restore did to the directory is unknown.
#[rstest]
#[case::seen_refusing(true)]
#[case::back_at_once(false)]
fn a17_a_sidecar_that_dies_in_progress_is_asked_in_full(#[case] refuses: bool) {
    let mut scene =
        Scene::scripted(Script::default()).with_sidecar(|setup| setup.validation_time(2 * SECOND));
    scene.leave("exit_code", "terminated");
    let command = scene.command();
    let mut sidecar = scene.sidecar.take().unwrap();
    let wrapper = scene.start_command(command);
    wrapper.wait_status(LONG, "Progress", |status| status["bootstrap"]["sidecarState"] == "Progress");
    sidecar.stop();
    if refuses {
        wrapper.wait_status(LONG, "an error", |status| status["bootstrap"]["lastError"].is_string());
    }
    sidecar.restart().unwrap();
    wrapper.wait_ready();
    assert_eq!(sidecar.modes(), ["sanity", "full"]);
    assert_sidecar_was_respected(&sidecar, false);
}

#[test]
fn e18_a_config_of_an_earlier_run_is_never_used() {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| {
        setup.reply(Route::Config, Reply::code(500).times(3)).reply(Route::Config, Reply::never())
    });
    let old = rendered(&scene).replace("initial-cluster-state: new", "initial-cluster-state: existing");
    let stored = scene.home().join("etcd.conf.yaml");
    std::fs::write(&stored, &old).unwrap();
    let mut wrapper = scene.start();
    scene.sidecar().wait_for_call(Route::Config, 4, LONG);
    assert!(scene.stage().starts().is_empty(), "started with what lay about");
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(std::fs::read_to_string(&stored).unwrap(), old, "nothing to write yet");
    scene.sidecar().clear_replies();
    let _wrapper = scene.start_ready();
    assert_whole_config(&scene, &rendered(&scene));
}

#[test]
fn e18_every_start_fetches_the_config_anew() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    scene.sidecar().set_config(scene.config().with("snapshot-count", 7));
    let _wrapper = scene.start_ready();
    let served = scene.config().with("snapshot-count", 7).render(MEMBER, None, false).unwrap();
    let (_, facts) = scene.stage().wait_for_start(2, LONG);
    assert_eq!(facts.config.unwrap().sha256, sha256(served.as_bytes()));
    assert_eq!(std::fs::read_to_string(scene.home().join("etcd.conf.yaml")).unwrap(), served);
}
