// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Answers of the API: a document, or why there is none and what to do about it. Repeats of an answer only what the server
//! says in its `message`.

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use ureq::Body;
use ureq::http::Response;

/// A list of a hundred releases with long notes has less.
const LIMIT: u64 = 32 << 20;

/// The document of a good answer to `what`.
pub(super) fn read<T: DeserializeOwned>(
    answer: Result<Response<Body>, ureq::Error>,
    what: &str,
) -> Result<T> {
    let mut answer = good(answer, what)?;
    let text = answer.body_mut().with_config().limit(LIMIT).read_to_vec();
    let text = text.map_err(|error| no_answer(what, &error))?;
    serde_json::from_slice(&text).with_context(|| format!("{what}: read the answer"))
}

/// A good answer to `what`, whatever it says.
pub(super) fn empty(answer: Result<Response<Body>, ureq::Error>, what: &str) -> Result<()> {
    good(answer, what).map(drop)
}

fn good(answer: Result<Response<Body>, ureq::Error>, what: &str) -> Result<Response<Body>> {
    let mut answer = answer.map_err(|error| no_answer(what, &error))?;
    let status = answer.status().as_u16();
    if answer.status().is_success() {
        return Ok(answer);
    }
    let text = answer.body_mut().with_config().limit(64 << 10).read_to_string().unwrap_or_default();
    let said: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let said = said["message"].as_str().unwrap_or("no reason given").to_owned();
    let exhausted = answer.headers().get("x-ratelimit-remaining").is_some_and(|left| left.as_bytes() == b"0");
    let mend = match status {
        401 => "the token is not accepted: set GITHUB_TOKEN to one that is valid",
        403 | 429 if exhausted => "too many calls: wait, and run it again",
        403 => "the token lacks a right: it needs `contents: write`",
        404 => "it is not there, or the token may not see it: it needs `contents: write`",
        _ => "run it again when the server is well",
    };
    bail!("{what}: status {status}: {said}; {mend}")
}

fn no_answer(what: &str, error: &ureq::Error) -> anyhow::Error {
    anyhow::anyhow!("{what}: no answer ({error}); look at the network and GITHUB_API_URL, and run it again")
}
