// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Agents who know nothing of each other ask the wrappers to restart, stop, start and hand leadership over, all at the
//! same time. Any answer of the documented ones is well; in the end every member is asked to be up.
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use http::Method;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::check::Operation;
use crate::container::cluster::Cluster;
use crate::container::files::name;
use crate::container::port::{Answer, Port};
use crate::schedule::{Fault, MEMBERS};
use crate::timeline::{What, now};
use crate::wait::{self, Poll};

const AGENTS: u64 = 4;
const CALL: Duration = Duration::from_secs(10);
/// A restart that waits for its turn takes up to 60 s and 30 s for each other voter.
const SETTLED: Duration = Duration::from_secs(150);

pub(super) async fn race(cluster: &Cluster, fault: &Fault, operations: &Mutex<Vec<Operation>>) -> Result<()> {
    let agents =
        (0..AGENTS).map(|agent| one(cluster, fault.seed.wrapping_add(agent), fault.span, operations));
    futures_util::future::try_join_all(agents).await?;
    settle(cluster, operations).await
}

/// One agent, for as long as the fault lasts.
async fn one(cluster: &Cluster, seed: u64, span: Duration, operations: &Mutex<Vec<Operation>>) -> Result<()> {
    let mut random = StdRng::seed_from_u64(seed);
    let begun = Instant::now();
    while begun.elapsed() < span {
        let member = random.random_range(0..MEMBERS);
        let (verb, body) = match random.random_range(0..6_u8) {
            0 => ("restart", json!({"guard": "serial", "reason": "a race"})),
            1 => ("restart", json!({"guard": "quorum", "reason": "a race"})),
            2 => ("stop", json!({"guard": "quorum", "reason": "a race"})),
            3 => ("transfer-leadership", Value::Null),
            _ => ("start", Value::Null),
        };
        let pause = Duration::from_millis(random.random_range(100..1_500));
        ask(cluster, member, verb, body, operations).await?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

async fn ask(
    cluster: &Cluster,
    member: usize,
    verb: &str,
    body: Value,
    operations: &Mutex<Vec<Operation>>,
) -> Result<()> {
    let (at, body) = (now(), (!body.is_null()).then_some(body));
    let answer = cluster.ports[member].call(CALL, Method::POST, &format!("/v1/etcd/{verb}"), body).await;
    // A wrapper that is away, or restarts, answers nobody.
    let Ok(answer) = answer else { return Ok(()) };
    let said =
        answer.code().map_or_else(|| answer.status.to_string(), |code| format!("{}, {code}", answer.status));
    cluster.timeline.add(What::Step { text: format!("an agent asks {} to {verb}: {said}", name(member)) });
    let documented = match answer.status.as_u16() {
        200 | 202 | 409 | 412 | 503 => true,
        422 => answer.code() == Some("no_candidate"),
        // Without a certificate of its own, before its first config: it lets no agent in.
        403 => matches!(answer.code(), Some("no_server_certificate" | "tls_required")),
        _ => false,
    };
    if !documented {
        bail!(
            "{verb} of {}: {} {}, which is not documented for it",
            name(member),
            answer.status,
            answer.body
        );
    }
    if let Some(operation) = accepted(member, at, verb, &answer) {
        operations.lock().await.push(operation);
    }
    Ok(())
}

fn accepted(member: usize, at: u64, verb: &str, answer: &Answer) -> Option<Operation> {
    if answer.status.as_u16() != 202 {
        return None;
    }
    let id = answer.body["id"].as_str()?.to_owned();
    let statuses = vec![answer.body["status"].as_str().map(str::to_owned)];
    Some(Operation { member: name(member), at, kind: verb.to_owned(), id, statuses })
}

/// Lets every operation come to its end, and then asks every member to be up.
async fn settle(cluster: &Cluster, operations: &Mutex<Vec<Operation>>) -> Result<()> {
    let member_up = |member: usize| async move {
        wait::until(SETTLED, &format!("{} to be up when the agents have gone", name(member)), async || {
            let port = &cluster.ports[member];
            let status = port.call(CALL, Method::GET, "/v1/status", None).await?.body;
            let phase = status["wrapper"]["phase"].as_str().unwrap_or_default().to_owned();
            let busy =
                ["pending", "running"].contains(&status["operation"]["status"].as_str().unwrap_or_default());
            if phase == "running" && !busy {
                return Ok(Poll::Ready(()));
            }
            if !busy {
                port.call(CALL, Method::POST, "/v1/etcd/start", None).await?;
            }
            Ok(Poll::NotYet(format!("phase {phase}, operation {}", status["operation"])))
        })
        .await
    };
    futures_util::future::try_join_all((0..MEMBERS).map(member_up)).await?;
    look_again(cluster, &mut operations.lock().await).await;
    Ok(())
}

/// Asks for each operation how it stands. A member that does not answer tells nothing new.
pub(super) async fn look_again(cluster: &Cluster, operations: &mut [Operation]) {
    for operation in operations {
        let Some(member) = (0..MEMBERS).find(|member| name(*member) == operation.member) else { continue };
        if let Some(status) = status(&cluster.ports[member], &operation.id).await {
            operation.statuses.push(status);
        }
    }
}

/// Some(None): the wrapper does not know it any more.
async fn status(port: &Port, id: &str) -> Option<Option<String>> {
    let answer = port.call(CALL, Method::GET, &format!("/v1/operations/{id}"), None).await.ok()?;
    match answer.status.as_u16() {
        200 => Some(answer.body["status"].as_str().map(str::to_owned)),
        404 => Some(None),
        _ => None,
    }
}
