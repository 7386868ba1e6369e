// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A made-up run of realistic size with its evidence: most scenarios pass, one finds a stale read, one hangs, two cannot
//! run.
use std::fs;
use std::path::Path;

use anyhow::Result;
use e2e::outcome::{Outcome, Results, Verdict};
use e2e::stage::{Image, Origin, Role};
use e2e::timeline::{Entry, What};

use super::traffic;

/// 2026-12-01T22:14:05Z
const BEGUN: u64 = 1_796_163_245_000;

/// Writes results and evidence into `folder`.
pub(crate) fn write(folder: &Path) -> Result<Results> {
    let mut outcomes = Vec::new();
    for (number, (name, seconds)) in [
        ("single_member_is_ready", 31),
        ("three_members_are_ready", 96),
        ("restart_in_place_keeps_the_container", 61),
        ("kill_of_the_sidecar_changes_nothing", 48),
        ("certificates_rotate_without_a_restart", 72),
    ]
    .into_iter()
    .enumerate()
    {
        let outcome = passed(name, seconds);
        if seconds > 40 {
            let history = traffic::history(number as u64, outcome.started, (20, seconds), None);
            traffic::write(&folder.join(name), &history)?;
        }
        outcomes.push(outcome);
    }
    outcomes.push(partition(folder)?);
    outcomes.push(stale(folder)?);
    outcomes.push(hung());
    for (name, need) in
        [("restore_from_the_store", "a real sidecar"), ("turns_with_the_go_image", "the Go image")]
    {
        outcomes.push(Outcome {
            verdict: Verdict::Missing,
            reason: Some(format!("needs {need}")),
            evidence: None,
            timeline: Vec::new(),
            ..passed(name, 0)
        });
    }
    let results = results(outcomes);
    fs::create_dir_all(folder)?;
    results.write(folder)?;
    Ok(results)
}

/// A run of these outcomes.
pub(crate) fn results(outcomes: Vec<Outcome>) -> Results {
    let image = |role, reference: &str, digest: &str, from| Image {
        role,
        reference: reference.into(),
        digest: format!("sha256:{}", digest.repeat(8)),
        from,
    };
    Results {
        run: "6b0f70e1-20a".into(),
        seed: 4_211_873_340_172,
        commit: "3e54733-dirty".into(),
        cluster: "e2e".into(),
        kubernetes: "v1.34.4".into(),
        images: vec![
            image(Role::Wrapper, "etcd-wrapper:dev", "5e1c90aa", Origin::Built),
            image(Role::Sidecar, "registry.example/etcdbrctl:v0.43.0", "0d9b77f3", Origin::Double),
            image(Role::Druid, "registry.example/etcd-druid:v0.37.0", "c4410be2", Origin::Built),
        ],
        double: true,
        started: BEGUN,
        finished: Some(BEGUN + 931_000),
        interrupted: false,
        host: vec![("cores".into(), "2".into()), ("kernel".into(), "6.1.0-28-amd64".into())],
        selection: "--filter e".into(),
        replay: "cargo xtask e2e --filter e --allow-double --seed 4211873340172".into(),
        outcomes,
    }
}

fn at(seconds: f64, what: What) -> Entry {
    Entry { at: BEGUN + (seconds * 1e3) as u64, what }
}

fn step(seconds: f64, text: &str) -> Entry {
    at(seconds, What::Step { text: text.into() })
}

fn phase(seconds: f64, pod: &str, phase: &str) -> Entry {
    at(seconds, What::Phase { pod: pod.into(), phase: phase.into(), generation: 1 })
}

fn ready(seconds: f64, pod: &str, ready: bool) -> Entry {
    let reason = (!ready).then(|| "quorum: the last linearizable read is 10.2 s old".into());
    at(seconds, What::Readiness { pod: pod.into(), ready, reason })
}

fn leads(seconds: f64, pod: &str, leads: bool, term: u64) -> Entry {
    at(
        seconds,
        What::Leader {
            pod: pod.into(),
            leads,
            leader: leads.then(|| "356e51aed7358f05".into()),
            term: Some(term),
        },
    )
}

fn fault(seconds: f64, fault: u32, name: &str, subject: &str) -> Entry {
    at(seconds, What::FaultBegan { fault, name: name.into(), subjects: vec![subject.into()] })
}

fn over(seconds: f64, fault: u32) -> Entry {
    at(seconds, What::FaultEnded { fault })
}

/// A member that comes up.
fn up(pod: &str, from: f64) -> Vec<Entry> {
    vec![
        phase(from, pod, "initializing"),
        phase(from + 7.0, pod, "configuring"),
        phase(from + 9.5, pod, "starting"),
        phase(from + 10.6, pod, "running"),
        ready(from + 12.0, pod, true),
    ]
}

