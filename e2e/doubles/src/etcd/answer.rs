// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! How a call to an etcd double is answered: late, never, or with one of etcd's own errors. Values of the script.
use serde::{Deserialize, Serialize};

use crate::span::Span;

/// How a call is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// Before it answers.
    pub takes: Span,
    /// None: it answers well.
    pub fails: Option<Failure>,
    /// Never answered; looked at when the call comes.
    pub hangs: bool,
}

/// Errors with etcd's own codes and words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// As with auth on: `user name is empty`.
    UserEmpty,
    /// As with auth on, for a user without rights.
    PermissionDenied,
    /// As with auth on, for a token that is none.
    InvalidAuthToken,
    /// "rpc not supported for learner" with the code of 3.5.
    Learner35,
    /// The same with the code of 3.6 and 3.7.
    Learner36,
    /// As while nobody leads.
    NoLeader,
    /// As etcd's own limit makes it.
    TimedOut,
    /// As to MoveLeader of who does not lead.
    NotLeader,
    /// As to MoveLeader to who cannot lead.
    BadTransferee,
    /// gRPC's code number and a message.
    Other {
        /// gRPC's number.
        code: i32,
        /// For people.
        message: String,
    },
}

impl Answer {
    /// Never answers.
    pub fn hangs() -> Self {
        Self { hangs: true, ..Self::default() }
    }

    /// Answers with this.
    pub fn fails(failure: Failure) -> Self {
        Self { fails: Some(failure), ..Self::default() }
    }

    /// Answers well, after this time.
    pub fn takes(span: std::time::Duration) -> Self {
        Self { takes: Span(span), ..Self::default() }
    }
}

impl Failure {
    /// gRPC code and message, as etcd's `rpctypes` has them.
    pub fn code_and_message(&self) -> (i32, &str) {
        use tonic::Code::{
            FailedPrecondition, InvalidArgument, PermissionDenied, Unauthenticated, Unavailable,
        };
        let (code, message) = match self {
            Self::UserEmpty => (InvalidArgument, "etcdserver: user name is empty"),
            Self::PermissionDenied => (PermissionDenied, "etcdserver: permission denied"),
            Self::InvalidAuthToken => (Unauthenticated, "etcdserver: invalid auth token"),
            Self::Learner35 => (Unavailable, "etcdserver: rpc not supported for learner"),
            Self::Learner36 => (FailedPrecondition, "etcdserver: rpc not supported for learner"),
            Self::NoLeader => (Unavailable, "etcdserver: no leader"),
            Self::TimedOut => (Unavailable, "etcdserver: request timed out"),
            Self::NotLeader => (FailedPrecondition, "etcdserver: not leader"),
            Self::BadTransferee => (FailedPrecondition, "etcdserver: bad leader transferee"),
            Self::Other { code, message } => return (*code, message),
        };
        (code as i32, message)
    }
}
