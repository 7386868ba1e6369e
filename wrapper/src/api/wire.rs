// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The documents on the wire: shapes, null rules, and how times and durations are spelled. Shared with the client;
//! knows nothing of where the values come from.
mod answers;

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::duration::GoDuration;

pub use answers::{Event, FieldError, Finding, Operation, Problem, Validation, Version};

/// A word of a closed vocabulary: borrowed when we write it, owned when a client reads it.
pub type Word = Cow<'static, str>;

/// `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// New for every process.
    pub epoch: String,
    /// Grows within an epoch.
    pub index: u64,
    /// When this was put together.
    pub time: String,
    /// This process.
    pub wrapper: Wrapper,
    /// The one etcd.
    pub etcd: Etcd,
    /// The conversation with the sidecar.
    pub bootstrap: Bootstrap,
    /// As the cluster knows it; None when MemberList could not be read.
    pub member: Option<Member>,
    /// None: it cannot be looked at.
    pub volume: Option<Volume>,
    /// Ready or not, and why not.
    pub readiness: Readiness,
    /// Leadership as the local member tells it.
    pub leader: Leader,
    /// The diagnosis.
    pub health: Health,
    /// The one under way, else the last.
    pub operation: Option<Operation>,
    /// Those that stand.
    pub warnings: Vec<Warning>,
    /// Only in answers to `after`.
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

/// This process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wrapper {
    /// Of the wrapper.
    pub version: Word,
    /// Of the wrapper.
    pub pid: u32,
    /// Of this process.
    pub started_at: String,
    /// `up`, `down`, `exit`.
    pub intent: Word,
    /// api.md §8.
    pub phase: Word,
    /// Since when it is in that phase.
    pub phase_since: String,
    /// Text of the hold file, where one lies.
    pub hold_reason: Option<String>,
}

/// The one etcd; what is about the running generation is null without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Etcd {
    /// Of the running etcd, else of the binary; null until either told.
    pub version: Option<String>,
    /// Successful spawns so far.
    pub generation: u64,
    /// Of etcd.
    pub pid: Option<u32>,
    /// When it was spawned.
    pub started_at: Option<String>,
    /// When READY came.
    pub ready_since: Option<String>,
    /// `sha256:` and hex, of the bytes that it runs with.
    pub config_digest: Option<String>,
    /// Where the running generation's configuration came from.
    pub config_source: Option<Word>,
    /// What it was started with.
    pub effective: Option<Effective>,
    /// None: not known.
    pub db: Option<Db>,
    /// None: none has ended in this process.
    pub last_exit: Option<LastExit>,
}

/// What the running generation was started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Effective {
    /// `name`.
    pub name: String,
    /// `data-dir`.
    pub data_dir: String,
    /// `listen-peer-urls`.
    pub listen_peer_urls: Vec<String>,
    /// `initial-advertise-peer-urls`.
    pub advertise_peer_urls: Vec<String>,
    /// Peers speak TLS.
    pub peer_tls: bool,
    /// Clients speak TLS.
    pub client_tls: bool,
}

/// Bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Db {
    /// Allocated.
    pub size: u64,
    /// What a defragmentation would leave.
    pub in_use: u64,
    /// At this size etcd refuses writes.
    pub quota: u64,
}

/// How the last generation ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastExit {
    /// Which.
    pub generation: u64,
    /// `exited` or `signaled`.
    pub kind: Word,
    /// With `exited`.
    pub code: Option<i32>,
    /// e.g. `SIGTERM`.
    pub signal: Option<Word>,
    /// Somebody had asked for this end.
    pub requested: bool,
    /// READY was seen, then the end was asked for, then etcd ended within the grace time, unforced.
    pub clean: bool,
    /// When it was reaped.
    pub at: String,
    /// Why, in a word.
    pub cause: Word,
}

/// The conversation with the sidecar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// Where it stands.
    pub state: Word,
    /// The mode last asked for.
    pub validation: Option<Word>,
    /// Calls of `initialization/start` by this bootstrap.
    pub rounds: u32,
    /// The sidecar's own word.
    pub sidecar_state: Option<Word>,
    /// Since when `state` is so.
    pub since: String,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// This member as the cluster knows it; null when MemberList cannot be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Hex.
    pub id: String,
    /// As the cluster knows them.
    pub peer_urls: Vec<String>,
}

/// The volume of the data directory; null when it cannot be looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// For who is not root.
    pub free_bytes: u64,
    /// For who is not root.
    pub free_inodes: u64,
}

/// `GET /v1/readiness`, and `/readyz` for callers that accept JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// All required checks are well.
    pub ready: bool,
    /// Since when `ready` is so.
    pub since: String,
    /// The first failed check that counts.
    pub reason: Option<Word>,
    /// In the order in which they are shown.
    pub checks: Vec<Check>,
    /// None: the checks alone count.
    #[serde(rename = "override")]
    pub override_: Option<Override>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Which.
    pub name: Word,
    /// It is well.
    pub ok: bool,
    /// It counts for readiness here and now.
    pub required: bool,
    /// When its answer came.
    pub at: Option<String>,
    /// For people.
    pub detail: Option<String>,
}

/// A readiness override that stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    /// What it makes of this member.
    pub mode: Word,
    /// Who alone may renew or end it without `force`.
    pub owner: String,
    /// For people; may be empty.
    pub reason: String,
    /// None: no end of its own.
    pub expires_at: Option<String>,
    /// It outlives the process, in the hold file.
    pub durable: bool,
}

/// `GET /v1/leader`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Leader {
    /// New for every process.
    pub epoch: String,
    /// Of the newest change of leadership.
    pub index: u64,
    /// This member's, hex.
    pub member_id: Option<String>,
    /// This member's.
    pub member_name: Option<String>,
    /// Hex; None: nobody known leads.
    pub leader_id: Option<String>,
    /// This member runs, is not on its way out, and was named as the leader by the newest answer of its own generation.
    pub is_leader: bool,
    /// None: not known.
    pub is_learner: Option<bool>,
    /// A stop has begun: whoever follows this member should look elsewhere.
    pub leaving: bool,
    /// Raft term; never falls within one data lineage.
    pub term: Option<u64>,
    /// Of the etcd that said so.
    pub generation: u64,
    /// Since when leadership is so.
    pub since: String,
    /// A linearizable read between two equal Status answers stands behind this one.
    pub confirmed: bool,
    /// How old the answer of etcd is that this rests on.
    pub age: Option<String>,
    /// Which answer of etcd this rests on.
    pub source: Option<Word>,
    /// Only in answers to `after`.
    #[serde(flatten)]
    pub poll: Poll,
}

/// The diagnosis: tells "this member is down" from "quorum is lost".
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
    /// All of it in one word.
    pub diagnosis: Word,
}

/// A condition that deserves a human's eye.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// Stable.
    pub code: Word,
    /// Since when it stands.
    pub since: String,
    /// For people.
    pub detail: String,
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
