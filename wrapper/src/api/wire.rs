// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The documents on the wire: shapes, null rules, and how times and durations are spelled. Shared with the client;
//! knows nothing of where the values come from.
use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::duration::GoDuration;

/// A word of a closed vocabulary: borrowed when we write it, owned when a client reads it.
pub type Word = Cow<'static, str>;

/// `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub epoch: String,
    pub index: u64,
    pub time: String,
    pub wrapper: Wrapper,
    pub etcd: Etcd,
    pub bootstrap: Bootstrap,
    /// As the cluster knows it; None when MemberList could not be read.
    pub member: Option<Member>,
    pub volume: Option<Volume>,
    pub readiness: Readiness,
    pub leader: Leader,
    pub health: Health,
    pub operation: Option<Operation>,
    pub warnings: Vec<Warning>,
    #[serde(flatten)]
    pub poll: Poll,
}

/// What a long-poll answer adds at the top level; empty in every other answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poll {
    /// Something newer than the caller's position exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
    /// The caller's position is of another epoch, or lies in the future.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wrapper {
    pub version: Word,
    pub pid: u32,
    pub started_at: String,
    pub intent: Word,
    pub phase: Word,
    pub phase_since: String,
    pub hold_reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Etcd {
    pub version: Option<String>,
    /// Successful spawns so far.
    pub generation: u64,
    pub pid: Option<u32>,
    pub started_at: Option<String>,
    pub ready_since: Option<String>,
    pub config_digest: Option<String>,
    pub config_source: Option<Word>,
    pub effective: Option<Effective>,
    pub db: Option<Db>,
    pub last_exit: Option<LastExit>,
}

/// What the running generation was started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Effective {
    pub name: String,
    pub data_dir: String,
    pub listen_peer_urls: Vec<String>,
    pub advertise_peer_urls: Vec<String>,
    pub peer_tls: bool,
    pub client_tls: bool,
}

/// Bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Db {
    pub size: u64,
    pub in_use: u64,
    pub quota: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastExit {
    pub generation: u64,
    /// `exited` or `signaled`.
    pub kind: Word,
    pub code: Option<i32>,
    /// e.g. `SIGTERM`.
    pub signal: Option<Word>,
    pub requested: bool,
    pub clean: bool,
    pub at: String,
    pub cause: Word,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    pub state: Word,
    pub validation: Option<Word>,
    pub rounds: u32,
    pub sidecar_state: Option<Word>,
    pub since: String,
    pub last_error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    pub id: String,
    pub peer_urls: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    pub free_bytes: u64,
    pub free_inodes: u64,
}

/// `GET /v1/readiness`, and `/readyz` for callers that accept JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    pub ready: bool,
    pub since: String,
    /// The first failed check that counts.
    pub reason: Option<Word>,
    pub checks: Vec<Check>,
    #[serde(rename = "override")]
    pub override_: Option<Override>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    pub name: Word,
    pub ok: bool,
    pub required: bool,
    pub at: Option<String>,
    pub detail: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    pub mode: Word,
    pub owner: String,
    pub reason: String,
    pub expires_at: Option<String>,
    pub durable: bool,
}

/// `GET /v1/leader`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Leader {
    pub epoch: String,
    pub index: u64,
    pub member_id: Option<String>,
    pub member_name: Option<String>,
    pub leader_id: Option<String>,
    pub is_leader: bool,
    pub is_learner: Option<bool>,
    /// A stop has begun: whoever follows this member should look elsewhere.
    pub leaving: bool,
    pub term: Option<u64>,
    pub generation: u64,
    pub since: String,
    pub confirmed: bool,
    /// How old the answer of etcd is that this rests on.
    pub age: Option<String>,
    pub source: Option<Word>,
    #[serde(flatten)]
    pub poll: Poll,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// `alive`, `dead`, `none`.
    pub process: Word,
    /// `healthy`, `unresponsive`, `unknown`.
    pub member: Word,
    /// `ok`, `lost`, `unknown`.
    pub quorum: Word,
    /// `leader`, `follower`, `learner`, `unknown`.
    pub role: Word,
    pub diagnosis: Word,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// `op-<n>`.
    pub id: String,
    pub kind: Word,
    pub status: Word,
    pub phase: Word,
    pub changed: bool,
    pub started_at: String,
    pub finished_at: Option<String>,
    pub result: Option<serde_json::Value>,
    pub problem: Option<Problem>,
    pub last_error: Option<String>,
}

/// One message of `GET /v1/events`, and the body of a notification: the keys of its topic beside the first four.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub epoch: String,
    /// An event's own; a message of the stream itself bears the position at which the stream stands.
    pub index: u64,
    pub time: String,
    /// `leader`, `phase`, `readiness`, `operation`; of the stream itself `snapshot`, `reset`, `gap`, `bye`.
    pub topic: Word,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<Leader>,
    /// With `previous`, `intent` and `generation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Word>,
    /// Equal to `phase` when only intent or generation changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Word>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Word>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Readiness>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// Of `snapshot` and `reset`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Box<Status>>,
    /// Of `gap`: the first index that may be missing,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// and the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    pub code: Word,
    pub since: String,
    pub detail: String,
}

/// RFC 9457, `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    #[serde(rename = "type")]
    pub type_: String,
    pub title: Word,
    pub status: u16,
    pub detail: String,
    pub code: Word,
    pub retryable: bool,
    /// Where the wrapper stood when it refused; absent in the problem of an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Word>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// One fault in a configuration or request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// JSON pointer, or the parameter's name.
    pub pointer: String,
    pub detail: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// `GET /v1/version`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    pub version: Word,
    pub revision: Option<Word>,
    pub etcd_version: Option<String>,
}

/// `POST /v1/config/validate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// No finding is an error.
    pub valid: bool,
    /// As it would stand in `configDigest`; None when it cannot be read.
    pub digest: Option<String>,
    /// The etcd whose keys were compared; None when it has not told.
    pub etcd_version: Option<String>,
    pub findings: Vec<Finding>,
}

/// One thing worth saying about a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `error`: it is not given to etcd; `warning`: etcd takes it, yet not as it was meant.
    pub severity: Word,
    /// JSON pointer; empty for the whole document.
    pub pointer: String,
    pub detail: String,
    pub suggestion: Option<String>,
}

/// RFC 3339, UTC, milliseconds.
pub fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

/// A Go-like duration, to the millisecond: `0s`, `120ms`, `1.5s`, `2m0s`, `1h0m0.25s`.
pub fn duration(length: Duration) -> String {
    let millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    GoDuration::from(Duration::from_millis(millis)).to_string()
}

/// A member id: lower-case hex without `0x`.
pub fn member_id(id: u64) -> String {
    format!("{id:x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_spelled_as_go_spells_them() {
        for (millis, text) in [
            (0, "0s"),
            (120, "120ms"),
            (1000, "1s"),
            (1500, "1.5s"),
            (1005, "1.005s"),
            (120_000, "2m0s"),
            (3_600_250, "1h0m0.25s"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn times_are_utc_with_milliseconds() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_796_119_207_120);
        assert_eq!(time(at), "2026-12-01T10:00:07.120Z");
    }

    #[test]
    fn poll_marks_are_absent_unless_the_caller_polled() {
        assert_eq!(serde_json::to_string(&Poll::default()).unwrap(), "{}");
        let reset = Poll { changed: Some(true), reset: Some(true) };
        assert_eq!(serde_json::to_string(&reset).unwrap(), r#"{"changed":true,"reset":true}"#);
    }
}
