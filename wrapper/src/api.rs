// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The HTTP API: a view of the snapshots, and events sent to the supervisor. Holds no state of the member's own, and
//! never does I/O on the way to a probe's answer.
//!
//! A request comes in through `listener`, is looked up in `route`, admitted by `auth`, and answered by `probes`,
//! `documents`, `stop` or `control`.
pub mod auth;
mod body;
pub mod connections;
pub mod control;
pub mod documents;
pub mod events;
pub(crate) mod fields;
pub mod flush;
pub mod listener;
mod payload;
pub mod probes;
pub mod problem;
pub mod publisher;
pub mod query;
pub mod route;
pub mod snapshot;
pub mod stop;
pub(crate) mod validate;
pub mod warnings;
pub mod wire;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use futures_util::future::Either;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::member::view::MemberView;
use crate::metrics::Metrics;
use crate::supervise::command;
use crate::supervise::view::CoreView;
use crate::tls::TlsView;

use self::auth::{Admission, Marks, Policy};
use self::connections::Activity;
use self::flush::Flushed;
pub use self::payload::Body;
use self::problem::{Code, Problem};
use self::publisher::Published;
use self::query::Query;
use self::route::{Endpoint, Found, Route};

/// An answer.
pub type Answer = Response<Body>;

/// The stages' snapshots, each written by one stage.
#[derive(Clone, Debug)]
pub struct Views {
    /// What the supervisor publishes.
    pub core: watch::Receiver<CoreView>,
    /// What the prober publishes.
    pub member: watch::Receiver<Arc<MemberView>>,
    /// Which certificates are loaded, and what is wrong with others.
    pub tls: watch::Receiver<TlsView>,
}

/// What flags and the environment settle for the process's life.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who may do what.
    pub policy: Policy,
    /// Names we go by beside the hosts of the advertise URLs: `--etcd-server-name`, the pod's host name.
    pub host_names: Vec<String>,
    /// The commit this was built from, where the build knew it.
    pub revision: Option<&'static str>,
}

/// Long-polls that may wait at the same time.
const LONG_POLLS: usize = 256;

/// Everything a request may look at or send to.
#[derive(Debug)]
pub struct Api {
    settings: Settings,
    views: Views,
    published: watch::Receiver<Published>,
    commands: mpsc::Sender<command::Request>,
    metrics: Metrics,
    /// `/stop` was taken already: any number of calls is one stop.
    stop_taken: AtomicBool,
    long_polls: Semaphore,
    /// Posted configurations that are read or decided on.
    postings: Semaphore,
    /// Configurations that are validated.
    validations: Semaphore,
    /// Confirmations of leadership: each asks etcd three times.
    confirmations: Semaphore,
    /// Streams of events that may be open.
    streams: Arc<Semaphore>,
    /// True once the listener winds down; long-polls end then.
    closing: watch::Receiver<bool>,
}

/// What a request knows of the connection it came by.
#[derive(Debug)]
pub struct Connection {
    /// Who is at the other end, as it was settled when the connection began.
    pub admission: Admission,
    /// When something last moved on it.
    pub activity: Arc<Activity>,
    /// Whether all that was written has reached the kernel.
    pub flushed: Arc<Flushed>,
}

/// An answer that is there at once (probes, `/stop`, documents) or one that is waited for.
pub type Pending = Either<
    Ready<Result<Answer, Infallible>>,
    Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>,
>;

impl Api {
    /// `closing` turns true when the listener winds down (see [`listener::serve`]).
    pub fn new(
        settings: Settings,
        views: Views,
        published: watch::Receiver<Published>,
        commands: mpsc::Sender<command::Request>,
        metrics: Metrics,
        closing: watch::Receiver<bool>,
    ) -> Self {
        let long_polls = Semaphore::new(LONG_POLLS);
        let [postings, validations, confirmations] = [4, 2, 8].map(Semaphore::new);
        let streams = Arc::new(Semaphore::new(events::STREAMS));
        let stop_taken = AtomicBool::new(false);
        Self {
            settings,
            views,
            published,
            commands,
            metrics,
            stop_taken,
            long_polls,
            postings,
            validations,
            confirmations,
            streams,
            closing,
        }
    }

    /// Answers one request. Whatever can be answered at once is answered before this returns, so that a caller who
    /// hangs up right after its request is served all the same.
    pub fn handle(self: &Arc<Self>, connection: &Arc<Connection>, request: Request<Incoming>) -> Pending {
        connection.activity.touch();
        let (route, rest) = match route::find(request.method(), request.uri().path()) {
            Found::Route(route, rest) => (route, rest),
            Found::OtherMethods(route) => {
                return self.at_once(route.template, self.wrong_method(connection, route));
            }
            Found::Nothing => return self.at_once("other", self.unknown_path(connection, &request)),
        };
        let template = route.template;
        if let Err(problem) = self.admit(connection, route, &request) {
            return self.at_once(template, self.problem(&problem));
        }
        let answer = match route.endpoint {
            Endpoint::Readyz => self.readyz(&request, None),
            Endpoint::ReadyzCheck => self.readyz(&request, Some(rest)),
            Endpoint::Livez => self.livez(),
            Endpoint::Startupz => self.startupz(),
            Endpoint::Metrics => self.metrics_page(request.headers()),
            Endpoint::Stop => self.stop(connection),
            Endpoint::Readiness => self.without_parameters(&request, || self.readiness()),
            Endpoint::Version => self.without_parameters(&request, || self.version()),
            Endpoint::OpenApi => self.without_parameters(&request, documents::openapi),
            Endpoint::Events => self.events(connection, &request),
            Endpoint::Status => return self.later(template, connection, request, Self::status),
            Endpoint::Leader => return self.later(template, connection, request, Self::leader),
            Endpoint::SetReadiness => return self.later(template, connection, request, Self::set_readiness),
            Endpoint::Operation => self.without_parameters(&request, || self.operation(rest)),
            Endpoint::ValidateConfig => {
                return self.later(template, connection, request, Self::validate_config);
            }
            Endpoint::Operate(kind) => {
                return self.later(template, connection, request, move |api, connection, request| {
                    api.operate(connection, request, kind)
                });
            }
        };
        self.at_once(template, answer)
    }

