// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The controlling half of `/v1`: hands parsed requests to the supervisor, waits for the operation where the caller
//! wants that, and writes one audit line for each call. Decides nothing that the supervisor decides.
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tokio::sync::{oneshot, watch};
use tracing::info;

use crate::config;
use crate::member::readiness::{MAX_AGE, evaluate};
use crate::supervise::command::{self, Accepted, Command, OverrideRequest, Seat};
use crate::supervise::publish::REMEMBERED;
use crate::supervise::view::{CoreView, OperationKind, OperationPhase, OperationStatus, OperationView};

use super::auth::{ClientIdentity, Scheme};
use super::body::{self, MediaType};
use super::documents::WAIT_AT_MOST;
use super::fields::Fields;
use super::problem::{Code, Problem};
use super::query::Query;
use super::snapshot::Now;
use super::{Answer, Api, Connection, closed, json, snapshot, wire};

mod requests;

/// How long a caller waits while others post their configurations.
const PLACE_WITHIN: Duration = Duration::from_secs(5);
/// The supervisor decides at once, or after a look at the sidecar, the disk and the peers; one that is silent for this
/// long is stuck.
const DECIDED_WITHIN: Duration = Duration::from_secs(15);

/// One line for each control call: who, what, why (as the caller says), and what came of it. Of query and body nothing
/// else is named: they may hold secrets.
pub(super) fn audit(connection: &Connection, call: &'static str, outcome: &str, reason: &str) {
    let admission = &connection.admission;
    let scheme = match admission.scheme {
        Scheme::Plain => "http",
        Scheme::Tls => "https",
    };
    let identity = match &admission.identity {
        ClientIdentity::None => "none",
        ClientIdentity::Unverified => "unverified",
        ClientIdentity::Verified { cn, sans } => {
            cn.as_ref().or(sans.first()).map_or("unnamed", String::as_str)
        }
    };
    info!(target: "audit", peer = %admission.peer, scheme, identity, call, outcome, reason, "control call");
}

/// What came of a call, in a word.
fn verdict(taken: Result<&Accepted, &Problem>) -> &'static str {
    match taken {
        Ok(Accepted { changed: true, .. }) => "accepted",
        Ok(Accepted { changed: false, .. }) => "unchanged",
        Err(problem) => problem.code.meaning().code,
    }
}

impl Api {
    /// `POST /v1/etcd/{verb}`.
    pub(super) async fn operate(
        self: Arc<Self>,
        connection: Arc<Connection>,
        request: Request<Incoming>,
        kind: OperationKind,
    ) -> Result<Answer, Problem> {
        let mut reason = String::new();
        let taken = self.take(request, kind, &mut reason).await;
        let outcome = verdict(taken.as_ref().map(|(_, accepted)| accepted));
        audit(&connection, kind.as_str(), outcome, &reason);
        let (wait, accepted) = taken?;
        Ok(self.outcome(kind, accepted, wait).await)
    }

    async fn take(
        &self,
        request: Request<Incoming>,
        kind: OperationKind,
        reason: &mut String,
    ) -> Result<(Duration, Accepted), Problem> {
        let (head, body) = request.into_parts();
        let query = Query::parse(head.uri.query())?;
        query.only(match kind {
            OperationKind::Start => requests::START,
            OperationKind::Restart => requests::RESTART,
            OperationKind::Stop | OperationKind::TransferLeadership => &["wait"],
        })?;
        let wait = query.duration("wait")?.unwrap_or_default().min(WAIT_AT_MOST);
        let command = match kind {
            OperationKind::Start => {
                let has_body = !hyper::body::Body::is_end_stream(&body);
                // Each may hold a mebibyte until it is decided on.
                let _place = if has_body { Some(self.posting_place().await?) } else { None };
                let posted = match has_body {
                    true => {
                        body::check_type(&head.headers, MediaType::Yaml)?;
                        Some(requests::posted(
                            body::read(body, config::MAX_POSTED_BYTES, &self.closing).await?,
                        )?)
                    }
                    // An empty file posted by mistake must not become a start with another configuration.
                    false if body::means_yaml(&head.headers) => {
                        let detail = "the body is to be an etcd configuration, and it is empty; \
                                      without a Content-Type the sidecar's is taken";
                        return Err(Problem::new(Code::BadRequest, detail));
                    }
                    false => None,
                };
                let start = Command::Start(requests::start(&query, posted)?);
                start.reason().clone_into(reason);
                return Ok((wait, self.command(start).await?));
            }
            OperationKind::Stop => Command::Stop(requests::stop(&fields(&head, body, &self.closing).await?)?),
            OperationKind::Restart => {
                Command::Restart(requests::restart(&query, &fields(&head, body, &self.closing).await?)?)
            }
            OperationKind::TransferLeadership => {
                body::none(&body)?;
                Command::TransferLeadership(self.seat())
            }
        };
        command.reason().clone_into(reason);
        Ok((wait, self.command(command).await?))
    }

