// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The gRPC calls to the local etcd, over one connection that is made at the first call and again when it breaks.
//! Each call has a limit and says in [`CallError`] what kind of refusal it met; it decides nothing about readiness.
use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};

use super::dial::{Dial, DialError};
use super::proto::cluster_client::ClusterClient;
use super::proto::kv_client::KvClient;
use super::proto::maintenance_client::MaintenanceClient;
use super::proto::{MemberListRequest, MoveLeaderRequest, RangeRequest, StatusRequest, StatusResponse};
use super::scraper::Scraper;
use super::view::{Alarms, Peer, short_version};

/// The key etcd's own health check reads; it need not exist, and no permission on it is needed (see [`CallError::Auth`]).
const PROBE_KEY: &[u8] = b"health";

/// Pause between the tries of one linearizable read while an election goes on.
const ELECTION_PAUSE: Duration = Duration::from_millis(100);

/// Speaks to the local etcd of one generation. Clones share the connection.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    dial: Arc<Dial>,
    http: Arc<Dial>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("dial", &self.dial).finish_non_exhaustive()
    }
}

/// Why a call brought no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// etcd's auth refused it. A linearizable read comes to this check only after it has waited for the read index
    /// (`EtcdServer.Range` of 3.4–3.7: `linearizableReadNotify`, then `doSerialize`), so consensus has worked.
    #[error("auth: {0}")]
    Auth(String),
    /// A learner serves neither linearizable reads nor MemberList.
    #[error("learner: {0}")]
    Learner(String),
    /// An election goes on; the call is worth repeating at once.
    #[error("{0}")]
    Election(String),
    /// No answer within this time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// gRPC's code and message.
    #[error("{0}")]
    Failed(String),
}

/// One answer of Maintenance.Status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusAnswer {
    /// Of the member that answered.
    pub member_id: u64,
    /// None: no leader.
    pub leader_id: Option<u64>,
    /// Raft term.
    pub term: u64,
    /// Not a voter yet.
    pub is_learner: bool,
    /// Of the etcd that answered.
    pub version: String,
    /// Bytes allocated.
    pub db_size: u64,
    /// Bytes in use; the rest a defragmentation frees.
    pub db_in_use: u64,
    /// Told from 3.6 on.
    pub db_quota: Option<u64>,
    /// Which stand.
    pub alarms: Alarms,
}

/// One answer of MemberList, and who gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// Of the member that answered.
    pub self_id: u64,
    /// All members, ours among them.
    pub peers: Vec<Peer>,
}

impl Client {
    /// Connects to nothing yet. `http` is where `/metrics` is served, usually the same as `dial`. Needs a runtime.
    pub fn new(dial: Dial, http: Dial) -> Self {
        let dial = Arc::new(dial);
        let origin = Uri::builder()
            .scheme(dial.scheme())
            .authority(dial.authority())
            .path_and_query("/")
            .build()
            .expect("a socket address or `localhost` is an authority");
        let connector = {
            let dial = Arc::clone(&dial);
            tower::service_fn(move |_: Uri| {
                let dial = Arc::clone(&dial);
                async move { Ok::<_, DialError>(TokioIo::new(dial.open(b"h2").await?)) }
            })
        };
        // The endpoint's own address is never used; the connector knows better.
        let channel =
            Endpoint::from_static("http://etcd").origin(origin).connect_with_connector_lazy(connector);
        Self { channel, dial, http: Arc::new(http) }
    }

    /// A reader of `/metrics`, with a connection of its own.
    pub fn scraper(&self) -> Scraper {
        Scraper::new(Arc::clone(&self.http))
    }

    /// False when the scraper was made for a place or certificate that has been replaced since.
    pub(super) fn is_served_by(&self, scraper: &Scraper) -> bool {
        scraper.is_for(&self.http)
    }

