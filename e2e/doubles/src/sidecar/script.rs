// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a sidecar double shall do: the behaviour of the faithful part, and replies that replace it route by
//! route. Values with a strict file form (YAML or JSON; unknown keys are errors); carries nothing out.
//!
//! ```yaml
//! initial_status: New          # New | Progress | Successful | Failed
//! validation_time: 2s          # how long Progress lasts after a start
//! outcomes: [Failed]           # of the first validations; every later one is Successful
//! config_delay: 7s             # what the question to the client service costs
//! config: "name: a\n..."       # served as it is, instead of a rendered config map
//! store: true                  # false: snapshot routes answer 405, as without a snapshot store
//! lock_limit: 2m               # a validator that gets no database lock within this time fails
//! known_members: [etcd-main-0] # others are left out of initial-cluster, as while a cluster grows
//! learner_present: false       # true: initial-cluster-state is `existing`
//! replies:
//!   status:                    # status | start | config | snapshot_latest | snapshot_full | snapshot_delta |
//!     queue:                   #   healthz | other
//!       - {code: 500, body: "no", times: 3}
//!       - {code: 503, lasting: 10s}
//!       - {end: after_head}               # the faithful reply, its effect done, cut after the head
//!       - {end: after_head, effect: false}
//!       - {body: "Successful\n"}
//!       - {end: never}
//!     default: {before_head: 100ms}       # after the queue; left out: the faithful reply
//! ```
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::span::Span;

/// A word of `/initialization/status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Nothing was asked.
    #[default]
    New,
    /// It works on the directory.
    Progress,
    /// Told once.
    Successful,
    /// Told once.
    Failed,
}

/// The sidecar's routes; `Other` is every path it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// `/initialization/status`
    Status,
    /// `/initialization/start`
    Start,
    /// `/config`
    Config,
    /// `/snapshot/latest`
    SnapshotLatest,
    /// `/snapshot/full`
    SnapshotFull,
    /// `/snapshot/delta`
    SnapshotDelta,
    /// `/healthz`
    Healthz,
    /// Any path that it does not know.
    Other,
}

/// A whole double; see the module's head for the file form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// Before anybody asked.
    pub initial_status: Status,
    /// How long `Progress` lasts.
    pub validation_time: Span,
    /// Of the first validations; every later one is `Successful`.
    pub outcomes: VecDeque<Status>,
    /// What the question to the client service costs.
    pub config_delay: Span,
    /// Served as it is; None: rendered from a config map.
    pub config: Option<String>,
    /// There is a store for snapshots.
    pub store: bool,
    /// A validator without the database's lock fails after it.
    pub lock_limit: Span,
    /// None: all of the config map.
    pub known_members: Option<Vec<String>>,
    /// `initial-cluster-state` is `existing` then.
    pub learner_present: bool,
    /// In the place of faithful ones, by route.
    pub replies: BTreeMap<Route, Plan>,
}

/// Replies of one route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// One after the other.
    pub queue: VecDeque<Reply>,
    /// After the queue; None: the faithful one.
    pub default: Option<Reply>,
}

/// One reply. Without code, body and fill it is the faithful one, with its effect on the sidecar's state; with
/// one of them it is exactly that (code 200 if none is given), without an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reply {
    /// How many calls get it.
    pub times: u32,
    /// Every call gets it for so long, counted from the first; `times` does not count then.
    pub lasting: Option<Span>,
    /// None: the faithful one's.
    pub code: Option<u16>,
    /// None: the faithful one's.
    pub body: Option<String>,
    /// A body of so many bytes.
    pub fill: Option<usize>,
    /// None: the faithful one's.
    pub content_type: Option<String>,
    /// Whether the route's effect (the reset of the status, the start of a validation) happens.
    pub effect: Option<bool>,
    /// The state afterwards, whatever it was.
    pub then_status: Option<Status>,
    /// Silence.
    pub before_head: Span,
    /// Between the head and the first byte of the body.
    pub before_body: Span,
    /// Sends the body chunked, in so many pieces (at least one).
    pub chunks: Option<usize>,
    /// Time from the first piece to the last; with a content length the body comes in ten pieces.
    pub over: Span,
    /// How the connection ends.
    pub end: End,
}

