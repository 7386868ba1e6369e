// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Reaps orphans when we are PID 1 or a subreaper (F1, F13), without taking a status away from a [`Child`]'s owner: what
//! is collected for one of our own is kept for it here. Signals nobody.
//!
//! Ruled out: skipping our own children with `waitid(P_ALL, WNOWAIT)`, because a dead child that its owner has not looked
//! at yet hides everybody behind it; and the lists under /proc, which need a kernel option.
//!
//! [`Child`]: super::Child
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, WaitOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::supervise::view::ExitStatus;

/// Children that have an owner, by pid; `Some` once the reaper has met their end first. Which child has been waited for is a
/// fact of the whole process, so this is too.
static OWNED: Mutex<BTreeMap<i32, Option<ExitStatus>>> = Mutex::new(BTreeMap::new());

/// Locks the register. Held across a fork, so that a child can never be reaped before it is registered.
pub(super) fn registry() -> MutexGuard<'static, BTreeMap<i32, Option<ExitStatus>>> {
    OWNED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The status of an owned child whose pidfd says it may have ended, or None while it lives.
pub(super) fn collect(pid: Pid, pidfd: BorrowedFd<'_>) -> Option<ExitStatus> {
    let mut owned = registry();
    let status = match owned.get(&pid.as_raw_pid()) {
        Some(Some(status)) => Some(*status),
        Some(None) | None => super::reap(pidfd).unwrap_or_else(|error| {
            tracing::error!(pid = pid.as_raw_pid(), %error, "somebody else has reaped the child; its end counts as a kill");
            Some(ExitStatus::Signaled(rustix::process::Signal::KILL.as_raw()))
        }),
    };
    if status.is_some() {
        owned.remove(&pid.as_raw_pid());
    }
    status
}

/// The owner of `pid` is gone.
pub(super) fn disown(pid: Pid) {
    registry().remove(&pid.as_raw_pid());
}

/// Collects orphans for as long as [`Reaper::run`] is polled.
#[derive(Debug)]
pub struct Reaper {
    ended: Signal,
}

impl Reaper {
    /// None where orphans go to somebody else: we are neither PID 1 nor a subreaper. Needs the runtime.
    ///
    /// # Errors
    /// SIGCHLD cannot be listened to.
    pub fn if_needed() -> io::Result<Option<Self>> {
        let subreaper = rustix::process::child_subreaper().is_ok_and(|flag| flag.is_some());
        if rustix::process::getpid() != Pid::INIT && !subreaper {
            return Ok(None);
        }
        Ok(Some(Self { ended: signal(SignalKind::child())? }))
    }

    /// Reaps whenever a child has ended, for ever. One task owns this.
    pub async fn run(mut self) -> Infallible {
        loop {
            let orphans = reap_all();
            if orphans > 0 {
                tracing::debug!(orphans, "reaped");
            }
            if self.ended.recv().await.is_none() {
                // The runtime is shutting down.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Collects everything that has ended by now; how many of them were nobody's.
fn reap_all() -> usize {
    let mut owned = registry();
    let mut orphans = 0;
    // NOHANG: an error means that there is no child at all.
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        let Some(slot) = owned.get_mut(&pid.as_raw_pid()) else {
            orphans += 1;
            continue;
        };
        *slot = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Some(ExitStatus::Exited(code)),
            (None, Some(signal)) => Some(ExitStatus::Signaled(signal)),
            (None, None) => unreachable!("wait was not asked for stopped processes"),
        };
    }
    orphans
}
