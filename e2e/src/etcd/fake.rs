// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An etcd within the tests: one store behind any number of connectors, and moods in which it lies, loses or hangs.
//! No disk, no raft, no sockets: a stream is a pipe within the process.
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::sync::Notify;
use tonic::body::Body;
use tower::ServiceExt;

use super::dial::Connector;
use super::proto::cluster_server::ClusterServer;
use super::proto::kv_server::KvServer;
use super::proto::maintenance_server::MaintenanceServer;
use super::proto::{KeyValue, Member};

mod cluster;
mod kv;

/// What the fake does to writes and reads of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Sound,
    /// Carries writes out, and answers that it does not know.
    LosesReplies,
    /// Answers writes, and does not carry them out.
    ForgetsWrites,
    /// Answers reads with the value before the last one.
    ReadsStale,
    /// Refuses everything, and does nothing.
    Refuses,
    /// Never answers.
    Hangs,
    /// Cannot be reached, and hangs up on whoever is connected.
    Unreachable,
}

/// Clones are the same etcd.
#[derive(Clone)]
pub(crate) struct Fake {
    shared: Arc<Mutex<Store>>,
    hangs_up: Arc<Notify>,
}

pub(super) struct Store {
    pub(super) revision: i64,
    pub(super) keys: BTreeMap<Vec<u8>, KeyValue>,
    /// What each key was before its last write.
    pub(super) before: BTreeMap<Vec<u8>, Option<KeyValue>>,
    pub(super) members: Vec<Member>,
    pub(super) leader: u64,
    pub(super) alarms: Vec<(u64, i32)>,
    mood: Mood,
    /// The mood is that of every n-th call; the others are sound.
    every: u64,
    calls: u64,
    pub(super) dials: u64,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let members = (1..=3).map(|id| Member { id, name: format!("m-{id}"), ..Member::default() }).collect();
        let store = Store {
            revision: 1,
            keys: BTreeMap::new(),
            before: BTreeMap::new(),
            members,
            leader: 1,
            alarms: Vec::new(),
            mood: Mood::Sound,
            every: 1,
            calls: 0,
            dials: 0,
        };
        Self { shared: Arc::new(Mutex::new(store)), hangs_up: Arc::default() }
    }

    /// From now on, every n-th call meets this mood.
    pub(crate) fn set(&self, mood: Mood, every: u64) {
        let mut store = self.store();
        (store.mood, store.every) = (mood, every);
        if mood == Mood::Unreachable {
            self.hangs_up.notify_waiters();
        }
    }

    pub(crate) fn dials(&self) -> u64 {
        self.store().dials
    }

    pub(crate) fn calls(&self) -> u64 {
        self.store().calls
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        self.shared.lock().unwrap()
    }

    /// The mood of the call that begins now.
    pub(super) fn mood(&self) -> Mood {
        let mut store = self.store();
        store.calls += 1;
        if store.calls.is_multiple_of(store.every) { store.mood } else { Mood::Sound }
    }

    pub(crate) fn connector(&self, place: &str) -> Connector {
        let fake = self.clone();
        Connector::new(place, move || {
            let fake = fake.clone();
            async move {
                let mut store = fake.store();
                store.dials += 1;
                anyhow::ensure!(store.mood != Mood::Unreachable, "nobody listens");
                drop(store);
                let (near, far) = tokio::io::duplex(64 * 1024);
                tokio::spawn(serve(fake, far));
                Ok(near)
            }
        })
    }
}

/// Speaks gRPC on one stream until it ends.
pub(super) async fn serve<S>(fake: Fake, stream: S)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let hangs_up = Arc::clone(&fake.hangs_up);
    let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let fake = fake.clone();
        async move {
            let path = request.uri().path().to_owned();
            let request = request.map(Body::new);
            match path.rsplit_once('/').map_or("", |(service, _)| service) {
                "/etcdserverpb.KV" => KvServer::new(fake).oneshot(request).await,
                "/etcdserverpb.Cluster" => ClusterServer::new(fake).oneshot(request).await,
                "/etcdserverpb.Maintenance" => MaintenanceServer::new(fake).oneshot(request).await,
                _ => Ok::<_, Infallible>(http::Response::new(Body::empty())),
            }
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    tokio::select! {
        // How a connection ends concerns nobody.
        _ = builder.serve_connection(TokioIo::new(stream), service) => {}
        () = hangs_up.notified() => {}
    }
}
