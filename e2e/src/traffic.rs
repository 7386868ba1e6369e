// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Clients that read and write while something is done to the cluster, and the record of what they were told. Judges
//! nothing: that is [`crate::history`]'s part.
//!
//! ```no_run
//! # async fn example(clients: Vec<e2e::traffic::Target>) -> anyhow::Result<()> {
//! use std::time::Duration;
//! use e2e::traffic::{Plan, Traffic};
//! let traffic = Traffic::start(Plan::new("kill-etcd/", 42), clients).await?;
//! traffic.acknowledged(50, Duration::from_secs(30)).await?;
//! // … the fault …
//! traffic.acknowledged(50, Duration::from_secs(60)).await?;
//! let history = traffic.stop().await?;
//! # Ok(())
//! # }
//! ```
mod choose;
mod record;
#[cfg(test)]
mod tests;
mod work;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::etcd::proto::RangeRequest;
use crate::etcd::{Client, prefix_end};
use crate::history::History;

use self::choose::Known;
pub use self::choose::Mix;
pub use self::record::Progress;
use self::record::Record;
use self::work::Worker;

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// New in this cluster: the check takes every key below it as absent at the beginning.
    pub prefix: String,
    /// The same seed asks for the same keys and calls in the same order, client by client.
    pub seed: u64,
    /// How many, each at one member: the first at the first target, and so on around.
    pub clients: usize,
    /// Every other client goes on at the next target when a call was not answered, as clients with several endpoints do;
    /// the rest stay, so that a member that is parted from the others is still asked.
    pub roaming: bool,
    /// How many are worked on.
    pub keys: usize,
    /// How often what is done.
    pub mix: Mix,
    /// From one call of a client to its next, on average; a client never has two calls under way.
    pub pace: Duration,
    /// How long a client waits for an answer.
    pub limit: Duration,
    /// How long the cluster may take, once the clients have stopped, until it has told what is left in all keys.
    pub last_reads: Duration,
    /// The clients fall silent when the record has this many calls: some 300 bytes each.
    pub most: usize,
    /// The zero of all times in the history: the beginning of the scenario.
    pub origin: Instant,
    /// Where each call is written when it ends, as JSON lines, so that a scenario that hangs leaves its history.
    pub file: Option<PathBuf>,
}

/// A member that clients are bound to.
#[derive(Clone, Debug)]
pub struct Target {
    /// As the report names it.
    pub member: String,
    /// Of a member's etcd.
    pub client: Client,
}

/// Traffic under way. Dropped without [`Traffic::stop`], it ends at once, and its file says that it was cut.
#[derive(Debug)]
pub struct Traffic {
    plan: Plan,
    targets: Vec<Target>,
    record: Arc<Record>,
    /// True: no new calls.
    quit: watch::Sender<bool>,
    clients: JoinSet<()>,
}

impl Plan {
    /// Three clients with 20 calls a second each, over five keys, for an hour at most.
    pub fn new(prefix: impl Into<String>, seed: u64) -> Self {
        Self {
            prefix: prefix.into(),
            seed,
            clients: 3,
            roaming: false,
            keys: 5,
            mix: Mix::default(),
            pace: Duration::from_millis(50),
            limit: Duration::from_secs(5),
            last_reads: Duration::from_secs(60),
            most: 200_000,
            origin: Instant::now(),
            file: None,
        }
    }
}

impl Traffic {
    /// Looks that nothing lies below the prefix, and lets the clients begin. Needs a runtime with time.
    ///
    /// # Errors
    /// A plan without clients, keys or targets; keys below the prefix; a cluster that does not answer at any target; a
    /// file that cannot be made.
    pub async fn start(plan: Plan, targets: Vec<Target>) -> Result<Self> {
        ensure!(
            !targets.is_empty() && plan.clients > 0 && plan.keys > 0 && plan.mix.total() > 0,
            "traffic needs a target, a client, a key and something to ask for"
        );
        nothing_there(&plan, &targets).await?;
        let record = Arc::new(Record::new(&plan)?);
        let (quit, stopping) = watch::channel(false);
        let known = Arc::new(Known::new(plan.keys));
        let mut clients = JoinSet::new();
        for slot in 0..plan.clients {
            let (round, first) = (slot / targets.len(), slot % targets.len());
            let mut targets = targets.clone();
            targets.rotate_left(first);
            // By rounds, not by slots: as many of each target's clients stay as go.
            if !plan.roaming || round.is_multiple_of(2) {
                targets.truncate(1);
            }
            let (known, record) = (Arc::clone(&known), Arc::clone(&record));
            clients.spawn(Worker::new(&plan, slot, targets, known, record, stopping.clone()).run());
        }
        Ok(Self { plan, targets, record, quit, clients })
    }

    /// The seed, for the scenario's log.
    pub fn seed(&self) -> u64 {
        self.plan.seed
    }

    /// What has been done so far; the channel wakes at each call that ends.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.record.progress()
    }

    /// Waits until `more` writes than now are acknowledged.
    ///
    /// # Errors
    /// Not within `limit`; says what was seen last.
    pub async fn acknowledged(&self, more: u64, limit: Duration) -> Result<()> {
        let before = self.record.progress().borrow().writes;
        self.until(limit, &format!("{more} more acknowledged writes"), |now| now.writes >= before + more)
            .await
    }

    /// Waits until `more` calls than now have been answered by that member.
    ///
    /// # Errors
    /// Not within `limit`; says what was seen last.
    pub async fn answered_by(&self, member: &str, more: u64, limit: Duration) -> Result<()> {
        let answered = |now: &Progress| now.by_member.get(member).copied().unwrap_or_default();
        let before = answered(&self.record.progress().borrow());
        self.until(limit, &format!("{more} more answers of {member}"), |now| answered(now) >= before + more)
            .await
    }

    async fn until(&self, limit: Duration, what: &str, enough: impl Fn(&Progress) -> bool) -> Result<()> {
        let mut progress = self.record.progress();
        let waited = tokio::time::timeout(limit, progress.wait_for(&enough)).await;
        let Ok(told) = waited else {
            bail!("traffic: {what}: not within {limit:?}; so far: {}", *self.record.progress().borrow());
        };
        // The channel lives as long as the record, and that as long as this traffic.
        told.map(drop).context("the record of the traffic is gone")
    }

    /// Lets every client end its call, then reads every key through every member until all are read at least once, and
    /// returns all that was asked and told.
    ///
    /// # Errors
    /// A client that panicked, or a file that could not be written. A cluster that does not answer the last reads is no
    /// error: then the history lacks them, and cannot be found good.
    pub async fn stop(mut self) -> Result<History> {
        self.quit.send_replace(true);
        while let Some(ended) = self.clients.join_next().await {
            ended.context("a client of the traffic")?;
        }
        work::last_reads(&self.plan, &self.targets, &self.record).await;
        self.record.take(&self.plan)
    }
}

async fn nothing_there(plan: &Plan, targets: &[Target]) -> Result<()> {
    let request = RangeRequest {
        key: plan.prefix.clone().into(),
        range_end: prefix_end(&plan.prefix),
        count_only: true,
        ..RangeRequest::default()
    };
    let mut refused = Vec::new();
    for target in targets {
        match target.client.range(request.clone()).await {
            Ok(answer) => {
                ensure!(
                    answer.count == 0,
                    "traffic: {} keys below {:?} already: choose a prefix that is new in this cluster",
                    answer.count,
                    plan.prefix
                );
                return Ok(());
            }
            Err(error) => refused.push(error.to_string()),
        }
    }
    bail!("traffic: the cluster answers nowhere: {}", refused.join("; "))
}
