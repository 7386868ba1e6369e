// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Messages as bytes: server-sent events, and the JSON within them. Written once and shared by all who send them.
use std::time::SystemTime;

use bytes::Bytes;

use crate::api::wire;

/// What keeps a silent stream alive.
pub const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// One message.
#[derive(Clone, Debug)]
pub struct Frame {
    message: Bytes,
    data: Bytes,
}

impl Frame {
    /// Written once, for all who will read it.
    pub fn new(event: &wire::Event) -> Self {
        let mut message =
            format!("id: {}:{}\nevent: {}\ndata: ", event.epoch, event.index, event.topic).into_bytes();
        let begin = message.len();
        // On one line: serde_json escapes every control character.
        serde_json::to_writer(&mut message, event).expect("wire documents have string keys only");
        let end = message.len();
        message.extend_from_slice(b"\n\n");
        let message = Bytes::from(message);
        Self { data: message.slice(begin..end), message }
    }

    /// The whole server-sent event.
    pub fn message(&self) -> Bytes {
        self.message.clone()
    }

    /// The JSON alone; shares the bytes.
    pub fn data(&self) -> Bytes {
        self.data.clone()
    }

    /// Bytes on the wire.
    pub fn size(&self) -> u64 {
        self.message.len() as u64
    }
}

/// The keys that every message has.
pub fn event(epoch: &str, index: u64, topic: &'static str, now: SystemTime) -> wire::Event {
    wire::Event {
        epoch: epoch.to_owned(),
        index,
        time: wire::time(now),
        topic: topic.into(),
        ..wire::Event::default()
    }
}
