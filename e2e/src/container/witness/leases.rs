// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A client that takes leases, hangs a key on each, renews it a few times, and then lets it run out or ends it.
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use super::{AGAIN, Shared, lock};
use crate::check::{Lease, Renewal};
use crate::container::cluster::Cluster;
use crate::etcd::proto::RangeRequest;
use crate::etcd::{Client, prefix_end};
use crate::timeline::now;

/// All leased keys.
pub(super) const PREFIX: &str = "leased/";
/// The longest lease once more, if a new leader let all begin anew, and what a busy machine needs to end them.
const LINGER: Duration = Duration::from_secs(40);

pub(super) struct Lessee {
    member: String,
    client: Client,
    random: StdRng,
    leases: Shared<Lease>,
}

impl Lessee {
    pub(super) fn new(member: String, client: Client, seed: u64, leases: Shared<Lease>) -> Self {
        Self {
            member,
            client: client.within(Duration::from_secs(3)),
            random: StdRng::seed_from_u64(seed),
            leases,
        }
    }

    pub(super) async fn run(mut self, mut quit: watch::Receiver<bool>) {
        for number in 0_u64.. {
            let key = format!("{PREFIX}{}.{number}", self.member);
            let life = Duration::from_secs(self.random.random_range(4..8));
            let renewals = self.random.random_range(0..4);
            let revokes = self.random.random_bool(0.4);
            tokio::select! {
                lease = self.one(key, life, renewals, revokes) => lock(&self.leases).extend(lease),
                // What is under way then is neither renewed nor judged any more.
                _ = quit.wait_for(|quit| *quit) => return,
            }
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                _ = quit.wait_for(|quit| *quit) => return,
            }
        }
    }

    /// None: it never came to a key.
    async fn one(&self, key: String, life: Duration, renewals: u32, revokes: bool) -> Option<Lease> {
        let begun = now();
        let id = self.client.lease_grant(life).await.ok()?;
        let granted = Renewal { begun, ended: now() };
        self.client.put_leased(&key, "held", id).await.ok()?;
        let millis = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        let mut lease =
            Lease { key, life: millis, promises: vec![granted], revoked: false, gone: None, lingers: false };
        for _ in 0..renewals {
            tokio::time::sleep(life / 3).await;
            let begun = now();
            if let Ok(true) = self.client.lease_renew(id).await {
                lease.promises.push(Renewal { begun, ended: now() });
            }
        }
        if revokes {
            lease.revoked = true;
            // Whatever comes of it: from now on nothing is promised.
            let _ = self.client.lease_revoke(id).await;
        }
        Some(lease)
    }
}

/// Keys that are there long after their leases have run out. Nobody renews any more.
pub(super) async fn lingering(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let begun = Instant::now();
    loop {
        let request = RangeRequest {
            key: PREFIX.into(),
            range_end: prefix_end(PREFIX),
            keys_only: true,
            ..RangeRequest::default()
        };
        let answer = cluster.clients[0].range(request).await.context("read all leased keys")?;
        let keys = answer.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned());
        let keys: BTreeSet<String> = keys.collect();
        if keys.is_empty() || begun.elapsed() > LINGER {
            return Ok(keys);
        }
        tokio::time::sleep(AGAIN).await;
    }
}
