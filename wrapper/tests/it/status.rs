// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `/v1/status` against every key of the wire's documents, in the phases of a life: no key is missing, none is of
//! another type, and what cannot be known is null.
//!
//! Long: one document, looked at in every phase and key by key.
use doubles::etcd::{OnSignal, Script};
use doubles::sidecar::{Reply, Route};
use rustix::process::Signal;
use serde_json::Value;

use crate::scene::{LONG, SECOND, Scene, signal};

/// A key's type; the second part of each pair says whether it may be null.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Time,
    Hex,
    Duration,
    Number,
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    Texts,
    Of(&'static [(&'static str, Kind, Null)]),
    Each(&'static [(&'static str, Kind, Null)]),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Null {
    Never,
    Maybe,
}

use Kind::{Duration, Each, Flag, Hex, Number, Of, Text, Texts, Time, Word};
use Null::{Maybe, Never};

type Shape = &'static [(&'static str, Kind, Null)];

const STATUS: Shape = &[
    ("epoch", Text, Never),
    ("index", Number, Never),
    ("time", Time, Never),
    ("wrapper", Of(WRAPPER), Never),
    ("etcd", Of(ETCD), Never),
    ("bootstrap", Of(BOOTSTRAP), Never),
    ("member", Of(&[("id", Hex, Never), ("peerUrls", Texts, Never)]), Maybe),
    ("volume", Of(&[("freeBytes", Number, Never), ("freeInodes", Number, Never)]), Maybe),
    ("readiness", Of(READINESS), Never),
    ("leader", Of(LEADER), Never),
    ("health", Of(HEALTH), Never),
    ("operation", Of(OPERATION), Maybe),
    ("warnings", Each(&[("code", Text, Never), ("since", Time, Never), ("detail", Text, Never)]), Never),
];
const WRAPPER: Shape = &[
    ("version", Text, Never),
    ("pid", Number, Never),
    ("startedAt", Time, Never),
    ("intent", Word(&["up", "down", "exit"]), Never),
    ("phase", Word(PHASES), Never),
    ("phaseSince", Time, Never),
    ("holdReason", Text, Maybe),
];
const PHASES: &[&str] = &[
    "held",
    "initializing",
    "configuring",
    "starting",
    "running",
    "stopping",
    "stopped",
    "backoff",
    "exiting",
];
const ETCD: Shape = &[
    ("version", Text, Maybe),
    ("generation", Number, Never),
    ("pid", Number, Maybe),
    ("startedAt", Time, Maybe),
    ("readySince", Time, Maybe),
    ("configDigest", Text, Maybe),
    ("configSource", Word(&["sidecar", "file", "posted"]), Maybe),
    ("effective", Of(EFFECTIVE), Maybe),
    ("db", Of(&[("size", Number, Never), ("inUse", Number, Never), ("quota", Number, Never)]), Maybe),
    ("lastExit", Of(LAST_EXIT), Maybe),
];
const EFFECTIVE: Shape = &[
    ("name", Text, Never),
    ("dataDir", Text, Never),
    ("listenPeerUrls", Texts, Never),
    ("advertisePeerUrls", Texts, Never),
    ("peerTls", Flag, Never),
    ("clientTls", Flag, Never),
];
const LAST_EXIT: Shape = &[
    ("generation", Number, Never),
    ("kind", Word(&["exited", "signaled"]), Never),
    ("code", Number, Maybe),
    ("signal", Text, Maybe),
    ("requested", Flag, Never),
    ("clean", Flag, Never),
    ("at", Time, Never),
    ("cause", Text, Never),
];
const BOOTSTRAP: Shape = &[
    ("state", Word(&["idle", "initializing", "configuring", "done"]), Never),
    ("validation", Word(&["none", "sanity", "full"]), Maybe),
    ("rounds", Number, Never),
    ("sidecarState", Word(&["New", "Progress", "Successful", "Failed"]), Maybe),
    ("since", Time, Never),
    ("lastError", Text, Maybe),
];
const READINESS: Shape = &[
    ("ready", Flag, Never),
    ("since", Time, Never),
    ("reason", Text, Maybe),
    ("checks", Each(CHECK), Never),
    ("override", Of(OVERRIDE), Maybe),
];
const CHECK: Shape = &[
    ("name", Text, Never),
    ("ok", Flag, Never),
    ("required", Flag, Never),
    ("at", Time, Maybe),
    ("detail", Text, Maybe),
];
const OVERRIDE: Shape = &[
    ("mode", Word(&["ready", "unready"]), Never),
    ("owner", Text, Never),
    ("reason", Text, Never),
    ("expiresAt", Time, Maybe),
    ("durable", Flag, Never),
];
const LEADER: Shape = &[
    ("epoch", Text, Never),
    ("index", Number, Never),
    ("memberId", Hex, Maybe),
    ("memberName", Text, Maybe),
    ("leaderId", Hex, Maybe),
    ("isLeader", Flag, Never),
    ("isLearner", Flag, Maybe),
    ("leaving", Flag, Never),
    ("term", Number, Maybe),
    ("generation", Number, Never),
    ("since", Time, Never),
    ("confirmed", Flag, Never),
    ("age", Duration, Maybe),
    ("source", Word(&["status", "metrics"]), Maybe),
];
const HEALTH: Shape = &[
    ("process", Word(&["alive", "dead", "none"]), Never),
    ("member", Word(&["healthy", "unresponsive", "unknown"]), Never),
    ("quorum", Word(&["ok", "lost", "unknown"]), Never),
    ("role", Word(&["leader", "follower", "learner", "unknown"]), Never),
    (
        "diagnosis",
        Word(&[
            "healthy",
            "member_down",
            "quorum_lost_member_alive",
            "learner",
            "alarm_nospace",
            "alarm_corrupt",
            "bootstrapping",
            "draining",
            "held",
            "stopped",
            "backoff",
        ]),
        Never,
    ),
];
const OPERATION: Shape = &[
    ("id", Text, Never),
    ("kind", Word(&["start", "stop", "restart", "transfer-leadership"]), Never),
    ("status", Word(&["pending", "running", "succeeded", "failed", "superseded"]), Never),
    (
        "phase",
        Word(&[
            "waiting_turn",
            "waiting_sidecar",
            "fetching",
            "validating",
            "draining",
            "transferring",
            "stopping",
            "starting",
            "done",
        ]),
        Never,
    ),
    ("changed", Flag, Never),
    ("startedAt", Time, Never),
    ("finishedAt", Time, Maybe),
    ("result", Text, Maybe),
    (
        "problem",
        Of(&[
            ("type", Text, Never),
            ("title", Text, Never),
            ("status", Number, Never),
            ("detail", Text, Never),
            ("code", Text, Never),
            ("retryable", Flag, Never),
        ]),
        Maybe,
    ),
    ("lastError", Text, Maybe),
];

