// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The faithful part: the status word that resets when it is read, the validation that takes the database lock,
//! the one config file that overlapping calls spoil. Returns answers; knows no sockets and no faults.
use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;
use serde_json::json;

use super::backing::{Backing, Mode};
use super::render::ConfigMap;
use super::script::{Route, Script, Status};

/// Pause of the validator between two tries to get the database lock; bbolt's own.
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// What a faithful sidecar would send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Vec<u8>,
}

/// The database was locked by somebody (an etcd) while a validation wanted it: what safety.md P1 forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockClash {
    /// When it was seen.
    pub at: SystemTime,
    /// Which database.
    pub db: PathBuf,
}

/// One sidecar process: a restart makes a new one.
#[derive(Debug)]
pub(super) struct Core {
    state: Mutex<State>,
    script: Script,
    member: String,
    data_dir: Option<PathBuf>,
    backing: Option<Arc<dyn Backing>>,
}

/// Where `/config` comes from, where the script holds none.
#[derive(Clone, Debug)]
pub(super) enum ConfigSource {
    Absent,
    Map(ConfigMap),
    /// Read for every call, as the real one reads its mounted config map.
    File(PathBuf),
}

#[derive(Debug)]
struct State {
    config: ConfigSource,
    status: Status,
    outcomes: VecDeque<Status>,
    known_members: Option<Vec<String>>,
    learner: bool,
    config_runs: u32,
    overlaps: usize,
    clashes: Vec<LockClash>,
}

impl Core {
    pub(super) fn new(
        script: Script,
        config: ConfigSource,
        member: String,
        data_dir: Option<PathBuf>,
        backing: Option<Arc<dyn Backing>>,
    ) -> Self {
        let state = State {
            config,
            status: script.initial_status,
            outcomes: script.outcomes.clone(),
            known_members: script.known_members.clone(),
            learner: script.learner_present,
            config_runs: 0,
            overlaps: 0,
            clashes: Vec::new(),
        };
        Self { state: Mutex::new(state), script, member, data_dir, backing }
    }

    pub(super) fn status(&self) -> Status {
        self.lock().status
    }

    pub(super) fn set_status(&self, status: Status) {
        self.lock().status = status;
    }

    pub(super) fn set_outcomes(&self, outcomes: &[Status]) {
        self.lock().outcomes = outcomes.iter().copied().collect();
    }

    pub(super) fn set_cluster(&self, known: Option<Vec<String>>, learner: bool) {
        let mut state = self.lock();
        state.known_members = known;
        state.learner = learner;
    }

    pub(super) fn set_config(&self, map: ConfigMap) {
        self.lock().config = ConfigSource::Map(map);
    }

    pub(super) fn clashes(&self) -> Vec<LockClash> {
        self.lock().clashes.clone()
    }

    /// The answer to one call. Without `effect` it is what the caller would read, and nothing changes. A caller
    /// that leaves drops this future: what has begun by then (a validation, a config run) goes on, as in the
    /// real one.
    pub(super) async fn answer(self: &Arc<Self>, route: Route, query: &str, effect: bool) -> Answer {
        match route {
            Route::Status => Answer::text(200, self.read_status(effect).as_str()),
            Route::Start => {
                if effect {
                    self.begin_validation(mode_of(query));
                }
                Answer::text(200, "")
            }
            Route::Config => self.serve_config().await,
            Route::SnapshotLatest => {
                self.snapshot(json!({"fullSnapshot": full_snapshot(), "deltaSnapshots": []}))
            }
            Route::SnapshotFull => self.snapshot(full_snapshot()),
            // Nothing has changed since the last one: the real one has no snapshot to tell of either.
            Route::SnapshotDelta => self.snapshot(serde_json::Value::Null),
            Route::Healthz => Answer::json(200, &json!({"health": true})),
            Route::Other => Answer::text(404, "404 page not found\n"),
        }
    }

    fn read_status(&self, effect: bool) -> Status {
        let mut state = self.lock();
        let read = state.status;
        if effect && matches!(read, Status::Successful | Status::Failed) {
            state.status = Status::New;
        }
        read
    }

    fn begin_validation(self: &Arc<Self>, mode: Mode) {
        let mut state = self.lock();
        if state.status != Status::New {
            return;
        }
        state.status = Status::Progress;
        drop(state);
        tokio::spawn(Arc::clone(self).validate(mode));
    }

    async fn validate(self: Arc<Self>, mode: Mode) {
        let locked = self.lock_database().await;
        tokio::time::sleep(self.script.validation_time.0).await;
        // Without a file there was nothing to lock: an etcd that has made one meanwhile ran beside us.
        if matches!(locked, Ok(None)) && self.try_lock().is_err() {
            self.note_clash();
        }
        let outcome = match locked {
            // The lock is held as long as the work lasts.
            Ok(_) => self.outcome(mode).await,
            Err(TimedOut) => Status::Failed,
        };
        self.lock().status = outcome;
    }

