// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `POST /v1/etcd/stop` against the real process: etcd goes, the wrapper lives, and the directory is somebody else's.
use std::time::Instant;

use doubles::etcd::{Answer as Told, Failure, OnSignal, Script};
use doubles::sidecar::{Reply, Route};
use rstest::rstest;
use serde_json::{Value, json};

use crate::scene::{LONG, SECOND, Scene, lives, wait_gone};
use crate::verbs::{FOR_EVER, codes, never_ready, terminated_at, written_at};

const STOP: &str = "/v1/etcd/stop";
const WAITING: &str = "/v1/etcd/stop?wait=20s";

#[test]
fn a_stopped_member_says_so_everywhere_and_comes_back_by_a_start() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let answer = wrapper.caller().post(WAITING);
    assert_eq!(answer.told(), "200 succeeded");
    assert_eq!((&answer.json()["kind"], &answer.json()["result"]), (&json!("stop"), &json!(null)));
    assert!(!lives(etcd));
    assert_eq!(scene.stage().signals(etcd), [15]);

    let status = wrapper.status();
    let words = ["phase", "intent", "holdReason"].map(|key| status["wrapper"][key].clone());
    assert_eq!(words, [json!("stopped"), json!("down"), json!(null)]);
    assert_eq!(status["wrapper"]["pid"], wrapper.pid());
    assert_eq!(
        (&status["health"]["diagnosis"], &status["health"]["process"]),
        (&json!("stopped"), &json!("none"))
    );
    let exit = &status["etcd"]["lastExit"];
    assert_eq!(
        (&exit["requested"], &exit["clean"], &exit["cause"]),
        (&json!(true), &json!(true), &json!("stop"))
    );
    assert_eq!(status["leader"]["isLeader"], false);
    let readyz = wrapper.readyz().unwrap();
    assert_eq!(readyz.status, 503);
    assert_eq!(readyz.header("etcd-wrapper-phase"), Some("stopped"));
    assert_eq!(readyz.header("etcd-wrapper-reason"), Some("process"));
    let metrics = wrapper.caller().get("/metrics").body;
    assert!(metrics.contains("etcd_wrapper_phase{phase=\"stopped\"} 1\n"), "{metrics}");
    assert!(metrics.contains("etcd_wrapper_ready 0\n"), "{metrics}");
    assert_eq!(wrapper.caller().get("/livez").status, 200);

    let again = wrapper.caller().post(STOP);
    assert_eq!((again.told().as_str(), again.operation().as_str()), ("200 succeeded", "op-0"));
    assert_eq!(wrapper.caller().post("/v1/etcd/restart").told(), "409 not_running");
    assert_eq!(wrapper.caller().post("/v1/etcd/transfer-leadership").told(), "409 not_running");
    let start = wrapper.caller().post("/v1/etcd/start?wait=20s").json();
    assert_eq!((&start["status"], &start["result"]), (&json!("succeeded"), &json!({"generation": 2})));
    wrapper.wait_ready();
    // Whoever had the directory may have changed it.
    assert_eq!(scene.sidecar().modes(), ["full", "full"]);
}

/// The directory was given away: whatever follows, the next process must not believe in a clean end.
#[rstest]
fn b10_after_a_stop_the_end_of_the_process_leaves_no_marker(#[values(false, true)] while_stopping: bool) {
    let script = Script { on_term: OnSignal::takes(SECOND / 2), ..Script::default() };
    let scene = Scene::scripted(script);
    let mut wrapper = scene.start_ready();
    if while_stopping {
        assert_eq!(wrapper.caller().post(STOP).told(), "202 running");
        terminated_at(&scene);
    } else {
        assert_eq!(wrapper.caller().post(WAITING).told(), "200 succeeded");
    }
    wrapper.terminate();
    assert_eq!(wrapper.wait_exit(LONG), 0);
    assert_eq!(scene.marker(), None);
    let _wrapper = scene.start_ready();
    assert_eq!(scene.sidecar().modes(), ["full", "full"]);
}

#[test]
fn a_plain_stop_does_not_outlive_the_process_and_one_with_hold_does() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    assert_eq!(wrapper.caller().post(WAITING).told(), "200 succeeded");
    drop(wrapper);
    let wrapper = scene.start_ready();
    let answer = wrapper.caller().post_json(WAITING, &json!({"hold": true, "reason": "repair by alice"}));
    assert_eq!(answer.told(), "200 succeeded");
    let stopped = wrapper.status();
    assert_eq!(
        (&stopped["wrapper"]["phase"], &stopped["wrapper"]["holdReason"]),
        (&json!("stopped"), &Value::Null)
    );
    drop(wrapper);
    let wrapper = scene.start();
    let status = wrapper.wait_phase(LONG, "held");
    assert_eq!(status["wrapper"]["holdReason"], "repair by alice");
    assert_eq!(wrapper.caller().post("/v1/etcd/start?wait=20s").told(), "200 succeeded");
    wrapper.wait_status(LONG, "the file's removal", |_| !scene.state_dir().join("hold").exists());
}

