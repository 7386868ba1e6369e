// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Readiness overrides and holds against the real process: who sets them, who ends them, and what they cannot hide.
use std::time::Instant;

use doubles::etcd::{Answer as Told, Failure, Script, Standing};
use rstest::rstest;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bootstrap::stays;
use crate::scene::{LONG, SECOND, Scene, Wrapper, signal};
use crate::verbs::{codes, rendered, written_at};

const HOLD: &str = "/v1/etcd/start?wait=20s&ready=hold&owner=backup-restore&reason=restore";

#[track_caller]
fn delete(wrapper: &Wrapper<'_>, query: &str) -> crate::http::Answer {
    wrapper.caller().call("DELETE", &format!("/v1/readiness{query}"), &[], "")
}

#[track_caller]
fn assert_unready_by_override(wrapper: &Wrapper<'_>) {
    let readyz = wrapper.readyz().unwrap();
    assert_eq!((readyz.status, readyz.header("etcd-wrapper-reason")), (503, Some("override")), "{readyz:?}");
}

#[test]
fn e20_ready_hold_is_on_disk_before_etcd_and_outlives_the_process() {
    let scene = Scene::scripted(Script::default()).flag("--hold");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    assert_eq!(wrapper.caller().post_yaml(HOLD, &rendered(&scene.config())).told(), "200 succeeded");
    let file = scene.state_dir().join("hold");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "owner: backup-restore\nrestore\n");
    let records = scene.stage().records();
    let started =
        records.iter().find(|record| matches!(record.event, doubles::etcd::Event::Started(_))).unwrap();
    assert!(written_at(&file) <= started.at_us);
    assert_unready_by_override(&wrapper);
    let status = wrapper.status();
    assert_eq!(status["wrapper"]["phase"], "running");
    assert_eq!(
        status["readiness"]["override"],
        json!({"mode": "unready", "owner": "backup-restore", "reason": "restore", "expiresAt": null, "durable": true})
    );
    // The process dies in the middle of a restore.
    wrapper.signal(Signal::KILL);
    drop(wrapper);

    let wrapper = scene.start();
    let status = wrapper.wait_phase(LONG, "held");
    assert_eq!(status["wrapper"]["holdReason"], "restore");
    assert_eq!(wrapper.readyz().unwrap().status, 503);
    for path in ["/v1/etcd/start", "/v1/etcd/start?owner=somebody-else"] {
        assert_eq!(wrapper.caller().post(path).told(), "409 override_held", "{path}");
    }
    assert_eq!(scene.stage().starts().len(), 1);
    assert!(file.exists());
    assert_eq!(wrapper.caller().post("/v1/etcd/start?owner=backup-restore&wait=20s").told(), "200 succeeded");
    wrapper.wait_ready();
    wrapper.wait_status(LONG, "the file's removal", |_| !file.exists());
    assert_eq!(scene.sidecar().modes(), ["full"]);
}

#[test]
fn i11_force_passes_a_hold_that_has_an_owner() {
    let scene = Scene::scripted(Script::default());
    scene.leave("hold", "owner: backup-restore\nrestore\n");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    assert_eq!(wrapper.caller().post("/v1/etcd/start").told(), "409 override_held");
    assert_eq!(wrapper.caller().post("/v1/etcd/start?force=true&wait=20s").told(), "200 succeeded");
    wrapper.wait_ready();
    wrapper.wait_status(LONG, "the file's removal", |_| !scene.state_dir().join("hold").exists());
}

/// The start's own refusal, of a hold that nobody could release.
#[test]
fn ready_hold_needs_an_owner() {
    let scene = Scene::scripted(Script::default()).flag("--hold");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    assert_eq!(wrapper.caller().post("/v1/etcd/start?ready=hold").told(), "422 invalid_value");
    assert!(!scene.state_dir().join("hold").exists());
}

