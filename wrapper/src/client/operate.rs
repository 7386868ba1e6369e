// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The verbs that make an operation: `start`, `stop`, `restart`, `transfer-leadership`. Hands values on as they were
//! given; what they mean together is the server's to judge.
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde::Serialize;

use crate::api::wire;
use crate::cli::client::{Ending, Operate, Output, Restart, Start, Stop, Transfer};
use crate::config::MAX_POSTED_BYTES;
use crate::exit::client::ClientCode;

use super::call::{Request, call, query};
use super::pod::Pod;
use super::reach::Reach;
use super::term::plain;
use super::{ClientError, Shown, as_it_came, decode, lines};

/// Before it accepts, the server may have to look at the sidecar, the disk and the other members.
const DECIDES: Duration = Duration::from_secs(15);
const YAML: &str = "application/yaml";
const JSON: &str = "application/json";

/// The body of stop and restart. What is not given is left to the server.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfer_leadership: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guard: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    force: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    if_generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
}

impl Options {
    fn of(ending: Ending) -> Self {
        Self {
            grace_period: ending.grace_period.map(wire::duration),
            transfer_leadership: ending.no_transfer_leadership.then_some(false),
            guard: ending.guard,
            force: ending.force.then_some(true),
            if_generation: ending.if_generation,
            reason: ending.reason,
            ..Self::default()
        }
    }

    fn body(&self) -> (&'static str, Bytes) {
        (JSON, serde_json::to_vec(self).expect("options are texts and numbers").into())
    }
}

pub(super) async fn start(start: Start) -> Result<Shown, ClientError> {
    let body = match &start.config {
        Some(path) => Some((YAML, given_config(path)?)),
        None => None,
    };
    let parameters = [
        ("validation", start.validation),
        ("ready", start.ready),
        ("owner", start.owner),
        ("reason", start.reason),
        ("force", start.force.then(|| "true".to_owned())),
        ("ifGeneration", start.if_generation.map(|generation| generation.to_string())),
    ];
    perform("/v1/etcd/start", &parameters, body, start.operate).await
}

pub(super) async fn stop(stop: Stop) -> Result<Shown, ClientError> {
    let options = Options { hold: stop.hold.then_some(true), owner: stop.owner, ..Options::of(stop.ending) };
    perform("/v1/etcd/stop", &[], Some(options.body()), stop.operate).await
}

pub(super) async fn restart(restart: Restart) -> Result<Shown, ClientError> {
    let parameters = [("validation", restart.validation), ("config", restart.config)];
    let options = Options::of(restart.ending);
    perform("/v1/etcd/restart", &parameters, Some(options.body()), restart.operate).await
}

pub(super) async fn transfer(transfer: Transfer) -> Result<Shown, ClientError> {
    perform("/v1/etcd/transfer-leadership", &[], None, transfer.operate).await
}

/// A configuration that the command line names; `-` is stdin.
pub(super) fn given_config(path: &Path) -> Result<Bytes, ClientError> {
    let bytes = read_given(path)?;
    if bytes.len() > MAX_POSTED_BYTES {
        let path = path.display();
        return Err(ClientError::Failed(format!(
            "{path} is larger than {MAX_POSTED_BYTES} bytes: it is no configuration that a wrapper takes"
        )));
    }
    Ok(bytes)
}

/// One byte more than may be posted tells that it is too long.
fn read_given(path: &Path) -> Result<Bytes, ClientError> {
    let limit = MAX_POSTED_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    match read {
        Ok(_) => Ok(bytes.into()),
        Err(error) => Err(ClientError::Failed(crate::config::describe_unreadable(path, &error))),
    }
}

async fn perform(
    path: &str,
    parameters: &[(&str, Option<String>)],
    body: Option<(&'static str, Bytes)>,
    operate: Operate,
) -> Result<Shown, ClientError> {
    let flags = &operate.read.reach;
    let reach = Reach::new(flags, &Pod::look(flags))?;
    let mut parameters = parameters.to_vec();
    parameters.push(("wait", operate.wait.map(wire::duration)));
    let wait = operate.wait.unwrap_or(Duration::ZERO);
    let path = format!("{path}{}", query(&parameters));
    let request = Request { body, wait: wait + DECIDES, ..Request::new(Method::POST, path) };
    let answer = call(&reach, &request).await?;
    let operation: wire::Operation = decode("operation", &answer)?;
    let text = match operate.read.output {
        Output::Json => as_it_came(&answer),
        Output::Table => plain(&format!("{}\n", lines::operation(&operation))),
    };
    Ok(Shown { text, code: code(&operation, operate.wait.is_some()) })
}

fn code(operation: &wire::Operation, waited: bool) -> ClientCode {
    match &*operation.status {
        "succeeded" => ClientCode::Done,
        "failed" | "superseded" => ClientCode::Failed,
        _ if waited => ClientCode::WaitRanOut,
        // Accepted is all that was asked for.
        _ => ClientCode::Done,
    }
}
