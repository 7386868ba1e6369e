// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A client of `GET /v1/events` with a thread of its own, so that each message has the time at which it came. Resumes
//! nothing by itself.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::openapi;

/// A message, or a comment (`event` is empty then).
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) event: String,
    pub(crate) id: String,
    pub(crate) data: Value,
    pub(crate) at: Instant,
}

/// An open stream; closed when dropped.
#[derive(Debug)]
pub(crate) struct Subscriber {
    stream: TcpStream,
    messages: Receiver<Message>,
    /// Everything that came, for the failure's sake.
    seen: Vec<Message>,
}

impl Subscriber {
    /// # Panics
    /// Unless the answer is a stream.
    #[track_caller]
    pub(crate) fn open(addr: SocketAddr, topics: &str, last_id: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(addr).unwrap();
        let resume = last_id.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let query = if topics.is_empty() { String::new() } else { format!("?topics={topics}") };
        write!(stream, "GET /v1/events{query} HTTP/1.1\r\nhost: {addr}\r\n{resume}\r\n").unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            let mut body = BufReader::new(Chunks { reader, left: 0 });
            while let Some(message) = read(&mut body) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { stream, messages, seen: Vec::new() }
    }

    /// The next message, comments left out; None at the end of the stream.
    #[track_caller]
    pub(crate) fn next(&mut self, limit: Duration) -> Option<Message> {
        loop {
            let message = self.block(limit)?;
            if !message.event.is_empty() {
                return Some(message);
            }
        }
    }

    /// The next message or comment.
    #[track_caller]
    pub(crate) fn block(&mut self, limit: Duration) -> Option<Message> {
        match self.messages.recv_timeout(limit) {
            Ok(message) => {
                if !message.event.is_empty()
                    && let Err(fault) = openapi::check_message(&message.event, &message.data)
                {
                    panic!("not by openapi.json: {fault}");
                }
                self.seen.push(message.clone());
                Some(message)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("nothing came within {limit:?}; so far {:#?}", self.seen)
            }
        }
    }

    /// Reads on to the first message that is wanted.
    #[track_caller]
    pub(crate) fn until(
        &mut self,
        limit: Duration,
        what: &str,
        mut wanted: impl FnMut(&Message) -> bool,
    ) -> Message {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.next(left) {
                Some(message) if wanted(&message) => return message,
                Some(_) => {}
                None => panic!("the stream ended before {what}: {:#?}", self.seen),
            }
        }
    }

    /// Everything that came so far.
    pub(crate) fn seen(&self) -> &[Message] {
        &self.seen
    }

    /// Everything up to the end of the stream.
    #[track_caller]
    pub(crate) fn rest(&mut self, limit: Duration) -> Vec<Message> {
        std::iter::from_fn(|| self.next(limit)).collect()
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn read(body: &mut impl BufRead) -> Option<Message> {
    let mut message =
        Message { event: String::new(), id: String::new(), data: Value::Null, at: Instant::now() };
    loop {
        let mut line = String::new();
        if body.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some(("event", event)) => message.event = event.to_owned(),
            Some(("id", id)) => message.id = id.to_owned(),
            Some(("data", data)) => message.data = serde_json::from_str(data).unwrap(),
            _ if line == "\n" => {
                message.at = Instant::now();
                return Some(message);
            }
            _ => assert_eq!(line, ":\n", "what is this"),
        }
    }
}

/// The bytes within HTTP's chunks.
struct Chunks {
    reader: BufReader<TcpStream>,
    left: usize,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                line.clear();
                self.reader.read_line(&mut line)?;
            }
            self.left = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            if self.left == 0 {
                return Ok(0);
            }
        }
        let end = buffer.len().min(self.left);
        let read = self.reader.read(&mut buffer[..end])?;
        self.left -= read;
        Ok(read)
    }
}
