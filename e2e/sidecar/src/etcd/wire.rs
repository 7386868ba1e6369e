// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The few messages of etcd's API about members, with etcd's own field numbers; what nobody asks here is left out.
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Header {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) member_id: u64,
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    /// 0: there is none.
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
    #[prost(bool, tag = "10")]
    pub(crate) is_learner: bool,
}

/// A member as the cluster lists it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Member {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    /// Empty until it has started once.
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) peer_urls: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(crate) client_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    pub(crate) is_learner: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberListRequest {
    #[prost(bool, tag = "1")]
    pub(crate) linearizable: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberListResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) members: Vec<Member>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberAddRequest {
    #[prost(string, repeated, tag = "1")]
    pub(crate) peer_urls: Vec<String>,
    #[prost(bool, tag = "2")]
    pub(crate) is_learner: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberAddResponse {
    #[prost(message, optional, tag = "2")]
    pub(crate) member: Option<Member>,
}

/// Of MemberRemove and MemberPromote.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberIdRequest {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberUpdateRequest {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, repeated, tag = "2")]
    pub(crate) peer_urls: Vec<String>,
}

/// Of the calls whose answer says no more than that they were done.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Done {}
