// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The newest events, for streams that read on from a position. Bounded in number and bytes; written by the publisher
//! alone; knows no reader, and so no reader can hold it up.
use std::collections::VecDeque;

use bytes::Bytes;

use super::frame::Frame;
use super::{Topic, Topics};

/// Events that can be resumed from.
const EVENTS: usize = 1024;
/// Their bytes; an event is some hundred bytes, so this limit is there for odd ones only.
const BYTES: u64 = 1 << 20;

/// One event.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its position, its own alone.
    pub index: u64,
    /// What it tells of.
    pub topic: Topic,
    /// Events of one topic and subject replace each other: the operation's number, else 0.
    pub subject: u64,
    /// As it goes out.
    pub frame: Frame,
    /// Bytes of all events up to and with this one.
    end: u64,
}

/// What a reader who is too far behind gets instead of all that it has missed.
#[derive(Debug)]
pub struct Condensed {
    /// First and last index of what may be missing; None: nothing is.
    pub left_out: Option<(u64, u64)>,
    /// The newest event of each subject, oldest first.
    pub kept: VecDeque<(u64, Bytes)>,
}

/// The newest events, bounded by number and by bytes; positions only grow.
#[derive(Debug)]
pub struct Ring {
    entries: VecDeque<Entry>,
    /// The newest event of each topic, however long ago it was.
    latest: [Option<Entry>; Topic::ALL.len()],
    /// The index of the newest event of each topic that has fallen out.
    fallen: [u64; Topic::ALL.len()],
    /// Events of each topic so far.
    appended: [u64; Topic::ALL.len()],
    last: u64,
    bytes: u64,
    room: usize,
}

impl Ring {
    /// Nothing has happened before position `last`.
    pub fn new(last: u64) -> Self {
        Self::with_room(last, EVENTS)
    }

    pub(super) fn with_room(last: u64, room: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            latest: Default::default(),
            fallen: Default::default(),
            appended: Default::default(),
            last,
            bytes: 0,
            room,
        }
    }

    /// The newest position.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Takes an event in; the oldest goes when there is no room.
    ///
    /// # Panics
    /// When the index does not grow (invariant 10).
    pub fn append(&mut self, topic: Topic, subject: u64, index: u64, frame: Frame) {
        self.advance(index);
        self.bytes += frame.size();
        let entry = Entry { index, topic, subject, frame, end: self.bytes };
        self.latest[topic as usize] = Some(entry.clone());
        self.appended[topic as usize] += 1;
        self.entries.push_back(entry);
        while self.entries.len() > self.room || self.held_bytes() > BYTES {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.fallen[oldest.topic as usize] = oldest.index;
        }
    }

    /// The position grew without an event: something changed that no topic tells of.
    ///
    /// # Panics
    /// When the index does not grow (invariant 10).
    pub fn advance(&mut self, index: u64) {
        assert!(index > self.last, "positions grow strictly: {index} after {}", self.last);
        self.last = index;
    }

    /// Events may have been lost before they came here: nobody can read on from an earlier position than this.
    pub fn forget(&mut self, index: u64) {
        self.advance(index);
        self.entries.clear();
        self.fallen = [index; Topic::ALL.len()];
    }

    /// Can a reader of these topics read on after this position without a loss?
    pub fn knows(&self, position: u64, topics: Topics) -> bool {
        (1..=self.last).contains(&position) && self.fallen(topics) <= position
    }

    /// The next event of these topics.
    pub fn after(&self, position: u64, topics: Topics) -> Option<&Entry> {
        self.from(position).find(|entry| topics.contains(entry.topic))
    }

    /// The newest event of a topic.
    pub fn latest(&self, topic: Topic) -> Option<&Entry> {
        self.latest[topic as usize].as_ref()
    }

    /// Events of these topics so far.
    pub fn appended(&self, topics: Topics) -> u64 {
        topics.iter().map(|topic| self.appended[topic as usize]).sum()
    }

    /// Events of these topics that can be read after this position.
    pub fn waiting(&self, position: u64, topics: Topics) -> u64 {
        let waiting = self.from(position).filter(|entry| topics.contains(entry.topic)).count();
        u64::try_from(waiting).unwrap_or(u64::MAX)
    }

    /// Bytes that have come after this position.
    pub fn bytes_after(&self, position: u64) -> u64 {
        self.from(position).next().map_or(0, |entry| self.bytes - entry.end + entry.frame.size())
    }

    /// The newest event of each topic after this position, and of each further subject as many as fit into `limit` bytes.
    pub fn condense(&self, position: u64, topics: Topics, limit: u64) -> Condensed {
        let mut kept = VecDeque::<&Entry>::new();
        let (mut last_left_out, mut bytes) = (self.fallen(topics), 0);
        // The newest event of a topic counts even if others have pushed it out of the ring.
        let first = self.entries.front().map_or(u64::MAX, |entry| entry.index);
        let mut outside: Vec<_> = topics.iter().filter_map(|topic| self.latest(topic)).collect();
        outside.retain(|entry| (position + 1..first).contains(&entry.index));
        outside.sort_by_key(|entry| entry.index);
        let inside = self.from(position).filter(|entry| topics.contains(entry.topic));
        for entry in outside.into_iter().chain(inside).rev() {
            let is_old =
                kept.iter().any(|newer| (newer.topic, newer.subject) == (entry.topic, entry.subject));
            let is_newest = self.latest(entry.topic).is_some_and(|newest| newest.index == entry.index);
            if is_old || (!is_newest && bytes + entry.frame.size() > limit) {
                last_left_out = last_left_out.max(entry.index);
            } else {
                bytes += entry.frame.size();
                kept.push_front(entry);
            }
        }
        let left_out = (last_left_out > position).then_some((position + 1, last_left_out));
        let kept = kept.into_iter().map(|entry| (entry.index, entry.frame.message())).collect();
        Condensed { left_out, kept }
    }

    fn from(&self, position: u64) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.range(self.entries.partition_point(|entry| entry.index <= position)..)
    }

    fn fallen(&self, topics: Topics) -> u64 {
        topics.iter().map(|topic| self.fallen[topic as usize]).max().unwrap_or_default()
    }

    fn held_bytes(&self) -> u64 {
        self.entries.front().map_or(0, |oldest| self.bytes - oldest.end + oldest.frame.size())
    }
}
