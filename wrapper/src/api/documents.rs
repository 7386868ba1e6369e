// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The reading half of `/v1`: status, leader, readiness, version, `/metrics`. Long-polls wait for a position of the
//! publisher; they look at nothing but snapshots.
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, StatusCode};
use hyper::body::Incoming;

use crate::member::readiness::{MAX_AGE, evaluate};
use crate::metrics::{Format, Scrape};

use super::problem::{Code, Problem};
use super::publisher::Published;
use super::query::{Query, invalid};
use super::snapshot::{self, Now};
use super::{Answer, Api, Connection, accepts, closed, json, text, warnings, wire};

/// No long-poll waits longer.
pub(super) const WAIT_AT_MOST: Duration = Duration::from_secs(300);

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
        let poll = self.position(&request, &["after", "wait"], |published| published.leader_index).await?;
        let published = self.published.borrow();
        let (core, member) = (self.views.core.borrow(), self.views.member.borrow());
        let mut leader = snapshot::leader(&core, &member, &published.marks, Now::read());
        leader.poll = poll;
        Ok(json(StatusCode::OK, &leader))
    }

    /// `GET /v1/readiness`.
    pub(super) fn readiness(&self) -> Answer {
        let now = Now::read();
        let core = self.views.core.borrow();
        let evaluation = evaluate(&core, &self.views.member.borrow(), now.instant, MAX_AGE);
        json(
            StatusCode::OK,
            &snapshot::readiness_document(&core, &evaluation, &self.published.borrow().marks, now),
        )
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
            .and_then(|(epoch, index)| Some((epoch, index.parse::<u64>().ok()?)))
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
