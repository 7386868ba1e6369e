// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Traffic against the fake.
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Mix, Plan, Target, Traffic};
use crate::etcd::Client;
use crate::etcd::fake::{Fake, Mood};
use crate::history::{self, Call, End, History, Op, Outcome};

const LIMIT: Duration = Duration::from_secs(30);

fn targets(fake: &Fake) -> Vec<Target> {
    let target = |member: &str| Target { member: member.into(), client: Client::new(fake.connector(member)) };
    vec![target("m-0"), target("m-1")]
}

fn plan(seed: u64) -> Plan {
    Plan { pace: Duration::from_millis(1), ..Plan::new("t/", seed) }
}

async fn started(fake: &Fake, plan: Plan) -> Traffic {
    Traffic::start(plan, targets(fake)).await.unwrap()
}

fn outcomes(history: &History, is: impl Fn(&Outcome) -> bool) -> Vec<&Op> {
    history.ops.iter().filter(|op| is(&op.outcome)).collect()
}

#[tokio::test]
async fn every_call_is_recorded_with_its_time_and_answer_and_all_keys_are_read_at_the_end() {
    let fake = Fake::new();
    let traffic = started(&fake, plan(1)).await;
    traffic.acknowledged(30, LIMIT).await.unwrap();
    traffic.answered_by("m-1", 10, LIMIT).await.unwrap();
    let history = traffic.stop().await.unwrap();
    assert_eq!(history.end, End::Stopped);
    // One call is the look whether anything was there before.
    assert_eq!(history.ops.len() as u64, fake.calls() - 1);
    let (last, before): (Vec<_>, Vec<_>) = history.ops.iter().partition(|op| op.last);
    for key in 0..5 {
        let of_key = last.iter().filter(|op| op.key == format!("k{key}"));
        assert_eq!(of_key.map(|op| op.member.as_str()).collect::<Vec<_>>(), ["m-0", "m-1"]);
    }
    let end = before.iter().map(|op| op.ended).max().unwrap();
    assert!(last.iter().all(|op| op.begun >= end && op.ended >= op.begun && op.answer().is_some()));
    let answers = before.iter().filter_map(|op| op.answer());
    assert!(answers.clone().any(|answer| answer.written.is_none() && answer.seen.is_some()));
    assert!(history.longest_pause().is_some());
    // Whoever wrote got the revision under which the value is read.
    let mut written = BTreeMap::new();
    for (op, answer) in history.answered() {
        if let (Some(revision), Call::Put { value } | Call::Swap { value: Some(value), .. }) =
            (answer.written, &op.call)
        {
            assert_eq!(written.insert(value.clone(), revision), None, "values are unique");
        }
    }
    for seen in history.answered().filter_map(|(_, answer)| answer.seen.as_ref()) {
        assert_eq!(written.get(&seen.value), Some(&seen.revision));
    }
}

#[tokio::test]
async fn a_client_that_does_not_know_an_outcome_is_not_heard_of_again() {
    let fake = Fake::new();
    let traffic = started(&fake, plan(2)).await;
    fake.set(Mood::LosesReplies, 5);
    let mut progress = traffic.progress();
    tokio::time::timeout(LIMIT, progress.wait_for(|now| now.unknown >= 5)).await.unwrap().unwrap();
    fake.set(Mood::Sound, 1);
    let history = traffic.stop().await.unwrap();
    let unknown = outcomes(&history, |outcome| matches!(outcome, Outcome::Unknown { .. }));
    assert!(unknown.len() >= 5);
    for op in unknown {
        let later = history.ops.iter().filter(|other| other.client == op.client && other.begun > op.begun);
        assert_eq!(later.count(), 0);
    }
    let mut clients: BTreeMap<u64, Vec<&Op>> = BTreeMap::new();
    for op in &history.ops {
        clients.entry(op.client).or_default().push(op);
    }
    for ops in clients.values() {
        assert!(ops.windows(2).all(|pair| pair[0].ended <= pair[1].begun), "one call at a time");
    }
}

#[tokio::test]
async fn a_client_that_roams_goes_on_where_it_is_answered_and_the_others_stay() {
    let (refusing, sound) = (Fake::new(), Fake::new());
    let mut targets = targets(&refusing);
    targets[1].client = Client::new(sound.connector("m-1"));
    let plan = Plan { clients: 4, roaming: true, last_reads: LIMIT / 30, ..plan(7) };
    let traffic = Traffic::start(plan, targets).await.unwrap();
    traffic.answered_by("m-0", 10, LIMIT).await.unwrap();
    refusing.set(Mood::Refuses, 1);
    let mut progress = traffic.progress();
    tokio::time::timeout(LIMIT, progress.wait_for(|now| now.failed >= 10)).await.unwrap().unwrap();
    traffic.answered_by("m-1", 50, LIMIT).await.unwrap();
    let history = traffic.stop().await.unwrap();
    let mut clients: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for op in history.ops.iter().filter(|op| !op.last) {
        clients.entry(op.client).or_default().insert(&op.member);
    }
    let mut asked: Vec<Vec<&str>> = clients.into_values().map(|asked| asked.into_iter().collect()).collect();
    asked.sort();
    // One of each member's clients stays; of those that may go, the one that was refused went.
    assert_eq!(asked, [vec!["m-0"], vec!["m-0", "m-1"], vec!["m-1"], vec!["m-1"]]);
}

