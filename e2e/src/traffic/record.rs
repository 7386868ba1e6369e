// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The record of all clients: each call goes in when it ends, in whatever way. A call that is dropped on its way goes
//! in as one whose outcome is not known, for it may well have been carried out.
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Result;
use tokio::sync::watch;

use super::Plan;
use crate::history::{Answer, Call, End, History, Op, Outcome, Sink};
use crate::timeline;

/// How many calls ended how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Answered calls that wrote something.
    pub writes: u64,
    /// Answered calls that wrote nothing: reads, and swaps of what was not as expected.
    pub reads: u64,
    /// Calls that surely did nothing.
    pub failed: u64,
    /// Calls that may have done something.
    pub unknown: u64,
    /// Answers of each member.
    pub by_member: BTreeMap<String, u64>,
    /// Why the newest call without an answer had none.
    pub trouble: Option<String>,
}

#[derive(Debug)]
pub(super) struct Record {
    origin: Instant,
    /// The same moment, in milliseconds since 1970.
    began: u64,
    most: usize,
    clients: AtomicU64,
    inner: Mutex<Inner>,
    progress: watch::Sender<Progress>,
}

#[derive(Debug)]
struct Inner {
    ops: Vec<Op>,
    sink: Option<Sink>,
    /// The first trouble with the file; told at the end.
    broken: Option<anyhow::Error>,
    full: bool,
}

/// One call under way.
#[derive(Debug)]
pub(super) struct Flight {
    record: Arc<Record>,
    op: Option<Op>,
}

impl Record {
    pub(super) fn new(plan: &Plan) -> Result<Self> {
        let elapsed = u64::try_from(plan.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let began = timeline::now().saturating_sub(elapsed);
        let create = |path: &std::path::PathBuf| Sink::create(path, &plan.prefix, plan.seed, began);
        let sink = plan.file.as_ref().map(create).transpose()?;
        Ok(Self {
            origin: plan.origin,
            began,
            most: plan.most,
            clients: AtomicU64::new(0),
            inner: Mutex::new(Inner { ops: Vec::new(), sink, broken: None, full: false }),
            progress: watch::Sender::new(Progress::default()),
        })
    }

    /// A client that nobody was before.
    pub(super) fn new_client(&self) -> u64 {
        self.clients.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// True from when no more calls may be made.
    pub(super) fn is_full(&self) -> bool {
        self.inner().full
    }

    pub(super) fn begin(
        self: &Arc<Self>,
        client: u64,
        member: &str,
        key: String,
        call: Call,
        last: bool,
    ) -> Flight {
        let begun = self.now();
        let outcome = Outcome::Unknown { why: "given up on its way".into() };
        let member = member.to_owned();
        let op = Op { client, member, key, call, begun, ended: begun, outcome, last };
        Flight { record: Arc::clone(self), op: Some(op) }
    }

    /// The history so far, which leaves this record empty, and the end of the file.
    pub(super) fn take(&self, plan: &Plan) -> Result<History> {
        let mut inner = self.inner();
        let end = if inner.full { End::Full } else { End::Stopped };
        let ops = std::mem::take(&mut inner.ops);
        if let Some(error) = inner.broken.take() {
            return Err(error);
        }
        if let Some(sink) = inner.sink.take() {
            sink.finish(end)?;
        }
        Ok(History { prefix: plan.prefix.clone(), seed: plan.seed, began: self.began, ops, end })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn add(&self, mut op: Op) {
        let mut inner = self.inner();
        // Taken under the lock, so that the record is in the order of the ends.
        op.ended = self.now();
        self.progress.send_modify(|progress| progress.add(&op));
        if let Some(sink) = &mut inner.sink
            && let Err(error) = sink.add(&op)
        {
            (inner.broken, inner.sink) = (Some(error), None);
        }
        let is_last = op.last;
        inner.ops.push(op);
        inner.full |= !is_last && inner.ops.len() >= self.most;
    }
}

impl Flight {
    pub(super) fn end(mut self, outcome: Outcome) {
        if let Some(op) = &mut self.op {
            op.outcome = outcome;
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(op) = self.op.take() {
            self.record.add(op);
        }
    }
}

impl Progress {
    fn add(&mut self, op: &Op) {
        let counter = match &op.outcome {
            Outcome::Ok(Answer { written, .. }) => {
                *self.by_member.entry(op.member.clone()).or_default() += 1;
                if written.is_some() { &mut self.writes } else { &mut self.reads }
            }
            Outcome::Failed { why } => {
                self.trouble = Some(why.clone());
                &mut self.failed
            }
            Outcome::Unknown { why } => {
                self.trouble = Some(why.clone());
                &mut self.unknown
            }
        };
        *counter += 1;
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, reads, failed, unknown, by_member, trouble } = self;
        write!(f, "{writes} writes, {reads} reads, {failed} failed, {unknown} unknown; answers by member:")?;
        for (member, answers) in by_member {
            write!(f, " {member} {answers}")?;
        }
        trouble.as_ref().map_or(Ok(()), |why| write!(f, "; newest trouble: {why}"))
    }
}
