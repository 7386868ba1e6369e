// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Live control of the program `sidecar-double`, under `/double/`. Never part of the book of calls.
//!
//! | call | body | does |
//! |---|---|---|
//! | `GET /double/calls` | | the calls so far, as JSON |
//! | `GET /double/status`, `PUT /double/status` | a status word | reads without resetting, sets |
//! | `PUT /double/outcomes` | `[Failed, Successful]` | results of the next validations |
//! | `PUT /double/cluster` | `{known: [a-0], learner: true}` | what `/config` says of the cluster |
//! | `POST /double/fault?route=status` | a reply (YAML) | appends it to the route's queue; `all` means each route |
//! | `PUT /double/fault?route=status` | a reply (YAML) | what the route answers after its queue |
//! | `DELETE /double/fault` | | all routes are faithful again |
//! | `POST /double/stop-wrapper` | `{url: "http://localhost:9095", ca: PEM, hang_up: false}` | calls `POST /stop` there |
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::core::Answer;
use super::exchange::Request;
use super::script::{Reply, Route, Status};
use super::server::Shared;
use super::stop_call::StopCall;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    known: Option<Vec<String>>,
    #[serde(default)]
    learner: bool,
}

pub(super) fn is_control(request: &Request) -> bool {
    request.path.starts_with("/double/")
}

pub(super) fn answer(request: &Request, shared: &Shared) -> Answer {
    match try_answer(request, shared) {
        Ok(answer) => answer,
        Err(error) => Answer::text(400, &format!("{error}\n")),
    }
}

fn try_answer(request: &Request, shared: &Shared) -> Result<Answer, String> {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/double/calls") => {
            let calls: Vec<_> = shared.log.calls().iter().map(|call| call.to_json()).collect();
            return Ok(Answer::json(200, &json!({"calls": calls, "most_open": shared.log.most_open()})));
        }
        ("GET", "/double/status") => return Ok(Answer::text(200, shared.core.status().as_str())),
        ("PUT", "/double/status") => {
            shared.core.set_status(String::from_utf8_lossy(&request.body).trim().parse()?);
        }
        ("PUT", "/double/outcomes") => shared.core.set_outcomes(&parse::<Vec<Status>>(&request.body)?),
        ("PUT", "/double/cluster") => {
            let cluster: Cluster = parse(&request.body)?;
            shared.core.set_cluster(cluster.known, cluster.learner);
        }
        ("POST", "/double/fault") => {
            let reply: Reply = parse(&request.body)?;
            for route in routes_of(&request.query)? {
                shared.queues().push(route, reply.clone());
            }
        }
        ("PUT", "/double/fault") => {
            let reply: Reply = parse(&request.body)?;
            for route in routes_of(&request.query)? {
                shared.queues().set_default(route, Some(reply.clone()));
            }
        }
        ("DELETE", "/double/fault") => shared.queues().clear(),
        ("POST", "/double/stop-wrapper") => {
            // On a thread of its own: the answer does not wait for the wrapper, as the real one's work goes on.
            let call: StopCall = parse(&request.body)?;
            std::thread::Builder::new()
                .name("stop-wrapper".into())
                .spawn(move || call.send())
                .map_err(|error| format!("start a thread: {error}"))?;
        }
        (method, path) => return Ok(Answer::text(404, &format!("no such control, {method} {path}\n"))),
    }
    Ok(Answer::text(200, ""))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_saphyr::from_str(&String::from_utf8_lossy(body)).map_err(|error| error.to_string())
}

/// `?route=status`, or `?route=all`: a sidecar that fails at everything.
fn routes_of(query: &str) -> Result<Vec<Route>, String> {
    match query.strip_prefix("route=").ok_or("name the route: ?route=status, or all")? {
        "all" => Ok(Route::ALL.to_vec()),
        name => Ok(vec![serde_json::from_value(name.into()).map_err(|error| error.to_string())?]),
    }
}