    /// A place among those who post a configuration.
    async fn posting_place(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Problem> {
        let place = tokio::time::timeout(PLACE_WITHIN, self.postings.acquire()).await;
        place.ok().and_then(Result::ok).ok_or_else(|| {
            Problem::new(Code::TooManyStreams, "other configurations are being posted; try again")
        })
    }

    /// Where the member sits, as far as the newest answers tell.
    fn seat(&self) -> Seat {
        let member = self.views.member.borrow();
        let Some(leadership) = &member.leadership else { return Seat::Unknown };
        if !leadership.is_leader {
            return Seat::Follows;
        }
        let others = member.members.as_ref().map(|members| {
            members.iter().filter(|peer| !peer.is_learner && Some(peer.id) != leadership.member_id).count()
        });
        if others == Some(0) { Seat::LeadsAlone } else { Seat::Leads }
    }

    /// `PUT` and `DELETE /v1/readiness`.
    pub(super) async fn set_readiness(
        self: Arc<Self>,
        connection: Arc<Connection>,
        request: Request<Incoming>,
    ) -> Result<Answer, Problem> {
        let call = if request.method() == http::Method::PUT { "override" } else { "end override" };
        let mut reason = String::new();
        let taken = match readiness_request(request, &self.closing).await {
            Ok(change) => {
                change.reason.clone_into(&mut reason);
                self.command(Command::SetOverride(change)).await
            }
            Err(problem) => Err(problem),
        };
        audit(&connection, call, verdict(taken.as_ref()), &reason);
        taken?;
        Ok(self.readiness())
    }

    /// `GET /v1/readiness`.
    pub(super) fn readiness(&self) -> Answer {
        let now = Now::read();
        let core = self.views.core.borrow();
        let evaluation = evaluate(&core, &self.views.member.borrow(), now.instant, MAX_AGE);
        let published = self.published.borrow();
        json(StatusCode::OK, &snapshot::readiness_document(&core, &evaluation, &published.marks, now))
    }

    /// Hands a command over and waits for the decision.
    ///
    /// # Errors
    /// The supervisor's refusal; `shutting_down` when it is gone; `failed` when it is stuck.
    pub(super) async fn command(&self, command: Command) -> Result<Accepted, Problem> {
        let (reply, decision) = oneshot::channel();
        let decided = async {
            self.commands.send(command::Request { command, reply }).await.ok()?;
            decision.await.ok()
        };
        match tokio::time::timeout(DECIDED_WITHIN, decided).await {
            Ok(Some(decision)) => decision.map_err(Problem::from),
            Ok(None) => Err(Problem::new(Code::ShuttingDown, "the supervisor has ended")),
            Err(_) => {
                let detail = format!("the supervisor did not answer within {DECIDED_WITHIN:?}");
                Err(Problem::new(Code::Failed, detail))
            }
        }
    }

    /// The answer to an accepted command: 200 when it is finished (or there was nothing to do), else 202.
    pub(super) async fn outcome(&self, kind: OperationKind, accepted: Accepted, wait: Duration) -> Answer {
        let Some(id) = accepted.operation else {
            return json(StatusCode::OK, &nothing_to_do(kind, accepted.changed));
        };
        let mut core = self.views.core.clone();
        // One that is not remembered any more has ended.
        let settled = |core: &CoreView| core.operation_by_id(id).is_none_or(|own| own.finished_at.is_some());
        if !wait.is_zero() {
            let mut closing = self.closing.clone();
            let settled = async { drop(core.wait_for(settled).await) };
            tokio::select! {
                () = settled => {}
                () = closed(&mut closing) => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        let core = self.views.core.borrow();
        match core.operation_by_id(id) {
            Some(own) if own.finished_at.is_some() => {
                json(StatusCode::OK, &snapshot::operation(&core.epoch, own))
            }
            Some(own) => json(StatusCode::ACCEPTED, &snapshot::operation(&core.epoch, own)),
            None => self.problem(&forgotten(&core.epoch, id)),
        }
    }

    /// `GET /v1/operations/{id}`.
    pub(super) fn operation(&self, id: &str) -> Answer {
        let core = self.views.core.borrow();
        let found = core.operations.iter().find(|one| snapshot::operation_id(&core.epoch, one.id) == id);
        match found {
            Some(operation) => json(StatusCode::OK, &snapshot::operation(&core.epoch, operation)),
            None => {
                let detail = format!(
                    "no operation {id:?}: the last {REMEMBERED} of this process, {}, are remembered; those of an earlier \
                     one ended with it",
                    core.epoch
                );
                drop(core);
                self.problem(&Problem::new(Code::NotFound, detail))
            }
        }
    }
}

/// The small JSON body of a verb.
async fn fields(
    head: &http::request::Parts,
    body: Incoming,
    closing: &watch::Receiver<bool>,
) -> Result<Fields, Problem> {
    if hyper::body::Body::is_end_stream(&body) {
        return Ok(Fields::default());
    }
    body::check_type(&head.headers, MediaType::Json)?;
    Fields::parse(&body::read(body, body::SMALL, closing).await?)
}

async fn readiness_request(
    request: Request<Incoming>,
    closing: &watch::Receiver<bool>,
) -> Result<OverrideRequest, Problem> {
    let (head, body) = request.into_parts();
    let query = Query::parse(head.uri.query())?;
    if head.method == http::Method::PUT {
        query.only(&[])?;
        requests::put_readiness(&fields(&head, body, closing).await?)
    } else {
        body::none(&body)?;
        requests::delete_readiness(&query)
    }
}

/// The answer of a verb that had nothing to do, or was done at once: no operation stands behind it.
fn nothing_to_do(kind: OperationKind, changed: bool) -> wire::Operation {
    let now = SystemTime::now();
    let none = OperationView {
        id: 0,
        kind,
        status: OperationStatus::Succeeded,
        phase: OperationPhase::Done,
        changed,
        started_at: now,
        finished_at: Some(now),
        generation: None,
        problem: None,
        last_error: None,
    };
    snapshot::operation("", &none)
}

fn forgotten(epoch: &str, id: u64) -> Problem {
    let id = snapshot::operation_id(epoch, id);
    Problem::new(Code::NotFound, format!("{id} ended, and {REMEMBERED} newer operations came since"))
}
