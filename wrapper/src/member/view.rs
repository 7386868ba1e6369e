// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the member stage publishes: the newest answers of the local etcd. One writer (member.rs), many readers.
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::config::EtcdConfig;

use super::client::Client;
use super::dial::Dial;

/// A version as it is published: whatever calls itself one, no more than 64 bytes of it.
pub(super) fn short_version(text: &str) -> String {
    text[..text.floor_char_boundary(64)].to_owned()
}

/// Which etcd the member stage talks to, handed over by the supervisor at each spawn; None without a child.
#[derive(Clone, Debug)]
pub struct Target {
    /// Of the etcd to ask.
    pub generation: u64,
    /// What it runs with.
    pub config: Arc<EtcdConfig>,
    /// Where gRPC is served. May be replaced within a generation: a reloaded certificate is a new `Arc` in it.
    pub dial: Dial,
    /// Where `/metrics` is served; None: at the same place (differs with `listen-client-http-urls`).
    pub http: Option<Dial>,
    /// The READY datagram has come. Nothing is asked before: etcd's port is open early but served only from READY on,
    /// and a TLS handshake given up while waiting is a "rejected connection" in etcd's log.
    pub ready_seen: bool,
}

/// The newest outcome of one kind of call.
#[derive(Clone, Debug)]
pub struct Probe {
    /// It succeeded, or was refused in a way that proves the same.
    pub ok: bool,
    /// When the answer (or the giving up) came.
    pub at: Instant,
    /// When the answer came.
    pub at_wall: SystemTime,
    /// When the newest success of this kind came.
    pub last_success: Option<Instant>,
    /// "3 ms", or the error in short.
    pub detail: String,
}

/// Database numbers of a Status answer (bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Db {
    /// Bytes allocated.
    pub size: u64,
    /// Bytes in use.
    pub in_use: u64,
    /// `quota-backend-bytes` of the running config; etcd's default 2 GiB where the config is silent or 0.
    pub quota: u64,
}

/// Where leadership knowledge came from (api.md §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Maintenance Status.
    Status,
    /// etcd's `/metrics`, when auth hides Status.
    Metrics,
}

/// Leadership as the local member last told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// Ours.
    pub member_id: Option<u64>,
    /// Some(0) never occurs: "no leader" is None.
    pub leader_id: Option<u64>,
    /// A leader is known (source `metrics`: though not which).
    pub has_leader: bool,
    /// The newest poll named this member, and consensus has been seen to work in this generation.
    pub is_leader: bool,
    /// None: not known.
    pub is_learner: Option<bool>,
    /// Raft's term; None until consensus has been seen to work: a starting etcd counts its term up from 0 while it
    /// replays its log, and a term must not be seen to fall. None too while only the term before the leader's is known.
    pub term: Option<u64>,
    /// Which answer it rests on.
    pub source: Source,
    /// When anything above changed.
    pub since: SystemTime,
}

/// A row of MemberList.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// 64 bits, as etcd counts it.
    pub id: u64,
    /// Empty until it has joined.
    pub name: String,
    /// As the cluster knows them.
    pub peer_urls: Vec<String>,
    /// Not a voter yet.
    pub is_learner: bool,
}

/// Those of this member's cluster that etcd raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Alarms {
    /// Writes are refused.
    pub nospace: bool,
    /// A member's data differs from the others'.
    pub corrupt: bool,
}

/// Everything the local member told, for one generation. Emptied when the generation changes or ends.
/// Watchers are woken when something but times, durations and database numbers has changed; the value itself is
/// always the newest.
#[derive(Clone, Debug, Default)]
pub struct MemberView {
    /// None: there is no child to ask.
    pub generation: Option<u64>,
    /// Confirmed by a linearizable read, or by an answer that says learner (api.md §8 `running`).
    pub confirmed: bool,
    /// The newest; None: none has ended yet.
    pub linearizable_read: Option<Probe>,
    /// The newest knowledge from Status, `/metrics`, or a linearizable read (refused: true; served: false).
    pub learner: Option<bool>,
    /// Answered by the local member alone.
    pub serializable_read: Option<Probe>,
    /// Status, or `/metrics` while `auth_hides_status`.
    pub status: Option<Probe>,
    /// None: not known, or two polls in a row failed.
    pub leadership: Option<Leadership>,
    /// None: not known.
    pub alarms: Option<Alarms>,
    /// None: not known.
    pub db: Option<Db>,
    /// etcd's version as the running member reports it.
    pub version: Option<String>,
    /// None: it could not be read (auth on, no quorum).
    pub members: Option<Vec<Peer>>,
    /// Auth hides Status from an anonymous client, so `/metrics` is the source.
    pub auth_hides_status: bool,
    /// For calls that somebody waits for (confirm, guard, transfer); None before READY.
    pub client: Option<Client>,
}

impl MemberView {
    /// When the local member last answered anything, a Status, a page or a read.
    pub fn last_answer(&self) -> Option<Instant> {
        let probes = [&self.linearizable_read, &self.serializable_read, &self.status];
        probes.into_iter().flatten().filter_map(|probe| probe.last_success).max()
    }

    /// The row of the local member itself.
    pub fn own_row(&self) -> Option<&Peer> {
        let id = self.leadership.as_ref()?.member_id?;
        self.members.as_ref()?.iter().find(|peer| peer.id == id)
    }
}
