// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Where one stream stands in the ring, and what it sends next. Holds a position instead of a queue, so a reader that
//! takes nothing costs nothing. Pure: waits for nothing.
use std::collections::VecDeque;

use bytes::Bytes;

use super::Topics;
use super::ring::{Condensed, Ring};

/// A reader that lets so many bytes wait is better served with the newest states.
const BEHIND: u64 = 64 * 1024;
/// What is kept of them.
const KEPT: u64 = 32 * 1024;

/// How a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// Without a position: where everything stands now.
    Snapshot,
    /// From a position that is known: what has come after it.
    Resumed,
    /// From one that is lost, foreign or none at all.
    Reset,
}

/// What comes next on a stream.
#[derive(Debug)]
pub(super) enum Next {
    Event(Bytes),
    /// Events from the first to the last index may be missing.
    Gap(u64, u64),
}

#[derive(Debug)]
pub(super) struct Reader {
    topics: Topics,
    /// What was sent or told as missing without a doubt, while some is kept.
    at: u64,
    /// Everything up to here is sent, kept, or told as missing.
    cursor: u64,
    /// A resumed stream gets everything up to here, however much it is.
    resumed_to: u64,
    kept: VecDeque<(u64, Bytes)>,
    /// Events that came to this stream: sent, or still to be.
    met: u64,
    /// Events that it did not send, and was too slow for.
    dropped: u64,
}

impl Reader {
    /// `after`: the position the caller named; Some(None) is one that makes no sense here.
    pub(super) fn open(ring: &Ring, topics: Topics, after: Option<Option<u64>>) -> (Self, Opening) {
        let (opening, cursor) = match after {
            None => (Opening::Snapshot, ring.last()),
            Some(Some(position)) if ring.knows(position, topics) => (Opening::Resumed, position),
            Some(_) => (Opening::Reset, ring.last()),
        };
        let met = ring.appended(topics) - ring.waiting(cursor, topics);
        let kept = VecDeque::new();
        let reader = Self { topics, at: cursor, cursor, resumed_to: ring.last(), kept, met, dropped: 0 };
        (reader, opening)
    }

    /// What is to be sent now; None: the stream is up to date.
    pub(super) fn next(&mut self, ring: &Ring) -> Option<Next> {
        if let Some((index, message)) = self.kept.pop_front() {
            self.at = index;
            return Some(Next::Event(message));
        }
        let slow = self.cursor >= self.resumed_to && ring.bytes_after(self.cursor) > BEHIND;
        if slow || !ring.knows(self.cursor, self.topics) {
            let Condensed { left_out, kept } = ring.condense(self.cursor, self.topics, KEPT);
            (self.at, self.cursor) = (self.cursor, ring.last());
            self.kept = kept;
            let came = ring.appended(self.topics);
            self.dropped += (came - self.met).saturating_sub(self.kept.len() as u64);
            self.met = came;
            return match left_out {
                Some((from, to)) => Some(Next::Gap(from, to)),
                None => self.next(ring),
            };
        }
        let Some(entry) = ring.after(self.cursor, self.topics) else {
            self.cursor = ring.last();
            return None;
        };
        self.cursor = entry.index;
        self.met += 1;
        Some(Next::Event(entry.frame.message()))
    }

    /// The position a message of the stream itself bears: reading on after it loses nothing.
    pub(super) fn position(&self) -> u64 {
        if self.kept.is_empty() { self.cursor } else { self.at }
    }

    /// Events left out since this was asked last.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}
