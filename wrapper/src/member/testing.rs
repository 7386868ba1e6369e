// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Values for the tests of this stage's pure parts.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;

use crate::config::{EtcdConfig, TlsSection};
use crate::supervise::view::{
    BootstrapState, BootstrapView, ChildView, ConfigSource, CoreView, Intent, Phase,
};

use super::guard::Sight;
use super::view::{Peer, Probe};

pub(super) fn config() -> EtcdConfig {
    EtcdConfig {
        bytes: Bytes::new(),
        digest: "sha256:0".into(),
        name: "etcd-main-0".into(),
        data_dir: "/var/etcd/data/new.etcd".into(),
        listen_client_urls: vec!["http://0.0.0.0:2379".into()],
        listen_client_http_urls: Vec::new(),
        listen_peer_urls: vec!["http://0.0.0.0:2380".into()],
        advertise_client_urls: vec!["http://etcd-main-0:2379".into()],
        advertise_peer_urls: vec!["http://etcd-main-0:2380".into()],
        initial_cluster: vec![("etcd-main-0".into(), "http://etcd-main-0:2380".into())],
        client_tls: TlsSection::default(),
        peer_tls: TlsSection::default(),
        quota_backend_bytes: 0,
        election_timeout: Duration::from_secs(1),
        unsafe_no_fsync: false,
        force_new_cluster: false,
    }
}

/// A supervisor in `phase` with generation 1 alive, whatever the phase.
pub(super) fn core(phase: Phase) -> CoreView {
    let time = SystemTime::UNIX_EPOCH;
    CoreView {
        epoch: "3f9a1c".into(),
        started_at: time,
        intent: Intent::Up,
        phase,
        phase_since: time,
        draining: false,
        hold_reason: None,
        generation: 1,
        etcd_version: None,
        child: Some(ChildView {
            generation: 1,
            pid: 19,
            started_at: time,
            ready_since: None,
            config: Arc::new(config()),
            source: ConfigSource::Sidecar,
        }),
        last_exit: None,
        bootstrap: BootstrapView {
            state: BootstrapState::Done,
            validation: None,
            rounds: 0,
            word: None,
            since: time,
            last_error: None,
        },
        override_: None,
        operations: Arc::default(),
        ready_once: false,
        warnings: vec![],
        data_dir: None,
        ticked: Instant::now(),
    }
}

pub(super) fn probe(ok: bool, at: Instant, last_success: Option<Instant>) -> Probe {
    Probe { ok, at, at_wall: SystemTime::UNIX_EPOCH, last_success, detail: "3 ms".into() }
}

/// Voters have the ids 1..=voters, learners the next ones; no connection was ever lost.
pub(super) fn sight(voters: u64, learners: u64, self_id: u64, active: &[u64]) -> Sight {
    let members = (1..=voters + learners).map(|id| Peer {
        id,
        name: format!("etcd-{id}"),
        peer_urls: vec![],
        is_learner: id > voters,
    });
    let active = active.iter().copied().collect();
    Sight { self_id, members: members.collect(), active, disconnects: BTreeMap::new() }
}
