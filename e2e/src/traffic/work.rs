// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One client at work, and the last look at all keys when the clients are done.
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::choose::{Chooser, Known};
use super::record::Record;
use super::{Plan, Target};
use crate::etcd::{CallError, Client, Entry, Expect, Swapped};
use crate::history::{Answer, Call, Outcome, Seen};

/// Pause before members that did not answer the last reads are asked again.
const AGAIN: Duration = Duration::from_millis(200);

pub(super) struct Worker {
    chooser: Chooser,
    known: Arc<Known>,
    prefix: String,
    pace: Duration,
    /// The first is asked; with others behind it, an end without an answer puts it last.
    targets: Vec<Target>,
    record: Arc<Record>,
    stopping: watch::Receiver<bool>,
}

impl Worker {
    pub(super) fn new(
        plan: &Plan,
        slot: usize,
        mut targets: Vec<Target>,
        known: Arc<Known>,
        record: Arc<Record>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        targets.iter_mut().for_each(|target| target.client = target.client.apart().within(plan.limit));
        Self {
            chooser: Chooser::new(plan.seed, slot, plan.keys, plan.mix),
            known,
            prefix: plan.prefix.clone(),
            pace: plan.pace,
            targets,
            record,
            stopping,
        }
    }

    /// Makes calls until it is told to stop or the record is full. The call under way is always ended.
    pub(super) async fn run(mut self) {
        let mut client = self.record.new_client();
        let mut next = Instant::now();
        loop {
            // What a slow call cost is not caught up: a burst after a fault would be another kind of traffic.
            next = Instant::now().max(next + self.chooser.pause(self.pace));
            tokio::select! {
                _ = self.stopping.wait_for(|stopping| *stopping) => return,
                () = tokio::time::sleep_until(next) => {}
            }
            if self.record.is_full() {
                return;
            }
            let (number, call) = self.chooser.next(&self.known);
            let key = name(number);
            let path = format!("{}{key}", self.prefix);
            let target = &mut self.targets[0];
            let flight = self.record.begin(client, &target.member, key, call.clone(), false);
            let outcome = carry_out(&target.client, &path, &call).await;
            match &outcome {
                Outcome::Ok(answer) => self.known.learn(number, &call, answer),
                Outcome::Failed { .. } => {}
                Outcome::Unknown { .. } => {
                    // The old client's call is still open, so whoever calls now is somebody else, on another connection.
                    client = self.record.new_client();
                    target.client = target.client.apart();
                }
            }
            if !matches!(outcome, Outcome::Ok(_)) {
                self.targets.rotate_left(1);
            }
            flight.end(outcome);
        }
    }
}

fn name(key: usize) -> String {
    format!("k{key}")
}

/// Reads every key through every member, and goes on with those keys that nobody has told yet.
pub(super) async fn last_reads(plan: &Plan, targets: &[Target], record: &Arc<Record>) {
    let read_all = async {
        let mut open: Vec<usize> = (0..plan.keys).collect();
        while !open.is_empty() {
            let mut told = vec![false; plan.keys];
            for target in targets {
                let client = target.client.apart().within(plan.limit);
                for &key in &open {
                    let path = format!("{}{}", plan.prefix, name(key));
                    let owner = record.new_client();
                    let flight = record.begin(owner, &target.member, name(key), Call::Read, true);
                    let outcome = carry_out(&client, &path, &Call::Read).await;
                    let answered = matches!(outcome, Outcome::Ok(_));
                    flight.end(outcome);
                    told[key] |= answered;
                    if !answered {
                        // A member that is away keeps the others from being asked for one call's time at most.
                        break;
                    }
                }
            }
            open.retain(|key| !told[*key]);
            if !open.is_empty() {
                tokio::time::sleep(AGAIN).await;
            }
        }
    };
    // What is missing at the deadline is missing in the history, and that is where it is judged.
    let _ = tokio::time::timeout(plan.last_reads, read_all).await;
}

async fn carry_out(client: &Client, path: &str, call: &Call) -> Outcome {
    let answered = match call {
        Call::Read => client.get(path).await.map(|got| Answer {
            seen: got.entry.as_ref().map(seen),
            written: None,
            store: got.store_revision,
        }),
        Call::Put { value } => client.put(path, value.as_str()).await.map(|revision| Answer {
            seen: None,
            written: Some(revision),
            store: revision,
        }),
        Call::Delete => client.delete(path).await.map(|deleted| {
            let seen = deleted.entries.first().map(seen);
            let written = seen.is_some().then_some(deleted.store_revision);
            Answer { seen, written, store: deleted.store_revision }
        }),
        Call::Swap { expect, value } => swap(client, path, expect.as_ref(), value.as_deref()).await,
    };
    match answered {
        Ok(answer) => Outcome::Ok(answer),
        Err(CallError::Failed(trouble)) => Outcome::Failed { why: trouble.why },
        Err(CallError::Unknown(trouble)) => Outcome::Unknown { why: trouble.why },
    }
}

async fn swap(
    client: &Client,
    path: &str,
    expect: Option<&Seen>,
    value: Option<&str>,
) -> Result<Answer, CallError> {
    // By revision, as Kubernetes does; values are unique, so it comes to the same.
    let expect = expect.map_or(Expect::Absent, |seen| Expect::Revision(seen.revision));
    let Swapped { written, found, store_revision } = match value {
        Some(value) => client.swap(path, expect, value).await?,
        None => client.delete_if(path, expect).await?,
    };
    Ok(Answer { seen: found.as_ref().map(seen), written, store: store_revision })
}

fn seen(entry: &Entry) -> Seen {
    Seen { value: entry.text(), revision: entry.mod_revision }
}