    /// Goes through consensus: succeeds when the local member reaches a quorum. An election is waited for within `limit`.
    pub async fn linearizable_read(&self, limit: Duration) -> Result<(), CallError> {
        let mut last = None;
        let tries = async {
            loop {
                match self.read(false).await {
                    Err(CallError::Election(text)) => last = Some(text),
                    answer => return answer,
                }
                tokio::time::sleep(ELECTION_PAUSE).await;
            }
        };
        let answer = tokio::time::timeout(limit, tries).await;
        answer.unwrap_or_else(|_| Err(last.map_or(CallError::TimedOut(limit), CallError::Election)))
    }

    /// Answered by the local member alone.
    pub async fn serializable_read(&self, limit: Duration) -> Result<(), CallError> {
        within(limit, self.read(true)).await
    }

    async fn read(&self, serializable: bool) -> Result<(), CallError> {
        let request = RangeRequest { key: PROBE_KEY.to_vec(), serializable, count_only: true };
        KvClient::new(self.channel.clone()).range(request).await.map(drop).map_err(classify)
    }

    /// Answered by the local member alone.
    pub async fn status(&self, limit: Duration) -> Result<StatusAnswer, CallError> {
        within(limit, async {
            let answer = MaintenanceClient::new(self.channel.clone()).status(StatusRequest {}).await;
            answer.map_err(classify).and_then(|answer| told(answer.into_inner()))
        })
        .await
    }

    /// The members as the local one knows them; asks nobody else.
    pub async fn members(&self, limit: Duration) -> Result<Members, CallError> {
        within(limit, async {
            let request = MemberListRequest { linearizable: false };
            let answer =
                ClusterClient::new(self.channel.clone()).member_list(request).await.map_err(classify)?;
            let answer = answer.into_inner();
            let peers = answer.members.into_iter().map(|member| Peer {
                id: member.id,
                name: member.name,
                peer_urls: member.peer_urls,
                is_learner: member.is_learner,
            });
            let header = answer.header.ok_or_else(headless)?;
            Ok(Members { self_id: header.member_id, peers: peers.collect() })
        })
        .await
    }

    /// Asks the local member, which must lead, to hand leadership to `target`; returns when it has.
    pub async fn move_leader(&self, target: u64, limit: Duration) -> Result<(), CallError> {
        within(limit, async {
            let request = MoveLeaderRequest { target_id: target };
            MaintenanceClient::new(self.channel.clone())
                .move_leader(request)
                .await
                .map(drop)
                .map_err(classify)
        })
        .await
    }

    /// A Status answer that was true at one moment within this call: a linearizable read between two Status answers
    /// that agree on leader and term.
    pub async fn confirmed_status(&self, limit: Duration) -> Result<StatusAnswer, CallError> {
        within(limit, async {
            loop {
                let before = self.status(limit).await?;
                self.linearizable_read(limit).await?;
                let after = self.status(limit).await?;
                if (before.leader_id, before.term) == (after.leader_id, after.term) {
                    return Ok(after);
                }
            }
        })
        .await
    }
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    tokio::time::timeout(limit, call).await.unwrap_or(Err(CallError::TimedOut(limit)))
}

fn told(answer: StatusResponse) -> Result<StatusAnswer, CallError> {
    let header = answer.header.ok_or_else(headless)?;
    let raised = |name: &str| answer.errors.iter().any(|error| error.contains(name));
    let size = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
    Ok(StatusAnswer {
        member_id: header.member_id,
        leader_id: Some(answer.leader).filter(|id| *id != 0),
        term: answer.raft_term,
        is_learner: answer.is_learner,
        db_size: size(answer.db_size),
        db_in_use: size(answer.db_size_in_use),
        db_quota: Some(size(answer.db_size_quota)).filter(|bytes| *bytes != 0),
        // The Alarm call would tell the same, but etcd sends each one through raft: a write on every member.
        alarms: Alarms { nospace: raised("NOSPACE"), corrupt: raised("CORRUPT") },
        version: short_version(&answer.version),
    })
}

fn headless() -> CallError {
    CallError::Failed("an answer without a header".into())
}