/// How far a reply gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// As HTTP has it.
    #[default]
    Whole,
    /// The connection is closed so many bytes before the promised end of the body.
    Short(usize),
    /// Closed after the head, which promises at least one byte.
    AfterHead,
    /// Closed without a byte.
    BeforeHead,
    /// Reset (RST) without a byte.
    Reset,
    /// Nothing is sent, nothing is closed, until the caller leaves.
    Never,
    /// These bytes, then closed.
    Garbage(String),
}

impl Status {
    /// The sidecar's own spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "New",
            Self::Progress => "Progress",
            Self::Successful => "Successful",
            Self::Failed => "Failed",
        }
    }
}

impl std::str::FromStr for Status {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        [Self::New, Self::Progress, Self::Successful, Self::Failed]
            .into_iter()
            .find(|status| status.as_str() == word)
            .ok_or_else(|| format!("no status word, {word:?}: use New, Progress, Successful or Failed"))
    }
}

impl Route {
    /// Each of them, with the paths that no route has.
    pub const ALL: [Self; 8] = [
        Self::Status,
        Self::Start,
        Self::Config,
        Self::SnapshotLatest,
        Self::SnapshotFull,
        Self::SnapshotDelta,
        Self::Healthz,
        Self::Other,
    ];

    /// By the path of a request, without its query.
    pub fn of_path(path: &str) -> Self {
        match path {
            "/initialization/status" => Self::Status,
            "/initialization/start" => Self::Start,
            "/config" => Self::Config,
            "/snapshot/latest" => Self::SnapshotLatest,
            "/snapshot/full" => Self::SnapshotFull,
            "/snapshot/delta" => Self::SnapshotDelta,
            "/healthz" => Self::Healthz,
            _ => Self::Other,
        }
    }
}

impl Default for Script {
    fn default() -> Self {
        Self {
            initial_status: Status::New,
            validation_time: Span::ZERO,
            outcomes: VecDeque::new(),
            config_delay: Span::ZERO,
            config: None,
            store: true,
            lock_limit: Span(std::time::Duration::from_secs(120)),
            known_members: None,
            learner_present: false,
            replies: BTreeMap::new(),
        }
    }
}

impl Script {
    /// # Errors
    /// Where the text is no script.
    pub fn from_yaml(text: &str) -> anyhow::Result<Self> {
        // An empty document is the script without wishes.
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(text).context("no script of a sidecar double")
    }

    /// # Errors
    /// When the file cannot be read or holds no script.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("read script {}", path.display()))?;
        Self::from_yaml(&text).with_context(|| format!("parse script {}", path.display()))
    }

    /// Adds a reply at the end of a route's queue.
    #[must_use]
    pub fn reply(mut self, route: Route, reply: Reply) -> Self {
        self.replies.entry(route).or_default().queue.push_back(reply);
        self
    }

    /// Sets what a route answers once its queue is empty.
    #[must_use]
    pub fn always(mut self, route: Route, reply: Reply) -> Self {
        self.replies.entry(route).or_default().default = Some(reply);
        self
    }

    /// Queues one plain status word after the other: `Failed` here changes no state.
    #[must_use]
    pub fn words(mut self, words: &[&str]) -> Self {
        for word in words {
            self = self.reply(Route::Status, Reply::text(word));
        }
        self
    }
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            times: 1,
            lasting: None,
            code: None,
            body: None,
            fill: None,
            content_type: None,
            effect: None,
            then_status: None,
            before_head: Span::ZERO,
            before_body: Span::ZERO,
            chunks: None,
            over: Span::ZERO,
            end: End::Whole,
        }
    }
}
