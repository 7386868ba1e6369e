// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `ready` and `unready`: asks for readiness, overrides it, and ends such an override.
use http::Method;
use serde::Serialize;

use crate::api::wire;
use crate::cli::client::{Output, Read, Ready, Unready};
use crate::exit::client::ClientCode;

use super::call::{Request, call, query};
use super::pod::Pod;
use super::reach::Reach;
use super::term::plain;
use super::{ClientError, Shown, as_it_came, decode, lines};

const PATH: &str = "/v1/readiness";

#[derive(Debug, Serialize)]
struct Wanted {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<String>,
    owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    force: bool,
}

impl Wanted {
    fn request(&self) -> Request {
        let body = serde_json::to_vec(self).expect("texts and switches always make JSON");
        Request { body: Some(("application/json", body.into())), ..Request::new(Method::PUT, PATH) }
    }
}

/// Done is ready: an override to ready does not help a member that is down.
pub(super) async fn ready(ready: Ready) -> Result<Shown, ClientError> {
    let request = match (ready.clear, ready.owner, ready.ttl) {
        (true, owner, _) => {
            let force = ready.force.then(|| "true".to_owned());
            Request::new(Method::DELETE, format!("{PATH}{}", query(&[("owner", owner), ("force", force)])))
        }
        (false, Some(owner), Some(ttl)) => {
            let (ttl, reason, force) = (Some(ttl), ready.reason, ready.force);
            Wanted { mode: "ready", ttl, owner, reason, force }.request()
        }
        (false, Some(_), None) => {
            let what = "an override to ready needs --ttl: it may hide that the cluster has no quorum";
            return Err(ClientError::Usage(what.to_owned()));
        }
        (false, None, _) if ready.force => {
            return Err(ClientError::Usage("--force needs --owner, or --clear".to_owned()));
        }
        (false, None, _) => Request::get(PATH),
    };
    ask(&request, ready.read, |readiness| readiness.ready).await
}

pub(super) async fn unready(unready: Unready) -> Result<Shown, ClientError> {
    let Unready { owner, ttl, reason, force, read } = unready;
    ask(&Wanted { mode: "unready", ttl: Some(ttl), owner, reason, force }.request(), read, |_| true).await
}

async fn ask(
    request: &Request,
    read: Read,
    done: impl FnOnce(&wire::Readiness) -> bool,
) -> Result<Shown, ClientError> {
    let reach = Reach::new(&read.reach, &Pod::look(&read.reach))?;
    let answer = call(&reach, request).await?;
    let readiness: wire::Readiness = decode("readiness", &answer)?;
    let text = match read.output {
        Output::Json => as_it_came(&answer),
        Output::Table => plain(&format!("{}\n", lines::readiness(&readiness))),
    };
    let code = if done(&readiness) { ClientCode::Done } else { ClientCode::Not };
    Ok(Shown { text, code })
}