#[test]
fn a_stop_with_hold_is_on_disk_before_sigterm() {
    let scene = Scene::scripted(Script { on_term: OnSignal::takes(SECOND), ..Script::default() });
    let wrapper = scene.start_ready();
    let file = scene.state_dir().join("hold");
    let body = json!({"hold": true, "owner": "backup-restore", "reason": "restore"});
    let id = wrapper.caller().post_json(STOP, &body).operation();
    let terminated = terminated_at(&scene);
    let status = wrapper.status();
    assert_eq!(status["wrapper"]["phase"], "stopping", "{status}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "owner: backup-restore\nrestore\n");
    assert!(written_at(&file) <= terminated, "{} {terminated}", written_at(&file));
    assert_eq!(wrapper.wait_operation(&id, LONG)["status"], "succeeded");
    // It has an owner now.
    assert_eq!(wrapper.caller().post("/v1/etcd/start").told(), "409 override_held");
    let other = json!({"hold": true, "owner": "somebody-else"});
    assert_eq!(wrapper.caller().post_json(STOP, &other).told(), "409 override_held");
    assert_eq!(wrapper.caller().post("/v1/etcd/start?owner=backup-restore&wait=20s").told(), "200 succeeded");
}

#[test]
fn a_hold_that_cannot_be_written_refuses_the_stop() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    // Also root cannot put a file in the place of a folder that is not empty.
    std::fs::create_dir_all(scene.state_dir().join("hold/x")).unwrap();
    let refused = wrapper.caller().post_json(WAITING, &json!({"hold": true}));
    assert_eq!(refused.told(), "500 failed", "{}", refused.body);
    assert!(refused.json()["detail"].as_str().unwrap().contains("hold"), "{}", refused.body);
    assert_eq!((wrapper.readyz().unwrap().status, wrapper.etcd_pid()), (200, etcd));
    assert!(scene.stage().signals(etcd).is_empty());
}

#[test]
fn a_forced_stop_asks_nobody_and_counts_as_unclean() {
    let scene = Scene::scripted(Script { on_term: OnSignal::ignored(), ..Script::default() });
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let began = Instant::now();
    let answer = wrapper.caller().post_json(WAITING, &json!({"force": true, "gracePeriod": "1h"}));
    assert_eq!(answer.told(), "200 succeeded");
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    assert!(scene.stage().signals(etcd).is_empty(), "no SIGTERM before SIGKILL");
    let exit = &wrapper.status()["etcd"]["lastExit"];
    assert_eq!(
        (&exit["signal"], &exit["clean"], &exit["requested"]),
        (&json!("SIGKILL"), &json!(false), &json!(true))
    );
}

#[test]
fn a_forced_stop_takes_over_a_gentle_one() {
    let scene = Scene::scripted(Script { on_term: OnSignal::ignored(), ..Script::default() });
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let gentle = wrapper.caller().post_json(STOP, &json!({"gracePeriod": "1h"})).operation();
    terminated_at(&scene);
    assert!(lives(etcd));
    assert_eq!(wrapper.caller().post(STOP).operation(), gentle, "equal stops join");
    let forced = wrapper.caller().post_json(WAITING, &json!({"force": true}));
    assert_eq!(forced.told(), "200 succeeded");
    assert_eq!(wrapper.operation(&gentle)["status"], "superseded");
    assert!(!lives(etcd));
}

/// safety.md 17.
#[test]
fn a_shutdown_shortens_a_long_grace_period_to_its_own() {
    let script = Script { on_term: OnSignal::ignored(), on_quit: OnSignal::ignored(), ..Script::default() };
    let scene = Scene::scripted(script).flag("--grace-period=1s");
    let mut wrapper = scene.start_ready();
    wrapper.caller().post_json(STOP, &json!({"gracePeriod": "1h"}));
    terminated_at(&scene);
    wrapper.terminate();
    let began = Instant::now();
    assert_eq!(wrapper.wait_exit(LONG), 13);
    // SIGQUIT after the grace time, SIGKILL 2 s later, and one more second (invariant 16).
    let took = began.elapsed();
    assert!((3 * SECOND..4 * SECOND).contains(&took), "{took:?}");
    assert_eq!(scene.marker(), None);
}

