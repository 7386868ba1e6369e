// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Who watches a run from outside, one task for each member and matter, and what they have seen in the end. Nobody here
//! judges or mends anything; a connection that ends is made anew and counted.
mod events;
mod leases;
mod probes;
mod processes;
mod watches;

use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::cluster::Cluster;
use crate::check::{Claim, Hash, Lease, Look, Read, Seen, Watcher};

/// All keys of the traffic.
pub const TRAFFIC: &str = "traffic/";
/// Before a member that did not answer is asked again.
const AGAIN: Duration = Duration::from_millis(300);

/// A list that several tasks add to.
type Shared<T> = Arc<Mutex<Vec<T>>>;

/// The witnesses at work.
#[derive(Debug)]
pub struct Witnesses {
    quit: watch::Sender<bool>,
    tasks: JoinSet<()>,
    lessees: JoinSet<()>,
    claims: Shared<Claim>,
    looks: Shared<Look>,
    reads: Shared<Read>,
    seen: Vec<Arc<Mutex<Seen>>>,
    watchers: Vec<Arc<Mutex<Watcher>>>,
    leases: Shared<Lease>,
    gone: Shared<(String, u64)>,
}

/// What they have seen.
#[derive(Debug)]
pub struct Testimony {
    /// Published documents about leadership.
    pub claims: Vec<Claim>,
    /// Answered probes.
    pub looks: Vec<Look>,
    /// Linearizable reads of our own.
    pub reads: Vec<Read>,
    /// Processes, by member.
    pub seen: Vec<Seen>,
    /// What watches heard.
    pub watchers: Vec<Watcher>,
    /// Leases, each with its key.
    pub leases: Vec<Lease>,
    /// What each member holds in the end.
    pub hashes: Vec<Hash>,
}

impl Witnesses {
    /// Lets them begin. `from`: the revision at which the traffic began.
    ///
    /// # Errors
    /// None of theirs: what cannot be seen now may be later.
    pub fn begin(cluster: &Cluster, seed: u64, from: i64) -> Self {
        let (quit, quitting) = watch::channel(false);
        let mut witnesses = Self {
            quit,
            tasks: JoinSet::new(),
            lessees: JoinSet::new(),
            claims: Arc::default(),
            looks: Arc::default(),
            reads: Arc::default(),
            seen: Vec::new(),
            watchers: Vec::new(),
            leases: Arc::default(),
            gone: Arc::default(),
        };
        for (member, pod) in cluster.pods.iter().enumerate() {
            let name = pod.name();
            let (client, port) = (cluster.clients[member].clone(), cluster.ports[member].clone());
            let tasks = &mut witnesses.tasks;
            tasks.spawn(events::listen(
                name.clone(),
                port.clone(),
                cluster.timeline.clone(),
                witnesses.claims.clone(),
            ));
            tasks.spawn(probes::probe(name.clone(), port, witnesses.looks.clone()));
            tasks.spawn(probes::read(name.clone(), client.apart(), witnesses.reads.clone()));
            let seen = Arc::new(Mutex::new(Seen { member: name.clone(), samples: Vec::new() }));
            tasks.spawn(processes::follow(pod.clone(), Arc::clone(&seen)));
            witnesses.seen.push(seen);
            let watcher = Arc::new(Mutex::new(Watcher { member: name.clone(), ..Watcher::default() }));
            tasks.spawn(watches::watch_traffic(client.apart(), from, Arc::clone(&watcher)));
            witnesses.watchers.push(watcher);
            let own = seed.wrapping_add(member as u64);
            let lessee = leases::Lessee::new(name, client.apart(), own, witnesses.leases.clone());
            witnesses.lessees.spawn(lessee.run(quitting.clone()));
        }
        // One is enough: what goes is told by any member sooner or later.
        let clients = cluster.clients.clone();
        witnesses.tasks.spawn(watches::watch_leases(clients, witnesses.gone.clone()));
        witnesses
    }

    /// Ends them when they have seen everything up to `revision`, and asks every member what it holds. Nobody writes any
    /// more, and all members are well.
    ///
    /// # Errors
    /// A watch that does not come to `revision`, or a lessee that panicked.
    pub async fn end(mut self, cluster: &Cluster, revision: i64) -> Result<Testimony> {
        self.quit.send_replace(true);
        while let Some(ended) = self.lessees.join_next().await {
            ended.context("a client with leases")?;
        }
        for watcher in &self.watchers {
            watches::until(watcher, revision).await;
        }
        let lingering = leases::lingering(cluster).await?;
        let hashes = hashes(cluster).await;
        self.tasks.shutdown().await;
        let gone = std::mem::take(&mut *lock(&self.gone));
        let mut leases = std::mem::take(&mut *lock(&self.leases));
        for lease in &mut leases {
            lease.gone = gone.iter().find(|(key, _)| *key == lease.key).map(|(_, at)| *at);
            lease.lingers = lingering.contains(&lease.key);
        }
        let take = |watcher: &Arc<Mutex<Watcher>>| Watcher { until: revision, ..lock(watcher).clone() };
        Ok(Testimony {
            claims: std::mem::take(&mut *lock(&self.claims)),
            looks: std::mem::take(&mut *lock(&self.looks)),
            reads: std::mem::take(&mut *lock(&self.reads)),
            seen: self.seen.iter().map(|seen| lock(seen).clone()).collect(),
            watchers: self.watchers.iter().map(take).collect(),
            leases,
            hashes,
        })
    }
}

/// What each member holds at the newest revision that all have.
async fn hashes(cluster: &Cluster) -> Vec<Hash> {
    let mut newest = i64::MAX;
    for client in &cluster.clients {
        if let Ok(standing) = client.status().await {
            newest = newest.min(standing.revision);
        }
    }
    let mut hashes = Vec::new();
    for (pod, client) in cluster.pods.iter().zip(&cluster.clients) {
        if let Ok((hash, compacted)) = client.hash_kv(Some(newest)).await {
            hashes.push(Hash { member: pod.name(), revision: newest, hash, compacted });
        }
    }
    hashes
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