#[track_caller]
fn fits(value: &Value, shape: Shape, path: &str) {
    let object = value.as_object().unwrap_or_else(|| panic!("{path}: no object but {value}"));
    for (key, kind, null) in shape {
        let path = format!("{path}/{key}");
        let value = object.get(*key).unwrap_or_else(|| panic!("{path} is absent"));
        if value.is_null() {
            assert_eq!(*null, Maybe, "{path} is null");
        } else {
            is(value, *kind, &path);
        }
    }
    let strange: Vec<_> = object.keys().filter(|key| !shape.iter().any(|(known, ..)| known == key)).collect();
    assert!(strange.is_empty(), "{path}: {strange:?} are in no document");
}

#[track_caller]
fn is(value: &Value, kind: Kind, path: &str) {
    let text = || value.as_str().unwrap_or_else(|| panic!("{path}: no text but {value}"));
    let good = match kind {
        Text => !text().is_empty(),
        Time => humantime_like(text()),
        Hex => !text().is_empty() && text().chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')),
        Duration => text().ends_with('s') && text().starts_with(|c: char| c.is_ascii_digit()),
        Number => value.is_u64(),
        Flag => value.is_boolean(),
        Word(words) => words.contains(&text()),
        Texts => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
        Of(shape) => return fits(value, shape, path),
        Each(shape) => {
            let list = value.as_array().unwrap_or_else(|| panic!("{path}: no list but {value}"));
            for (n, item) in list.iter().enumerate() {
                fits(item, shape, &format!("{path}/{n}"));
            }
            true
        }
    };
    assert!(good, "{path}: {value} is no {kind:?}");
}

/// `2026-12-01T10:00:07.120Z`
fn humantime_like(text: &str) -> bool {
    let form = "dddd-dd-ddTdd:dd:dd.dddZ";
    text.len() == form.len()
        && text.chars().zip(form.chars()).all(|(c, f)| if f == 'd' { c.is_ascii_digit() } else { c == f })
}

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
