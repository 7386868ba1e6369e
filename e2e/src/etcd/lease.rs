// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Leases: the calls of etcd's service `Lease`, and the write of a key that goes with one. A lease is renewed once per
//! call, so that each renewal has an outcome of its own.
use std::time::Duration;

use futures_util::stream;
use tonic::{Response, Status};

use super::call::{CallError, Client};
use super::proto::kv_client::KvClient;
use super::proto::lease_client::LeaseClient;
use super::proto::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest, PutRequest,
};

impl Client {
    /// A new lease that lasts for whole seconds of `life`; its id.
    ///
    /// # Errors
    /// Refused or never sent, or no answer: then there may be a lease that nobody knows.
    pub async fn lease_grant(&self, life: Duration) -> Result<i64, CallError> {
        let request = LeaseGrantRequest { ttl: i64::try_from(life.as_secs()).unwrap_or(i64::MAX), id: 0 };
        let call = |channel| async move { LeaseClient::new(channel).lease_grant(request).await };
        Ok(self.call("LeaseGrant", call).await?.id)
    }

    /// Renews a lease; false: there is none any more.
    ///
    /// # Errors
    /// As [`Client::lease_grant`]; without an answer it may have been renewed.
    pub async fn lease_renew(&self, id: i64) -> Result<bool, CallError> {
        let call = |channel| async move {
            let asked = stream::iter([LeaseKeepAliveRequest { id }]);
            let mut answers = LeaseClient::new(channel).lease_keep_alive(asked).await?.into_inner();
            let answer: Option<LeaseKeepAliveResponse> = answers.message().await?;
            let answer = answer.ok_or_else(|| Status::unavailable("the stream ended without an answer"))?;
            Ok(Response::new(answer))
        };
        Ok(self.call("LeaseKeepAlive", call).await?.ttl > 0)
    }

    /// Ends a lease, and deletes its keys.
    ///
    /// # Errors
    /// As [`Client::lease_grant`]; refused when there is no such lease.
    pub async fn lease_revoke(&self, id: i64) -> Result<(), CallError> {
        let request = LeaseRevokeRequest { id };
        let call = |channel| async move { LeaseClient::new(channel).lease_revoke(request).await };
        self.call("LeaseRevoke", call).await.map(drop)
    }

    /// Writes one key that goes when the lease does; the revision of the write.
    ///
    /// # Errors
    /// As [`Client::put`]; refused when there is no such lease.
    pub async fn put_leased(&self, key: &str, value: &str, lease: i64) -> Result<i64, CallError> {
        let request = PutRequest { key: key.into(), value: value.into(), lease, ..PutRequest::default() };
        let call = |channel| async move { KvClient::new(channel).put(request).await };
        let answer = self.call("Put", call).await?;
        Ok(answer.header.map_or(0, |header| header.revision))
    }
}
