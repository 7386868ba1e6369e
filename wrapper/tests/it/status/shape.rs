// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The wire's documents as tables: every key, its type, and whether it may be null. Written down a second time on
//! purpose: a change of the wire has to show.
use serde_json::Value;

/// A key's type; the second part of each pair says whether it may be null.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
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
pub(super) enum Null {
    Never,
    Maybe,
}

use Kind::{Duration, Each, Flag, Hex, Number, Of, Text, Texts, Time, Word};
use Null::{Maybe, Never};

pub(super) type Shape = &'static [(&'static str, Kind, Null)];

pub(super) const STATUS: Shape = &[
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
pub(super) const READINESS: Shape = &[
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
pub(super) const LEADER: Shape = &[
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
pub(super) fn fits(value: &Value, shape: Shape, path: &str) {
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
