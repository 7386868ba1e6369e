// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `GET /v1/events`: who may have a stream, of what, and from where. The events themselves are the publisher's; what a
//! stream sends when is the reader's.
pub mod frame;
mod reader;
pub mod ring;
mod stream;
pub mod webhook;

use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;

use self::reader::Reader;
use self::stream::{HEARTBEAT, Place, Stream};
use super::problem::{Code, Problem};
use super::query::{Query, invalid, nearest};
use super::wire::FieldError;
use super::{Answer, Api, Body, Connection, empty};

/// Streams at a time.
pub(super) const STREAMS: usize = 32;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Who leads, and whether we do.
    Leader,
    /// Phase, intent or generation.
    Phase,
    /// Ready or not, checks, override.
    Readiness,
    /// The verbs' operations.
    Operation,
}

impl Topic {
    /// The order of events that one look brings: what is most urgent first.
    pub const ALL: [Self; 4] = [Self::Leader, Self::Phase, Self::Readiness, Self::Operation];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Phase => "phase",
            Self::Readiness => "readiness",
            Self::Operation => "operation",
        }
    }
}

/// The topics a caller asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topics([bool; Topic::ALL.len()]);

impl Topics {
    /// Every topic.
    pub const ALL: Self = Self([true; Topic::ALL.len()]);

    /// Whether this one is asked for.
    pub fn contains(self, topic: Topic) -> bool {
        self.0[topic as usize]
    }

    /// Those that are asked for, in the order of their words.
    pub fn iter(self) -> impl Iterator<Item = Topic> {
        Topic::ALL.into_iter().filter(move |topic| self.contains(*topic))
    }

    /// The value of `?topics=`: words with commas between them; without one all.
    fn parse(query: &Query) -> Result<Self, Problem> {
        let Some(text) = query.get("topics") else { return Ok(Self::ALL) };
        let known = Topic::ALL.map(Topic::as_str);
        let mut topics = Self([false; Topic::ALL.len()]);
        for word in text.split(',') {
            let place = known.iter().position(|topic| *topic == word).ok_or_else(|| {
                let wanted = format!("some of {}, with commas between them", known.join(", "));
                let Problem { code, detail, .. } = invalid("topics", word, &wanted);
                let suggestion = nearest(word, &known);
                let errors =
                    vec![FieldError { pointer: "topics".into(), detail: detail.clone(), suggestion }];
                Problem { code, detail, errors }
            })?;
            topics.0[place] = true;
        }
        Ok(topics)
    }
}

/// The index of `<epoch>:<index>`, if the epoch is ours. Whatever else stands there is no position.
pub(crate) fn position(value: &HeaderValue, epoch: &str) -> Option<u64> {
    let (theirs, index) = value.to_str().ok()?.trim().rsplit_once(':')?;
    // `u64::from_str` takes a plus sign.
    let digits = index.bytes().all(|byte| byte.is_ascii_digit());
    index.parse().ok().filter(|_| digits && theirs == epoch)
}

impl Api {
    /// `GET /v1/events`.
    pub(super) fn events(&self, connection: &Arc<Connection>, request: &Request<Incoming>) -> Answer {
        self.open_events(connection, request).unwrap_or_else(|problem| self.problem(&problem))
    }

    fn open_events(
        &self,
        connection: &Arc<Connection>,
        request: &Request<Incoming>,
    ) -> Result<Answer, Problem> {
        let query = Query::parse(request.uri().query())?;
        query.only(&["topics"])?;
        let topics = Topics::parse(&query)?;
        let mut answer = if request.method() == Method::HEAD {
            empty(StatusCode::OK)
        } else {
            Response::new(Body::stream(self.stream(connection, request, topics)?.run()))
        };
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(answer)
    }

    fn stream(
        &self,
        connection: &Arc<Connection>,
        request: &Request<Incoming>,
        topics: Topics,
    ) -> Result<Stream, Problem> {
        let place = Place::take(&self.streams, &self.metrics).ok_or_else(|| {
            Problem::new(Code::TooManyStreams, format!("{STREAMS} streams are open already"))
        })?;
        let epoch = self.views.core.borrow().epoch.clone();
        let mut given = request.headers().get_all("last-event-id").iter();
        let after = match (given.next(), given.next()) {
            (None, _) => None,
            (Some(only), None) => Some(position(only, &epoch)),
            (Some(_), Some(_)) => Some(None),
        };
        let published = self.published.clone();
        let (reader, opening) = Reader::open(&published.borrow().ring, topics, after);
        let parts = stream::Parts {
            epoch,
            reader,
            published,
            tls: self.views.tls.clone(),
            closing: self.closing.clone(),
            place,
            _held: connection.activity.hold_stream(),
            heartbeat: HEARTBEAT,
        };
        Ok(Stream::open(parts, opening))
    }
}

#[cfg(test)]
mod tests;
