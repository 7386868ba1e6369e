// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the threads of an etcd double share: its config, its script of the moment, and how the member stands by
//! it. Answers questions; starts and ends nothing.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::config::Config;
use super::record::{Event, Recorder};
use super::script::{Leader, Row, Script, Standing};

/// What all threads of the program share.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) config: Config,
    recorder: Recorder,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    script: Arc<Script>,
    /// When the steps of the script's standing began.
    steps_since: Instant,
    /// The leader after a MoveLeader, and its term.
    moved: Option<(u64, u64)>,
}

impl Live {
    pub(super) fn new(config: Config, recorder: Recorder, script: Script) -> Self {
        let now = Now { script: Arc::new(script), steps_since: Instant::now(), moved: None };
        Self { config, recorder, now: Mutex::new(now) }
    }

    pub(super) fn note(&self, event: Event) {
        self.recorder.note(event);
    }

    pub(super) fn script(&self) -> Arc<Script> {
        Arc::clone(&self.now().script)
    }

    /// How the member stands at this moment.
    pub(super) fn standing(&self) -> Standing {
        let now = self.now();
        let mut standing = now.script.standing_at(now.steps_since.elapsed());
        if let Some((leader, term)) = now.moved {
            standing.leader = Leader::Member(leader);
            standing.term = standing.term.max(term);
        }
        standing
    }

    /// 0 without a leader, as on the wire.
    pub(super) fn leader_id(&self, standing: &Standing) -> u64 {
        match standing.leader {
            Leader::Myself => self.member_id(),
            Leader::Nobody => 0,
            Leader::Member(id) => id,
        }
    }

    pub(super) fn member_id(&self) -> u64 {
        self.script().member_id.unwrap_or_else(|| id_of(&self.config.name))
    }

    pub(super) fn members(&self) -> Vec<Row> {
        self.script().members.clone().unwrap_or_else(|| {
            let mut rows: Vec<Row> = Vec::new();
            for (name, url) in &self.config.initial_cluster {
                match rows.iter_mut().find(|row| row.name == *name) {
                    Some(row) => row.peer_urls.push(url.clone()),
                    None => {
                        let own = *name == self.config.name;
                        let id = if own { self.member_id() } else { id_of(name) };
                        let learner = own && self.standing().learner;
                        rows.push(Row { id, name: name.clone(), peer_urls: vec![url.clone()], learner });
                    }
                }
            }
            rows
        })
    }

    pub(super) fn move_leader(&self, target: u64) {
        let term = self.standing().term + 1;
        let mut now = self.now();
        if now.script.moves_leader {
            now.moved = Some((target, term));
        }
    }

    /// The script changed: its steps begin anew.
    pub(super) fn change(&self, script: Script) {
        *self.now() = Now { script: Arc::new(script), steps_since: Instant::now(), moved: None };
    }

    /// READY: the steps begin here.
    pub(super) fn restart_steps(&self) {
        self.now().steps_since = Instant::now();
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A member's id where the script names none: stable, and the same for every double that knows the name.
pub fn id_of(name: &str) -> u64 {
    let digest = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_ref()[..8]);
    u64::from_be_bytes(first)
}
