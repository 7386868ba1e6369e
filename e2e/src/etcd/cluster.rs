// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Who belongs to the cluster: the calls of etcd's service `Cluster`.
use super::call::{CallError, Client};
use super::proto::cluster_client::ClusterClient;
use super::proto::{
    Member, MemberAddRequest, MemberListRequest, MemberPromoteRequest, MemberRemoveRequest,
    MemberUpdateRequest,
};

impl Client {
    /// All members, through consensus; etcd 3.4 answers with what the asked member knows.
    ///
    /// # Errors
    /// Refused or never sent, or no answer.
    pub async fn members(&self) -> Result<Vec<Member>, CallError> {
        self.member_list(true).await
    }

    /// All members as far as this one knows; works without a quorum.
    ///
    /// # Errors
    /// As [`Client::members`].
    pub async fn members_known(&self) -> Result<Vec<Member>, CallError> {
        self.member_list(false).await
    }

    async fn member_list(&self, linearizable: bool) -> Result<Vec<Member>, CallError> {
        let request = MemberListRequest { linearizable };
        let call = |channel| async move { ClusterClient::new(channel).member_list(request).await };
        Ok(self.call("MemberList", call).await?.members)
    }

    /// Adds a member, which has no name until it starts; returns it and all members.
    ///
    /// # Errors
    /// As [`Client::members`]; only [`CallError::Failed`] says that it was not added.
    pub async fn member_add(
        &self,
        peer_urls: &[String],
        is_learner: bool,
    ) -> Result<(Member, Vec<Member>), CallError> {
        let request = MemberAddRequest { peer_urls: peer_urls.to_vec(), is_learner };
        let call = |channel| async move { ClusterClient::new(channel).member_add(request).await };
        let answer = self.call("MemberAdd", call).await?;
        Ok((answer.member.unwrap_or_default(), answer.members))
    }

    /// Removes a member; its etcd ends itself when it learns of it. Returns those that are left.
    ///
    /// # Errors
    /// As [`Client::member_add`].
    pub async fn member_remove(&self, id: u64) -> Result<Vec<Member>, CallError> {
        let request = MemberRemoveRequest { id };
        let call = |channel| async move { ClusterClient::new(channel).member_remove(request).await };
        Ok(self.call("MemberRemove", call).await?.members)
    }

    /// Gives a member other peer URLs; returns all members.
    ///
    /// # Errors
    /// As [`Client::member_add`].
    pub async fn member_update(&self, id: u64, peer_urls: &[String]) -> Result<Vec<Member>, CallError> {
        let request = MemberUpdateRequest { id, peer_urls: peer_urls.to_vec() };
        let call = |channel| async move { ClusterClient::new(channel).member_update(request).await };
        Ok(self.call("MemberUpdate", call).await?.members)
    }

    /// Makes a learner a voter; refused while it lags behind. Returns all members.
    ///
    /// # Errors
    /// As [`Client::member_add`].
    pub async fn member_promote(&self, id: u64) -> Result<Vec<Member>, CallError> {
        let request = MemberPromoteRequest { id };
        let call = |channel| async move { ClusterClient::new(channel).member_promote(request).await };
        Ok(self.call("MemberPromote", call).await?.members)
    }
}
