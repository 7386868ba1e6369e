// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What each wrapper says of itself, by its stream of events: phases, readiness, leaders go into the timeline. The Go image
//! has no such stream; its pods then stand in the timeline by what the kubelet says alone.
use std::time::Duration;

use anyhow::{Result, bail};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::Value;

use crate::case::Case;
use crate::timeline::{Timeline, What};
use crate::wrapper::Wrapper;

const AGAIN: Duration = Duration::from_millis(500);
/// The stream has a comment every 15 s; one that is silent for longer is dead.
const SILENCE: Duration = Duration::from_secs(40);
/// Where etcd-druid writes what the wrapper is told to verify.
const NAME_FLAG: &str = "--etcd-server-name=";

/// What was said last, so that what is said again is not told again.
#[derive(Debug, Default)]
pub(crate) struct Said {
    phase: Option<(String, u64)>,
    readiness: Option<(bool, Option<String>)>,
    leader: Option<(bool, Option<String>, Option<u64>)>,
}

/// Listens as long as this very pod is there.
pub(super) async fn listen(case: Case, pod: Pod) {
    let name = pod.name_any();
    let wrapper =
        Wrapper::new(case.client().clone(), case.namespace(), &name, case.client_tls(), &server_name(&pod));
    let mut said = Said::default();
    loop {
        // Every stream ends: with the wrapper's process, with the pod, with the API server.
        if let Ok(Heard::NoStream) = hear(&case, &name, &wrapper, &mut said).await {
            return;
        }
        said.be_gone(case.timeline(), &name);
        match case.api::<Pod>().get_opt(&name).await {
            Ok(Some(now)) if now.uid() == pod.uid() => tokio::time::sleep(AGAIN).await,
            Ok(_) => return,
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// How a stream ended.
enum Heard {
    Ended,
    /// This wrapper has none.
    NoStream,
}

async fn hear(case: &Case, pod: &str, wrapper: &Wrapper, said: &mut Said) -> Result<Heard> {
    let Some(response) = wrapper.stream("/v1/events").await? else { return Ok(Heard::NoStream) };
    let mut body = response.into_body();
    let mut text = Vec::new();
    loop {
        let Ok(frame) = tokio::time::timeout(SILENCE, body.frame()).await else { bail!("silence") };
        let Some(frame) = frame else { return Ok(Heard::Ended) };
        if let Some(bytes) = frame?.data_ref() {
            text.extend_from_slice(bytes);
        }
        for event in take_events(&mut text) {
            said.hear(case.timeline(), pod, &event);
        }
    }
}

/// Takes whole messages off the front of a stream, as the JSON of their data.
pub(crate) fn take_events(text: &mut Vec<u8>) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
        let message: Vec<u8> = text.drain(..end + 2).collect();
        let message = String::from_utf8_lossy(&message).into_owned();
        let data: String = message.lines().filter_map(|line| line.strip_prefix("data:")).collect();
        events.extend(serde_json::from_str(&data).ok());
    }
    events
}

impl Said {
    /// Takes an event in, and tells the timeline what is new in it.
    pub(crate) fn hear(&mut self, timeline: &Timeline, pod: &str, event: &Value) {
        // A snapshot has all topics, an event its own.
        let status = event.get("status").filter(|status| status.is_object());
        let phase = status.map_or(&event["phase"], |status| &status["wrapper"]["phase"]);
        let generation = status.map_or(&event["generation"], |status| &status["etcd"]["generation"]);
        if let Some(phase) = phase.as_str() {
            self.turn(timeline, pod, phase, generation.as_u64().unwrap_or(0));
        }
        let from = status.unwrap_or(event);
        if let Some(ready) = from["readiness"]["ready"].as_bool() {
            let readiness = (ready, from["readiness"]["reason"].as_str().map(str::to_owned));
            if self.readiness.as_ref() != Some(&readiness) {
                let (pod, reason) = (pod.to_owned(), readiness.1.clone());
                timeline.add(What::Readiness { pod, ready, reason });
                self.readiness = Some(readiness);
            }
        }
        if let Some(leads) = from["leader"]["isLeader"].as_bool() {
            let leader = &from["leader"];
            let now = (leads, leader["leaderId"].as_str().map(str::to_owned), leader["term"].as_u64());
            if self.leader.as_ref() != Some(&now) {
                let (pod, leader) = (pod.to_owned(), now.1.clone());
                timeline.add(What::Leader { pod, leads, leader, term: now.2 });
                self.leader = Some(now);
            }
        }
    }

    /// The wrapper cannot be asked any more.
    pub(crate) fn be_gone(&mut self, timeline: &Timeline, pod: &str) {
        let generation = self.phase.as_ref().map_or(0, |(_, generation)| *generation);
        if self.phase.as_ref().is_some_and(|(phase, _)| phase != "gone") {
            self.turn(timeline, pod, "gone", generation);
        }
    }

    fn turn(&mut self, timeline: &Timeline, pod: &str, phase: &str, generation: u64) {
        let now = (phase.to_owned(), generation);
        if self.phase.as_ref() != Some(&now) {
            timeline.add(What::Phase { pod: pod.to_owned(), phase: phase.to_owned(), generation });
            self.phase = Some(now);
        }
    }
}

fn server_name(pod: &Pod) -> String {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut args = containers.flat_map(|container| container.args.iter().flatten());
    args.find_map(|arg| arg.strip_prefix(NAME_FLAG)).unwrap_or("localhost").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_messages_are_taken_and_halves_wait() {
        let mut text =
            b": comment\n\nid: a:1\nevent: phase\ndata: {\"phase\":\"running\"}\n\ndata: {\"ph".to_vec();
        let events = take_events(&mut text);
        assert_eq!(events, [serde_json::json!({"phase": "running"})]);
        assert_eq!(text, b"data: {\"ph");
        text.extend_from_slice(b"ase\":\"gone\"}\n\n");
        assert_eq!(take_events(&mut text), [serde_json::json!({"phase": "gone"})]);
        assert!(text.is_empty());
    }
}
