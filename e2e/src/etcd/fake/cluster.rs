// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The fake's members, alarms and standing: three members, of which it is the first.
use std::hash::{DefaultHasher, Hash, Hasher};

use tonic::{Request, Response, Status};

use super::Fake;
use crate::etcd::proto::alarm_request::AlarmAction;
use crate::etcd::proto::cluster_server::Cluster;
use crate::etcd::proto::maintenance_server::Maintenance;
use crate::etcd::proto::{
    AlarmMember, AlarmRequest, AlarmResponse, DefragmentRequest, DefragmentResponse, HashKvRequest,
    HashKvResponse, Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse,
    MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse,
    MemberUpdateRequest, MemberUpdateResponse, MoveLeaderRequest, MoveLeaderResponse, StatusRequest,
    StatusResponse,
};

impl Fake {
    /// Changes one member and returns all.
    fn change(&self, id: u64, change: impl FnOnce(&mut Member)) -> Result<Vec<Member>, Status> {
        let mut store = self.store();
        let member = store.members.iter_mut().find(|member| member.id == id);
        change(member.ok_or_else(|| Status::not_found("etcdserver: member not found"))?);
        Ok(store.members.clone())
    }
}

#[tonic::async_trait]
impl Cluster for Fake {
    async fn member_list(
        &self,
        request: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        if request.into_inner().linearizable && self.store().leader == 0 {
            return Err(Status::unavailable("etcdserver: no leader"));
        }
        let members = self.store().members.clone();
        Ok(Response::new(MemberListResponse { header: self.store().header(), members }))
    }

    async fn member_add(
        &self,
        request: Request<MemberAddRequest>,
    ) -> Result<Response<MemberAddResponse>, Status> {
        let MemberAddRequest { peer_urls, is_learner } = request.into_inner();
        let mut store = self.store();
        let member = Member { id: 9, peer_urls, is_learner, ..Member::default() };
        store.members.push(member.clone());
        let members = store.members.clone();
        Ok(Response::new(MemberAddResponse { header: store.header(), member: Some(member), members }))
    }

    async fn member_remove(
        &self,
        request: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        let id = request.into_inner().id;
        self.change(id, |_| ())?;
        let mut store = self.store();
        store.members.retain(|member| member.id != id);
        let members = store.members.clone();
        Ok(Response::new(MemberRemoveResponse { header: store.header(), members }))
    }

    async fn member_update(
        &self,
        request: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        let MemberUpdateRequest { id, peer_urls } = request.into_inner();
        let members = self.change(id, |member| member.peer_urls = peer_urls)?;
        Ok(Response::new(MemberUpdateResponse { header: self.store().header(), members }))
    }

    async fn member_promote(
        &self,
        request: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        let members = self.change(request.into_inner().id, |member| member.is_learner = false)?;
        Ok(Response::new(MemberPromoteResponse { header: self.store().header(), members }))
    }
}

#[tonic::async_trait]
impl Maintenance for Fake {
    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let request = request.into_inner();
        let mut store = self.store();
        match request.action() {
            AlarmAction::Get => {}
            AlarmAction::Activate => store.alarms.push((request.member_id, request.alarm)),
            AlarmAction::Deactivate => {
                store.alarms.retain(|held| *held != (request.member_id, request.alarm));
            }
        }
        let alarms =
            store.alarms.iter().map(|&(member_id, alarm)| AlarmMember { member_id, alarm }).collect();
        Ok(Response::new(AlarmResponse { header: store.header(), alarms }))
    }

    async fn status(&self, _request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let store = self.store();
        Ok(Response::new(StatusResponse {
            header: store.header(),
            version: "3.5.35".into(),
            leader: store.leader,
            raft_term: 2,
            raft_index: 12,
            raft_applied_index: 11,
            db_size: 100,
            db_size_in_use: 60,
            ..StatusResponse::default()
        }))
    }

    async fn defragment(
        &self,
        _request: Request<DefragmentRequest>,
    ) -> Result<Response<DefragmentResponse>, Status> {
        Ok(Response::new(DefragmentResponse { header: self.store().header() }))
    }

    async fn hash_kv(&self, _request: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        let store = self.store();
        let mut hasher = DefaultHasher::new();
        for (key, kv) in &store.keys {
            (key, &kv.value, kv.mod_revision).hash(&mut hasher);
        }
        let hash = u32::try_from(hasher.finish() >> 32).expect("32 bits are left");
        Ok(Response::new(HashKvResponse { header: store.header(), hash, compact_revision: 0 }))
    }

    async fn move_leader(
        &self,
        request: Request<MoveLeaderRequest>,
    ) -> Result<Response<MoveLeaderResponse>, Status> {
        let to = request.into_inner().target_id;
        let mut store = self.store();
        if store.leader != 1 {
            return Err(Status::failed_precondition("etcdserver: not leader"));
        }
        store.leader = to;
        Ok(Response::new(MoveLeaderResponse { header: store.header() }))
    }
}
