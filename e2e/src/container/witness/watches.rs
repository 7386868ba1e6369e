// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Watches on the traffic, one through each member, and one on leased keys. A watch that ended is taken up behind the
//! last change that was heard.
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::leases::PREFIX;
use super::{AGAIN, Shared, TRAFFIC, lock};
use crate::check::Watcher;
use crate::etcd::{Client, Heard};
use crate::timeline::now;

/// How long a watch may be behind when nobody writes any more.
const BEHIND: Duration = Duration::from_secs(30);
/// A watch hears nothing of a connection that is dead without a word.
const SILENCE: Duration = Duration::from_secs(10);

pub(super) async fn watch_traffic(client: Client, from: i64, watcher: Arc<Mutex<Watcher>>) {
    let mut next = from;
    loop {
        if let Ok(mut watching) = client.apart().watch(TRAFFIC, next).await {
            lock(&watcher).connections += 1;
            while let Ok(Some(heard)) = tokio::time::timeout(SILENCE, watching.next()).await {
                match heard {
                    Heard::Changes(changes) => {
                        next = changes.last().map_or(next, |change| change.revision + 1);
                        lock(&watcher).changes.extend(changes);
                    }
                    Heard::Canceled(why, first) => {
                        // What is compacted cannot be heard any more: that is a gap, and the watch goes on behind it.
                        if let Some(first) = first.filter(|first| *first > next) {
                            lock(&watcher).gaps.push(format!("from {next} to {first}: {why}"));
                            next = first;
                        }
                        break;
                    }
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Waits until a watcher has heard of `revision`. One that never does is found out by what it lacks.
pub(super) async fn until(watcher: &Arc<Mutex<Watcher>>, revision: i64) {
    let begun = Instant::now();
    while begun.elapsed() < BEHIND {
        if lock(watcher).changes.last().is_some_and(|change| change.revision >= revision) {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Deletions of leased keys, each with when it was heard of; through whichever member tells.
pub(super) async fn watch_leases(clients: Vec<Client>, gone: Shared<(String, u64)>) {
    let mut next = 0;
    for client in clients.iter().cycle() {
        if let Ok(mut watching) = client.apart().watch(PREFIX, next).await {
            while let Ok(Some(heard)) = tokio::time::timeout(SILENCE, watching.next()).await {
                let Heard::Changes(changes) = heard else { break };
                next = changes.last().map_or(next, |change| change.revision + 1);
                let deleted = changes.into_iter().filter(|change| change.value.is_none());
                lock(&gone).extend(deleted.map(|change| (change.key, now())));
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}
