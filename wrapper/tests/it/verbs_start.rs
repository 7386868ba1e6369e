// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `POST /v1/etcd/start` against the real process: posted configurations, and when a start is refused.
use std::time::{Duration, SystemTime};

use doubles::etcd::{Ending, How, Script};
use doubles::sidecar::{End, Reply, Route};
use rstest::rstest;
use serde_json::json;

use crate::bootstrap::stays;
use crate::scene::{LONG, SECOND, Scene};
use crate::verbs::{FOR_EVER, elsewhere, never_ready, rendered};

const START: &str = "/v1/etcd/start";
const WAITING: &str = "/v1/etcd/start?wait=20s";

/// A scripted etcd, and a wrapper that waits for somebody to say `start`.
fn held() -> Scene {
    Scene::scripted(Script::default()).flag("--hold")
}

#[rstest]
#[case::by_name(&[("content-type", "application/yaml")])]
#[case::without_a_type(&[])]
#[case::as_curl_says(&[("content-type", "application/x-www-form-urlencoded")])]
fn a_posted_configuration_is_given_to_etcd_byte_for_byte(#[case] headers: &[(&str, &str)]) {
    let scene = held();
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let config = format!("# from an agent\n{}", rendered(&elsewhere(&scene)));
    let answer = wrapper.caller().call("POST", WAITING, headers, &config);
    assert_eq!(answer.told(), "200 succeeded", "{}", answer.body);
    let operation = answer.json();
    assert_eq!((&operation["kind"], &operation["changed"]), (&json!("start"), &json!(true)));
    assert_eq!(operation["result"], json!({"generation": 1}));
    assert_eq!(wrapper.operation(operation["id"].as_str().unwrap()), operation);

    let status = wrapper.status();
    let (_, facts) = scene.stage().wait_for_start(1, SECOND);
    let digest = facts.config.unwrap().sha256;
    assert_eq!(status["etcd"]["configDigest"], format!("sha256:{digest}"));
    assert_eq!(digest, doubles::etcd::record::sha256(config.as_bytes()));
    assert_eq!(status["etcd"]["configSource"], "posted");
    let data_dir = scene.state_dir().join("restored.etcd");
    assert_eq!(status["etcd"]["effective"]["dataDir"], data_dir.display().to_string());
    // The agent answers for the data: nothing was validated, nothing was fetched.
    assert!(scene.sidecar().modes().is_empty());
    assert!(scene.sidecar().calls(Route::Config).is_empty());
}

#[test]
fn a_start_without_a_body_is_the_bootstrap_of_a_process_start() {
    let scene = held();
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    assert_eq!(wrapper.caller().post("/v1/etcd/start?wait=20s&validation=sanity").told(), "200 succeeded");
    assert_eq!(wrapper.status()["etcd"]["configSource"], "sidecar");
    assert_eq!(scene.sidecar().modes(), ["sanity"]);
}

#[test]
fn a_posted_configuration_is_validated_by_the_sidecar_when_that_is_asked_for() {
    let scene = held();
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let config = rendered(&scene.config());
    let answer = wrapper.caller().post_yaml("/v1/etcd/start?wait=20s&validation=full", &config);
    assert_eq!(answer.told(), "200 succeeded");
    assert_eq!(scene.sidecar().modes(), ["full"]);
    assert_eq!(wrapper.status()["etcd"]["configSource"], "posted");
    assert!(scene.sidecar().calls(Route::Config).is_empty());
}

#[test]
fn a16_a_sidecar_that_is_seen_in_progress_refuses_a_posted_start() {
    let scene = held();
    scene.sidecar().set_default(Route::Status, Some(Reply::text("Progress")));
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let config = rendered(&scene.config());
    assert_eq!(wrapper.caller().post_yaml(WAITING, &config).told(), "409 initialization_in_progress");
    assert_eq!(
        wrapper.caller().post("/v1/etcd/start?validation=none").told(),
        "409 initialization_in_progress"
    );
    assert_eq!(wrapper.status()["wrapper"]["phase"], "held");
    assert_eq!(wrapper.status()["operation"], json!(null));
    assert!(scene.stage().starts().is_empty());
    let forced = wrapper.caller().post_yaml("/v1/etcd/start?wait=20s&force=true", &config);
    assert_eq!(forced.told(), "200 succeeded");
}

