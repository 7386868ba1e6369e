// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! How a scripted etcd stands in its cluster, and what it says on stderr. Values alone.
use serde::{Deserialize, Serialize};

use crate::span::Span;

/// Lines on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chatter {
    /// Between two lines.
    pub every: Span,
    /// Of a line.
    pub bytes: usize,
}

/// A row of MemberList.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// 64 bits.
    pub id: u64,
    /// Empty: it has not joined.
    pub name: String,
    /// As listed.
    #[serde(default)]
    pub peer_urls: Vec<String>,
    /// Not a voter yet.
    #[serde(default)]
    pub learner: bool,
}

/// How the member stands from `at` on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Standing {
    /// From its start on.
    pub at: Span,
    /// As it tells.
    pub leader: Leader,
    /// Raft term.
    pub term: u64,
    /// It is one itself.
    pub learner: bool,
    /// The alarm stands.
    pub nospace: bool,
    /// The alarm stands.
    pub corrupt: bool,
    /// Bytes.
    pub db_size: u64,
    /// Bytes.
    pub db_size_in_use: u64,
}

/// Who leads, as a scripted etcd tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leader {
    /// This member.
    #[default]
    Myself,
    /// No member.
    Nobody,
    /// The one with this id.
    Member(u64),
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            at: Span::ZERO,
            leader: Leader::Myself,
            term: 2,
            learner: false,
            nospace: false,
            corrupt: false,
            db_size: 25_600,
            db_size_in_use: 20_480,
        }
    }
}
