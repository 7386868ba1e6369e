// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The book of all calls: who asked what, when, what became of it, and how many were open at once. A call that
//! its caller gave up on is closed from the moment the caller hung up, even if we have not noticed yet.
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Instant, SystemTime};

use rustix::event::{PollFd, PollFlags};
use serde::Serialize;

use super::script::Route;

/// One call, as the sidecar saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// When its head had arrived.
    pub at: SystemTime,
    /// When its head had come.
    pub began: Instant,
    /// When the reply was sent, the connection cut, or the caller's hanging up noticed; None: still open.
    pub ended: Option<Instant>,
    /// As it was sent.
    pub method: String,
    /// Which that is.
    pub route: Route,
    /// Without the query.
    pub path: String,
    /// Without the question mark.
    pub query: String,
    /// What was sent back.
    pub reply: Sent,
    /// Number of the connection it came on.
    pub connection: u64,
}

/// What became of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sent {
    /// Still at work, or holding the caller for ever.
    Pending,
    /// The answer went out to its last byte.
    Whole {
        /// The status.
        code: u16,
        /// The first kilobyte.
        body: String,
    },
    /// Promised this code, and broke off on purpose.
    Cut(u16),
    /// Closed without a byte.
    Closed,
    /// The connection was reset.
    Reset,
    /// What was sent is no HTTP.
    Garbage,
    /// The caller hung up before the end.
    CallerLeft,
}

/// All calls of one double, over its restarts.
#[derive(Debug, Default)]
pub(super) struct Log {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    calls: Vec<Call>,
    open: Vec<(usize, Weak<OwnedFd>)>,
    most_open: usize,
    connections: u64,
}

impl Call {
    /// The value of a query parameter, as it was written.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// For the `/double/calls` route of the program.
    pub(super) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "at": humantime::format_rfc3339_micros(self.at).to_string(),
            "method": self.method,
            "route": self.route,
            "path": self.path,
            "query": self.query,
            "took_ms": self.ended.map(|end| end.duration_since(self.began).as_secs_f64() * 1e3),
            "reply": self.reply,
            "connection": self.connection,
        })
    }
}

impl Log {
    pub(super) fn new_connection(&self) -> u64 {
        let mut book = self.lock();
        book.connections += 1;
        book.connections
    }

    /// Enters a call; its number is needed to end it. `socket` is the caller's connection.
    pub(super) fn begin(&self, call: Call, socket: &Arc<OwnedFd>) -> usize {
        let mut book = self.lock();
        book.close_abandoned();
        let number = book.calls.len();
        book.calls.push(call);
        book.open.push((number, Arc::downgrade(socket)));
        book.most_open = book.most_open.max(book.open.len());
        number
    }

    pub(super) fn end(&self, number: usize, reply: Sent) {
        self.lock().end(number, reply);
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        let mut book = self.lock();
        book.close_abandoned();
        book.calls.clone()
    }

    pub(super) fn most_open(&self) -> usize {
        self.lock().most_open
    }

    pub(super) fn connections(&self) -> u64 {
        self.lock().connections
    }

    /// Ends what a stopped sidecar leaves open.
    pub(super) fn end_all(&self) {
        let mut book = self.lock();
        for (number, _) in std::mem::take(&mut book.open) {
            book.end(number, Sent::Reset);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn end(&mut self, number: usize, reply: Sent) {
        self.open.retain(|(open, _)| *open != number);
        let call = &mut self.calls[number];
        if call.ended.is_none() {
            call.ended = Some(Instant::now());
            call.reply = reply;
        }
    }

    /// The kernel knows of a hang-up before our tasks do: without this look a caller that closes one connection
    /// and at once opens the next would seem to have two calls open.
    fn close_abandoned(&mut self) {
        let left: Vec<usize> = self
            .open
            .iter()
            .filter(|(_, socket)| socket.upgrade().is_none_or(|socket| has_hung_up(&socket)))
            .map(|(number, _)| *number)
            .collect();
        for number in left {
            self.end(number, Sent::CallerLeft);
        }
    }
}

fn has_hung_up(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|_| fds[0].revents().intersects(gone))
}
