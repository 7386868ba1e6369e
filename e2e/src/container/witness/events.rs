// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a wrapper publishes of itself: into the timeline, and what it says of leadership into the testimony.
use std::time::Duration;

use anyhow::{Result, bail};
use http_body_util::BodyExt;
use serde_json::Value;

use super::{AGAIN, Shared, lock};
use crate::check::Claim;
use crate::container::port::Port;
use crate::observe::wrappers::{Said, take_events};
use crate::timeline::{Timeline, now};

/// The stream has a comment every 15 s; one that is silent for longer is dead.
const SILENCE: Duration = Duration::from_secs(40);

pub(super) async fn listen(member: String, port: Port, timeline: Timeline, claims: Shared<Claim>) {
    let mut said = Said::default();
    loop {
        // Every stream ends, with the wrapper's process at the latest.
        let _ = hear(&member, &port, &timeline, &mut said, &claims).await;
        said.be_gone(&timeline, &member);
        tokio::time::sleep(AGAIN).await;
    }
}

async fn hear(
    member: &str,
    port: &Port,
    timeline: &Timeline,
    said: &mut Said,
    claims: &Shared<Claim>,
) -> Result<()> {
    let mut body = port.events().await?.into_body();
    let mut text = Vec::new();
    loop {
        let Ok(frame) = tokio::time::timeout(SILENCE, body.frame()).await else { bail!("silence") };
        let Some(frame) = frame else { return Ok(()) };
        if let Some(bytes) = frame?.data_ref() {
            text.extend_from_slice(bytes);
        }
        for event in take_events(&mut text) {
            said.hear(timeline, member, &event);
            if let Some(claim) = claim(member, &event) {
                lock(claims).push(claim);
            }
        }
    }
}

fn claim(member: &str, event: &Value) -> Option<Claim> {
    let leader = event.get("leader").or_else(|| event.get("status")?.get("leader"))?;
    // Without a term nothing was asked of etcd.
    let (term, own) = (leader["term"].as_u64()?, leader["memberId"].as_str()?);
    Some(Claim {
        member: member.to_owned(),
        at: now(),
        epoch: leader["epoch"].as_str()?.to_owned(),
        index: leader["index"].as_u64()?,
        own: own.to_owned(),
        term,
        leads: leader["isLeader"].as_bool()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn leadership_is_read_from_events_and_snapshots() {
        let leader = json!({"epoch": "e1", "index": 4, "memberId": "1f", "term": 7, "isLeader": true});
        for event in [json!({"topic": "leader", "leader": leader}), json!({"status": {"leader": leader}})] {
            let claim = claim("etcd-0", &event).unwrap();
            assert_eq!((claim.own.as_str(), claim.term, claim.leads), ("1f", 7, true));
        }
        assert!(claim("etcd-0", &json!({"topic": "phase", "phase": "running"})).is_none());
        assert!(claim("etcd-0", &json!({"leader": {"term": null, "isLeader": false}})).is_none());
    }
}
