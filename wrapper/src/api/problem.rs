// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The problem documents: every code with its status, title and whether trying again makes sense (api.md §6).
//! Says why a request was refused; never decides that it is.
use http::StatusCode;

use crate::supervise::command::{self, Refusal};
use crate::supervise::view::CoreView;

use super::wire::{self, FieldError};

/// Codes of refusals, the supervisor's and the API's own. Stable: clients match on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The request is malformed: 400.
    BadRequest,
    /// A field or parameter is not known: 400, with a suggestion.
    UnknownField,
    /// A verified client certificate is needed: 401.
    CertificateRequired,
    /// The caller may not do this: 403.
    Forbidden,
    /// It is served over TLS only: 403.
    TlsRequired,
    /// No server certificate is loaded, plain HTTP serves: 403.
    NoServerCertificate,
    /// There is no such thing: 404.
    NotFound,
    /// Not by this method: 405, with `Allow`.
    MethodNotAllowed,
    /// Another operation is running: 409.
    OperationInProgress,
    /// The sidecar works on the data directory, or may: 409.
    InitializationInProgress,
    /// etcd runs with another configuration: 409.
    ConfigDiffers,
    /// `force-new-cluster` would cut the cluster again: 409.
    ConfigNotRepeatable,
    /// Another owner holds the override or the directory: 409.
    OverrideHeld,
    /// The verb needs a living etcd: 409.
    NotRunning,
    /// The healthy voters left would be no quorum: 409.
    WouldBreakQuorum,
    /// What the guard must know cannot be known: 409.
    GuardUnknown,
    /// etcd is of another generation: 412.
    GenerationMismatch,
    /// The body is longer than what is taken: 413.
    TooLarge,
    /// The body is of another type than what is taken: 415.
    UnsupportedMediaType,
    /// The configuration cannot be given to etcd: 422, with pointers.
    ConfigInvalid,
    /// A file that the configuration names cannot be read: 422.
    FileUnreadable,
    /// The data directory does not pass its guard: 422.
    DataDirRefused,
    /// No other voter could lead: 422.
    NoCandidate,
    /// A value is out of its range: 422.
    InvalidValue,
    /// As many wait already as may: 429.
    TooManyStreams,
    /// The process is about to end: 503, with `Retry-After`.
    ShuttingDown,
    /// The sidecar does not answer, or not usefully: 503.
    SidecarUnavailable,
    /// The client CA cannot be read, so nobody can be verified: 503.
    TrustNotLoaded,
    /// The cluster has none: 503.
    NoLeader,
    /// Leadership could not be proved in time: 504.
    ConfirmTimeout,
    /// Not a refusal: an operation that was taken and came to nothing for a reason below us.
    Failed,
}

/// What a code stands for on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// Stable snake case; clients match on it.
    pub code: &'static str,
    /// Of the answer: 4xx or 5xx.
    pub status: u16,
    /// The same for every problem of this code.
    pub title: &'static str,
    /// The same request may succeed later without anybody changing it.
    pub retryable: bool,
}

impl Code {
    /// Every code, for documents and tests.
    pub const ALL: [Self; 31] = [
        Self::BadRequest,
        Self::UnknownField,
        Self::CertificateRequired,
        Self::Forbidden,
        Self::TlsRequired,
        Self::NoServerCertificate,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::OperationInProgress,
        Self::InitializationInProgress,
        Self::ConfigDiffers,
        Self::ConfigNotRepeatable,
        Self::OverrideHeld,
        Self::NotRunning,
        Self::WouldBreakQuorum,
        Self::GuardUnknown,
        Self::GenerationMismatch,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::ConfigInvalid,
        Self::FileUnreadable,
        Self::DataDirRefused,
        Self::NoCandidate,
        Self::InvalidValue,
        Self::TooManyStreams,
        Self::ShuttingDown,
        Self::SidecarUnavailable,
        Self::TrustNotLoaded,
        Self::NoLeader,
        Self::ConfirmTimeout,
        Self::Failed,
    ];