    fn at_once(&self, template: &'static str, answer: Answer) -> Pending {
        self.metrics.request(template, answer.status());
        Either::Left(ready(Ok(answer)))
    }

    /// Under `/v1` a parameter that means nothing is refused: its caller believes that it does.
    fn without_parameters(&self, request: &Request<Incoming>, answer: impl FnOnce() -> Answer) -> Answer {
        match Query::parse(request.uri().query()).and_then(|query| query.only(&[])) {
            Ok(()) => answer(),
            Err(problem) => self.problem(&problem),
        }
    }

    /// Runs an answer that waits; the connection counts as held meanwhile and is not taken for an idle one.
    fn later<F>(
        self: &Arc<Self>,
        template: &'static str,
        connection: &Arc<Connection>,
        request: Request<Incoming>,
        run: impl FnOnce(Arc<Self>, Arc<Connection>, Request<Incoming>) -> F + Send + 'static,
    ) -> Pending
    where
        F: Future<Output = Result<Answer, Problem>> + Send + 'static,
    {
        let (api, connection) = (Arc::clone(self), Arc::clone(connection));
        Either::Right(Box::pin(async move {
            let held = connection.activity.hold();
            let answer = run(Arc::clone(&api), Arc::clone(&connection), request).await;
            drop(held);
            let answer = answer.unwrap_or_else(|problem| api.problem(&problem));
            api.metrics.request(template, answer.status());
            Ok(answer)
        }))
    }

    fn admit(
        &self,
        connection: &Connection,
        route: &Route,
        request: &Request<Incoming>,
    ) -> Result<(), Problem> {
        let marks = Marks::of(request.uri(), request.headers(), |host| self.is_ours(host));
        let verdict = auth::authorize(&self.settings.policy, &connection.admission, marks, route.class);
        if let (Err(problem), auth::Class::Control | auth::Class::Stop) = (&verdict, route.class) {
            control::audit(connection, route.template, problem.code.meaning().code, "");
        }
        verdict
    }

    /// Is this a name of ours: a host of the settings, or of the running configuration's advertise URLs.
    fn is_ours(&self, host: &str) -> bool {
        let same = |name: &str| name.eq_ignore_ascii_case(host);
        if self.settings.host_names.iter().any(|name| same(name)) {
            return true;
        }
        let core = self.views.core.borrow();
        let Some(config) = core.child.as_ref().map(|child| &child.config) else { return false };
        let mut urls = config.advertise_client_urls.iter().chain(&config.advertise_peer_urls);
        urls.any(|url| url.parse::<http::Uri>().is_ok_and(|url| url.host().is_some_and(same)))
    }

    fn wrong_method(&self, connection: &Connection, route: &Route) -> Answer {
        if let Err(problem) = auth::check_scheme(&connection.admission, route.class) {
            return self.problem(&problem);
        }
        let allow = route::allow(route.template);
        let mut answer =
            self.problem(&Problem::new(Code::MethodNotAllowed, format!("allowed here: {allow}")));
        let allow = HeaderValue::from_str(&allow).expect("method names are header values");
        answer.headers_mut().insert(header::ALLOW, allow);
        answer
    }

    fn unknown_path(&self, connection: &Connection, request: &Request<Incoming>) -> Answer {
        let verdict = auth::check_scheme(&connection.admission, auth::Class::Open);
        let path = request.uri().path();
        let problem =
            verdict.err().unwrap_or_else(|| Problem::new(Code::NotFound, format!("no route {path}")));
        self.problem(&problem)
    }

    /// The problem document as an answer.
    fn problem(&self, problem: &Problem) -> Answer {
        let document = problem.document(Some(&self.views.core.borrow()));
        let mut answer = json(problem.status(), &document);
        let media_type = HeaderValue::from_static("application/problem+json");
        answer.headers_mut().insert(header::CONTENT_TYPE, media_type);
        if problem.code == Code::ShuttingDown {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        answer
    }
}

/// Resolves once the listener winds down. A dropped sender means the same: nobody is left to say so later.
async fn closed(closing: &mut watch::Receiver<bool>) {
    drop(closing.wait_for(|closing| *closing).await);
}

/// An answer without a body.
fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Body::default());
    *answer.status_mut() = status;
    answer
}

fn text(status: StatusCode, content_type: &'static str, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Body::new(text.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

fn json(status: StatusCode, document: &impl Serialize) -> Answer {
    let bytes = serde_json::to_vec(document).expect("wire documents have string keys only");
    text(status, "application/json", bytes)
}

/// Does the caller name this media type in `Accept`? A wildcard is no wish for it.
fn accepts(headers: &http::HeaderMap, media_type: &str) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        range.split(';').next().is_some_and(|range| range.trim().eq_ignore_ascii_case(media_type))
    })
}

#[cfg(test)]
pub(crate) mod tests;
