// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The ring and its readers against a model: whatever happens, an event is read, or told as missing (invariant 10).
use std::collections::BTreeMap;
use std::time::SystemTime;

use http::HeaderValue;
use proptest::prelude::*;

use super::frame::{Frame, event};
use super::reader::{Next, Opening, Reader};
use super::ring::Ring;
use super::*;

/// An event of about `padding` bytes.
fn frame(topic: Topic, index: u64, padding: usize) -> Frame {
    let mut event = event(&"e".repeat(padding), index, topic.as_str(), SystemTime::UNIX_EPOCH);
    event.epoch.insert(0, 'x');
    Frame::new(&event)
}

#[derive(Clone, Debug)]
enum Step {
    Append {
        topic: usize,
        subject: u64,
        padding: usize,
    },
    Advance,
    Forget,
    Read(u8),
    /// The reader is cut off and comes back with the last id it has seen.
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..4_usize, 0..3_u64, prop_oneof![4 => Just(0_usize), 1 => Just(6_000)])
            .prop_map(|(topic, subject, padding)| Step::Append { topic, subject, padding }),
        1 => Just(Step::Advance),
        1 => Just(Step::Forget).boxed(),
        4 => (1..20_u8).prop_map(Step::Read),
        1 => Just(Step::Cut),
    ]
}

/// What the client on the other end knows.
struct Client {
    reader: Reader,
    topics: Topics,
    /// The id of the last message.
    at: u64,
    /// Index of the last event.
    newest: u64,
    /// What was so up to here was told by a snapshot.
    told: u64,
    /// The newest event of each subject that came since.
    states: BTreeMap<(usize, u64), u64>,
    gap_to: u64,
    dropped: u64,
}

impl Client {
    fn open(ring: &Ring, topics: Topics) -> Self {
        let (reader, opening) = Reader::open(ring, topics, None);
        assert_eq!(opening, Opening::Snapshot);
        let at = ring.last();
        let states = BTreeMap::new();
        Self { reader, topics, at, newest: at, told: at, states, gap_to: 0, dropped: 0 }
    }

    fn reopen(&mut self, ring: &Ring) {
        let (reader, opening) = Reader::open(ring, self.topics, Some(Some(self.at)));
        self.reader = reader;
        match opening {
            Opening::Resumed => self.gap_to = self.gap_to.min(self.at),
            Opening::Reset => {
                (self.at, self.newest, self.told) = (ring.last(), ring.last(), ring.last());
                self.gap_to = 0;
                self.states.clear();
            }
            Opening::Snapshot => panic!("a position was named"),
        }
    }

