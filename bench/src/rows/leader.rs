// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Row 7: from a change of leadership to the subscriber of a stream. The change itself is told by etcd's own log, of the
//! member whose wrapper tells the subscriber.
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::progress;
use crate::etcd::{self, Client};
use crate::finding::{Plot, Row};
use crate::http::Connection;
use crate::log::{self, Line, between};
use crate::process::Program;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::stats::quantile;
use crate::verdict::{Bar, Side};

/// Changes in a run of the table.
const CHANGES: usize = 6;
/// A subscriber who has not heard by then will not.
const HEARS: Duration = Duration::from_secs(10);
/// Between two changes: polls and ticks must not stay in step with them.
const PAUSE: Duration = Duration::from_millis(330);

/// One member: its wrapper and what its subscriber hears.
struct Member<'a> {
    scene: Scene<'a>,
    program: Program,
    heard: Receiver<(SystemTime, Value)>,
    id: u64,
}

pub(super) fn run(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    let members = cluster(stage)?;
    let runtime = etcd::runtime()?;
    let mut delays = Vec::new();
    let changes = stage.runs * CHANGES;
    for turn in 0..changes {
        if turn % CHANGES == 0 {
            progress("changes of leadership", turn / CHANGES, stage.runs);
        }
        let target = runtime.block_on(change(&members, turn))?;
        let heard = hear(&members, target)?;
        // etcd's log is written before it acts on what it says.
        for (member, (at, term)) in members.iter().zip(&heard) {
            let lines = log::read(&member.program.log)?;
            let changed = learnt(&lines, target, *term)
                .with_context(|| format!("no change to term {term} in the log of {}", member.scene.member))?;
            delays.push(between(changed, *at));
        }
        crate::machine::pass(PAUSE + Duration::from_millis(turn as u64 * 193 % 500));
        crate::interrupted()?;
    }
    let share = |share: f64| [quantile(&delays, share)];
    row.figure("change to subscriber", "ms", [("all", &*delays)]);
    row.bar(Bar::median("p50", "ms", &share(0.5), Side::AtMost, 150.0));
    row.bar(Bar::median("p99", "ms", &share(0.99), Side::AtMost, 400.0));
    row.notes
        .push(format!("{changes} changes among three members, each told to a subscriber of every member."));
    let of = vec![("etcd-wrapper".to_owned(), delays.iter().map(|delay| delay.max(0.01)).collect())];
    row.plots.push(Plot::Distribution { title: "change to subscriber (ms)".into(), unit: "ms", of });
    row.missing("the figure of a peer", "it has no stream; its sidecar looks every 5 s, 2.5 s on average");
    Ok(())
}

fn cluster(stage: &Stage) -> Result<Vec<Member<'_>>> {
    let mut scenes = Vec::new();
    for number in 0..3 {
        let mut scene = Scene::bare(stage)?;
        scene.member = format!("etcd-main-{number}");
        scenes.push(scene);
    }
    let peer = |scene: &Scene<'_>| format!("http://127.0.0.1:{}", scene.peer_port());
    let all: Vec<String> = scenes.iter().map(|scene| format!("{}={}", scene.member, peer(scene))).collect();
    let mut started = Vec::new();
    for scene in scenes {
        let scene = scene.served(|map| map.with("initial-cluster", all.join(",")))?;
        let program = scene.start()?;
        started.push((scene, program));
    }
    let runtime = etcd::runtime()?;
    let mut members = Vec::new();
    for (scene, mut program) in started {
        scene.wait_ready(&mut program)?;
        let (id, _) = runtime.block_on(async { Client::new(scene.client.addr())?.status().await })?;
        let heard = subscribe(&scene)?;
        members.push(Member { scene, program, heard, id });
    }
    Ok(members)
}

/// A thread that notes when each event about leadership came.
fn subscribe(scene: &Scene<'_>) -> Result<Receiver<(SystemTime, Value)>> {
    let events = Connection::open(scene.api())?.events("/v1/events?topics=leader")?;
    let (tell, heard) = mpsc::channel();
    let (now, wall) = (Instant::now(), SystemTime::now());
    std::thread::spawn(move || {
        for event in events.filter(|event| event.topic == "leader") {
            let data: Value = serde_json::from_str(&event.data).unwrap_or(Value::Null);
            if tell.send((wall + (event.at - now), data)).is_err() {
                return;
            }
        }
    });
    Ok(heard)
}

/// Moves leadership to another member, by etcd's own call, so that no wrapper knows of it beforehand; its id.
async fn change(members: &[Member<'_>], turn: usize) -> Result<u64> {
    let deadline = Instant::now() + HEARS;
    loop {
        let (_, leader) = Client::new(members[0].scene.client.addr())?.status().await?;
        let Some(leads) = members.iter().position(|member| member.id == leader) else {
            anyhow::ensure!(Instant::now() < deadline, "nobody leads");
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let target = members[(leads + 1 + turn % 2) % members.len()].id;
        match Client::new(members[leads].scene.client.addr())?.move_leader(target).await {
            Ok(()) => return Ok(target),
            // What was read of the leader was old by then.
            Err(_) if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => return Err(error),
        }
    }
}

/// When each member's subscriber heard of this leader, and by which term.
fn hear(members: &[Member<'_>], leader: u64) -> Result<Vec<(SystemTime, u64)>> {
    let name = format!("{leader:x}");
    let mut heard = Vec::new();
    for member in members {
        let deadline = Instant::now() + HEARS;
        heard.push(loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok((at, data)) = member.heard.recv_timeout(left) else {
                bail!(
                    "the subscriber of {} did not hear of leader {name} within {HEARS:?}",
                    member.scene.member
                )
            };
            // An event may tell of the leader before its term is known.
            if data["leader"]["leaderId"] == name.as_str()
                && let Some(term) = data["leader"]["term"].as_u64()
            {
                break (at, term);
            }
        });
    }
    Ok(heard)
}

/// When this etcd learnt who leads in this term.
fn learnt(lines: &[Line], leader: u64, term: u64) -> Option<SystemTime> {
    let end = format!("leader {leader:x} at term {term}");
    let change = format!("to {leader:x} at term {term}");
    let tells = |line: &&Line| {
        line.message.starts_with("raft.node: ")
            && (line.message.ends_with(&end) || line.message.ends_with(&change))
    };
    lines.iter().find(tells).map(|line| line.at)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn etcds_words_about_a_change_are_understood() {
        let at = SystemTime::UNIX_EPOCH;
        let line = |message: &str| Line { at, message: message.into(), fields: json!({}) };
        let lines = [
            line("raft.node: a1 lost leader a1 at term 3"),
            line("raft.node: a1 elected leader b2 at term 3"),
            line("raft.node: c3 changed leader from a1 to b2 at term 4"),
        ];
        assert!(learnt(&lines, 0xb2, 3).is_some() && learnt(&lines, 0xb2, 4).is_some());
        assert_eq!(learnt(&lines, 0xc3, 3), None);
    }
}