/// What cannot be known is as bad as `Progress`; a sidecar that is not there cannot be at work.
#[rstest]
#[case::a_5xx(Some(Reply::code(500)))]
#[case::cut(Some(Reply { end: End::AfterHead, effect: Some(false), ..Reply::default() }))]
#[case::silent(Some(Reply { end: End::Never, ..Reply::default() }))]
#[case::refusing(None)]
fn a16_a_sidecar_that_does_not_say_refuses_a_posted_start_unless_it_is_gone(#[case] reply: Option<Reply>) {
    let mut scene = held();
    match &reply {
        Some(reply) => scene.sidecar().set_default(Route::Status, Some(reply.clone())),
        None => scene.sidecar.as_mut().unwrap().stop(),
    }
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let answer = wrapper.caller().post_yaml(WAITING, &rendered(&scene.config()));
    match reply {
        Some(_) => {
            assert_eq!(answer.told(), "409 initialization_in_progress");
            assert!(scene.stage().starts().is_empty());
        }
        None => assert_eq!(answer.told(), "200 succeeded"),
    }
}

#[test]
fn a16_a_round_of_our_own_refuses_a_posted_start_and_goes_on() {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| setup.validation_time(FOR_EVER));
    let wrapper = scene.start();
    scene.sidecar().wait_for_end(Route::Start, 1, LONG);
    let config = rendered(&elsewhere(&scene));
    assert_eq!(wrapper.caller().post_yaml(WAITING, &config).told(), "409 initialization_in_progress");
    assert_eq!(wrapper.status()["wrapper"]["phase"], "initializing");
    assert!(scene.stage().starts().is_empty());
    let forced = wrapper.caller().post_yaml("/v1/etcd/start?wait=20s&force=true", &config);
    assert_eq!(forced.told(), "200 succeeded");
    assert_eq!(wrapper.status()["etcd"]["configSource"], "posted");
    assert_eq!(scene.sidecar().modes(), ["full"], "one round, never asked for again");
}

#[test]
fn a16_a_round_that_an_earlier_process_began_refuses_a_posted_start() {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| setup.validation_time(FOR_EVER));
    let wrapper = scene.start();
    scene.sidecar().wait_for_end(Route::Start, 1, LONG);
    drop(wrapper);
    scene.leave("hold", "by hand");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let answer = wrapper.caller().post_yaml(WAITING, &rendered(&scene.config()));
    assert_eq!(answer.told(), "409 initialization_in_progress");
    assert!(scene.stage().starts().is_empty());
    assert!(scene.state_dir().join("hold").exists());
}

#[test]
fn a_posted_start_takes_the_place_of_our_own_bootstrap() {
    let mut scene = Scene::scripted(Script::default());
    scene.sidecar.as_mut().unwrap().stop();
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "initializing");
    assert_eq!(wrapper.caller().post_yaml(WAITING, &rendered(&scene.config())).told(), "200 succeeded");
    assert_eq!(wrapper.status()["etcd"]["configSource"], "posted");
    wrapper.wait_ready();
}

#[test]
fn a_running_etcd_is_left_alone_by_every_start() {
    let scene = held();
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let config = rendered(&scene.config());
    wrapper.caller().post_yaml(WAITING, &config);
    wrapper.wait_ready();
    let etcd = wrapper.etcd_pid();
    for same in [wrapper.caller().post_yaml(WAITING, &config), wrapper.caller().post(START)] {
        let operation = same.json();
        assert_eq!((same.told().as_str(), &operation["changed"]), ("200 succeeded", &json!(false)));
        assert_eq!(operation["id"], "op-0");
    }
    let other = format!("{config}# one byte more\n");
    assert_eq!(wrapper.caller().post_yaml(WAITING, &other).told(), "409 config_differs");
    let status = wrapper.status();
    assert_eq!((status["etcd"]["generation"].as_u64(), wrapper.etcd_pid()), (Some(1), etcd));
    assert!(scene.stage().signals(etcd).is_empty());
}

#[test]
fn a_generation_that_has_passed_refuses_a_start() {
    let scene = held();
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let refused = wrapper.caller().post("/v1/etcd/start?ifGeneration=1");
    assert_eq!(refused.told(), "412 generation_mismatch");
    assert_eq!(refused.json()["generation"], 0);
    assert_eq!(wrapper.caller().post("/v1/etcd/start?ifGeneration=0&wait=20s").told(), "200 succeeded");
}