#[test]
fn a_stop_waits_for_the_sidecars_round_unless_it_is_forced() {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| setup.validation_time(FOR_EVER));
    let wrapper = scene.start();
    scene.sidecar().wait_for_end(Route::Start, 1, LONG);
    let id = wrapper.caller().post_json(STOP, &json!({"hold": true})).operation();
    wrapper.wait_operation_phase(&id, "waiting_sidecar");
    assert_eq!(wrapper.caller().post("/v1/etcd/start").told(), "409 operation_in_progress");
    scene.sidecar().set_status(doubles::sidecar::Status::Successful);
    assert_eq!(wrapper.wait_operation(&id, 10 * SECOND)["status"], "succeeded");
    assert_eq!(wrapper.status()["wrapper"]["phase"], "stopped");
    assert!(scene.stage().starts().is_empty());
}

#[test]
fn a_forced_stop_during_a_round_warns_of_the_sidecar() {
    let scene = Scene::scripted(Script::default()).with_sidecar(|setup| setup.validation_time(FOR_EVER));
    let wrapper = scene.start();
    scene.sidecar().wait_for_end(Route::Start, 1, LONG);
    assert_eq!(wrapper.caller().post_json(WAITING, &json!({"force": true})).told(), "200 succeeded");
    assert_eq!(wrapper.status()["wrapper"]["phase"], "stopped");
    wrapper.wait_status(SECOND, "sidecar_busy", |status| codes(status).contains(&"sidecar_busy".into()));
    let metrics = wrapper.caller().get("/metrics").body;
    assert!(metrics.contains("etcd_wrapper_warning_active{code=\"sidecar_busy\"} 1\n"), "{metrics}");
}

/// Somebody restores beside a stopped member: everybody is told, within one look of 5 s.
#[test]
fn stopped_watches_the_sidecar_and_the_locks() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    assert_eq!(wrapper.caller().post(WAITING).told(), "200 succeeded");
    assert!(wrapper.warnings().is_empty(), "{:?}", wrapper.warnings());
    let db = std::fs::File::open(scene.data_dir().join("member/snap/db")).unwrap();
    rustix::fs::flock(&db, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    scene.sidecar().set_default(Route::Status, Some(Reply::text("Progress")));
    let status = wrapper.wait_status(8 * SECOND, "both warnings", |status| {
        ["sidecar_busy", "lock_held"].iter().all(|code| codes(status).contains(&(*code).into()))
    });
    assert_eq!(status["bootstrap"]["sidecarState"], "Progress");
    drop(db);
    scene.sidecar().clear_replies();
    wrapper.wait_status(8 * SECOND, "no warning", |status| codes(status).is_empty());
    assert_eq!(scene.sidecar().modes(), ["full"], "asked for nothing");
}

#[test]
fn a_stop_ends_the_pause_after_a_crash() {
    let end = doubles::etcd::Ending::after_ready(SECOND / 2, doubles::etcd::How::Exit(2));
    let scene =
        Scene::scripted(Script { end: Some(end), ..Script::default() }).flag("--on-etcd-exit=restart");
    let wrapper = scene.start_ready();
    wrapper.wait_phase(LONG, "backoff");
    assert_eq!(wrapper.caller().post(WAITING).told(), "200 succeeded");
    crate::bootstrap::stays(2 * SECOND, "stopped", || {
        assert_eq!(wrapper.status()["wrapper"]["phase"], "stopped");
    });
    assert_eq!(scene.stage().starts().len(), 1);
}

#[test]
fn a_stop_supersedes_a_start() {
    let scene = Scene::scripted(never_ready()).flag("--hold");
    let wrapper = scene.start();
    wrapper.wait_phase(LONG, "held");
    let start = wrapper.caller().post("/v1/etcd/start").operation();
    wrapper.wait_phase(LONG, "starting");
    let stop = wrapper.caller().post(WAITING);
    assert_eq!(stop.told(), "200 succeeded");
    let superseded = wrapper.operation(&start);
    assert_eq!((&superseded["status"], &superseded["problem"]), (&json!("superseded"), &json!(null)));
    assert_eq!(wrapper.status()["wrapper"]["phase"], "stopped");
}

#[test]
fn a_stop_supersedes_a_restart_that_fetches() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    scene.sidecar().set_default(Route::Config, Some(Reply::never()));
    let restart = wrapper.caller().post("/v1/etcd/restart").operation();
    wrapper.wait_operation_phase(&restart, "fetching");
    assert_eq!(wrapper.status()["wrapper"]["phase"], "running");
    assert_eq!(wrapper.readyz().unwrap().status, 200, "fetching takes nothing from a running member");
    assert_eq!(wrapper.caller().post(WAITING).told(), "200 succeeded");
    assert_eq!(wrapper.operation(&restart)["status"], "superseded");
    wait_gone(etcd, SECOND);
    assert_eq!(scene.stage().starts().len(), 1);
}

