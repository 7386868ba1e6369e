// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A made-up run of realistic size: most scenarios pass, one finds a stale read, one hangs, two cannot run.
use std::collections::BTreeMap;
use std::time::Duration;

use e2e::history::{Answer, Call, End, History, Op, Outcome as Told, Seen, judge};
use e2e::report::{
    Case, Fact, Fault, Image, LeaderChange, MOST_POINTS, MemberLine, Note, Origin, Outcome, PhaseChange, Run,
    Stage, Tail, Timeline, Traffic, sample,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(crate) fn run() -> Run {
    let mut cases: Vec<Case> = [
        ("single_member_is_ready", 31.2),
        ("three_members_are_ready", 96.4),
        ("scale_from_one_to_three", 141.0),
        ("restart_in_place_keeps_the_container", 61.7),
        ("kill_of_the_sidecar_changes_nothing", 48.9),
        ("data_of_one_member_deleted", 83.0),
        ("certificates_rotate_without_a_restart", 72.3),
    ]
    .into_iter()
    .map(|(name, seconds)| passed(name, seconds))
    .collect();
    cases.push(partition());
    cases.push(stale());
    cases.push(hung());
    for (name, why) in [
        ("restore_from_the_store", "needs the real sidecar"),
        ("go_image_and_ours_take_turns", "needs the Go image"),
    ] {
        let outcome = Outcome::Skipped(why.into());
        cases.push(Case { outcome, timeline: Timeline::default(), ..passed(name, 0.0) });
    }
    Run { stage: stage(), begun: "2026-12-01T22:14:05Z".into(), took: Duration::from_secs(931), cases }
}

fn stage() -> Stage {
    let image = |role: &str, reference: &str, digest: &str, origin| Image {
        role: role.into(),
        reference: reference.into(),
        digest: format!("sha256:{}", digest.repeat(8)),
        origin,
    };
    let fact = |name: &str, value: &str| Fact { name: name.into(), value: value.into() };
    Stage {
        images: vec![
            image("wrapper", "etcd-wrapper:dev", "5e1c90aa", Origin::Built),
            image("sidecar", "registry.example/etcdbrctl:v0.43.0", "0d9b77f3", Origin::Double),
            image("druid", "registry.example/etcd-druid:v0.37.0", "c4410be2", Origin::Built),
            image("node", "registry.example/node:v1.34.4", "9f00d1a7", Origin::Engine),
        ],
        kubernetes: "v1.34.4".into(),
        seed: 4_211_873_340_172,
        commit: "3e54733 and changes".into(),
        command: "cargo xtask e2e --allow-double --seed 4211873340172".into(),
        host: vec![
            fact("cores", "2"),
            fact("memory", "7.7 GiB"),
            fact("kernel", "6.1.0-28-amd64"),
            fact("cgroups", "v1"),
        ],
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn note(at: f64, text: &str) -> Note {
    Note { at: seconds(at), text: text.into() }
}

/// One member's phases: `(second, phase, ready)`.
fn member(name: &str, phases: &[(f64, &str, bool)]) -> MemberLine {
    let change =
        |&(at, phase, ready): &(f64, &str, bool)| PhaseChange { at: seconds(at), phase: phase.into(), ready };
    MemberLine { name: name.into(), phases: phases.iter().map(change).collect() }
}

fn leader(at: f64, member: Option<&str>, term: u64) -> LeaderChange {
    LeaderChange { at: seconds(at), member: member.map(str::to_owned), term }
}

fn fault(from: f64, to: f64, label: &str) -> Fault {
    Fault { from: seconds(from), to: Some(seconds(to)), label: label.into() }
}

const UP: [(f64, &str, bool); 5] = [
    (2.0, "initializing", false),
    (9.0, "configuring", false),
    (11.5, "starting", false),
    (12.6, "running", false),
    (14.0, "running", true),
];

fn up(by: f64) -> Vec<(f64, &'static str, bool)> {
    UP.iter().map(|&(at, phase, ready)| (at + by, phase, ready)).collect()
}

fn passed(name: &str, took: f64) -> Case {
    let timeline = Timeline {
        members: vec![member("etcd-0", &up(0.0)), member("etcd-1", &up(3.0)), member("etcd-2", &up(5.5))],
        leaders: vec![leader(14.2, Some("etcd-0"), 2)],
        faults: vec![],
        traffic: (took > 40.0).then(|| traffic(&history(1, 20.0, took, None))),
    };
    Case {
        name: name.into(),
        outcome: Outcome::Passed,
        begun: "2026-12-01T22:15:00Z".into(),
        took: seconds(took),
        message: None,
        evidence: Some(format!("cases/{name}")),
        notes: vec![
            note(0.1, "namespace e2e-7f3k9q"),
            note(1.1, "Etcd created"),
            note(20.0, "traffic begins"),
        ],
        logs: vec![],
        timeline,
    }
}

/// The leader is cut off, and everything comes back.
fn partition() -> Case {
    let cut = |phases: &[(f64, &'static str, bool)]| [up(0.0), phases.to_vec()].concat();
    let case = passed("partition_of_the_leader", 118.0);
    let timeline = Timeline {
        members: vec![
            member("etcd-0", &cut(&[(49.0, "running", false), (73.5, "running", true)])),
            member("etcd-1", &up(3.0)),
            member(
                "etcd-2",
                &cut(&[(80.0, "stopping", false), (80.3, "starting", false), (81.4, "running", true)]),
            ),
        ],
        leaders: vec![
            leader(14.2, Some("etcd-0"), 2),
            leader(42.0, None, 2),
            leader(44.4, Some("etcd-2"), 3),
            leader(80.1, Some("etcd-1"), 4),
        ],
        faults: vec![
            fault(40.0, 70.0, "partition of etcd-0"),
            fault(80.0, 80.0, "restart of etcd-2"),
            fault(95.0, 95.0, "kill -9 of the sidecar of etcd-1"),
        ],
        traffic: Some(traffic(&history(2, 20.0, 115.0, Some((40.0, 44.4))))),
    };
    Case { timeline, ..case }
}

/// A wrapper says ready without a quorum, and a read is stale.
fn stale() -> Case {
    let case = passed("partition_of_two_members", 104.0);
    let mut broken = history(3, 20.0, 100.0, Some((40.0, 61.0)));
    make_stale(&mut broken);
    let traffic = traffic(&broken);
    let message = format!(
        "etcd-0 was ready at 52.4 s, while it had no quorum: expected not ready within 15 s of the partition\n\
         last seen: GET /readyz: 200, leader none, last linearizable read 11.2 s ago\n{}",
        traffic.judgement
    );
    let timeline = Timeline {
        members: vec![
            member("etcd-0", &up(0.0)),
            member("etcd-1", &[up(3.0), vec![(48.0, "running", false), (62.0, "running", true)]].concat()),
            member(
                "etcd-2",
                &[
                    up(5.5),
                    vec![
                        (48.2, "backoff", false),
                        (55.0, "gone", false),
                        (64.0, "starting", false),
                        (66.0, "running", true),
                    ],
                ]
                .concat(),
            ),
        ],
        leaders: vec![
            leader(14.2, Some("etcd-1"), 2),
            leader(41.0, None, 2),
            leader(61.5, Some("etcd-0"), 5),
        ],
        faults: vec![
            fault(40.0, 60.0, "partition of etcd-1"),
            fault(40.2, 60.1, "partition of etcd-2 <script>alert(1)</script>"),
        ],
        traffic: Some(traffic),
    };
    let line = |number: usize| {
        format!(
            "2026-12-01T22:19:{:02}.{number:03}Z \u{1b}[33mWARN\u{1b}[0m member: no quorum, linearizable read failed after 5.000 s (number {number})",
            number % 60
        )
    };
    Case {
        outcome: Outcome::Failed,
        message: Some(message),
        notes: vec![
            note(0.1, "namespace e2e-1c0mzz"),
            note(20.0, "traffic begins, seed 3"),
            note(40.0, "fault: partition of etcd-1"),
            note(40.2, "fault: partition of etcd-2 <script>alert(1)</script>"),
            note(52.4, "etcd-0 is ready: GET /readyz 200"),
            note(60.0, "over: partition of etcd-1"),
        ],
        logs: vec![
            Tail { name: "etcd-0/etcd (wrapper)".into(), lines: (0..120).map(line).collect() },
            Tail {
                name: "etcd-0/backup-restore".into(),
                lines: vec!["level=info msg=\"snapshot taken\"".into()],
            },
        ],
        timeline,
        ..case
    }
}

fn hung() -> Case {
    let timeline = Timeline {
        members: vec![member(
            "etcd-0",
            &[up(0.0), vec![(30.0, "stopping", false), (60.0, "stopped", false)]].concat(),
        )],
        leaders: vec![leader(14.2, Some("etcd-0"), 2)],
        faults: vec![Fault { from: seconds(25.0), to: None, label: "the volume is full".into() }],
        traffic: None,
    };
    Case {
        outcome: Outcome::Hung,
        message: Some("did not end within 5 min; it waited for: condition AllMembersReady of Etcd etcd\nlast seen: False, NotAllMembersReady".into()),
        timeline,
        ..passed("full_volume", 300.0)
    }
}

fn traffic(history: &History) -> Traffic {
    Traffic { points: sample(history, MOST_POINTS), calls: history.ops.len(), judgement: judge(history) }
}

/// What clients of a sound store saw; nobody is answered from `outage.0` to `outage.1`.
fn history(seed: u64, from: f64, to: f64, outage: Option<(f64, f64)>) -> History {
    let mut random = StdRng::seed_from_u64(seed);
    let mut begins = Vec::new();
    for client in 0..3_u64 {
        let mut at = from;
        while at < to {
            at += random.random_range(0.025..0.075);
            begins.push((at, client));
        }
    }
    begins.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut store: BTreeMap<u32, Seen> = BTreeMap::new();
    let mut ops = Vec::new();
    let mut busy = [0.0; 3];
    let mut revision = 10;
    for (number, (at, slot)) in begins.into_iter().enumerate() {
        let index = slot as usize % 3;
        if at < busy[index] {
            continue;
        }
        let key = random.random_range(0..5);
        let is_out = outage.is_some_and(|(begin, end)| at > begin && at < end);
        let took = 0.002
            * random.random_range(0.3_f64..1.9).exp()
            * if random.random_ratio(1, 60) { 20.0 } else { 1.0 };
        let (outcome, call, took) = if is_out {
            let why = "no answer within 2s".to_owned();
            if slot == 1 {
                (Told::Failed { why: "no connection: refused".into() }, Call::Read, took)
            } else {
                (Told::Unknown { why }, Call::Read, 2.0)
            }
        } else if random.random_ratio(2, 3) {
            let seen = store.get(&key).cloned();
            (Told::Ok(Answer { seen, written: None, store: revision }), Call::Read, took)
        } else {
            revision += 1;
            let value = format!("{slot}.{number}");
            store.insert(key, Seen { value: value.clone(), revision });
            (
                Told::Ok(Answer { seen: None, written: Some(revision), store: revision }),
                Call::Put { value },
                took * 1.6,
            )
        };
        busy[index] = at + took;
        ops.push(op(slot, &format!("etcd-{index}"), key, call, at, took, outcome));
    }
    for (key, seen) in &store {
        let outcome = Told::Ok(Answer { seen: Some(seen.clone()), written: None, store: revision });
        let last = op(9, "etcd-0", *key, Call::Read, to + 3.0, 0.002, outcome);
        ops.push(Op { last: true, ..last });
    }
    ops.sort_by_key(|op| op.ended);
    History { prefix: "example/".into(), seed, ops, end: End::Stopped }
}

fn op(client: u64, member: &str, key: u32, call: Call, at: f64, took: f64, outcome: Told) -> Op {
    let begun = (at * 1e6) as u64;
    let ended = begun + (took * 1e6) as u64;
    Op { client, member: member.into(), key: format!("k{key}"), call, begun, ended, outcome, last: false }
}

/// One read in the middle sees what was there long before.
fn make_stale(history: &mut History) {
    let old = |op: &Op| match (&op.outcome, &op.call) {
        (Told::Ok(answer), Call::Put { value }) => {
            answer.written.map(|revision| Seen { value: value.clone(), revision })
        }
        _ => None,
    };
    let (key, old) =
        history.ops.iter().find_map(|op| Some((op.key.clone(), old(op)?))).expect("there is a write");
    let middle = history.ops.len() / 2;
    let read = history.ops[middle..].iter_mut().find(|op| op.key == key && op.call == Call::Read);
    if let Some(Told::Ok(answer)) = read.map(|op| &mut op.outcome) {
        answer.seen = Some(old);
    }
}