    /// What was asked for by a script or a control call; else what the work behind the double comes to.
    async fn outcome(&self, mode: Mode) -> Status {
        let wanted = self.lock().outcomes.pop_front();
        match (wanted, &self.backing) {
            (Some(wanted), _) => wanted,
            (None, Some(backing)) if backing.initialize(mode).await.is_err() => Status::Failed,
            (None, _) => Status::Successful,
        }
    }

    /// Holds the database as the real validator does; None where there is no database (yet).
    async fn lock_database(&self) -> Result<Option<File>, TimedOut> {
        let begun = tokio::time::Instant::now();
        let mut told = false;
        loop {
            match self.try_lock() {
                Ok(held) => return Ok(held),
                Err(Busy) if begun.elapsed() >= self.script.lock_limit.0 => return Err(TimedOut),
                Err(Busy) => {
                    if !std::mem::replace(&mut told, true) {
                        self.note_clash();
                    }
                    tokio::time::sleep(LOCK_RETRY).await;
                }
            }
        }
    }

    fn try_lock(&self) -> Result<Option<File>, Busy> {
        let Some(file) = self.db().and_then(|db| File::open(db).ok()) else {
            return Ok(None);
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(_) => Err(Busy),
        }
    }

    fn db(&self) -> Option<PathBuf> {
        self.data_dir.as_ref().map(|folder| folder.join("member/snap/db"))
    }

    fn note_clash(&self) {
        let db = self.db().unwrap_or_default();
        self.lock().clashes.push(LockClash { at: SystemTime::now(), db });
    }

    /// Each call rewrites one file and then serves it. A call that comes while another runs finds that file
    /// truncated: it gets a part of it, or nothing, with a matching length. The parts differ in length, so that no
    /// two of them in a row can pass for a body that came twice.
    async fn serve_config(self: &Arc<Self>) -> Answer {
        let overlap = {
            let mut state = self.lock();
            state.config_runs += 1;
            (state.config_runs > 1).then(|| {
                state.overlaps += 1;
                state.overlaps
            })
        };
        // The run outlives a caller that hangs up.
        let this = Arc::clone(self);
        let run = tokio::spawn(async move {
            tokio::time::sleep(this.script.config_delay.0).await;
            let rendered = this.config_text().await;
            this.lock().config_runs -= 1;
            rendered
        });
        match run.await {
            Ok(Ok(mut body)) => {
                if let Some(nth) = overlap {
                    body.truncate(body.len() * (nth - 1) / (nth + 1));
                }
                Answer::text(200, &body)
            }
            Ok(Err(_)) | Err(_) => Answer::text(500, ""),
        }
    }

    async fn config_text(&self) -> anyhow::Result<String> {
        match (&self.script.config, &self.backing) {
            (Some(text), _) => Ok(text.clone()),
            (None, Some(backing)) => backing.config().await,
            (None, None) => self.rendered_config(),
        }
    }

    fn rendered_config(&self) -> anyhow::Result<String> {
        let state = self.lock();
        let map = match &state.config {
            ConfigSource::Absent => anyhow::bail!("no config map was given"),
            ConfigSource::Map(map) => map.clone(),
            ConfigSource::File(path) => ConfigMap::read(path)?,
        };
        map.render(&self.member, state.known_members.as_deref(), state.learner)
    }

    fn snapshot(&self, taken: serde_json::Value) -> Answer {
        if self.script.store { Answer::json(200, &taken) } else { Answer::text(405, "") }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parameter `mode` of a start; what is not `sanity` means everything, as for the real one.
fn mode_of(query: &str) -> Mode {
    let sanity = query.split('&').any(|pair| pair == "mode=sanity");
    if sanity { Mode::Sanity } else { Mode::Full }
}

struct Busy;
struct TimedOut;

impl Answer {
    pub(super) fn text(code: u16, body: &str) -> Self {
        Self { code, body: body.as_bytes().to_vec() }
    }

    pub(super) fn json(code: u16, body: &serde_json::Value) -> Self {
        // The real one names no type for its JSON: Go takes it for text.
        Self::text(code, &body.to_string())
    }
}

fn full_snapshot() -> serde_json::Value {
    json!({
        "createdOn": "2026-01-01T00:00:00Z",
        // The key is misspelt by the real one.
        "immutabilityExpriyTime": "0001-01-01T00:00:00Z",
        "versionID": null,
        "kind": "Full",
        "snapDir": "",
        "snapName": "Full-00000000-00000001-1767225600",
        "prefix": "v2",
        "compressionSuffix": "",
        "startRevision": 0,
        "lastRevision": 1,
        "isChunk": false,
        "isFinal": false,
    })
}
