// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The reading half of `/v1`: status, leader, version, the OpenAPI document; `/metrics`. Long-polls wait for a position of the
//! publisher; they look at nothing but snapshots.
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, StatusCode};
use hyper::body::Incoming;

use crate::member::client::CallError;
use crate::member::readiness::{MAX_AGE, evaluate};
use crate::metrics::{Format, Scrape};
use crate::supervise::view::Phase;

use super::problem::{Code, Problem};
use super::publisher::Published;
use super::query::{Query, invalid, whole_number};
use super::snapshot::{self, Now};
use super::{Answer, Api, Connection, accepts, closed, json, text, warnings, wire};

/// No long-poll waits longer.
pub(super) const WAIT_AT_MOST: Duration = Duration::from_secs(300);

/// Written by hand; tests hold every answer against it.
const OPENAPI: &str = include_str!("../../openapi.json");

/// Longer than an election.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

impl Api {
    /// `GET /v1/status`.
    pub(super) async fn status(
        self: Arc<Self>,
        _connection: Arc<Connection>,
        request: Request<Incoming>,
    ) -> Result<Answer, Problem> {
        let poll = self.position(&request, &["after", "wait"], |published| published.marks.index).await?;
        let published = self.published.borrow();
        let mut status = self.views.status(&published.marks, Now::read());
        status.poll = poll;
        Ok(json(StatusCode::OK, &status))
    }

    /// `GET /v1/leader`.
    pub(super) async fn leader(
        self: Arc<Self>,
        _connection: Arc<Connection>,
        request: Request<Incoming>,
    ) -> Result<Answer, Problem> {
        let known = ["after", "wait", "confirm"];
        let confirm = Query::parse(request.uri().query())?.flag("confirm")?;
        let poll = self.position(&request, &known, |published| published.leader_index).await?;
        if confirm {
            return self.confirmed_leader(poll).await;
        }
        let published = self.published.borrow();
        let (core, member) = (self.views.core.borrow(), self.views.member.borrow());
        let mut leader = snapshot::leader(&core, &member, &published.marks, Now::read());
        leader.poll = poll;
        Ok(json(StatusCode::OK, &leader))
    }

    /// The leader at one moment within this call: a linearizable read between two answers that agree.
    async fn confirmed_leader(&self, poll: wire::Poll) -> Result<Answer, Problem> {
        let _place = self.confirmations.try_acquire().map_err(|_| {
            Problem::new(Code::TooManyStreams, "too many callers have leadership confirmed already")
        })?;
        let no_leader = |detail: String| Problem::new(Code::NoLeader, detail);
        let (generation, client) = {
            let member = self.views.member.borrow();
            (member.generation, member.client.clone())
        };
        let client =
            client.ok_or_else(|| no_leader("etcd is not running, or has not said READY yet".into()))?;
        let answer = client.confirmed_status(CONFIRM_WITHIN).await.map_err(|error| match error {
            CallError::TimedOut(limit) => {
                let detail = format!("etcd confirmed nothing within {limit:?}: no quorum, or it hangs");
                Problem::new(Code::ConfirmTimeout, detail)
            }
            other => no_leader(format!("etcd does not confirm a leader: {other}")),
        })?;
        let published = self.published.borrow();
        let (core, member) = (self.views.core.borrow(), self.views.member.borrow());
        if core.child.as_ref().map(|child| child.generation) != generation {
            return Err(no_leader("etcd ended meanwhile".into()));
        }
        let leader_id =
            answer.leader_id.ok_or_else(|| no_leader("the local member knows of no leader".into()))?;
        let known = snapshot::leader(&core, &member, &published.marks, Now::read());
        let stays = core.phase == Phase::Running && !core.draining;
        let leader = wire::Leader {
            member_id: Some(wire::member_id(answer.member_id)),
            leader_id: Some(wire::member_id(leader_id)),
            is_leader: stays && leader_id == answer.member_id,
            is_learner: Some(answer.is_learner),
            term: Some(answer.term),
            confirmed: true,
            age: Some(wire::duration(Duration::ZERO)),
            source: Some("status".into()),
            poll,
            ..known
        };
        Ok(json(StatusCode::OK, &leader))
    }

