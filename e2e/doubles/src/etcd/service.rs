// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The double's answers to etcd's RPCs: by the script as it stands when the call comes. Knows no sockets.
use std::sync::Arc;

use tonic::{Code, Request, Response, Status};

use super::answer::{Answer, Failure};
use super::live::Live;
use super::proto::cluster_server::Cluster;
use super::proto::kv_server::Kv;
use super::proto::maintenance_server::Maintenance;
use super::proto::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, Member, MemberListRequest, MemberListResponse,
    MoveLeaderRequest, MoveLeaderResponse, RangeRequest, RangeResponse, ResponseHeader, StatusRequest,
    StatusResponse, alarm_request,
};
use super::record::Event;

/// All three services; cheap to clone.
#[derive(Clone)]
pub(super) struct Service {
    live: Arc<Live>,
}

impl Service {
    pub(super) fn new(live: Arc<Live>) -> Self {
        Self { live }
    }

    /// Waits, hangs or fails as the script says, and notes the call.
    async fn answer<T>(
        &self,
        method: &str,
        answer: Answer,
        value: impl FnOnce() -> Result<T, Status>,
    ) -> Result<Response<T>, Status> {
        let records = self.live.script().records_calls;
        let note = |outcome: String| {
            if records {
                self.live.note(Event::Called { method: method.into(), outcome });
            }
        };
        tokio::time::sleep(answer.takes.0).await;
        if answer.hangs {
            note("hangs".into());
            std::future::pending::<()>().await;
        }
        let result = match &answer.fails {
            Some(failure) => Err(status_of(failure)),
            None => value(),
        };
        match &result {
            Ok(_) => note("ok".into()),
            Err(status) => note(status.message().into()),
        }
        result.map(Response::new)
    }

    fn header(&self) -> Option<ResponseHeader> {
        let term = self.live.standing().term;
        Some(ResponseHeader { cluster_id: 1, member_id: self.live.member_id(), revision: 1, raft_term: term })
    }
}

fn status_of(failure: &Failure) -> Status {
    let (code, message) = failure.code_and_message();
    Status::new(Code::from_i32(code), message)
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[tonic::async_trait]
impl Kv for Service {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let script = self.live.script();
        let (method, answer) = match request.get_ref().serializable {
            true => ("Range serializable", script.serializable_range.clone()),
            false => ("Range", script.range.clone()),
        };
        self.answer(method, answer, || Ok(RangeResponse { header: self.header(), more: false, count: 0 }))
            .await
    }
}

#[tonic::async_trait]
impl Maintenance for Service {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let script = self.live.script();
        let value = || {
            let standing = self.live.standing();
            Ok(StatusResponse {
                header: self.header(),
                version: script.version.number.clone(),
                db_size: signed(standing.db_size),
                leader: self.live.leader_id(&standing),
                raft_index: 10,
                raft_term: standing.term,
                raft_applied_index: 10,
                errors: Vec::new(),
                db_size_in_use: signed(standing.db_size_in_use),
                is_learner: standing.learner,
            })
        };
        self.answer("Status", script.status.clone(), value).await
    }

    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let value = || {
            if request.get_ref().action != i32::from(alarm_request::AlarmAction::Get) {
                return Err(Status::unimplemented("the double's alarms are the script's"));
            }
            let standing = self.live.standing();
            let raised = [(standing.nospace, AlarmType::Nospace), (standing.corrupt, AlarmType::Corrupt)];
            let alarms = raised
                .into_iter()
                .filter(|(raised, _)| *raised)
                .map(|(_, alarm)| AlarmMember { member_id: self.live.member_id(), alarm: alarm.into() });
            Ok(AlarmResponse { header: self.header(), alarms: alarms.collect() })
        };
        self.answer("Alarm", self.live.script().alarm.clone(), value).await
    }

    async fn move_leader(
        &self,
        request: Request<MoveLeaderRequest>,
    ) -> Result<Response<MoveLeaderResponse>, Status> {
        let target = request.get_ref().target_id;
        let value = || {
            if self.live.leader_id(&self.live.standing()) != self.live.member_id() {
                return Err(status_of(&Failure::NotLeader));
            }
            if !self.live.members().iter().any(|member| member.id == target && !member.learner) {
                return Err(status_of(&Failure::BadTransferee));
            }
            self.live.move_leader(target);
            Ok(MoveLeaderResponse { header: self.header() })
        };
        self.answer("MoveLeader", self.live.script().move_leader.clone(), value).await
    }
}

#[tonic::async_trait]
impl Cluster for Service {
    async fn member_list(
        &self,
        _: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        let value = || {
            let rows = self.live.members().into_iter().map(|row| Member {
                id: row.id,
                name: row.name,
                peer_urls: row.peer_urls,
                client_urls: Vec::new(),
                is_learner: row.learner,
            });
            Ok(MemberListResponse { header: self.header(), members: rows.collect() })
        };
        self.answer("MemberList", self.live.script().member_list.clone(), value).await
    }
}
