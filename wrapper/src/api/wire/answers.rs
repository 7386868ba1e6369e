// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Documents that answer calls and tell of changes: operations, problems, validation, events. Shapes alone.
use serde::{Deserialize, Serialize};

use super::{Leader, Readiness, Status, Word};

/// One mutating call, living or finished. `op-0` stands for a call that had nothing to do, or was done at once; it cannot be asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// `op-<n>`.
    pub id: String,
    /// The verb.
    pub kind: Word,
    /// The last three are final.
    pub status: Word,
    /// What it is at.
    pub phase: Word,
    /// False: there was nothing to do.
    pub changed: bool,
    /// When it was accepted.
    pub started_at: String,
    /// None: it is not over.
    pub finished_at: Option<String>,
    /// `{"generation": n}` of a start or restart that succeeded.
    pub result: Option<serde_json::Value>,
    /// When it failed.
    pub problem: Option<Problem>,
    /// What went wrong last, while it is still being tried.
    pub last_error: Option<String>,
}

/// One message of `GET /v1/events`, and the body of a notification: the keys of its topic beside the first four.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// New for every process.
    pub epoch: String,
    /// An event's own; a message of the stream itself bears the position at which the stream stands.
    pub index: u64,
    /// When it happened.
    pub time: String,
    /// `leader`, `phase`, `readiness`, `operation`; of the stream itself `snapshot`, `reset`, `gap`, `bye`.
    pub topic: Word,
    /// Of topic `leader`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<Leader>,
    /// With `previous`, `intent` and `generation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Word>,
    /// Equal to `phase` when only intent or generation changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Word>,
    /// Of topic `phase`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Word>,
    /// Of topic `phase`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Of topic `readiness`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Readiness>,
    /// Of topic `operation`.
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

/// RFC 9457, `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// `urn:etcd-wrapper:problem:<code>`
    #[serde(rename = "type")]
    pub type_: String,
    /// Of the code.
    pub title: Word,
    /// Of the answer.
    pub status: u16,
    /// For people: what was asked, on what, what to do.
    pub detail: String,
    /// Stable; clients match on it.
    pub code: Word,
    /// The same request may succeed later without anybody changing it.
    pub retryable: bool,
    /// Where the wrapper stood when it refused; absent in the problem of an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Word>,
    /// Where the wrapper stood; None in the problem of an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Single faults of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// One fault in a configuration or request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// JSON pointer, or the parameter's name.
    pub pointer: String,
    /// For people.
    pub detail: String,
    /// What was probably meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// `GET /v1/version`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Of the wrapper.
    pub version: Word,
    /// The commit it was built from; null in a build that was not told one.
    pub revision: Option<Word>,
    /// Of the etcd binary; null until it told.
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
    /// Whatever is worth saying.
    pub findings: Vec<Finding>,
}

/// One thing worth saying about a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `error`: it is not given to etcd; `warning`: etcd takes it, yet not as it was meant.
    pub severity: Word,
    /// JSON pointer; empty for the whole document.
    pub pointer: String,
    /// For people.
    pub detail: String,
    /// The key that was meant.
    pub suggestion: Option<String>,
}
