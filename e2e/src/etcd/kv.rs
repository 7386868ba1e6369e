// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Keys and values: the calls of etcd's service `KV`, single keys first, since histories are about those.
use super::call::{CallError, Client};
use super::proto::compare::{CompareResult, CompareTarget, TargetUnion};
use super::proto::kv_client::KvClient;
use super::proto::request_op::Request;
use super::proto::response_op::Response;
use super::proto::{
    CompactionRequest, Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RangeResponse,
    RequestOp, ResponseHeader, TxnRequest, TxnResponse,
};

/// A key's value and the revision of the write that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Any bytes.
    pub key: Vec<u8>,
    /// Any bytes.
    pub value: Vec<u8>,
    /// Of the last change of this key.
    pub mod_revision: i64,
}

/// The answer to a read of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    /// None: no such key.
    pub entry: Option<Entry>,
    /// The revision of the whole store when it was read.
    pub store_revision: i64,
}

/// The answer to a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// What was there; nothing was written when it is empty.
    pub entries: Vec<Entry>,
    /// The revision of the deletion, or of the store when nothing was there.
    pub store_revision: i64,
}

/// What a key must be for a swap to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key is not there.
    Absent,
    /// Last written at this revision.
    Revision(i64),
    /// The key holds exactly this.
    Value(Vec<u8>),
}

/// The answer to a swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swapped {
    /// The revision of the write; None: the key was not as expected, and nothing was written.
    pub written: Option<i64>,
    /// Whatever was there instead, when nothing was written; None for an absent key.
    pub found: Option<Entry>,
    /// Of the store, not of the key.
    pub store_revision: i64,
}

impl Entry {
    /// The value as text; bytes that are none are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.value).into_owned()
    }
}

impl Client {
    /// Reads one key through consensus.
    ///
    /// # Errors
    /// As every call here: refused or never sent, or no answer.
    pub async fn get(&self, key: &str) -> Result<Got, CallError> {
        self.read(key, false).await
    }

