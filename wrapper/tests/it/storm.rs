// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A storm of random verbs by several callers at once against the real process. Whatever came of each: nothing is
//! violated while it blows, every operation ends exactly once, and afterwards the member stands where the last ranked
//! intent wants it. The seed is printed; `E2E_STORM_SEED` blows the same verbs again.
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use doubles::etcd::{OnSignal, Script};
use doubles::wait::{self, Poll};
use rstest::rstest;
use serde_json::{Value, json};

use crate::http::{Answer, Caller};
use crate::scene::{LONG, SECOND, Scene, Wrapper, children};
use crate::verbs::{elsewhere, rendered};

const CALLERS: u64 = 4;
const BLOWS: Duration = Duration::from_secs(3);
/// Fewer than the wrapper remembers of all callers together.
const LOOKS_BACK: usize = 4;

/// xorshift64*: good enough to be unpredictable to the author.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }
}

fn seed() -> u64 {
    let given = std::env::var("E2E_STORM_SEED").ok().map(|seed| seed.parse().unwrap());
    let now = || u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos()) | 1;
    given.unwrap_or_else(now)
}

/// One of the callers: what it may post, and what it was promised.
struct Agent {
    caller: Caller,
    dice: Dice,
    configs: [String; 2],
    pending: Vec<String>,
    /// Of every operation that it began or joined: how it ended.
    ended: BTreeMap<String, String>,
    told: BTreeMap<String, u32>,
}

impl Agent {
    fn blow(&mut self) {
        let wait = ["", "wait=20ms", "wait=5s"][usize::try_from(self.dice.roll(3)).unwrap()];
        let (caller, dice) = (&self.caller, &mut self.dice);
        let generation = dice.roll(8);
        let owner = ["a", "b"][usize::try_from(dice.roll(2)).unwrap()];
        let posted = &self.configs[usize::try_from(dice.roll(2)).unwrap()];
        let stop = |body: Value| caller.post_json(&format!("/v1/etcd/stop?{wait}"), &body);
        let restart = |body: Value| caller.post_json(&format!("/v1/etcd/restart?{wait}"), &body);
        let answer = match dice.roll(16) {
            0..3 => caller.post(&format!("/v1/etcd/start?owner={owner}&{wait}")),
            3 => caller.post(&format!("/v1/etcd/start?validation=none&owner={owner}&{wait}")),
            4 | 5 => caller.post_yaml(&format!("/v1/etcd/start?owner={owner}&{wait}"), posted),
            6 => caller.post_yaml(&format!("/v1/etcd/start?ready=hold&owner={owner}&{wait}"), posted),
            7 => stop(json!({})),
            8 => stop(json!({"force": true})),
            9 => stop(json!({"hold": true, "owner": owner, "ifGeneration": generation})),
            10 | 11 => restart(json!({})),
            12 => restart(json!({"ifGeneration": generation, "force": true})),
            13 => caller.post(&format!("/v1/etcd/restart?config=sidecar&validation=none&{wait}")),
            14 => caller.put_readiness(&json!({"mode": "unready", "ttl": "1s", "owner": owner})),
            _ => caller.call("DELETE", &format!("/v1/readiness?owner={owner}"), &[], ""),
        };
        self.note(&answer);
        if self.pending.len() >= LOOKS_BACK {
            self.look_back();
        }
    }

    fn note(&mut self, answer: &Answer) {
        let document = answer.json();
        let word = document["code"].as_str().or(document["status"].as_str()).unwrap_or("readiness");
        *self.told.entry(format!("{} {word}", answer.status)).or_default() += 1;
        assert!(
            matches!(answer.status, 200 | 202 | 409 | 412) || (answer.status, word) == (422, "invalid_value"),
            "no storm leads to this: {answer:?}"
        );
        if let Some(id) = document["id"].as_str().filter(|id| *id != "op-0") {
            self.pending.push(id.to_owned());
        }
    }

    /// Each operation that was taken comes to an end, and stays at it.
    fn look_back(&mut self) {
        while let Some(id) = self.pending.pop() {
            let mut forced = Vec::new();
            let path = format!("/v1/operations/{id}");
            let began = Instant::now();
            let operation = wait::until(LONG, &format!("the end of {id}"), || {
                let operation = self.caller.get(&path).json();
                if operation["finishedAt"].is_string() {
                    return Poll::Ready(operation);
                }
                // A forced stop that cut the sidecar's answer off leaves a round that nobody hears of; the next stop
                // waits a minute for it, unless somebody insists.
                if operation["phase"] == "waiting_sidecar" && began.elapsed() > SECOND {
                    forced.push(self.caller.post_json("/v1/etcd/stop", &json!({"force": true})));
                }
                Poll::NotYet(operation.to_string())
            });
            forced.iter().for_each(|answer| self.note(answer));
            let status = operation["status"].as_str().unwrap().to_owned();
            assert!(["succeeded", "failed", "superseded"].contains(&status.as_str()), "{operation}");
            assert_eq!(operation["problem"].is_null(), status != "failed", "{operation}");
            let before = self.ended.insert(id, status.clone());
            assert!(before.is_none_or(|before| before == status), "it ended twice: {operation}");
        }
    }
}