/// By text: the code of etcd's learner error changed from 3.6 to 3.7, and codes are shared by many errors.
fn classify(status: Status) -> CallError {
    let text = describe(&status);
    let says = |words: &str| status.message().contains(words);
    if says("user name is empty")
        || says("permission denied")
        || says("invalid auth token")
        || says("revision of auth store is old")
    {
        CallError::Auth(text)
    } else if says("not supported for learner") {
        CallError::Learner(text)
    } else if says("leader changed") || says("etcdserver: no leader") {
        CallError::Election(text)
    } else {
        CallError::Failed(text)
    }
}

/// Longest error of a call that is shown.
const LONGEST: usize = 512;

/// etcd's own words, or the innermost cause where the call never got to etcd; not all of a long text.
fn describe(status: &Status) -> String {
    let mut text = told_cause(status);
    text.truncate(text.floor_char_boundary(LONGEST));
    text
}

fn told_cause(status: &Status) -> String {
    let mut cause = status.source();
    while let Some(inner) = cause.and_then(|error| error.source()) {
        // A dial error says all of its own source.
        if cause.is_some_and(|error| error.is::<DialError>()) {
            break;
        }
        cause = Some(inner);
    }
    match cause {
        Some(cause) => cause.to_string(),
        None if status.message().is_empty() => status.code().description().to_owned(),
        None => status.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rstest::rstest;
    use tonic::Code;

    use super::super::dial::Address;
    use super::super::proto::ResponseHeader;
    use super::*;

    #[rstest]
    #[case(Code::InvalidArgument, "etcdserver: user name is empty")]
    #[case(Code::PermissionDenied, "etcdserver: permission denied")]
    #[case(Code::Unauthenticated, "etcdserver: invalid auth token")]
    fn d5_refusals_of_auth_are_told_apart(#[case] code: Code, #[case] text: &str) {
        assert_eq!(classify(Status::new(code, text)), CallError::Auth(text.into()));
    }

    #[rstest]
    #[case(Code::Unavailable)] // to 3.6
    #[case(Code::FailedPrecondition)] // from 3.7
    fn d6_the_learner_error_is_known_whatever_its_code(#[case] code: Code) {
        let text = "etcdserver: rpc not supported for learner";
        assert_eq!(classify(Status::new(code, text)), CallError::Learner(text.into()));
    }

    #[test]
    fn an_election_is_worth_another_try_and_a_time_out_is_not() {
        let changed = Status::unavailable("etcdserver: leader changed");
        assert!(matches!(classify(changed), CallError::Election(_)));
        let lost = Status::unavailable("etcdserver: request timed out");
        assert!(matches!(classify(lost), CallError::Failed(_)));
    }

    #[test]
    fn d4_status_lists_alarms() {
        let answer = StatusResponse {
            header: Some(ResponseHeader { member_id: 7, ..Default::default() }),
            errors: vec!["etcdserver: no leader".into(), "memberID:7  alarm:NOSPACE ".into()],
            ..Default::default()
        };
        let told = told(answer).unwrap();
        assert_eq!(told.alarms, Alarms { nospace: true, corrupt: false });
        assert_eq!(told.leader_id, None);
        assert_eq!(told.db_quota, None);
    }

    fn client(address: std::net::SocketAddr) -> Client {
        let dial = Dial { address: Address::Tcp(address), tls: None };
        Client::new(dial.clone(), dial)
    }

    #[tokio::test]
    async fn a_refused_connection_fails_at_once_and_says_where() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = client(address).status(Duration::from_secs(5)).await.unwrap_err();
        let CallError::Failed(text) = error else { panic!("{error:?}") };
        assert!(text.starts_with(&format!("connect {address}: ")), "{text}");
    }

    #[tokio::test]
    async fn d9_a_peer_that_never_answers_is_given_up_on_at_the_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = client(listener.local_addr().unwrap());
        let limit = Duration::from_millis(50);
        assert_eq!(client.linearizable_read(limit).await, Err(CallError::TimedOut(limit)));
        assert_eq!(client.status(limit).await, Err(CallError::TimedOut(limit)));
    }
}
