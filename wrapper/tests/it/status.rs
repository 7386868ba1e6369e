// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `/v1/status` against every key of the wire's documents, in the phases of a life: no key is missing, none is of
//! another type, and what cannot be known is null.
mod shape;

use doubles::etcd::{OnSignal, Script};
use doubles::sidecar::{Reply, Route};
use rustix::process::Signal;
use serde_json::Value;

use crate::scene::{LONG, SECOND, Scene, signal};

use shape::{LEADER, READINESS, STATUS, fits};

/// Everything below these keys is null: there is no etcd that it could be about.
#[track_caller]
fn nothing_of_a_child(status: &Value) {
    for key in ["pid", "startedAt", "readySince", "configDigest", "configSource", "effective", "db"] {
        assert!(status["etcd"][key].is_null(), "etcd/{key} is {}", status["etcd"][key]);
    }
    for key in ["memberId", "memberName", "leaderId", "term", "isLearner", "age", "source"] {
        assert!(status["leader"][key].is_null(), "leader/{key} is {}", status["leader"][key]);
    }
    assert!(status["member"].is_null(), "{}", status["member"]);
    assert_eq!(status["leader"]["isLeader"], false);
    assert_eq!(status["readiness"]["ready"], false);
    assert_eq!(status["health"]["member"], "unknown");
    assert_eq!(status["health"]["quorum"], "unknown");
    assert_eq!(status["health"]["role"], "unknown");
}

#[test]
fn every_key_of_status_is_there_in_held() {
    let scene = Scene::real("3.5");
    scene.leave("hold", "do not touch\n");
    let wrapper = scene.start();
    let status = wrapper.wait_status(LONG, "held, sidecar read", |status| {
        status["wrapper"]["phase"] == "held" && status["bootstrap"]["sidecarState"] == "New"
    });
    fits(&status, STATUS, "");
    nothing_of_a_child(&status);
    assert_eq!(status["wrapper"]["holdReason"], "do not touch");
    assert_eq!(status["bootstrap"]["state"], "idle");
    assert_eq!(status["etcd"]["generation"], 0);
    assert_eq!(status["etcd"]["lastExit"], Value::Null);
    assert_eq!(status["health"]["diagnosis"], "held");
    assert_eq!(status["health"]["process"], "none");
}

#[test]
fn every_key_of_status_is_there_in_initializing() {
    let progress = Reply::text("Progress");
    let scene = Scene::real("3.5").with_sidecar(|setup| setup.always(Route::Status, progress));
    let wrapper = scene.start();
    let status =
        wrapper.wait_status(LONG, "Progress", |status| status["bootstrap"]["sidecarState"] == "Progress");
    fits(&status, STATUS, "");
    nothing_of_a_child(&status);
    assert_eq!(status["wrapper"]["phase"], "initializing");
    assert_eq!(status["wrapper"]["intent"], "up");
    assert_eq!(status["wrapper"]["holdReason"], Value::Null);
    assert_eq!(status["bootstrap"]["state"], "initializing");
    assert_eq!(status["bootstrap"]["validation"], Value::Null, "nothing was asked for");
    assert_eq!(status["bootstrap"]["rounds"], 0);
    assert_eq!(status["health"]["diagnosis"], "bootstrapping");
}

#[test]
fn every_key_of_status_is_there_in_running() {
    let scene = Scene::real("3.5");
    let wrapper = scene.start_ready();
    let status = wrapper.wait_status(LONG, "all that can be known", |status| {
        ["db", "readySince", "version"].iter().all(|key| !status["etcd"][key].is_null())
            && !status["member"].is_null()
            && !status["leader"]["term"].is_null()
            && !status["volume"].is_null()
    });
    fits(&status, STATUS, "");
    let etcd = &status["etcd"];
    for key in ["pid", "startedAt", "configDigest", "configSource", "effective"] {
        assert!(!etcd[key].is_null(), "etcd/{key}");
    }
    assert_eq!((&etcd["generation"], &etcd["lastExit"]), (&1.into(), &Value::Null));
    let served = std::fs::read(scene.home().join("etcd.conf.yaml")).unwrap();
    assert_eq!(etcd["configDigest"], digest(&served));
    assert_eq!(etcd["configSource"], "sidecar");
    let effective = &etcd["effective"];
    let peer_url = format!("http://127.0.0.1:{}", scene.peer_port());
    assert_eq!(effective["name"], scene.member());
    assert_eq!(effective["dataDir"], scene.data_dir().to_str().unwrap());
    assert_eq!(effective["listenPeerUrls"], serde_json::json!([peer_url]));
    assert_eq!(effective["advertisePeerUrls"], serde_json::json!([peer_url]));
    assert_eq!((&effective["peerTls"], &effective["clientTls"]), (&false.into(), &false.into()));
    assert_eq!(status["member"]["peerUrls"], serde_json::json!([peer_url]));
    assert_eq!(status["member"]["id"], status["leader"]["memberId"]);
    assert_eq!(status["leader"]["leaderId"], status["leader"]["memberId"]);
    assert_eq!(status["leader"]["isLeader"], true);
    assert_eq!(status["leader"]["index"], status["index"]);
    assert_eq!(status["leader"]["epoch"], status["epoch"]);
    assert_eq!(status["bootstrap"]["state"], "done");
    assert_eq!(status["bootstrap"]["validation"], "full");
    assert_eq!(status["bootstrap"]["rounds"], 1);
    assert_eq!(status["bootstrap"]["sidecarState"], "Successful");
    assert_eq!(status["health"]["diagnosis"], "healthy");
    assert_eq!(status["health"]["process"], "alive");
    assert_eq!(status["health"]["role"], "leader");
    assert!(etcd["db"]["quota"].as_u64().unwrap() == 2 << 30, "{}", etcd["db"]);
}