#[tokio::test]
async fn a_wait_that_runs_out_tells_what_was_seen_last() {
    let fake = Fake::new();
    let traffic = started(&fake, plan(3)).await;
    fake.set(Mood::Refuses, 1);
    let mut progress = traffic.progress();
    tokio::time::timeout(LIMIT, progress.wait_for(|now| now.failed >= 3)).await.unwrap().unwrap();
    let error = traffic.acknowledged(1000, Duration::from_millis(5)).await.unwrap_err().to_string();
    assert!(error.starts_with("traffic: 1000 more acknowledged writes: not within 5ms; so far: "), "{error}");
    assert!(error.contains("newest trouble: PermissionDenied: etcdserver: permission denied"), "{error}");
    fake.set(Mood::Sound, 1);
    let history = traffic.stop().await.unwrap();
    assert!(outcomes(&history, |outcome| matches!(outcome, Outcome::Failed { .. })).len() >= 3);
}

#[tokio::test]
async fn a_cluster_that_stays_away_leaves_a_history_without_last_reads() {
    let fake = Fake::new();
    let short = Duration::from_millis(100);
    let traffic = started(&fake, Plan { limit: short, last_reads: 3 * short, ..plan(4) }).await;
    traffic.acknowledged(5, LIMIT).await.unwrap();
    fake.set(Mood::Hangs, 1);
    let history = traffic.stop().await.unwrap();
    assert!(history.ops.iter().filter(|op| op.last).all(|op| op.answer().is_none()));
    assert!(!outcomes(&history, |outcome| matches!(outcome, Outcome::Unknown { .. })).is_empty());
}

#[tokio::test]
async fn keys_that_are_already_there_and_a_dead_cluster_are_refused_at_the_start() {
    let fake = Fake::new();
    Client::new(fake.connector("m")).put("t/k9", "1").await.unwrap();
    let error = Traffic::start(plan(5), targets(&fake)).await.unwrap_err().to_string();
    assert!(error.contains("1 keys below \"t/\" already"), "{error}");
    fake.set(Mood::Unreachable, 1);
    let error = Traffic::start(plan(5), targets(&fake)).await.unwrap_err().to_string();
    assert!(error.contains("answers nowhere: Range at m-0: failed: no connection"), "{error}");
    let idle = Mix { read: 0, put: 0, swap: 0, remove: 0, delete: 0 };
    Traffic::start(Plan { mix: idle, ..plan(5) }, targets(&fake)).await.unwrap_err();
}

#[tokio::test]
async fn a_full_record_silences_the_clients_and_says_so() {
    let fake = Fake::new();
    let traffic = started(&fake, Plan { most: 40, ..plan(6) }).await;
    let mut progress = traffic.progress();
    let all = |now: &super::Progress| now.reads + now.writes >= 40;
    tokio::time::timeout(LIMIT, progress.wait_for(all)).await.unwrap().unwrap();
    let history = traffic.stop().await.unwrap();
    assert_eq!(history.end, End::Full);
    // Each client may have had one call under way.
    assert!(history.ops.iter().filter(|op| !op.last).count() <= 43);
}

#[tokio::test]
async fn the_file_holds_the_same_history_and_a_dropped_traffic_leaves_its_open_calls() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.jsonl");
    let fake = Fake::new();
    let with_file =
        |seed, prefix: &str| Plan { file: Some(file.clone()), prefix: prefix.into(), ..plan(seed) };
    let traffic = started(&fake, with_file(7, "a/")).await;
    traffic.acknowledged(10, LIMIT).await.unwrap();
    let history = traffic.stop().await.unwrap();
    assert_eq!(history::read(&file).unwrap(), history);

    let traffic = started(&fake, with_file(8, "b/")).await;
    traffic.acknowledged(10, LIMIT).await.unwrap();
    fake.set(Mood::Hangs, 1);
    let calls = fake.calls();
    let under_way = || async {
        while fake.calls() < calls + 3 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, under_way()).await.unwrap();
    let clients: BTreeSet<u64> = (0..3).collect();
    drop(traffic);
    let open = || async {
        loop {
            // The clients' tasks are ended by the runtime, a moment after the drop.
            tokio::task::yield_now().await;
            let read = history::read(&file).unwrap();
            let open = outcomes(&read, |outcome| matches!(outcome, Outcome::Unknown { .. }));
            if open.len() == 3 {
                assert_eq!(open.iter().map(|op| op.client).collect::<BTreeSet<_>>(), clients);
                return read.end;
            }
        }
    };
    assert_eq!(tokio::time::timeout(LIMIT, open()).await.unwrap(), End::Cut);
}
