// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What clients asked of some keys while something was done to the cluster, what they were told, and whether one
//! register per key could have told them so. Makes no calls: [`crate::traffic`] does.
mod explain;
mod file;
mod judge;
mod register;
mod revisions;
mod search;
#[cfg(test)]
mod tests;

pub use self::file::{Sink, read};
pub use self::judge::{Judgement, Verdict, Violation, judge, judge_within};

use std::fmt;

use serde::{Deserialize, Serialize};

/// All calls of one run of traffic, in the order in which they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// All keys begin with it, and none did before: the check takes every key as absent at the beginning.
    pub prefix: String,
    /// Of the random numbers: the same seed asks for the same things.
    pub seed: u64,
    /// The zero of all times, in milliseconds since 1970.
    pub began: u64,
    /// In the order in which they began.
    pub ops: Vec<Op>,
    /// What was there when all clients had stopped.
    pub end: End,
}

/// How a history ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// All calls were waited for, and what was left in the keys was read.
    Stopped,
    /// As `Stopped`, but the clients had fallen silent before: the history was as long as it may get.
    Full,
    /// The traffic was dropped, or the program ended: there may have been calls that are not in here.
    #[default]
    Cut,
}

/// One call. Times are microseconds since the beginning of the run, on a clock that never goes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// Whose: one client has one call under way at a time, and none after one whose outcome it does not know.
    pub client: u64,
    /// Which member was asked.
    pub member: String,
    /// Without the history's prefix.
    pub key: String,
    /// What was asked.
    pub call: Call,
    /// Nanoseconds since the run began.
    pub begun: u64,
    /// When the client knew the outcome, or gave up. What has no known outcome may take effect later.
    pub ended: u64,
    /// What the client was told.
    pub outcome: Outcome,
    /// Read after all else had ended, to see what was left.
    #[serde(default, skip_serializing_if = "is_false")]
    pub last: bool,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Linearizable.
    Read,
    /// Write.
    Put {
        /// What is written.
        value: String,
    },
    /// Whatever is there.
    Delete,
    /// In one transaction: if the key is as `expect` says (None: absent), it becomes `value` (None: absent).
    Swap {
        /// What has to be there; None: no key.
        expect: Option<Seen>,
        /// What is written; None: the key is removed.
        value: Option<String>,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It happened, with what came back.
    Ok(Answer),
    /// Nothing happened, and nothing of it will.
    Failed {
        /// For people.
        why: String,
    },
    /// It may have happened, or may at any later time.
    Unknown {
        /// For people.
        why: String,
    },
}

/// What the store told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What was there (None: nothing), for reads, deletions, and swaps that were not as expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
    /// The revision of the write; None: nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<i64>,
    /// The revision of the whole store when it was carried out.
    pub store: i64,
}

/// A value, and the revision of the write that made it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seen {
    /// What was written.
    pub value: String,
    /// Of the write.
    pub revision: i64,
}

impl History {
    /// Calls with an answer.
    pub fn answered(&self) -> impl Iterator<Item = (&Op, &Answer)> {
        self.ops.iter().filter_map(|op| op.answer().map(|answer| (op, answer)))
    }

    /// The longest time between the ends of two acknowledged writes that follow each other: what a fault cost. Begin
    /// and end in microseconds; None: fewer than two writes.
    pub fn longest_pause(&self) -> Option<(u64, u64)> {
        let writes = self.answered().filter(|(_, answer)| answer.written.is_some());
        let mut ends: Vec<u64> = writes.map(|(op, _)| op.ended).collect();
        ends.sort_unstable();
        ends.windows(2).map(|pair| (pair[0], pair[1])).max_by_key(|(from, to)| to - from)
    }
}

impl Op {
    /// None: it failed, or nobody knows.
    pub fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            Outcome::Ok(answer) => Some(answer),
            Outcome::Failed { .. } | Outcome::Unknown { .. } => None,
        }
    }
}

impl Call {
    /// The value that is there if it happens; None: it makes none.
    fn writes(&self) -> Option<&str> {
        match self {
            Self::Put { value } | Self::Swap { value: Some(value), .. } => Some(value),
            Self::Read | Self::Delete | Self::Swap { value: None, .. } => None,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_nothing = |value: Option<&str>| value.unwrap_or("nothing").to_owned();
        match self {
            Self::Read => f.write_str("read"),
            Self::Put { value } => write!(f, "put {value}"),
            Self::Delete => f.write_str("delete"),
            Self::Swap { expect, value } => {
                let expect = expect.as_ref().map(|seen| seen.value.as_str());
                write!(f, "swap {} for {}", or_nothing(expect), or_nothing(value.as_deref()))
            }
        }
    }
}

fn is_false(value: &bool) -> bool {
    !*value
}
