// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the member stage publishes: the newest answers of the local etcd. One writer (member.rs), many readers.
use std::time::{Instant, SystemTime};

/// Which etcd the member stage talks to, handed over by the supervisor at each spawn; None without a child.
#[derive(Clone, Debug)]
pub struct Target {
    pub generation: u64,
    pub config: std::sync::Arc<crate::config::EtcdConfig>,
    /// The READY datagram has come: linearizable reads make sense from now on.
    pub ready_seen: bool,
}

/// The newest outcome of one kind of call.
#[derive(Clone, Debug)]
pub struct Probe {
    pub ok: bool,
    /// When the answer (or the giving up) came.
    pub at: Instant,
    pub at_wall: SystemTime,
    /// When the newest success of this kind came.
    pub last_success: Option<Instant>,
    /// "3 ms", or the error in short.
    pub detail: String,
}

/// Database numbers of a Status answer (bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Db {
    pub size: u64,
    pub in_use: u64,
    /// `quota-backend-bytes` of the running config; etcd's default 2 GiB where the config is silent or 0.
    pub quota: u64,
}

/// Where leadership knowledge came from (api.md §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Status,
    Metrics,
}

/// Leadership as the local member last told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leadership {
    pub member_id: Option<u64>,
    /// Some(0) never occurs: "no leader" is None.
    pub leader_id: Option<u64>,
    pub is_leader: bool,
    pub is_learner: Option<bool>,
    pub term: Option<u64>,
    pub source: Source,
    pub since: SystemTime,
}

/// A row of MemberList.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub id: u64,
    pub name: String,
    pub peer_urls: Vec<String>,
    pub is_learner: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Alarms {
    pub nospace: bool,
    pub corrupt: bool,
}

/// Everything the local member told, for one generation. Emptied when the generation changes or ends.
#[derive(Clone, Debug, Default)]
pub struct MemberView {
    /// None: there is no child to ask.
    pub generation: Option<u64>,
    /// Confirmed by a linearizable read, or by an answer that says learner (api.md §8 `running`).
    pub confirmed: bool,
    pub linearizable_read: Option<Probe>,
    pub serializable_read: Option<Probe>,
    pub status: Option<Probe>,
    pub leadership: Option<Leadership>,
    pub alarms: Option<Alarms>,
    pub db: Option<Db>,
    /// etcd's version as the running member reports it.
    pub version: Option<String>,
    /// None: it could not be read (auth on, no quorum).
    pub members: Option<Vec<Peer>>,
    /// Auth hides Status from an anonymous client, so `/metrics` is the source.
    pub auth_hides_status: bool,
}