    /// Word, status, title, and whether trying again makes sense.
    pub fn meaning(self) -> Meaning {
        let (code, status, title, retryable) = match self {
            Self::BadRequest => ("bad_request", 400, "The request is malformed", false),
            Self::UnknownField => ("unknown_field", 400, "A field or parameter is not known", false),
            Self::CertificateRequired => {
                ("certificate_required", 401, "A verified client certificate is needed", false)
            }
            Self::Forbidden => ("forbidden", 403, "The caller may not do this", false),
            Self::TlsRequired => ("tls_required", 403, "This is served over TLS only", false),
            Self::NoServerCertificate => {
                ("no_server_certificate", 403, "No server certificate is loaded: use plain HTTP", true)
            }
            Self::NotFound => ("not_found", 404, "There is no such thing", false),
            Self::MethodNotAllowed => ("method_not_allowed", 405, "The method is not allowed here", false),
            Self::OperationInProgress => ("operation_in_progress", 409, "Another operation is running", true),
            Self::InitializationInProgress => {
                ("initialization_in_progress", 409, "The sidecar works on the data directory", true)
            }
            Self::ConfigDiffers => ("config_differs", 409, "etcd runs with another configuration", false),
            Self::ConfigNotRepeatable => {
                ("config_not_repeatable", 409, "This configuration must not be started twice", false)
            }
            Self::OverrideHeld => ("override_held", 409, "Another owner holds the override", false),
            Self::NotRunning => ("not_running", 409, "etcd is not running", false),
            Self::WouldBreakQuorum => ("would_break_quorum", 409, "The cluster would lose its quorum", true),
            Self::GuardUnknown => ("guard_unknown", 409, "The state of the quorum cannot be known", true),
            Self::GenerationMismatch => ("generation_mismatch", 412, "etcd is of another generation", false),
            Self::TooLarge => ("too_large", 413, "The body is too large", false),
            Self::UnsupportedMediaType => {
                ("unsupported_media_type", 415, "The body's media type is not accepted here", false)
            }
            Self::ConfigInvalid => ("config_invalid", 422, "The etcd configuration is not valid", false),
            Self::FileUnreadable => ("file_unreadable", 422, "A file that is needed cannot be read", false),
            Self::DataDirRefused => ("data_dir_refused", 422, "The data directory is refused", false),
            Self::NoCandidate => ("no_candidate", 422, "No other voter could lead", true),
            Self::InvalidValue => ("invalid_value", 422, "A value is not allowed", false),
            Self::TooManyStreams => ("too_many_streams", 429, "Too many callers wait already", true),
            Self::ShuttingDown => ("shutting_down", 503, "The wrapper is shutting down", true),
            Self::SidecarUnavailable => ("sidecar_unavailable", 503, "The sidecar does not answer", true),
            Self::TrustNotLoaded => ("trust_not_loaded", 503, "The client CA cannot be read", true),
            Self::NoLeader => ("no_leader", 503, "The cluster has no leader", true),
            Self::ConfirmTimeout => {
                ("confirm_timeout", 504, "Leadership could not be confirmed in time", true)
            }
            Self::Failed => ("failed", 500, "The operation failed", true),
        };
        Meaning { code, status, title, retryable }
    }
}

impl From<command::Code> for Code {
    fn from(code: command::Code) -> Self {
        match code {
            command::Code::OperationInProgress => Self::OperationInProgress,
            command::Code::InitializationInProgress => Self::InitializationInProgress,
            command::Code::ConfigDiffers => Self::ConfigDiffers,
            command::Code::ConfigNotRepeatable => Self::ConfigNotRepeatable,
            command::Code::OverrideHeld => Self::OverrideHeld,
            command::Code::NotRunning => Self::NotRunning,
            command::Code::WouldBreakQuorum => Self::WouldBreakQuorum,
            command::Code::GuardUnknown => Self::GuardUnknown,
            command::Code::GenerationMismatch => Self::GenerationMismatch,
            command::Code::ConfigInvalid => Self::ConfigInvalid,
            command::Code::FileUnreadable => Self::FileUnreadable,
            command::Code::DataDirRefused => Self::DataDirRefused,
            command::Code::NoCandidate => Self::NoCandidate,
            command::Code::InvalidValue => Self::InvalidValue,
            command::Code::ShuttingDown => Self::ShuttingDown,
            command::Code::SidecarUnavailable => Self::SidecarUnavailable,
            command::Code::Failed => Self::Failed,
        }
    }
}

/// A refusal on its way to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind of problem it is.
    pub code: Code,
    /// For people: what was asked, on what, what to do.
    pub detail: String,
    /// Single faults of the request, for configurations and parameters.
    pub errors: Vec<FieldError>,
}

impl Problem {
    /// A problem of this kind; `detail` is for people.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), errors: Vec::new() }
    }

    /// Of the answer.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.meaning().status).expect("every code has a valid status")
    }

    /// The document. With `core` it also says where the wrapper stood; the problem of an operation goes without.
    pub fn document(&self, core: Option<&CoreView>) -> wire::Problem {
        let Meaning { code, status, title, retryable } = self.code.meaning();
        wire::Problem {
            type_: format!("urn:etcd-wrapper:problem:{code}"),
            title: title.into(),
            status,
            detail: self.detail.clone(),
            code: code.into(),
            retryable,
            phase: core.map(|core| core.phase.as_str().into()),
            generation: core.map(|core| core.generation),
            errors: self.errors.clone(),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code.into(), refusal.detail)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_code_has_its_own_word_and_an_error_status() {
        let words: HashSet<_> = Code::ALL.iter().map(|code| code.meaning().code).collect();
        assert_eq!(words.len(), Code::ALL.len());
        for code in Code::ALL {
            let meaning = code.meaning();
            assert!((400..600).contains(&meaning.status), "{meaning:?}");
            assert!(meaning.code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{meaning:?}");
        }
    }

    #[test]
    fn documents_follow_rfc_9457() {
        let problem = Problem::new(Code::SidecarUnavailable, "connect 127.0.0.1:8080: refused");
        let json = serde_json::to_value(problem.document(None)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "type": "urn:etcd-wrapper:problem:sidecar_unavailable", "title": "The sidecar does not answer",
                "status": 503, "detail": "connect 127.0.0.1:8080: refused", "code": "sidecar_unavailable",
                "retryable": true
            })
        );
    }
}