/// What holds at every moment, for whoever looks from outside.
fn watch(wrapper: &Wrapper<'_>, over: impl Fn() -> bool) -> u64 {
    let (mut index, mut generation, mut looks) = (0, 0, 0);
    while !over() {
        let living = children(wrapper.pid()).iter().filter(|(_, state)| *state != 'Z').count();
        assert!(living <= 1, "invariant 1: {living} children");
        let status = wrapper.status();
        let number = |value: &Value| value.as_u64().unwrap();
        let (phase, ready) = (&status["wrapper"]["phase"], status["readiness"]["ready"] == true);
        let unready = status["readiness"]["override"]["mode"] == "unready";
        assert!(!ready || phase == "running" && !unready, "invariant 3: {status}");
        assert!(status["leader"]["isLeader"] == false || phase == "running", "invariant 9: {status}");
        assert!(number(&status["index"]) >= index, "invariant 10: {status}");
        assert!(number(&status["etcd"]["generation"]) >= generation, "invariant 5: {status}");
        (index, generation) = (number(&status["index"]), number(&status["etcd"]["generation"]));
        looks += 1;
    }
    looks
}

/// Finished operations by the wrapper's own count.
fn counted(wrapper: &Wrapper<'_>) -> u64 {
    let metrics = wrapper.caller().get("/metrics").body;
    let counts =
        metrics.lines().filter(|line| line.starts_with("etcd_wrapper_operation_duration_seconds_count"));
    counts.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap() as u64).sum()
}

#[derive(Clone, Copy, Debug)]
enum Last {
    Start,
    Stop,
    StopCall,
}

#[rstest]
fn invariant_15_a_storm_of_verbs_settles_where_the_last_intent_wants(
    #[values(Last::Start, Last::Stop, Last::StopCall)] last: Last,
) {
    let seed = seed();
    eprintln!("E2E_STORM_SEED={seed}");
    let script = Script { on_term: OnSignal::takes(SECOND / 50), ..Script::default() };
    let scene = Scene::scripted(script).with_sidecar(|setup| setup.validation_time(SECOND / 20));
    let mut wrapper = scene.start_ready();
    let configs = [rendered(&scene.config()), rendered(&elsewhere(&scene))];
    let (agents, looks): (Vec<Agent>, u64) = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|number| {
                let mut agent = Agent {
                    caller: wrapper.caller().within(LONG),
                    dice: Dice(seed.wrapping_mul(2 * number + 3) | 1),
                    configs: configs.clone(),
                    pending: Vec::new(),
                    ended: BTreeMap::new(),
                    told: BTreeMap::new(),
                };
                scope.spawn(move || {
                    let began = Instant::now();
                    while began.elapsed() < BLOWS {
                        agent.blow();
                    }
                    agent.look_back();
                    agent
                })
            })
            .collect();
        let looks = watch(&wrapper, || callers.iter().all(std::thread::ScopedJoinHandle::is_finished));
        (
            callers
                .into_iter()
                .map(|caller| caller.join().expect("a caller has failed, see above"))
                .collect(),
            looks,
        )
    });
    let mut ended: BTreeMap<String, String> = BTreeMap::new();
    let mut told: BTreeMap<String, u32> = BTreeMap::new();
    for agent in agents {
        for (id, status) in agent.ended {
            let before = ended.insert(id.clone(), status.clone());
            assert!(before.is_none_or(|before| before == status), "{id} ended twice");
        }
        for (word, count) in agent.told {
            *told.entry(word).or_default() += count;
        }
    }
    eprintln!("{} operations, {looks} looks, answers {told:?}", ended.len());
    // Numbers are given without gaps, so the highest one tells how many were taken.
    let number = |id: &String| id.rsplit('-').next().unwrap().parse::<u64>().unwrap();
    let taken = ended.keys().map(number).max().unwrap_or_default();
    assert_eq!(taken, ended.len() as u64, "an operation that nobody was told of");
    assert_eq!(counted(&wrapper), taken, "invariant 8: as many ends as operations");
    assert!(told.contains_key("409 operation_in_progress") || told.len() > 3, "that was no storm: {told:?}");

    // Whatever it was that came last, it is carried out by itself.
    let status = wrapper.wait_status(LONG, "rest", |status| {
        let phase = status["wrapper"]["phase"].as_str().unwrap();
        match status["wrapper"]["intent"].as_str().unwrap() {
            "up" => phase == "running",
            _ => ["stopped", "held"].contains(&phase),
        }
    });
    let generation = status["etcd"]["generation"].as_u64().unwrap();
    // One that was killed before it came to itself has told nobody.
    let told = scene.stage().starts().len() as u64;
    assert!(
        told <= generation && told + 5 >= generation,
        "invariant 5: {told} etcds, {generation} generations"
    );
    match last {
        Last::Start => {
            let answer = wrapper.caller().post("/v1/etcd/start?force=true&wait=20s");
            assert_eq!(answer.told(), "200 succeeded", "{}", answer.body);
            wrapper.wait_phase(SECOND, "running");
        }
        Last::Stop => {
            assert_eq!(wrapper.caller().post("/v1/etcd/stop?wait=20s").told(), "200 succeeded");
            let phase = wrapper.status()["wrapper"]["phase"].clone();
            assert!(phase == "stopped" || phase == "held", "{phase}");
        }
        Last::StopCall => {
            let own = status["etcd"]["configSource"] == "sidecar";
            assert_eq!(wrapper.caller().post("/stop").status, 200);
            assert_eq!(wrapper.wait_exit(LONG), 0);
            assert_eq!(scene.marker().is_some(), own, "invariant 6");
        }
    }
}