#[test]
fn ready_hold_takes_effect_on_a_running_member_and_only_its_owner_ends_it() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let held = wrapper.caller().post(HOLD);
    assert_eq!((held.told().as_str(), &held.json()["changed"]), ("200 succeeded", &json!(false)));
    assert_unready_by_override(&wrapper);
    let file = scene.state_dir().join("hold");
    assert!(file.exists());

    let ttl = json!({"mode": "ready", "ttl": "1m", "owner": "somebody-else"});
    assert_eq!(wrapper.caller().put_readiness(&ttl).told(), "409 override_held");
    assert_eq!(wrapper.caller().put_readiness(&json!({"mode": "auto"})).told(), "409 override_held");
    assert_eq!(delete(&wrapper, "").told(), "409 override_held");
    assert_eq!(delete(&wrapper, "?owner=somebody-else").told(), "409 override_held");
    assert_eq!(
        wrapper.caller().post("/v1/etcd/start?wait=5s").told(),
        "200 succeeded",
        "a plain start ends nothing"
    );
    assert_unready_by_override(&wrapper);
    assert!(file.exists());

    // A restart neither.
    assert_eq!(wrapper.caller().post("/v1/etcd/restart?wait=20s").told(), "200 succeeded");
    assert_unready_by_override(&wrapper);
    assert_ne!(wrapper.etcd_pid(), etcd);
    let renewed =
        json!({"mode": "unready", "ttl": "none", "owner": "backup-restore", "reason": "still at it"});
    let answer = wrapper.caller().put_readiness(&renewed).json();
    assert_eq!(answer["override"]["reason"], "still at it");
    assert_eq!(answer["override"]["durable"], true);
    assert!(std::fs::read_to_string(&file).unwrap().contains("still at it"));

    let released = delete(&wrapper, "?owner=backup-restore");
    assert_eq!((released.status, &released.json()["override"]), (200, &Value::Null));
    wrapper.wait_ready();
    wrapper.wait_status(LONG, "the file's removal", |_| !file.exists());
}

#[test]
fn invariant_13_an_override_ends_with_its_ttl() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let began = Instant::now();
    let body = json!({"mode": "unready", "ttl": "1s", "owner": "me", "reason": "a look"});
    let answer = wrapper.caller().put_readiness(&body);
    let readiness = answer.json();
    assert_eq!(
        (answer.status, &readiness["ready"], &readiness["reason"]),
        (200, &json!(false), &json!("override"))
    );
    assert_eq!(readiness["override"]["owner"], "me");
    assert_eq!(readiness["override"]["durable"], false);
    assert_unready_by_override(&wrapper);
    wrapper.wait_ready_within(3 * SECOND);
    let took = began.elapsed();
    assert!((SECOND..SECOND + SECOND / 2).contains(&took), "{took:?}");
    assert_eq!(wrapper.caller().get("/v1/readiness").json()["override"], Value::Null);
    assert!(!scene.state_dir().join("hold").exists());
}

#[test]
fn an_override_is_renewed_by_its_owner_and_taken_over_by_force_alone() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let put = |owner: &str, ttl: &str, force: bool| {
        let body = json!({"mode": "unready", "ttl": ttl, "owner": owner, "force": force});
        wrapper.caller().put_readiness(&body)
    };
    assert_eq!(put("a", "1s", false).status, 200);
    assert_eq!(put("a", "1h", false).status, 200);
    stays(SECOND + SECOND / 2, "the renewed one stands", || assert_unready_by_override(&wrapper));
    assert_eq!(put("b", "1h", false).told(), "409 override_held");
    assert_eq!(put("b", "1h", true).json()["override"]["owner"], "b");
    assert_eq!(delete(&wrapper, "?owner=a").told(), "409 override_held");
    assert_eq!(delete(&wrapper, "?force=true").status, 200);
    wrapper.wait_ready();
    assert_eq!(delete(&wrapper, "").status, 200, "ending nothing is no fault");
}

#[test]
fn an_override_without_end_warns_and_ends_with_the_process() {
    let scene = Scene::scripted(Script::default());
    let mut wrapper = scene.start_ready();
    let body = json!({"mode": "unready", "ttl": "none", "owner": "me"});
    assert_eq!(wrapper.caller().put_readiness(&body).status, 200);
    assert_unready_by_override(&wrapper);
    let status = wrapper
        .wait_status(SECOND, "the warning", |status| codes(status).contains(&"override_without_end".into()));
    let told = codes(&status).iter().filter(|code| *code == "override_without_end").count();
    assert_eq!(told, 1, "{status}");
    let metrics = wrapper.caller().get("/metrics").body;
    assert!(metrics.contains("etcd_wrapper_override_active{mode=\"unready\"} 1\n"), "{metrics}");
    assert!(metrics.contains("etcd_wrapper_warning_active{code=\"override_without_end\"} 1\n"), "{metrics}");
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(
        scene.marker().as_deref(),
        Some("terminated"),
        "an override has nothing to do with the directory"
    );
    let wrapper = scene.start_ready();
    assert_eq!(wrapper.status()["readiness"]["override"], Value::Null);
}