    /// `GET /v1/version`.
    pub(super) fn version(&self) -> Answer {
        let etcd_version = self.views.core.borrow().etcd_version.clone();
        let version = env!("CARGO_PKG_VERSION").into();
        let revision = self.settings.revision.map(Into::into);
        json(StatusCode::OK, &wire::Version { version, revision, etcd_version })
    }

    /// `GET /metrics`: OpenMetrics for who asks for it, else Prometheus text.
    pub(super) fn metrics_page(&self, headers: &http::HeaderMap) -> Answer {
        let format = match accepts(headers, "application/openmetrics-text") {
            true => Format::OpenMetrics,
            false => Format::Prometheus,
        };
        let now = Now::read();
        let published = self.published.borrow();
        let (core, member, tls) =
            (self.views.core.borrow(), self.views.member.borrow(), self.views.tls.borrow());
        let marks = &published.marks;
        let standing = warnings::current(&core, &member, &tls, marks.volume, &marks.warnings, now.wall);
        let scrape = Scrape {
            evaluation: evaluate(&core, &member, now.instant, MAX_AGE),
            is_leader: snapshot::leader(&core, &member, marks, now).is_leader,
            core: &core,
            member: &member,
            tls: &tls,
            volume: marks.volume,
            warnings: &standing,
            revision: self.settings.revision,
            now: now.instant,
        };
        text(StatusCode::OK, format.content_type(), self.metrics.render(format, &scrape))
    }

    /// Waits as `after` and `wait` ask, and says what came of it.
    ///
    /// # Errors
    /// `unknown_field`, `invalid_value`, `too_many_streams`.
    async fn position(
        &self,
        request: &Request<Incoming>,
        known: &[&str],
        index: fn(&Published) -> u64,
    ) -> Result<wire::Poll, Problem> {
        let query = Query::parse(request.uri().query())?;
        query.only(known)?;
        let wait = query.duration("wait")?.unwrap_or_default().min(WAIT_AT_MOST);
        let Some(after) = query.get("after") else { return Ok(wire::Poll::default()) };
        let (epoch, after) = after
            .rsplit_once(':')
            .and_then(|(epoch, index)| Some((epoch, whole_number(index)?)))
            .ok_or_else(|| invalid("after", after, "<epoch>:<index> of an earlier answer"))?;
        let foreign = epoch != self.views.core.borrow().epoch;
        if foreign || after > self.published.borrow().marks.index {
            return Ok(wire::Poll { changed: Some(true), reset: Some(true) });
        }
        let changed = index(&self.published.borrow()) > after || self.news(after, index, wait).await?;
        Ok(wire::Poll { changed: Some(changed), reset: None })
    }

    /// Waits for something newer than `after`; false at the end of `wait`, and when the listener winds down.
    async fn news(&self, after: u64, index: fn(&Published) -> u64, wait: Duration) -> Result<bool, Problem> {
        if wait.is_zero() {
            return Ok(false);
        }
        let _place = self
            .long_polls
            .try_acquire()
            .map_err(|_| Problem::new(Code::TooManyStreams, "too many long-polls wait already"))?;
        let (mut published, mut closing) = (self.published.clone(), self.closing.clone());
        let deadline = tokio::time::Instant::from_std(Instant::now() + wait);
        let newer = async { published.wait_for(|published| index(published) > after).await.is_ok() };
        tokio::select! {
            newer = newer => Ok(newer),
            () = closed(&mut closing) => Ok(false),
            () = tokio::time::sleep_until(deadline) => Ok(false),
        }
    }
}

/// `GET /v1/openapi.json`.
pub(super) fn openapi() -> Answer {
    text(StatusCode::OK, "application/json", OPENAPI)
}
