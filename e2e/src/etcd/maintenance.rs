// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! How one member stands: the calls of etcd's service `Maintenance`, all answered by the asked member itself.
use super::call::{CallError, Client};
use super::proto::alarm_request::AlarmAction;
use super::proto::maintenance_client::MaintenanceClient;
use super::proto::{
    AlarmMember, AlarmRequest, AlarmType, DefragmentRequest, HashKvRequest, MoveLeaderRequest, StatusRequest,
};

/// How a member stands, by its own account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The same for all members.
    pub cluster_id: u64,
    /// Of the member that answered.
    pub member_id: u64,
    /// None: it knows of no leader.
    pub leader_id: Option<u64>,
    /// Raft term.
    pub term: u64,
    /// Not a voter yet.
    pub is_learner: bool,
    /// Of etcd.
    pub version: String,
    /// Of the whole store, as far as this member has applied it.
    pub revision: i64,
    /// Committed.
    pub raft_index: u64,
    /// Applied; behind it while the member catches up.
    pub applied_index: u64,
    /// Bytes of the file, and of what is used within it.
    pub db_size: i64,
    /// Bytes.
    pub db_in_use: i64,
    /// `etcdserver: no leader`, and one text for each alarm.
    pub errors: Vec<String>,
}

/// What an alarm is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// Writes are refused.
    NoSpace,
    /// A member's data differs from the others'.
    Corrupt,
}

impl Client {
    /// How this member stands.
    ///
    /// # Errors
    /// Refused or never sent, or no answer.
    pub async fn status(&self) -> Result<Standing, CallError> {
        let call = |channel| async move { MaintenanceClient::new(channel).status(StatusRequest {}).await };
        let answer = self.call("Status", call).await?;
        let header = answer.header.unwrap_or_default();
        Ok(Standing {
            cluster_id: header.cluster_id,
            member_id: header.member_id,
            leader_id: (answer.leader != 0).then_some(answer.leader),
            term: answer.raft_term,
            is_learner: answer.is_learner,
            version: answer.version,
            revision: header.revision,
            raft_index: answer.raft_index,
            applied_index: answer.raft_applied_index,
            db_size: answer.db_size,
            db_in_use: answer.db_size_in_use,
            errors: answer.errors,
        })
    }

    /// Hands leadership to a member; only the leader can.
    ///
    /// # Errors
    /// As [`Client::status`]; refused by a member that does not lead.
    pub async fn move_leader(&self, to: u64) -> Result<(), CallError> {
        let request = MoveLeaderRequest { target_id: to };
        let call = |channel| async move { MaintenanceClient::new(channel).move_leader(request).await };
        self.call("MoveLeader", call).await.map(drop)
    }

    /// The alarms that are raised, by the member they are raised for.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub async fn alarms(&self) -> Result<Vec<(u64, Alarm)>, CallError> {
        self.alarm(AlarmAction::Get, 0, AlarmType::None).await
    }

    /// Raises an alarm for a member, in the whole cluster.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub async fn raise(&self, member_id: u64, alarm: Alarm) -> Result<(), CallError> {
        self.alarm(AlarmAction::Activate, member_id, alarm.into()).await.map(drop)
    }

    /// Takes an alarm of a member back.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub async fn disarm(&self, member_id: u64, alarm: Alarm) -> Result<(), CallError> {
        self.alarm(AlarmAction::Deactivate, member_id, alarm.into()).await.map(drop)
    }

    async fn alarm(
        &self,
        action: AlarmAction,
        member_id: u64,
        alarm: AlarmType,
    ) -> Result<Vec<(u64, Alarm)>, CallError> {
        let request = AlarmRequest { action: action.into(), member_id, alarm: alarm.into() };
        let call = |channel| async move { MaintenanceClient::new(channel).alarm(request).await };
        Ok(self.call("Alarm", call).await?.alarms.iter().filter_map(told).collect())
    }

    /// A hash of all keys up to `revision` (None: of all there are), the same on every member that has them, and the
    /// revision below which they are compacted: hashes compare only where that is the same.
    ///
    /// # Errors
    /// As [`Client::status`]; refused for a revision that is compacted or still to come.
    pub async fn hash_kv(&self, revision: Option<i64>) -> Result<(u32, i64), CallError> {
        let request = HashKvRequest { revision: revision.unwrap_or_default() };
        let call = |channel| async move { MaintenanceClient::new(channel).hash_kv(request).await };
        let answer = self.call("HashKV", call).await?;
        Ok((answer.hash, answer.compact_revision))
    }

    /// Gives the free space within the database back to the volume; the member answers nothing else meanwhile.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub async fn defragment(&self) -> Result<(), CallError> {
        let call =
            |channel| async move { MaintenanceClient::new(channel).defragment(DefragmentRequest {}).await };
        self.call("Defragment", call).await.map(drop)
    }
}

fn told(member: &AlarmMember) -> Option<(u64, Alarm)> {
    let alarm = match member.alarm() {
        AlarmType::None => return None,
        AlarmType::Nospace => Alarm::NoSpace,
        AlarmType::Corrupt => Alarm::Corrupt,
    };
    Some((member.member_id, alarm))
}

impl From<Alarm> for AlarmType {
    fn from(alarm: Alarm) -> Self {
        match alarm {
            Alarm::NoSpace => Self::Nospace,
            Alarm::Corrupt => Self::Corrupt,
        }
    }
}