    /// Reads one key of what this member has, however old that is.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn get_serializable(&self, key: &str) -> Result<Got, CallError> {
        self.read(key, true).await
    }

    async fn read(&self, key: &str, serializable: bool) -> Result<Got, CallError> {
        let request = RangeRequest { key: key.into(), serializable, ..RangeRequest::default() };
        Ok(got(self.range(request).await?))
    }

    /// Any read; `range_end` as [`prefix_end`] makes it reads all keys below a prefix.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, CallError> {
        self.call("Range", |channel| async move { KvClient::new(channel).range(request).await }).await
    }

    /// Writes one key and returns the revision of the write.
    ///
    /// # Errors
    /// As [`Client::get`]; only [`CallError::Failed`] says that the key was not written.
    pub async fn put(&self, key: &str, value: impl Into<Vec<u8>>) -> Result<i64, CallError> {
        let request = put_request(key, value.into());
        let answer =
            self.call("Put", |channel| async move { KvClient::new(channel).put(request).await }).await?;
        Ok(revision(answer.header))
    }

    /// Deletes one key, whatever its value.
    ///
    /// # Errors
    /// As [`Client::put`].
    pub async fn delete(&self, key: &str) -> Result<Deleted, CallError> {
        self.delete_range(delete_request(key, Vec::new())).await
    }

    /// Deletes all keys that begin with `prefix`.
    ///
    /// # Errors
    /// As [`Client::put`].
    pub async fn delete_prefix(&self, prefix: &str) -> Result<Deleted, CallError> {
        self.delete_range(delete_request(prefix, prefix_end(prefix))).await
    }

    async fn delete_range(&self, request: DeleteRangeRequest) -> Result<Deleted, CallError> {
        let answer = self
            .call("DeleteRange", |channel| async move { KvClient::new(channel).delete_range(request).await })
            .await?;
        let entries = answer.prev_kvs.into_iter().map(entry).collect();
        Ok(Deleted { entries, store_revision: revision(answer.header) })
    }

    /// Writes `value` if the key is as expected, in one transaction; otherwise reads it.
    ///
    /// # Errors
    /// As [`Client::put`]; a key that is not as expected is an answer.
    pub async fn swap(
        &self,
        key: &str,
        expect: Expect,
        value: impl Into<Vec<u8>>,
    ) -> Result<Swapped, CallError> {
        self.guarded(key, expect, Request::RequestPut(put_request(key, value.into()))).await
    }

    /// Deletes the key if it is as expected, in one transaction; otherwise reads it.
    ///
    /// # Errors
    /// As [`Client::swap`].
    pub async fn delete_if(&self, key: &str, expect: Expect) -> Result<Swapped, CallError> {
        self.guarded(key, expect, Request::RequestDeleteRange(delete_request(key, Vec::new()))).await
    }

    async fn guarded(&self, key: &str, expect: Expect, write: Request) -> Result<Swapped, CallError> {
        let read = Request::RequestRange(RangeRequest { key: key.into(), ..RangeRequest::default() });
        let request = TxnRequest {
            compare: vec![compare(key, expect)],
            success: vec![RequestOp { request: Some(write) }],
            failure: vec![RequestOp { request: Some(read) }],
        };
        let answer = self.txn(request).await?;
        let store_revision = revision(answer.header);
        let first = answer.responses.into_iter().next().and_then(|op| op.response);
        let found = match first {
            Some(Response::ResponseRange(read)) => got(read).entry,
            _ => None,
        };
        Ok(Swapped { written: answer.succeeded.then_some(store_revision), found, store_revision })
    }

    /// Any transaction.
    ///
    /// # Errors
    /// As [`Client::put`].
    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, CallError> {
        self.call("Txn", |channel| async move { KvClient::new(channel).txn(request).await }).await
    }

    /// Forgets what was overwritten before `revision`, and waits until the space is free within the database.
    ///
    /// # Errors
    /// As [`Client::put`].
    pub async fn compact(&self, revision: i64) -> Result<(), CallError> {
        let request = CompactionRequest { revision, physical: true };
        self.call("Compact", |channel| async move { KvClient::new(channel).compact(request).await })
            .await
            .map(drop)
    }
}

/// The end of the range of all keys that begin with `prefix`: the prefix with its last byte that can be counted up
/// counted up, and `\0`, which stands for no end, when there is none.
pub fn prefix_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

fn put_request(key: &str, value: Vec<u8>) -> PutRequest {
    PutRequest { key: key.into(), value, ..PutRequest::default() }
}

fn delete_request(key: &str, range_end: Vec<u8>) -> DeleteRangeRequest {
    DeleteRangeRequest { key: key.into(), range_end, prev_kv: true }
}

fn compare(key: &str, expect: Expect) -> Compare {
    let (target, value) = match expect {
        // A key that is not there has revision 0.
        Expect::Absent => (CompareTarget::Mod, TargetUnion::ModRevision(0)),
        Expect::Revision(revision) => (CompareTarget::Mod, TargetUnion::ModRevision(revision)),
        Expect::Value(value) => (CompareTarget::Value, TargetUnion::Value(value)),
    };
    Compare {
        result: CompareResult::Equal.into(),
        target: target.into(),
        key: key.into(),
        target_union: Some(value),
    }
}

fn got(answer: RangeResponse) -> Got {
    Got { entry: answer.kvs.into_iter().next().map(entry), store_revision: revision(answer.header) }
}

fn entry(kv: KeyValue) -> Entry {
    Entry { key: kv.key, value: kv.value, mod_revision: kv.mod_revision }
}

fn revision(header: Option<ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_lies_behind_all_its_keys() {
        assert_eq!(prefix_end("a/"), b"a0");
        assert_eq!(prefix_end(""), [0]);
        assert!(prefix_end("ä") > "ä\u{10ffff}".as_bytes().to_vec());
    }
}
