// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Which connections are open, and which one goes when there is no room: whoever holds slots without using them must
//! never lock out a probe. Accepts and serves nothing.
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::{AbortHandle, Id};

/// A connection that neither waits for us nor does anything is dropped after this time. Idle ones go sooner, by the
/// limit on reading a head; what is left for this one is a peer that does not read its answer.
pub const STALLED_AFTER: Duration = Duration::from_secs(15);
/// A stream whose reader takes nothing is dropped after this time. Something is sent to it every 15 s.
pub const STREAM_STALLED_AFTER: Duration = Duration::from_secs(60);

/// What one connection is doing.
#[derive(Debug)]
pub struct Activity {
    opened: Instant,
    /// Milliseconds after `opened`.
    last: AtomicU64,
    /// Answers it waits for on purpose.
    held: AtomicU64,
    /// Its answer is a stream: held, yet only as long as the peer reads. One answer at a time leaves a connection.
    streams: AtomicBool,
}

impl Activity {
    /// Something moved at `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            opened: now,
            last: AtomicU64::new(0),
            held: AtomicU64::new(0),
            streams: AtomicBool::new(false),
        }
    }

    /// Something happened on it.
    pub fn touch(&self) {
        let elapsed = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(elapsed, Ordering::Relaxed);
    }

    /// It waits for us until the guard is dropped, and is the last to go meanwhile.
    pub fn hold(self: &Arc<Self>) -> Held {
        self.held.fetch_add(1, Ordering::Relaxed);
        Held { activity: Arc::clone(self), is_stream: false }
    }

    /// As `hold`, for a stream: what is written counts as activity from now on, and silence as a stall.
    pub fn hold_stream(self: &Arc<Self>) -> Held {
        self.streams.store(true, Ordering::Relaxed);
        self.touch();
        let mut held = self.hold();
        held.is_stream = true;
        held
    }

    /// The peer took some bytes.
    pub fn progressed(&self) {
        if self.streams.load(Ordering::Relaxed) {
            self.touch();
        }
    }

    /// None: it may be silent for as long as it likes.
    fn stalls_after(&self) -> Option<Duration> {
        match (self.is_held(), self.streams.load(Ordering::Relaxed)) {
            (false, _) => Some(STALLED_AFTER),
            (true, true) => Some(STREAM_STALLED_AFTER),
            (true, false) => None,
        }
    }

    /// An answer is waited for.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) > 0
    }

    fn last(&self) -> Instant {
        self.opened + Duration::from_millis(self.last.load(Ordering::Relaxed))
    }
}

/// See [`Activity::hold`].
#[derive(Debug)]
pub struct Held {
    activity: Arc<Activity>,
    is_stream: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.activity.held.fetch_sub(1, Ordering::Relaxed);
        if self.is_stream {
            self.activity.streams.store(false, Ordering::Relaxed);
        }
        self.activity.touch();
    }
}

/// The open connections.
#[derive(Debug)]
pub struct Connections {
    room: usize,
    open: HashMap<Id, (AbortHandle, Arc<Activity>)>,
}

impl Connections {
    /// `room`: how many may be open at a time.
    pub fn new(room: usize) -> Self {
        Self { room, open: HashMap::new() }
    }

    /// Takes one in; when there is no room, another goes first.
    pub fn add(&mut self, task: AbortHandle, activity: Arc<Activity>) {
        if self.open.len() >= self.room {
            self.evict();
        }
        self.open.insert(task.id(), (task, activity));
    }

    /// It ended by itself.
    pub fn remove(&mut self, task: Id) {
        self.open.remove(&task);
    }

    /// Drops the one that has been silent longest; one that waits for us only when all do. False: none is open.
    pub fn evict(&mut self) -> bool {
        let order = |activity: &Activity| (activity.is_held(), activity.last());
        let victim = self.open.iter().min_by_key(|(_, (_, activity))| order(activity)).map(|(id, _)| *id);
        victim.and_then(|id| self.open.remove(&id)).inspect(|(task, _)| task.abort()).is_some()
    }

    /// Drops those that stalled.
    pub fn sweep(&mut self, now: Instant) {
        self.open.retain(|_, (task, activity)| {
            let silent = now.saturating_duration_since(activity.last());
            let keep = activity.stalls_after().is_none_or(|limit| silent < limit);
            if !keep {
                task.abort();
            }
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet_since(now: Instant, age: u64) -> Arc<Activity> {
        Arc::new(Activity::new(now - Duration::from_secs(age)))
    }

    fn sleeper() -> tokio::task::JoinHandle<()> {
        tokio::spawn(std::future::pending())
    }

    #[tokio::test]
    async fn the_longest_silent_goes_first_and_waiters_last() {
        let now = Instant::now();
        let (waiter, old, new) = (sleeper(), sleeper(), sleeper());
        let mut connections = Connections::new(2);
        let activity = quiet_since(now, 60);
        let held = activity.hold();
        connections.add(waiter.abort_handle(), Arc::clone(&activity));
        connections.add(old.abort_handle(), quiet_since(now, 9));
        connections.add(new.abort_handle(), quiet_since(now, 1));
        assert!(old.await.unwrap_err().is_cancelled());
        assert!(connections.evict());
        assert!(new.await.unwrap_err().is_cancelled());
        drop(held);
        assert!(connections.evict());
        assert!(waiter.await.unwrap_err().is_cancelled());
        assert!(!connections.evict());
    }

    #[tokio::test]
    async fn stalled_ones_are_swept_and_busy_ones_are_not() {
        let now = Instant::now();
        let (stalled, fresh, waiter) = (sleeper(), sleeper(), sleeper());
        let mut connections = Connections::new(9);
        connections.add(stalled.abort_handle(), quiet_since(now, 16));
        connections.add(fresh.abort_handle(), quiet_since(now, 14));
        let activity = quiet_since(now, 300);
        let _held = activity.hold();
        connections.add(waiter.abort_handle(), activity);
        connections.sweep(now);
        assert!(stalled.await.unwrap_err().is_cancelled());
        assert_eq!(connections.open.len(), 2);
        assert!(!fresh.is_finished() && !waiter.is_finished());
    }

    #[tokio::test]
    async fn a_stream_whose_reader_takes_nothing_is_swept_after_a_minute() {
        let now = Instant::now();
        let (reading, stalled) = (sleeper(), sleeper());
        let mut connections = Connections::new(9);
        let (quick, slow) = (quiet_since(now, 300), quiet_since(now, 300));
        let helds = [quick.hold_stream(), slow.hold_stream()];
        connections.add(reading.abort_handle(), Arc::clone(&quick));
        connections.add(stalled.abort_handle(), Arc::clone(&slow));
        connections.sweep(now + Duration::from_secs(59));
        assert_eq!(connections.open.len(), 2);
        // What is written to one of them a minute later; the clock of the test is ahead of the real one.
        quick.last.fetch_add(30_000, Ordering::Relaxed);
        connections.sweep(now + Duration::from_secs(61));
        assert_eq!(connections.open.len(), 1);
        assert!(stalled.await.unwrap_err().is_cancelled());
        assert!(!reading.is_finished());
        // Once its stream has ended it is a connection like others.
        drop(helds);
        connections.sweep(now + Duration::from_secs(61));
        assert_eq!(connections.open.len(), 0);
        assert!(reading.await.unwrap_err().is_cancelled());
    }
}
