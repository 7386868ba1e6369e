// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The fake's keys and values.
use tonic::{Request, Response, Status};

use super::{Fake, Mood, Store};
use crate::etcd::proto::compare::TargetUnion;
use crate::etcd::proto::kv_server::Kv;
use crate::etcd::proto::request_op::Request as Op;
use crate::etcd::proto::response_op::Response as Answer;
use crate::etcd::proto::{
    CompactionRequest, CompactionResponse, Compare, DeleteRangeRequest, DeleteRangeResponse, KeyValue,
    PutRequest, PutResponse, RangeRequest, RangeResponse, RequestOp, ResponseHeader, ResponseOp, TxnRequest,
    TxnResponse,
};

impl Store {
    pub(super) fn header(&self) -> Option<ResponseHeader> {
        Some(ResponseHeader { revision: self.revision, raft_term: 2, member_id: 1, cluster_id: 7 })
    }

    /// The keys that a request means, in order.
    fn chosen(&self, key: &[u8], end: &[u8]) -> Vec<Vec<u8>> {
        let within = |candidate: &Vec<u8>| match end {
            [] => candidate == key,
            [0] => candidate.as_slice() >= key,
            _ => candidate.as_slice() >= key && candidate.as_slice() < end,
        };
        self.keys.keys().filter(|candidate| within(candidate)).cloned().collect()
    }

    fn range(&self, request: &RangeRequest) -> RangeResponse {
        let chosen = self.chosen(&request.key, &request.range_end);
        let count = i64::try_from(chosen.len()).unwrap();
        let kvs = if request.count_only {
            Vec::new()
        } else {
            chosen.iter().map(|key| self.keys[key].clone()).collect()
        };
        RangeResponse { header: self.header(), kvs, more: false, count }
    }

    fn put(&mut self, request: PutRequest) -> PutResponse {
        self.revision += 1;
        let old = self.keys.get(&request.key).cloned();
        let kv = KeyValue {
            key: request.key.clone(),
            value: request.value,
            mod_revision: self.revision,
            create_revision: old.as_ref().map_or(self.revision, |old| old.create_revision),
            version: old.as_ref().map_or(1, |old| old.version + 1),
            lease: 0,
        };
        self.keys.insert(request.key.clone(), kv);
        self.before.insert(request.key, old.clone());
        PutResponse { header: self.header(), prev_kv: request.prev_kv.then_some(old).flatten() }
    }

    fn delete(&mut self, request: &DeleteRangeRequest) -> DeleteRangeResponse {
        let chosen = self.chosen(&request.key, &request.range_end);
        if !chosen.is_empty() {
            self.revision += 1;
        }
        let prev_kvs: Vec<_> = chosen.iter().filter_map(|key| self.keys.remove(key)).collect();
        for kv in &prev_kvs {
            self.before.insert(kv.key.clone(), Some(kv.clone()));
        }
        let deleted = i64::try_from(prev_kvs.len()).unwrap();
        DeleteRangeResponse { header: self.header(), deleted, prev_kvs }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let kv = self.keys.get(&compare.key);
        match &compare.target_union {
            Some(TargetUnion::ModRevision(revision)) => kv.map_or(0, |kv| kv.mod_revision) == *revision,
            Some(TargetUnion::Value(value)) => kv.is_some_and(|kv| kv.value == *value),
            other => panic!("the fake does not compare {other:?}"),
        }
    }

    fn txn(&mut self, request: TxnRequest) -> TxnResponse {
        let succeeded = request.compare.iter().all(|compare| self.holds(compare));
        let ops = if succeeded { request.success } else { request.failure };
        let responses = ops.into_iter().map(|op| ResponseOp { response: Some(self.op(op)) }).collect();
        TxnResponse { header: self.header(), succeeded, responses }
    }

    fn op(&mut self, op: RequestOp) -> Answer {
        match op.request.unwrap() {
            Op::RequestRange(request) => Answer::ResponseRange(self.range(&request)),
            Op::RequestPut(request) => Answer::ResponsePut(self.put(request)),
            Op::RequestDeleteRange(request) => Answer::ResponseDeleteRange(self.delete(&request)),
        }
    }

    /// Carries a write out on a copy, for an answer without a deed.
    fn pretended<T>(&self, write: impl FnOnce(&mut Self) -> T) -> T {
        let mut copy = Self {
            keys: self.keys.clone(),
            before: self.before.clone(),
            members: Vec::new(),
            alarms: Vec::new(),
            ..*self
        };
        write(&mut copy)
    }
}

impl Fake {
    async fn write<T>(&self, write: impl FnOnce(&mut Store) -> T) -> Result<Response<T>, Status> {
        match self.mood() {
            Mood::Hangs => std::future::pending().await,
            Mood::Refuses => Err(Status::permission_denied("etcdserver: permission denied")),
            Mood::ForgetsWrites => Ok(Response::new(self.store().pretended(write))),
            Mood::LosesReplies => {
                write(&mut self.store());
                Err(Status::unavailable("etcdserver: request timed out"))
            }
            Mood::Sound | Mood::ReadsStale | Mood::Unreachable => Ok(Response::new(write(&mut self.store()))),
        }
    }
}

#[tonic::async_trait]
impl Kv for Fake {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let request = request.into_inner();
        match self.mood() {
            Mood::Hangs => std::future::pending().await,
            Mood::Refuses => Err(Status::permission_denied("etcdserver: permission denied")),
            Mood::ReadsStale => {
                let store = self.store();
                let mut answer = store.range(&request);
                if let Some(before) = store.before.get(&request.key) {
                    answer.kvs = before.iter().cloned().collect();
                }
                Ok(Response::new(answer))
            }
            _ => Ok(Response::new(self.store().range(&request))),
        }
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        self.write(|store| store.put(request.into_inner())).await
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        self.write(|store| store.delete(&request.into_inner())).await
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        self.write(|store| store.txn(request.into_inner())).await
    }

    async fn compact(
        &self,
        _request: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        Ok(Response::new(CompactionResponse { header: self.store().header() }))
    }
}
