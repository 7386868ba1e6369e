// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A watch on all keys below a prefix, through one member. It ends with its connection and is never taken up again
//! here: whoever watches knows where it was, and a watch that goes on in silence could hide a gap.
use futures_util::stream;
use tonic::Streaming;

use super::call::{CallError, Client};
use super::kv::prefix_end;
use super::proto::event::EventType;
use super::proto::watch_client::WatchClient;
use super::proto::watch_request::RequestUnion;
use super::proto::{WatchCreateRequest, WatchRequest, WatchResponse};

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key that changed.
    pub key: String,
    /// None: it was deleted.
    pub value: Option<String>,
    /// Of the write.
    pub revision: i64,
    /// That the key goes with; 0: none. Of a deletion it says nothing.
    pub lease: i64,
}

/// What a watch told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// One answer of etcd, in the order of revisions.
    Changes(Vec<Change>),
    /// The server ended it; the text says why. The first revision that can still be had, if it was for want of those
    /// before.
    Canceled(String, Option<i64>),
}

/// A watch that goes on.
#[derive(Debug)]
pub struct Watching {
    answers: Streaming<WatchResponse>,
}

impl Client {
    /// Watches all keys that begin with `prefix`, from the write with this revision on (0: from now).
    ///
    /// # Errors
    /// Refused or never sent, or no answer within the client's limit.
    pub async fn watch(&self, prefix: &str, from: i64) -> Result<Watching, CallError> {
        let create =
            WatchCreateRequest { key: prefix.into(), range_end: prefix_end(prefix), start_revision: from };
        let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let call = |channel| async move {
            // The server takes the end of the requests for the end of the watch.
            let requests = futures_util::StreamExt::chain(stream::iter([request]), stream::pending());
            WatchClient::new(channel).watch(requests).await
        };
        Ok(Watching { answers: self.call("Watch", call).await? })
    }
}

impl Watching {
    /// What comes next; None: the connection ended. May be dropped while it waits.
    pub async fn next(&mut self) -> Option<Heard> {
        loop {
            let answer = self.answers.message().await.ok().flatten()?;
            if answer.canceled {
                let first = (answer.compact_revision > 0).then_some(answer.compact_revision);
                return Some(Heard::Canceled(answer.cancel_reason, first));
            }
            if !answer.events.is_empty() {
                return Some(Heard::Changes(answer.events.into_iter().map(change).collect()));
            }
        }
    }
}

fn change(event: super::proto::Event) -> Change {
    let is_put = event.r#type() == EventType::Put;
    let kv = event.kv.unwrap_or_default();
    Change {
        key: String::from_utf8_lossy(&kv.key).into_owned(),
        value: is_put.then(|| String::from_utf8_lossy(&kv.value).into_owned()),
        revision: kv.mod_revision,
        lease: kv.lease,
    }
}