    /// One message; false when there is none.
    fn read(&mut self, ring: &Ring, log: &[(u64, usize, u64)]) -> bool {
        let next = self.reader.next(ring);
        self.dropped += self.reader.take_dropped();
        match next {
            None => return false,
            Some(Next::Gap(from, to)) => {
                assert!(from > self.at && from <= to && to <= ring.last(), "{from} {to}");
                let missed = |(index, topic, _): &&(u64, usize, u64)| {
                    self.topics.contains(Topic::ALL[*topic])
                        && *index > self.newest.max(self.gap_to)
                        && *index < from
                };
                assert!(log.iter().find(missed).is_none(), "lost before the gap");
                assert!(self.reader.position() >= self.at);
                self.at = self.reader.position();
                self.gap_to = to;
            }
            Some(Next::Event(message)) => {
                let text = std::str::from_utf8(&message).unwrap();
                let (id, _) = text.strip_prefix("id: ").unwrap().split_once('\n').unwrap();
                let index: u64 = id.rsplit_once(':').unwrap().1.parse().unwrap();
                assert!(index > self.newest, "{index} after {}", self.newest);
                let (_, topic, subject) = *log.iter().find(|(known, ..)| *known == index).unwrap();
                assert!(self.topics.contains(Topic::ALL[topic]), "not asked for");
                let missed = |(known, topic, _): &&(u64, usize, u64)| {
                    self.topics.contains(Topic::ALL[*topic])
                        && *known > self.newest.max(self.gap_to)
                        && *known < index
                };
                assert_eq!(log.iter().find(missed), None, "lost before {index}");
                (self.at, self.newest) = (index, index);
                self.states.insert((topic, subject), index);
            }
        }
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariant_10_no_event_is_lost_without_reset_or_gap(
        steps in proptest::collection::vec(step(), 1..200),
        room in 1..40_usize,
        wanted in 1..16_u8,
    ) {
        let mut ring = Ring::with_room(1, room);
        let topics = Topics([0, 1, 2, 3].map(|bit| wanted & (1 << bit) != 0));
        let mut client = Client::open(&ring, topics);
        let mut log = Vec::new();
        let mut forgotten = 0;
        for step in steps {
            let index = ring.last() + 1;
            match step {
                Step::Append { topic, subject, padding } => {
                    let subject = if Topic::ALL[topic] == Topic::Operation { subject } else { 0 };
                    ring.append(Topic::ALL[topic], subject, index, frame(Topic::ALL[topic], index, padding));
                    log.push((index, topic, subject));
                }
                Step::Advance => ring.advance(index),
                Step::Forget => {
                    ring.forget(index);
                    forgotten = index;
                }
                Step::Read(times) => {
                    for _ in 0..times {
                        client.read(&ring, &log);
                    }
                }
                Step::Cut => client.reopen(&ring),
            }
        }
        while client.read(&ring, &log) {}
        // Who has read everything knows the newest state of each topic.
        for topic in topics.iter() {
            let newest = log.iter().rev().find(|(_, known, _)| *known == topic as usize);
            let Some((index, topic, subject)) = newest.filter(|(index, ..)| *index > forgotten) else { continue };
            let known = client.states.get(&(*topic, *subject)).copied();
            prop_assert!(known == Some(*index) || (known.is_none() && *index <= client.told), "{topic}: {known:?}");
        }
        prop_assert!(client.reader.position() == ring.last());
    }
}

#[test]
fn a_reader_that_keeps_up_gets_every_event_once() {
    let mut ring = Ring::with_room(1, 8);
    let (mut reader, _) = Reader::open(&ring, Topics::ALL, None);
    for index in 2..100 {
        ring.append(Topic::Phase, 0, index, frame(Topic::Phase, index, 0));
        assert!(matches!(reader.next(&ring), Some(Next::Event(_))));
        assert!(reader.next(&ring).is_none());
    }
    assert_eq!(reader.take_dropped(), 0);
}

#[test]
fn a_slow_reader_gets_a_gap_and_the_newest_states_and_is_counted() {
    let mut ring = Ring::new(1);
    let (mut reader, _) = Reader::open(&ring, Topics::ALL, None);
    ring.append(Topic::Operation, 7, 2, frame(Topic::Operation, 2, 0));
    for index in 3..=200 {
        let topic = if index % 2 == 0 { Topic::Leader } else { Topic::Phase };
        ring.append(topic, 0, index, frame(topic, index, 1000));
    }
    let Some(Next::Gap(from, to)) = reader.next(&ring) else { panic!("no gap") };
    assert_eq!((from, to), (2, 198));
    let mut ids = Vec::new();
    while let Some(Next::Event(message)) = reader.next(&ring) {
        let text = std::str::from_utf8(&message).unwrap().lines().next().unwrap().to_owned();
        ids.push(text.rsplit_once(':').unwrap().1.parse::<u64>().unwrap());
    }
    // The operation's end among them.
    assert_eq!(ids, [2, 199, 200]);
    assert_eq!(reader.take_dropped(), 196);
}

#[test]
fn a_slow_reader_gets_the_newest_of_each_topic_however_large_they_are() {
    let mut ring = Ring::with_room(1, 1);
    let (mut reader, _) = Reader::open(&ring, Topics::ALL, None);
    for (index, topic) in (2..).zip(Topic::ALL) {
        ring.append(topic, 0, index, frame(topic, index, 20_000));
    }
    let read = std::iter::from_fn(|| reader.next(&ring)).filter(|next| matches!(next, Next::Event(_)));
    assert_eq!(read.count(), Topic::ALL.len());
}

#[test]
fn whoever_resumes_gets_all_that_the_ring_has() {
    let mut ring = Ring::new(1);
    for index in 2..=1025 {
        ring.append(Topic::Phase, 0, index, frame(Topic::Phase, index, 300));
    }
    let (mut reader, opening) = Reader::open(&ring, Topics::ALL, Some(Some(1)));
    assert_eq!(opening, Opening::Resumed);
    let read =
        std::iter::from_fn(|| reader.next(&ring)).inspect(|next| assert!(matches!(next, Next::Event(_))));
    assert_eq!(read.count(), 1024);
    ring.append(Topic::Phase, 0, 1026, frame(Topic::Phase, 1026, 0));
    assert_eq!(Reader::open(&ring, Topics::ALL, Some(Some(1))).1, Opening::Reset, "one has fallen out");
}

#[test]
fn events_of_other_topics_do_not_age_a_position() {
    let mut ring = Ring::with_room(1, 4);
    ring.append(Topic::Leader, 0, 2, frame(Topic::Leader, 2, 0));
    for index in 3..50 {
        ring.append(Topic::Readiness, 0, index, frame(Topic::Readiness, index, 0));
    }
    let leader = Topics([true, false, false, false]);
    assert_eq!(Reader::open(&ring, leader, Some(Some(2))).1, Opening::Resumed);
    assert_eq!(Reader::open(&ring, leader, Some(Some(1))).1, Opening::Reset);
    assert_eq!(Reader::open(&ring, Topics::ALL, Some(Some(2))).1, Opening::Reset);
}

#[test]
fn the_ring_is_bounded_in_bytes_too() {
    let mut ring = Ring::new(1);
    for index in 2..500 {
        ring.append(Topic::Phase, 0, index, frame(Topic::Phase, index, 10_000));
    }
    assert!(ring.bytes_after(1) <= 1 << 20);
    assert!(ring.bytes_after(1) > 1 << 19);
}

#[test]
fn only_a_position_of_ours_is_one() {
    let read = |text: &[u8]| position(&HeaderValue::from_bytes(text).unwrap(), "3f9a1c");
    assert_eq!(read(b"3f9a1c:42"), Some(42));
    assert_eq!(read(b" 3f9a1c:42 "), Some(42));
    let max = format!("3f9a1c:{}", u64::MAX);
    assert_eq!(read(max.as_bytes()), Some(u64::MAX), "known to nobody, see the ring");
    let huge = "9".repeat(10_000);
    for text in [
        "",
        ":",
        "42",
        "3f9a1c",
        "3f9a1c:",
        "3f9a1c:-1",
        "3f9a1c:+1",
        "3f9a1c: 1",
        "3f9a1c:1x",
        "3F9A1C:1",
        "other:42",
        "3f9a1c:18446744073709551616",
        "3f9a1c:42:1",
        "3f9a1c:٣",
        huge.as_str(),
        &format!("3f9a1c:{huge}"),
    ] {
        assert_eq!(read(text.as_bytes()), None, "{text:.40}");
    }
    assert_eq!(read(b"3f9a1c:\xff"), None);
}