fn three_up() -> Vec<Entry> {
    let mut entries = vec![step(0.1, "Etcd main with 3 members was created")];
    for (pod, from) in [("main-0", 2.0), ("main-1", 5.0), ("main-2", 7.5)] {
        entries.extend(up(pod, from));
    }
    entries.push(leads(14.2, "main-0", true, 2));
    entries
}

fn with(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut all = three_up();
    all.append(&mut entries);
    all.sort_by_key(|entry| entry.at);
    all
}

pub(crate) fn passed(name: &str, seconds: u64) -> Outcome {
    Outcome {
        name: name.into(),
        about: "what it shows, in a sentence of its own".into(),
        verdict: Verdict::Passed,
        reason: None,
        started: BEGUN,
        took: seconds * 1000,
        namespace: "e2e-7f3k9q".into(),
        evidence: Some(name.into()),
        timeline: three_up(),
        measured: vec![("ready again".into(), "1.2 s".into())],
    }
}

/// The leader is cut off, and everything comes back.
fn partition(folder: &Path) -> Result<Outcome> {
    let outcome = passed("partition_of_the_leader", 118);
    let history = traffic::history(21, BEGUN, (20, 115), Some((40.0, 44.4)));
    traffic::write(&folder.join(&outcome.name), &history)?;
    let timeline = with(vec![
        fault(40.0, 1, "partition", "main-0"),
        leads(42.0, "main-0", false, 2),
        leads(44.4, "main-2", true, 3),
        ready(49.0, "main-0", false),
        over(70.0, 1),
        ready(73.5, "main-0", true),
        fault(80.0, 2, "restart", "main-2"),
        phase(80.0, "main-2", "stopping"),
        leads(80.1, "main-2", false, 3),
        leads(80.1, "main-1", true, 4),
        phase(80.3, "main-2", "starting"),
        phase(81.4, "main-2", "running"),
        fault(95.0, 3, "kill -9 of the sidecar", "main-1"),
    ]);
    Ok(Outcome { timeline, ..outcome })
}

/// A wrapper says ready without a quorum, and a read is stale.
fn stale(folder: &Path) -> Result<Outcome> {
    let outcome = passed("partition_of_two_members", 104);
    let mut history = traffic::history(22, BEGUN, (20, 100), Some((40.0, 61.0)));
    traffic::make_stale(&mut history);
    let evidence = folder.join(&outcome.name);
    traffic::write(&evidence, &history)?;
    fs::create_dir_all(evidence.join("logs"))?;
    let line = |number: usize| {
        format!(
            "2026-12-01T22:15:{:02}Z \u{1b}[33mWARN\u{1b}[0m member: no quorum (number {number})\n",
            number % 60
        )
    };
    fs::write(evidence.join("logs/main-0-etcd-0.log"), (0..120).map(line).collect::<String>())?;
    fs::write(evidence.join("logs/main-0-backup-restore-0.log"), "level=info msg=\"snapshot taken\"\n")?;
    let timeline = with(vec![
        fault(40.0, 1, "partition", "main-1"),
        fault(40.2, 2, "partition <script>alert(1)</script>", "main-2"),
        leads(41.0, "main-0", false, 2),
        ready(48.0, "main-1", false),
        phase(48.2, "main-2", "backoff"),
        step(52.4, "main-0 is ready: GET /readyz 200"),
        phase(55.0, "main-2", "gone"),
        over(60.0, 1),
        over(60.1, 2),
        leads(61.5, "main-0", true, 5),
        ready(62.0, "main-1", true),
        phase(64.0, "main-2", "starting"),
        phase(66.0, "main-2", "running"),
        ready(66.0, "main-2", true),
    ]);
    let reason = "main-0 was ready at 52.4 s, while it had no quorum: expected not ready within 15 s of the partition\n\
                  last seen: GET /readyz: 200, leader none, last linearizable read 11.2 s ago";
    Ok(Outcome { verdict: Verdict::Failed, reason: Some(reason.into()), timeline, ..outcome })
}

fn hung() -> Outcome {
    let mut timeline = up("main-0", 2.0);
    timeline.extend([
        leads(14.2, "main-0", true, 2),
        fault(25.0, 1, "volume full", "main-0"),
        phase(30.0, "main-0", "stopping"),
        phase(60.0, "main-0", "stopped"),
        over(298.0, 1),
    ]);
    Outcome {
        verdict: Verdict::Hung,
        reason: Some("did not end within 5 min; waits for AllMembersReady of Etcd main\nlast seen: False, NotAllMembersReady".into()),
        timeline,
        ..passed("full_volume", 300)
    }
}
