// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One call: its deadline, its connection, and what a failure says about the store. Decides nothing about repeating.
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, ConnectError, Response, Status};

use super::dial::Connector;

/// Long enough for an election within a call, short enough that a client is not lost to a fault for its whole length.
const DEFAULT_LIMIT: Duration = Duration::from_secs(5);

/// A client of one member. Clones share the connection, which is made at the first call and anew when it breaks.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
    limit: Duration,
}

struct Shared {
    connector: Connector,
    channel: Mutex<Channel>,
}

/// Why a call brought no answer, and what that says about the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// It was refused, or never sent: nothing happened, and nothing of it will.
    Failed(Trouble),
    /// It may have happened, or may still happen at any later time.
    Unknown(Trouble),
}

/// What went wrong where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The call, as etcd names it: `Put`.
    pub call: &'static str,
    /// The other end, as its connector names it.
    pub place: String,
    /// For people.
    pub why: String,
}

impl Client {
    /// Connects to nothing yet. Needs a runtime. A call's deadline is 5 s; see [`Client::within`].
    pub fn new(connector: Connector) -> Self {
        let channel = Mutex::new(channel(&connector));
        Self { shared: Arc::new(Shared { connector, channel }), limit: DEFAULT_LIMIT }
    }

    /// The same client, whose calls may take `limit` each, connecting included.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        Self { shared: Arc::clone(&self.shared), limit }
    }

    /// A client of the same member with a connection of its own.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { limit: self.limit, ..Self::new(self.shared.connector.clone()) }
    }

    /// What the other end is called.
    pub fn place(&self) -> &str {
        self.shared.connector.place()
    }

    /// Makes one call, within the limit.
    pub(super) async fn call<Answer, Fut>(
        &self,
        name: &'static str,
        call: impl FnOnce(Channel) -> Fut,
    ) -> Result<Answer, CallError>
    where
        Fut: Future<Output = Result<Response<Answer>, Status>>,
    {
        let channel = self.shared.channel().clone();
        let trouble = |why| Trouble { call: name, place: self.place().to_owned(), why };
        match tokio::time::timeout(self.limit, call(channel)).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(classify(&status, trouble)),
            Err(_) => {
                // A peer that vanished behind a dropped packet would hold the next calls up until TCP gives up, minutes
                // after the fault. HTTP/2 pings are no way out: etcd ends a connection that pings more than every 5 s.
                self.shared.renew();
                Err(CallError::Unknown(trouble(format!("no answer within {:?}", self.limit))))
            }
        }
    }
}

impl Shared {
    fn channel(&self) -> MutexGuard<'_, Channel> {
        // A channel that was put in place is whole, whatever panicked beside it.
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Later calls dial anew; calls under way keep the old connection to their end.
    fn renew(&self) {
        *self.channel() = channel(&self.connector);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("connector", &self.connector).finish_non_exhaustive()
    }
}

fn channel(connector: &Connector) -> Channel {
    let origin = Uri::builder()
        .scheme(connector.scheme())
        .authority("etcd")
        .path_and_query("/")
        .build()
        .expect("scheme, authority and path are constants that fit");
    let connector = connector.clone();
    let open = tower::service_fn(move |_: Uri| {
        let connector = connector.clone();
        async move { connector.open().await.map(TokioIo::new).map_err(Opening) }
    });
    // The endpoint's own address is never used; the connector knows better.
    Endpoint::from_static("http://etcd").origin(origin).connect_with_connector_lazy(open)
}

/// What a connector said, as an error with the whole chain in one line.
#[derive(Debug)]
struct Opening(anyhow::Error);

impl fmt::Display for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl Error for Opening {}

/// Texts of etcd's own that come with a code of transport trouble, but before a proposal was made: the interceptor
/// that keeps learners from serving, and the limit on proposals under way (`EtcdServer.processInternalRaftRequestOnce`).
const REFUSED_BEFORE_PROPOSAL: [&str; 2] =
    ["etcdserver: rpc not supported for learner", "etcdserver: too many requests"];

/// What a status says about the store. Whatever is not listed as a refusal counts as unknown: calling a write that took
/// effect "failed" would make a sound history look broken, and the reverse only makes the check a little weaker.
///
/// Looks like a refusal and is none:
/// - `ResourceExhausted: mvcc: database space exceeded`: `quotaApplierV3` applies a put or transaction first, and turns
///   its answer into this error afterwards.
/// - `Unavailable` of any text (`request timed out`, `leader changed`, `server stopped`, `no leader`): the proposal may lie
///   in the log of a member and be committed after the next election.
/// - `Internal`, `Cancelled`, `Unknown`, `DataLoss`: said by gRPC on the way as well as by etcd.
fn classify(status: &Status, trouble: impl FnOnce(String) -> Trouble) -> CallError {
    if let Some(error) = causes(status).find_map(|cause| cause.downcast_ref::<ConnectError>()) {
        // The request never left: there was no connection to send it on.
        return CallError::Failed(trouble(format!("no connection: {error}")));
    }
    let why = trouble(format!("{:?}: {}", status.code(), said(status)));
    match status.code() {
        Code::InvalidArgument
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::Unimplemented => CallError::Failed(why),
        Code::Unavailable | Code::ResourceExhausted
            if REFUSED_BEFORE_PROPOSAL.iter().any(|text| status.message().starts_with(text)) =>
        {
            CallError::Failed(why)
        }
        _ => CallError::Unknown(why),
    }
}

/// The message, and for errors of the transport what lies below it.
fn said(status: &Status) -> String {
    let mut said = status.message().to_owned();
    for text in causes(status).map(ToString::to_string) {
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
    }
    said
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(status.source(), |cause| (*cause).source())
}

impl CallError {
    /// What kind of failure.
    pub fn trouble(&self) -> &Trouble {
        match self {
            Self::Failed(trouble) | Self::Unknown(trouble) => trouble,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self {
            Self::Failed(_) => "failed",
            Self::Unknown(_) => "outcome unknown",
        };
        let Trouble { call, place, why } = self.trouble();
        write!(f, "{call} at {place}: {outcome}: {why}")
    }
}

impl Error for CallError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(code: Code, message: &str) -> bool {
        let status = Status::new(code, message);
        let trouble = |why| Trouble { call: "Put", place: "etcd-0".into(), why };
        matches!(classify(&status, trouble), CallError::Unknown(_))
    }

    #[test]
    fn a_write_that_may_have_happened_is_never_called_failed() {
        for (code, message) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to previous leader failure"),
            (Code::Unavailable, "etcdserver: server stopped"),
            (Code::Unavailable, "error reading from server: EOF"),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
            (Code::DeadlineExceeded, "context deadline exceeded"),
            (Code::Cancelled, "context canceled"),
            (Code::Internal, "stream terminated"),
            (Code::Unknown, "transport error"),
            (Code::DataLoss, "etcdserver: corrupt cluster"),
        ] {
            assert!(unknown(code, message), "{code:?} {message}");
        }
    }

    #[test]
    fn a_refusal_is_a_failure() {
        for (code, message) in [
            (Code::InvalidArgument, "etcdserver: request is too large"),
            (Code::PermissionDenied, "etcdserver: permission denied"),
            (Code::FailedPrecondition, "etcdserver: not leader"),
            (Code::NotFound, "etcdserver: member not found"),
            (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted"),
            (Code::Unavailable, "etcdserver: rpc not supported for learner"),
            (Code::ResourceExhausted, "etcdserver: too many requests"),
        ] {
            assert!(!unknown(code, message), "{code:?} {message}");
        }
    }
}