#[test]
fn two_conflicting_verbs_at_once_end_as_the_higher_one_says() {
    let scene = Scene::scripted(Script { on_term: OnSignal::takes(SECOND / 5), ..Script::default() });
    let wrapper = scene.start_ready();
    let calls = ["/v1/etcd/restart?wait=20s", WAITING].map(|path| {
        let caller = wrapper.caller();
        std::thread::spawn(move || caller.post(path))
    });
    let [restart, stop] = calls.map(|call| call.join().unwrap());
    assert_eq!(stop.told(), "200 succeeded");
    assert!(
        ["200 superseded", "409 operation_in_progress", "409 not_running"].contains(&restart.told().as_str())
    );
    let status = wrapper.status();
    assert_eq!((&status["wrapper"]["phase"], &status["etcd"]["generation"]), (&json!("stopped"), &json!(1)));
}

#[test]
fn a_generation_that_has_passed_refuses_a_stop() {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let refused = wrapper.caller().post_json(WAITING, &json!({"ifGeneration": 7}));
    assert_eq!(refused.told(), "412 generation_mismatch");
    assert_eq!(refused.json()["generation"], 1);
    assert_eq!(wrapper.readyz().unwrap().status, 200);
    assert_eq!(wrapper.caller().post_json(WAITING, &json!({"ifGeneration": 1})).told(), "200 succeeded");
}

/// One of three, alone: its peers are known and none of them is active.
#[test]
fn the_last_healthy_voter_refuses_a_stop_and_guard_none_lets_it_go() {
    let lonely = Script { active_peers: Some(Vec::new()), ..Script::default() };
    let scene = Scene::scripted(lonely);
    let cluster = format!(
        "etcd-main-0=http://127.0.0.1:{},etcd-main-1=http://127.0.0.2:2380,etcd-main-2=http://127.0.0.3:2380",
        scene.peer_port()
    );
    let config = scene.config().with("initial-cluster", cluster);
    let scene = scene.with_config(config);
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    // Force is about the way etcd ends, not about the cluster.
    for body in [json!({}), json!({"force": true}), json!({"guard": "quorum", "hold": true})] {
        let refused = wrapper.caller().post_json(WAITING, &body);
        assert_eq!(refused.told(), "409 would_break_quorum", "{body}");
    }
    assert_eq!(wrapper.caller().post("/v1/etcd/restart").told(), "409 would_break_quorum");
    assert!(!scene.state_dir().join("hold").exists());
    assert_eq!((wrapper.readyz().unwrap().status, wrapper.etcd_pid()), (200, etcd));
    assert_eq!(wrapper.caller().post_json(WAITING, &json!({"guard": "none"})).told(), "200 succeeded");
}

#[test]
fn what_cannot_be_known_of_the_quorum_refuses_a_stop() {
    let script = Script { member_list: Told::fails(Failure::UserEmpty), ..Script::default() };
    let scene = Scene::scripted(script);
    let wrapper = scene.start_ready();
    assert_eq!(wrapper.caller().post(WAITING).told(), "409 guard_unknown");
    assert_eq!(wrapper.readyz().unwrap().status, 200);
    assert_eq!(wrapper.caller().post_json(WAITING, &json!({"guard": "none"})).told(), "200 succeeded");
}

/// Whole kinds of bad requests; etcd does not notice any of them.
#[rstest]
#[case::unknown_field(r#"{"gracePeriode": "1s"}"#, "400 unknown_field")]
#[case::wrong_type(r#"{"gracePeriod": 5}"#, "422 invalid_value")]
#[case::too_long(r#"{"gracePeriod": "25h"}"#, "422 invalid_value")]
#[case::no_such_guard(r#"{"guard": "maybe"}"#, "422 invalid_value")]
#[case::owner_without_hold(r#"{"owner": "me"}"#, "422 invalid_value")]
#[case::no_json("guard=none", "400 bad_request")]
fn a_stop_that_cannot_be_understood_stops_nothing(#[case] body: &str, #[case] told: &str) {
    let scene = Scene::scripted(Script::default());
    let wrapper = scene.start_ready();
    let etcd = wrapper.etcd_pid();
    let headers = [("content-type", "application/json")];
    assert_eq!(wrapper.caller().call("POST", STOP, &headers, body).told(), told);
    let wrong_type = [("content-type", "text/plain")];
    let refused = wrapper.caller().call("POST", STOP, &wrong_type, "{}");
    assert_eq!(refused.told(), "415 unsupported_media_type");
    let large = format!("{{\"reason\": \"{}\"}}", "x".repeat(70_000));
    assert_eq!(wrapper.caller().call("POST", STOP, &headers, &large).told(), "413 too_large");
    assert_eq!(wrapper.caller().post("/v1/etcd/stop?force").told(), "400 unknown_field");
    assert!(scene.stage().signals(etcd).is_empty());
    assert_eq!((wrapper.readyz().unwrap().status, wrapper.etcd_pid()), (200, etcd));
}
