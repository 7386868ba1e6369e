// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The controlling half of `/v1`: parses a request once, hands it to the supervisor, waits for the operation where
//! the caller wants that. Decides nothing that the supervisor decides.
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tracing::info;

use crate::supervise::command::{self, Accepted, Command, HoldRequest, StartRequest, Validation};
use crate::supervise::view::{CoreView, Mode, OperationKind, OperationPhase, OperationStatus, OperationView};

use super::auth::{ClientIdentity, Scheme};
use super::documents::WAIT_AT_MOST;
use super::problem::{Code, Problem};
use super::query::{Query, invalid};
use super::{Answer, Api, Connection, closed, has_body, json, snapshot, wire};

/// The supervisor decides at once; one that is silent for this long is stuck.
const DECIDED_WITHIN: Duration = Duration::from_secs(5);

const START_PARAMETERS: &[&str] =
    &["validation", "ready", "owner", "reason", "force", "wait", "ifGeneration"];

/// One line for each control call: who, what, and what came of it. Names no query and no body: they may hold secrets.
pub(super) fn audit(connection: &Connection, call: &'static str, outcome: &str) {
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
    info!(target: "audit", peer = %admission.peer, scheme, identity, call, outcome, "control call");
}

impl Api {
    /// `POST /v1/etcd/start` without a body: the configuration comes from the sidecar, or the file.
    pub(super) async fn start(
        self: Arc<Self>,
        connection: Arc<Connection>,
        request: Request<Incoming>,
    ) -> Result<Answer, Problem> {
        let answer = self.take_start(request).await;
        let outcome = match &answer {
            Ok((_, Accepted { changed: true, .. })) => "accepted",
            Ok((_, Accepted { changed: false, .. })) => "unchanged",
            Err(problem) => problem.code.meaning().code,
        };
        audit(&connection, "/v1/etcd/start", outcome);
        let (wait, accepted) = answer?;
        Ok(self.outcome(OperationKind::Start, accepted, wait).await)
    }

    async fn take_start(&self, request: Request<Incoming>) -> Result<(Duration, Accepted), Problem> {
        let query = Query::parse(request.uri().query())?;
        query.only(START_PARAMETERS)?;
        let wait = query.duration("wait")?.unwrap_or_default().min(WAIT_AT_MOST);
        let start = start_request(&query)?;
        if has_body(&request) {
            return Err(Problem::new(
                Code::UnsupportedMediaType,
                "this version takes the configuration from the sidecar",
            ));
        }
        drop(request);
        Ok((wait, self.command(Command::Start(start)).await?))
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
            Err(_) => Err(Problem::new(Code::Failed, "the supervisor did not answer within 5 s")),
        }
    }

    /// The answer to an accepted command: 200 when it is finished (or there was nothing to do), else 202.
    async fn outcome(&self, kind: OperationKind, accepted: Accepted, wait: Duration) -> Answer {
        if !accepted.changed {
            return json(StatusCode::OK, &blank(kind, &accepted, OperationStatus::Succeeded));
        }
        let mut core = self.views.core.clone();
        // Also over when a newer operation stands in the snapshot: ours has ended then.
        let settled = |core: &CoreView| {
            core.operation.as_ref().is_some_and(|newest| match Some(newest.id).cmp(&accepted.operation) {
                Ordering::Less => false,
                Ordering::Equal => newest.finished_at.is_some(),
                Ordering::Greater => true,
            })
        };
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
        let operation = core.operation.as_ref().filter(|newest| Some(newest.id) == accepted.operation);
        let done = operation.is_some_and(|operation| operation.finished_at.is_some());
        let status = if done { StatusCode::OK } else { StatusCode::ACCEPTED };
        let document = operation.map(snapshot::operation);
        json(status, &document.unwrap_or_else(|| blank(kind, &accepted, OperationStatus::Pending)))
    }
}

/// The document of an operation that the snapshot does not show.
fn blank(kind: OperationKind, accepted: &Accepted, status: OperationStatus) -> wire::Operation {
    let now = SystemTime::now();
    let done = status == OperationStatus::Succeeded;
    snapshot::operation(&OperationView {
        id: accepted.operation.unwrap_or_default(),
        kind,
        status,
        phase: if done { OperationPhase::Done } else { OperationPhase::Starting },
        changed: accepted.changed,
        started_at: now,
        finished_at: done.then_some(now),
        problem: None,
        last_error: None,
    })
}

fn start_request(query: &Query) -> Result<StartRequest, Problem> {
    let validation = match query.get("validation") {
        None | Some("auto") => Validation::Auto,
        Some("none") => Validation::None,
        Some("sanity") => Validation::Ask(Mode::Sanity),
        Some("full") => Validation::Ask(Mode::Full),
        Some(other) => return Err(invalid("validation", other, "auto, none, sanity or full")),
    };
    let owner = query.get("owner").filter(|owner| !owner.is_empty()).map(str::to_owned);
    let hold = match (query.get("ready"), &owner) {
        (None | Some("auto"), _) => None,
        (Some("hold"), Some(owner)) => {
            Some(HoldRequest { owner: owner.clone(), reason: query.get("reason").unwrap_or_default().into() })
        }
        (Some("hold"), None) => return Err(Problem::new(Code::InvalidValue, "ready=hold needs an owner")),
        (Some(other), _) => return Err(invalid("ready", other, "auto or hold")),
    };
    let (force, if_generation) = (query.flag("force")?, query.number("ifGeneration")?);
    Ok(StartRequest { posted: None, validation, hold, owner, force, if_generation })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<StartRequest, Code> {
        let query = Query::parse(Some(text)).unwrap();
        start_request(&query).map_err(|problem| problem.code)
    }

    #[test]
    fn a_start_without_parameters_asks_for_the_bootstrap_of_today() {
        let start = parse("").unwrap();
        assert_eq!((start.validation, start.force, start.if_generation), (Validation::Auto, false, None));
        assert!(start.posted.is_none() && start.hold.is_none() && start.owner.is_none());
    }

    #[test]
    fn holding_needs_an_owner() {
        assert_eq!(parse("ready=hold").unwrap_err(), Code::InvalidValue);
        assert_eq!(parse("ready=hold&owner=").unwrap_err(), Code::InvalidValue);
        let hold = parse("ready=hold&owner=backup-restore&reason=restore").unwrap().hold.unwrap();
        assert_eq!((hold.owner.as_str(), hold.reason.as_str()), ("backup-restore", "restore"));
    }

    #[test]
    fn values_outside_the_vocabulary_are_refused() {
        for text in ["validation=maybe", "ready=yes", "force=1", "ifGeneration=x"] {
            assert_eq!(parse(text).unwrap_err(), Code::InvalidValue, "{text}");
        }
        assert_eq!(parse("validation=full").unwrap().validation, Validation::Ask(Mode::Full));
    }
}
