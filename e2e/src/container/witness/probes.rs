// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Readiness as the kubelet hears it, and beside it linearizable reads of our own through the same member.
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::{Shared, lock};
use crate::check::{Look, Read};
use crate::container::port::Port;
use crate::etcd::Client;
use crate::timeline::now;

const PROBE: Duration = Duration::from_millis(500);
const READ: Duration = Duration::from_secs(1);
/// The wrapper's own limit.
const LIMIT: Duration = Duration::from_secs(5);

pub(super) async fn probe(member: String, port: Port, looks: Shared<Look>) {
    let mut ticks = ticks(PROBE);
    loop {
        ticks.tick().await;
        let at = now();
        // A port that does not answer says nothing of readiness; a kubelet takes it for a no.
        let ready = port.is_ready().await.unwrap_or(false);
        lock(&looks).push(Look { member: member.clone(), at, ready });
    }
}

pub(super) async fn read(member: String, client: Client, reads: Shared<Read>) {
    let mut ticks = ticks(READ);
    let mut flights = JoinSet::new();
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let (member, client, reads) = (member.clone(), client.within(LIMIT), reads.clone());
                flights.spawn(async move {
                    let begun = now();
                    let answered = client.get("probe").await.is_ok();
                    lock(&reads).push(Read { member, begun, ended: now(), answered });
                });
            }
            Some(_) = flights.join_next() => {}
        }
    }
}

fn ticks(pause: Duration) -> tokio::time::Interval {
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