/// Learner and no quorum: what an operator may overrule.
#[rstest]
#[case::learner(
    Script {
        standing: vec![Standing { learner: true, ..Standing::default() }],
        range: Told::fails(Failure::Learner35),
        ..Script::default()
    },
    "learner"
)]
#[case::no_quorum(
    Script { range: Told::fails(Failure::TimedOut), ..Script::default() },
    "linearizable_read"
)]
fn a_ready_override_masks_the_learner_and_quorum_checks(#[case] script: Script, #[case] reason: &str) {
    let healthy = Script::default();
    let scene = Scene::scripted(if reason == "learner" { script.clone() } else { healthy });
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "running");
    scene.stage().change(script, LONG);
    let readyz = wrapper.wait_readyz(10 * SECOND, 503);
    assert_eq!(readyz.header("etcd-wrapper-reason"), Some(reason));
    // An override needs a member that has answered something, and Status may answer after the phase has changed.
    wrapper.wait_status(LONG, "an answer", |status| status["leader"]["source"].is_string());
    let body = json!({"mode": "ready", "ttl": "1m", "owner": "me", "reason": "known"});
    assert_eq!(wrapper.caller().put_readiness(&body).json()["ready"], true);
    wrapper.wait_ready_within(SECOND);
    assert_eq!(delete(&wrapper, "").status, 200);
    wrapper.wait_readyz(SECOND, 503);
}

/// What an override can never hide: a member that does not answer, that is going, or that is not there.
#[test]
fn d9_a_ready_override_hides_no_frozen_stopping_or_absent_etcd() {
    let scene =
        Scene::scripted(Script { on_term: doubles::etcd::OnSignal::takes(SECOND), ..Script::default() });
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let body = json!({"mode": "ready", "ttl": "1h", "owner": "me"});
    assert_eq!(wrapper.caller().put_readiness(&body).json()["ready"], true);
    signal(etcd, Signal::STOP);
    let readyz = wrapper.wait_readyz(12 * SECOND, 503);
    assert_eq!(readyz.header("etcd-wrapper-reason"), Some("fresh"));
    signal(etcd, Signal::CONT);
    wrapper.wait_ready();

    wrapper.caller().post("/v1/etcd/stop");
    let readyz = wrapper.wait_readyz(SECOND, 503);
    assert_eq!(readyz.header("etcd-wrapper-phase"), Some("stopping"));
    wrapper.wait_phase(LONG, "stopped");
    let status = wrapper.status();
    assert_eq!(status["readiness"]["override"]["mode"], "ready", "it stands, and hides nothing: {status}");
    assert_eq!(wrapper.readyz().unwrap().status, 503);
}

/// The safe direction has no limit of time, the other one has; both have an owner.
#[rstest]
#[case(json!({"mode": "ready", "ttl": "none", "owner": "me"}))]
#[case(json!({"mode": "ready", "owner": "me"}))]
#[case(json!({"mode": "unready", "owner": "me"}))]
#[case(json!({"mode": "unready", "ttl": "1m"}))]
#[case(json!({"mode": "unready", "ttl": "999ms", "owner": "me"}))]
#[case(json!({"mode": "unready", "ttl": "25h", "owner": "me"}))]
#[case(json!({"mode": "auto", "ttl": "1m"}))]
#[case(json!({"mode": "maybe", "ttl": "1m", "owner": "me"}))]
#[case(json!({"ttl": "1m", "owner": "me"}))]
fn an_override_that_breaks_the_rules_sets_nothing(#[case] body: Value) {
    let scene = Scene::scripted(Script::default()).flag("--hold");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let refused = wrapper.caller().put_readiness(&body);
    assert_eq!(refused.told(), "422 invalid_value", "{}", refused.body);
    assert_eq!(wrapper.status()["readiness"]["override"], Value::Null);
}