#[test]
fn equal_starts_join_and_another_one_is_refused() {
    let scene = Scene::scripted(never_ready()).flag("--hold");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let config = rendered(&scene.config());
    let first = wrapper.caller().post_yaml(START, &config).operation();
    assert_eq!(wrapper.caller().post_yaml(START, &config).operation(), first);
    for other in [
        wrapper.caller().post_yaml("/v1/etcd/start?validation=full", &config),
        wrapper.caller().post_yaml(START, &rendered(&elsewhere(&scene))),
        wrapper.caller().post(START),
        wrapper.caller().post("/v1/etcd/restart"),
    ] {
        assert_eq!(other.told(), "409 operation_in_progress");
    }
    assert_eq!(wrapper.operation(&first)["status"], "running");
}

/// The refusals that need a look at the disk, or into the configuration; nothing is left behind by any of them.
#[rstest]
#[case::no_yaml("name: [", "422 config_invalid")]
#[case::empty_mapping("{}", "422 config_invalid")]
#[case::port_0("listen-client-urls: http://127.0.0.1:0", "422 config_invalid")]
#[case::the_state_dir("data-dir: STATE", "422 data_dir_refused")]
#[case::the_root("data-dir: /", "422 data_dir_refused")]
#[case::no_certificate(
    "client-transport-security: {cert-file: /nowhere/tls.crt, key-file: /nowhere/tls.key}",
    "422 file_unreadable"
)]
fn a_posted_configuration_that_cannot_be_used_is_refused(#[case] change: &str, #[case] told: &str) {
    let scene = held();
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let config = match change.split_once(": ") {
        Some((key, value)) if !value.starts_with('[') => {
            let value = value.replace("STATE", &scene.state_dir().display().to_string());
            format!("{}{key}: {value}\n", rendered(&scene.config().without(key)))
        }
        _ => change.to_owned(),
    };
    let refused = wrapper.caller().post_yaml("/v1/etcd/start?wait=20s&ready=hold&owner=me", &config);
    assert_eq!(refused.told(), told, "{}", refused.body);
    assert!(!scene.state_dir().join("hold").exists(), "a refused start sets nothing");
    let status = wrapper.status();
    assert_eq!(
        (&status["wrapper"]["phase"], &status["readiness"]["override"]),
        (&json!("held"), &json!(null))
    );
    assert!(scene.stage().starts().is_empty());
}

#[test]
fn a_misspelled_key_is_told_with_the_key_that_was_meant() {
    let scene = held();
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let config = rendered(&scene.config()).replace("data-dir", "data-dri");
    let refused = wrapper.caller().post_yaml(WAITING, &config).json();
    assert_eq!(
        (&refused["code"], &refused["errors"][0]["pointer"]),
        (&json!("config_invalid"), &json!("/data-dir"))
    );
    let suggestion = refused["errors"][0]["suggestion"].as_str().unwrap();
    assert!(suggestion.contains("data-dir") && suggestion.contains("data-dri"), "{refused}");
}

#[test]
fn a_configuration_is_looked_at_without_doing_anything_with_it() {
    let scene = held();
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let good = rendered(&scene.config());
    let validation = wrapper.caller().post_yaml("/v1/config/validate", &good).json();
    assert_eq!((&validation["valid"], &validation["findings"]), (&json!(true), &json!([])));
    let digest = format!("sha256:{}", doubles::etcd::record::sha256(good.as_bytes()));
    assert_eq!(validation["digest"], digest);
    let bad = wrapper.caller().post_yaml("/v1/config/validate", "name: a\n");
    assert_eq!((bad.status, &bad.json()["valid"]), (200, &json!(false)));
    assert_eq!(wrapper.caller().post("/v1/config/validate").told(), "400 bad_request");
    let large = format!("# {}\n{good}", "x".repeat(1 << 20));
    assert_eq!(wrapper.caller().post_yaml("/v1/config/validate", &large).told(), "413 too_large");
    assert_eq!(wrapper.caller().post_yaml(WAITING, &large).told(), "413 too_large");
    assert_eq!(wrapper.status()["wrapper"]["phase"], "held");
    assert!(scene.stage().starts().is_empty());
}

