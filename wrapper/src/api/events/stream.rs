// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One open stream: sends what its reader finds, a comment when there was nothing for long, and `bye` at the end. Waits
//! for news of the publisher and never holds it up.
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::frame::{COMMENT, Frame, event};
use super::reader::{Next, Opening, Reader};
use crate::api::connections::Held;
use crate::api::publisher::Published;
use crate::api::snapshot::Now;
use crate::api::{closed, wire};
use crate::metrics::Metrics;
use crate::tls::TlsView;

/// A reader hears something this often, so that it can tell a silent stream from a dead one.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

/// One of the streams that there may be; given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    metrics: Metrics,
}

impl Place {
    /// None: all are taken.
    pub(super) fn take(places: &Arc<Semaphore>, metrics: &Metrics) -> Option<Self> {
        let permit = Arc::clone(places).try_acquire_owned().ok()?;
        metrics.streams(1);
        Some(Self { _permit: permit, metrics: metrics.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.metrics.streams(-1);
    }
}

/// What a stream is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) epoch: String,
    pub(super) reader: Reader,
    pub(super) published: watch::Receiver<Published>,
    pub(super) tls: watch::Receiver<TlsView>,
    pub(super) closing: watch::Receiver<bool>,
    pub(super) place: Place,
    /// The connection is in use, whatever its reader does.
    pub(super) _held: Held,
    pub(super) heartbeat: Duration,
}

#[derive(Debug)]
pub(super) struct Stream {
    parts: Parts,
    /// What is sent before anything else.
    first: VecDeque<Bytes>,
    said_bye: bool,
}

impl Stream {
    /// Composes the first messages at once: position and state of one moment.
    pub(super) fn open(parts: Parts, opening: Opening) -> Self {
        let topics: &[&'static str] = match opening {
            Opening::Resumed => &[],
            Opening::Snapshot => &["snapshot"],
            Opening::Reset => &["reset", "snapshot"],
        };
        let mut first = VecDeque::new();
        if !topics.is_empty() {
            let now = Now::read();
            let status = parts.published.borrow().status(&parts.tls.borrow(), now);
            let mut message = event(&parts.epoch, status.index, "", now.wall);
            message.status = Some(Box::new(status));
            for topic in topics {
                message.topic = (*topic).into();
                first.push_back(Frame::new(&message).message());
            }
        }
        Self { parts, first, said_bye: false }
    }

    /// The messages, to the end.
    pub(super) fn run(self) -> impl futures_util::Stream<Item = Bytes> + Send + 'static {
        futures_util::stream::unfold(self, |mut stream| async move {
            let message = stream.next().await?;
            Some((message, stream))
        })
    }

    /// The next message; None after `bye`. Nothing is lost when it is dropped while waiting.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(message) = self.first.pop_front() {
            return Some(message);
        }
        let heartbeat = Instant::now() + self.parts.heartbeat;
        loop {
            // Seen before it is looked at: what is published after the look wakes us again.
            self.parts.published.mark_unchanged();
            if let Some(message) = self.due() {
                return Some(message);
            }
            if self.said_bye {
                return None;
            }
            let is_over = tokio::select! {
                biased;
                changed = self.parts.published.changed() => changed.is_err(),
                () = closed(&mut self.parts.closing) => true,
                () = tokio::time::sleep_until(heartbeat) => return Some(COMMENT),
            };
            // Whatever is published is sent by now: news woke us first.
            if is_over {
                self.said_bye = true;
                return Some(self.message("bye", |_| {}));
            }
        }
    }

    fn due(&mut self) -> Option<Bytes> {
        let published = self.parts.published.borrow();
        let next = self.parts.reader.next(&published.ring);
        drop(published);
        self.parts.place.metrics.events_dropped(self.parts.reader.take_dropped());
        match next? {
            Next::Event(message) => Some(message),
            Next::Gap(from, to) => {
                Some(self.message("gap", |event| (event.from, event.to) = (Some(from), Some(to))))
            }
        }
    }

    /// A message of the stream itself.
    fn message(&self, topic: &'static str, fill: impl FnOnce(&mut wire::Event)) -> Bytes {
        let mut event = event(&self.parts.epoch, self.parts.reader.position(), topic, SystemTime::now());
        fill(&mut event);
        Frame::new(&event).message()
    }
}