#[test]
fn every_key_of_status_is_there_after_a_crash() {
    let scene = Scene::real("3.5").flag("--on-etcd-exit=restart");
    let wrapper = scene.start_ready();
    let version = wrapper.wait_status(LONG, "a version", |status| status["etcd"]["version"].is_string());
    signal(wrapper.etcd_pid(), Signal::KILL);
    let status = wrapper.wait_status(SECOND, "backoff, and a view without a child", |status| {
        status["wrapper"]["phase"] == "backoff" && status["member"].is_null()
    });
    fits(&status, STATUS, "");
    nothing_of_a_child(&status);
    assert_eq!(status["wrapper"]["intent"], "up");
    assert_eq!(status["etcd"]["version"], version["etcd"]["version"], "of the binary");
    assert_eq!(status["etcd"]["generation"], 1);
    let exit = &status["etcd"]["lastExit"];
    assert_eq!((&exit["kind"], &exit["signal"]), (&"signaled".into(), &"SIGKILL".into()));
    assert_eq!((&exit["code"], &exit["requested"]), (&Value::Null, &false.into()));
    assert_eq!((&exit["clean"], &exit["cause"]), (&false.into(), &"crash".into()));
    assert_eq!(exit["generation"], 1);
    assert_eq!(status["health"]["diagnosis"], "backoff");
    assert_eq!(status["health"]["process"], "dead", "nobody had asked for it");

    let status = wrapper.wait_status(LONG, "the next one", |status| {
        status["wrapper"]["phase"] == "running" && status["leader"]["isLeader"] == true
    });
    fits(&status, STATUS, "");
    assert_eq!(status["etcd"]["generation"], 2);
    assert_eq!(status["etcd"]["lastExit"]["generation"], 1);
    assert_eq!(status["bootstrap"]["validation"], "full");
    assert_eq!(status["health"]["process"], "alive");
}

#[test]
fn every_key_of_status_is_there_on_the_way_down() {
    let scene = Scene::scripted(Script { on_term: OnSignal::takes(2 * SECOND), ..Script::default() });
    let wrapper = scene.start_ready();
    wrapper.wait_status(LONG, "leading", |status| status["leader"]["isLeader"] == true);
    wrapper.terminate();
    let status = wrapper.wait_status(SECOND, "a stop", |status| status["wrapper"]["intent"] == "exit");
    fits(&status, STATUS, "");
    assert_eq!((&status["leader"]["isLeader"], &status["leader"]["leaving"]), (&false.into(), &true.into()));
    assert_eq!(status["readiness"]["ready"], false);
    assert_eq!(status["health"]["diagnosis"], "draining");
    assert_eq!(status["health"]["process"], "alive");
    assert!(status["etcd"]["pid"].is_u64(), "it still ends");
}

fn digest(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[test]
fn leader_and_readiness_are_the_parts_of_status_on_their_own() {
    let scene = Scene::real("3.5");
    let wrapper = scene.start_ready();
    wrapper.wait_status(LONG, "leading", |status| status["leader"]["isLeader"] == true);
    let leader = wrapper.caller().get("/v1/leader");
    assert_eq!((leader.status, leader.header("content-type")), (200, Some("application/json")));
    fits(&leader.json(), LEADER, "");
    let readiness = wrapper.caller().get("/v1/readiness").json();
    fits(&readiness, READINESS, "");
    assert_eq!(readiness["ready"], true);
}