/// Whatever the policy says: nobody but the agent can know whether the same configuration may be started again.
#[rstest]
fn a_posted_generation_that_ends_by_itself_ends_the_process(#[values("exit", "restart")] policy: &str) {
    let end = Ending::after_ready(SECOND / 2, How::Exit(2));
    let scene = Scene::scripted(Script { end: Some(end), ..Script::default() })
        .flag("--hold")
        .flag(format!("--on-etcd-exit={policy}"));
    let mut wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    wrapper.caller().post_yaml(START, &rendered(&scene.config()));
    assert_eq!(wrapper.wait_exit(LONG), 10);
    assert_eq!(scene.stage().starts().len(), 1);
    assert_eq!(scene.marker(), None);
}

#[rstest]
#[case::another_directory("data-dir", "restored.etcd")]
#[case::without_fsync("unsafe-no-fsync", "true")]
fn b8_a_posted_generation_that_ends_cleanly_says_nothing_of_the_directory(
    #[case] key: &str,
    #[case] value: &str,
) {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker().as_deref(), Some("terminated"));

    let mut command = scene.command();
    command.arg("--hold");
    let mut wrapper = scene.start_command(command);
    wrapper.wait_phase(LONG, "held");
    let config = match key {
        "data-dir" => scene.config().with(key, scene.state_dir().join(value).display().to_string()),
        _ => scene.config().with(key, value.parse::<bool>().unwrap()),
    };
    assert_eq!(wrapper.caller().post_yaml(WAITING, &rendered(&config)).told(), "200 succeeded");
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker(), None);

    let _wrapper = scene.start_ready();
    assert_eq!(scene.sidecar().modes(), ["full", "full"]);
}

#[test]
fn a_caller_that_hangs_up_has_started_etcd_all_the_same() {
    use std::io::Write as _;
    let scene = held();
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let config = rendered(&scene.config());
    let mut stream = wrapper.caller().connect().unwrap();
    let (host, length) = (scene.api_addr(), config.len());
    write!(stream, "POST {WAITING} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n\r\n{config}")
        .unwrap();
    // The operation is there before the caller leaves.
    wrapper.wait_status(LONG, "the operation", |status| status["operation"]["kind"] == "start");
    drop(stream);
    wrapper.wait_ready();
    assert_eq!(wrapper.operation(&wrapper.first_operation())["status"], "succeeded");
}

/// Half a body starts nothing, however long the caller thinks about the rest.
#[test]
fn half_a_body_starts_nothing() {
    use std::io::Write as _;
    let scene = held();
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let config = rendered(&scene.config());
    let mut stream = wrapper.caller().connect().unwrap();
    let host = scene.api_addr();
    let length = config.len() + 1;
    write!(stream, "POST {START} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n\r\n{config}")
        .unwrap();
    stays(SECOND, "held", || assert_eq!(wrapper.status()["wrapper"]["phase"], "held"));
    drop(stream);
    wrapper.wait_log(5 * SECOND, "bad_request");
    assert!(scene.stage().starts().is_empty());
}

/// The figure of the project: from the accepted start to etcd's exec 10 ms.
#[test]
fn an_accepted_start_is_carried_out_at_once() {
    let scene = held();
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let config = rendered(&scene.config());
    let mut spans = Vec::new();
    for _ in 0..7 {
        let operation = wrapper.caller().post_yaml(WAITING, &config).json();
        let time = |text: &serde_json::Value| humantime::parse_rfc3339(text.as_str().unwrap()).unwrap();
        let (accepted, ready) = (time(&operation["startedAt"]), time(&operation["finishedAt"]));
        let spawned = time(&wrapper.status()["etcd"]["startedAt"]);
        let since = |at: SystemTime| at.duration_since(accepted).unwrap_or_default();
        spans.push((since(spawned), since(ready)));
        assert_eq!(wrapper.caller().post("/v1/etcd/stop?wait=20s").told(), "200 succeeded");
    }
    spans.sort();
    eprintln!("accepted to exec, accepted to running: {spans:?}");
    // The best of them, with room: other tests run beside this one. A pause on the way would show.
    assert!(spans[0].0 < Duration::from_millis(250), "{spans:?}");
}
