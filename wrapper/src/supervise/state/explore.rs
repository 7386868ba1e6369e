// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An exhaustive search over the machine and a small world around it: every interleaving within a bound of faults and
//! commands (`E2E_EXPLORE_DEPTH`: faults and commands for each stage, 2 by default). Timers may fire in any order, which
//! stands for all speeds. Checks P1–P7 of the data directory, and shows that taking away any rule breaks one of them.
//!
//! Long: the search, its bound and its account of a violation are one thing.
mod cast;
mod properties;
mod red;
mod world;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

pub(super) use cast::{Line, config, plan, restart, start, stop};
use world::{Act, Dir, Sidecar, Stage, World};

use super::gate::Need;
use super::{Intent, Marker, Phase, Rules, State};

impl State {
    pub(super) fn gate_waits_for_guard(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.need == Need::Guard)
    }

    /// Counts and numbers that decide nothing but names and pauses, brought to one value.
    fn forget_counts(&mut self) {
        self.generation = 0;
        self.next_op = 1;
        if let Some(op) = &mut self.op {
            op.id = 0;
        }
        if let Marker::Consumed { was_clean } = &mut self.marker {
            *was_clean = false;
        }
        match &mut self.phase {
            Phase::Initializing(dialogue, _) => dialogue.forget_counts(),
            // A check that said no twice stands for one that said so as often as it may.
            Phase::Configuring(launch) => {
                launch.retries = if launch.plan.is_some() && launch.retries > 0 { 5 } else { 0 }
            }
            _ => {}
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        let mixed = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(23);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn write_isize(&mut self, n: isize) {
        self.write_u64(n as u64);
    }
}

fn fingerprint(world: &World) -> u64 {
    let mut mix = Mix(7);
    world.hash(&mut mix);
    mix.finish()
}

struct Node {
    parent: u32,
    act: Act,
    /// Etcd is wanted: `running` has to be reachable (P5).
    wanted: bool,
    running: bool,
    /// A shutdown is under way: the end has to be reachable (P6).
    leaving: bool,
    gone: bool,
}

pub(super) struct Search {
    stage: Stage,
    rules: Rules,
    nodes: Vec<Node>,
    /// What a healthy world does by itself: (from, to).
    benign: Vec<(u32, u32)>,
    /// Steps of one machine from phase to phase; None: where it begins.
    turns: BTreeSet<(Option<&'static str>, &'static str)>,
}

impl Search {
    fn new(stage: Stage, rules: Rules) -> Self {
        Self { stage, rules, nodes: Vec::new(), benign: Vec::new(), turns: BTreeSet::new() }
    }

    fn note(&mut self, parent: u32, act: Act, world: &World) -> u32 {
        let state = world.state.as_ref();
        let up = state.is_none_or(|state| state.intent == Intent::Up && state.gate.is_none());
        let wanted = up && world.file.is_none() && !self.stage.hold;
        let at = u32::try_from(self.nodes.len()).expect("fewer than 2^32 states");
        self.nodes.push(Node {
            parent,
            act,
            wanted,
            running: state.is_some_and(|state| state.phase == Phase::Running),
            leaving: state.is_some_and(|state| state.intent == Intent::Exit),
            gone: state.is_none(),
        });
        at
    }

    /// Ok: the number of states. Err: the first violation, with the way to it.
    pub(super) fn run(mut self) -> Result<usize, String> {
        self.walk()?;
        self.reachable(|node| node.running, |node| node.wanted, "P5: running cannot be reached any more")?;
        self.reachable(|node| node.gone, |node| node.leaving, "P6: the shutdown never ends")?;
        Ok(self.nodes.len())
    }

    /// Visits every state within the bound.
    fn walk(&mut self) -> Result<(), String> {
        let first = self.stage.world(self.rules);
        let mut seen: HashMap<u64, u32, BuildHasherDefault<Mix>> = HashMap::default();
        seen.insert(fingerprint(&first), 0);
        self.note(0, Act::Boot, &first);
        let mut queue = VecDeque::from([(0, first)]);
        while let Some((at, world)) = queue.pop_front() {
            for act in world.acts(&self.stage) {
                let mut next = world.clone();
                if let Err(broken) = next.act(act, &self.stage, &mut None).and_then(|()| next.check()) {
                    return Err(self.story(at, Some(act), &broken));
                }
                self.turns.extend(turn(act, world.state.as_ref(), next.state.as_ref()));
                let to = match seen.entry(fingerprint(&next)) {
                    std::collections::hash_map::Entry::Occupied(known) => *known.get(),
                    std::collections::hash_map::Entry::Vacant(free) => {
                        let to = u32::try_from(self.nodes.len()).expect("fewer than 2^32 states");
                        free.insert(to);
                        self.note(at, act, &next);
                        queue.push_back((to, next));
                        to
                    }
                };
                if act.benign() && to != at {
                    self.benign.push((at, to));
                }
            }
        }
        Ok(())
    }

    fn reachable(
        &self,
        goal: impl Fn(&Node) -> bool,
        must: impl Fn(&Node) -> bool,
        broken: &str,
    ) -> Result<(), String> {
        let mut good: Vec<bool> = self.nodes.iter().map(goal).collect();
        let mut sorted = self.benign.clone();
        sorted.sort_unstable_by_key(|(_, to)| *to);
        let mut starts = vec![0_usize; self.nodes.len() + 1];
        for (_, to) in &sorted {
            starts[*to as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut todo: Vec<usize> = (0..good.len()).filter(|at| good[*at]).collect();
        while let Some(at) = todo.pop() {
            for (from, _) in &sorted[starts[at]..starts[at + 1]] {
                let from = *from as usize;
                if !std::mem::replace(&mut good[from], true) {
                    todo.push(from);
                }
            }
        }
        match (0..good.len()).find(|at| must(&self.nodes[*at]) && !good[*at]) {
            None => Ok(()),
            Some(at) => Err(self.story(u32::try_from(at).expect("fewer than 2^32 states"), None, broken)),
        }
    }

    /// The way to a violation, event by event.
    fn story(&self, mut at: u32, last: Option<Act>, broken: &str) -> String {
        let mut acts: Vec<Act> = last.into_iter().collect();
        while at != 0 {
            acts.push(self.nodes[at as usize].act);
            at = self.nodes[at as usize].parent;
        }
        acts.reverse();
        let mut world = self.stage.world(self.rules);
        let mut lines = vec![format!("{broken}\n  stage {:?}", self.stage)];
        for act in acts {
            lines.push(format!("  {act:?}"));
            let mut log = Some(Vec::new());
            let end = world.act(act, &self.stage, &mut log);
            lines.extend(log.into_iter().flatten());
            if end.is_err() {
                break;
            }
        }
        if let Some(state) = world.state.take() {
            lines.push(format!("  machine: {state:?}"));
        }
        lines.push(format!("  world: {world:?}"));
        lines.join("\n")
    }
}

/// From phase to phase, where one machine takes such a step.
fn turn(
    act: Act,
    before: Option<&State>,
    after: Option<&State>,
) -> Option<(Option<&'static str>, &'static str)> {
    let name = |state: &State| (state.phase != Phase::Begin).then(|| state.phase.name().as_str());
    let after = match after {
        Some(after) => name(after)?,
        // It had nothing to wait for: it exited within this step.
        None if before.is_some() && !matches!(act, Act::Kill { .. } | Act::PowerLoss { .. }) => "exiting",
        None => return None,
    };
    let before = before.and_then(name);
    (before != Some(after)).then_some((before, after))
}

/// Every step from phase to phase that the machine takes in a few searches; None: where it begins.
pub(super) fn turns() -> BTreeSet<(Option<&'static str>, &'static str)> {
    const LINES: &[Line] = &[
        Line::Start(Some('a')),
        Line::StartPosted,
        Line::StartForced,
        Line::Stop,
        Line::StopHold('a'),
        Line::StopGently,
        Line::StopSerialHold('a'),
        Line::Restart,
        Line::Term,
    ];
    let plain = Stage { lines: LINES, commands: 2, faults: 1, restart_on_exit: true, ..Stage::PLAIN };
    let held = Stage { file: Some(Some('a')), ..plain };
    let mut turns = BTreeSet::new();
    for stage in [plain, held, Stage { hold: true, ..plain }] {
        let mut search = Search::new(stage, Rules::default());
        if let Err(story) = search.walk() {
            panic!("{story}");
        }
        turns.append(&mut search.turns);
    }
    turns
}

fn depth() -> u8 {
    std::env::var("E2E_EXPLORE_DEPTH").ok().and_then(|depth| depth.parse().ok()).unwrap_or(2)
}

fn explore(name: &str, stage: Stage) {
    let extra = depth();
    let stage = Stage {
        commands: (stage.commands + extra).saturating_sub(2),
        faults: (stage.faults + extra).saturating_sub(2),
        ..stage
    };
    let begun = std::time::Instant::now();
    let found = Search::new(stage, Rules::default()).run();
    match found {
        Ok(states) => eprintln_states(name, states, begun.elapsed()),
        Err(story) => panic!("{name}: {story}"),
    }
}

#[expect(clippy::print_stderr, reason = "the size of the search is its result, shown with --nocapture")]
fn eprintln_states(name: &str, states: usize, took: std::time::Duration) {
    eprintln!("{name}: {states} states in {took:.1?}");
}

// Shows: P2, P4, P5
#[test]
fn bootstrap_and_death_keep_the_directory() {
    explore("bootstrap", Stage { commands: 0, faults: 5, ..Stage::PLAIN });
}

#[test]
fn bootstrap_over_a_dirty_directory_keeps_it() {
    explore(
        "dirty",
        Stage {
            commands: 0,
            faults: 5,
            marker: false,
            dir: Dir::Dirty,
            sidecar: Sidecar::Successful,
            ..Stage::PLAIN
        },
    );
}

#[test]
fn a_round_begun_before_us_is_waited_for() {
    let sidecar = Sidecar::Progress(crate::supervise::view::Mode::Full);
    explore(
        "stranger",
        Stage { commands: 2, faults: 2, sidecar, lines: &[Line::Stop, Line::StartPosted], ..Stage::PLAIN },
    );
}

// Shows: P1, P4, P6
#[test]
fn signals_and_stops_keep_the_directory() {
    explore(
        "stops",
        Stage {
            lines: &[Line::Term, Line::Stop, Line::StopCall, Line::Start(None)],
            faults: 2,
            ..Stage::PLAIN
        },
    );
}

#[test]
fn posted_starts_keep_the_directory() {
    explore(
        "posted",
        Stage {
            lines: &[Line::StartPosted, Line::StartElsewhere, Line::Stop, Line::Term],
            faults: 2,
            ..Stage::PLAIN
        },
    );
}

#[test]
fn restarts_keep_the_directory() {
    explore(
        "restarts",
        Stage {
            lines: &[Line::Restart, Line::RestartUnchecked, Line::Term, Line::Stop],
            faults: 2,
            ..Stage::PLAIN
        },
    );
}

// Shows: P3, P7
#[test]
fn holds_are_neither_lost_nor_stuck() {
    explore(
        "holds",
        Stage {
            lines: &[
                Line::StartHold('a'),
                Line::Release('a'),
                Line::Release('b'),
                Line::StopHold('b'),
                Line::Start(Some('a')),
                Line::Start(None),
            ],
            faults: 2,
            ..Stage::PLAIN
        },
    );
}

#[test]
fn a_hold_file_found_holds_until_its_owner_starts() {
    explore(
        "held",
        Stage {
            lines: &[
                Line::Start(Some('a')),
                Line::Start(None),
                Line::StartPostedHold('a'),
                Line::Release('a'),
                Line::StopHold('a'),
                Line::Term,
            ],
            file: Some(Some('a')),
            faults: 2,
            ..Stage::PLAIN
        },
    );
}

#[test]
fn force_breaks_nothing_but_what_it_is_for() {
    explore(
        "force",
        Stage {
            lines: &[Line::StartForced, Line::StopForced, Line::Stop, Line::Restart],
            faults: 2,
            ..Stage::PLAIN
        },
    );
}

#[test]
fn a_stop_that_is_refused_late_leaves_no_hold() {
    explore(
        "guards",
        Stage {
            lines: &[Line::StopGently, Line::StopSerialHold('a'), Line::StopForced, Line::Term],
            faults: 2,
            ..Stage::PLAIN
        },
    );
}

// Shows: P1, P2, P3, P4, P5, P6, P7
#[test]
fn everybody_at_once_keeps_the_directory() {
    explore(
        "everybody",
        Stage {
            lines: &[
                Line::Start(None),
                Line::Start(Some('a')),
                Line::StartUnchecked,
                Line::StartPosted,
                Line::StartElsewhere,
                Line::StartHold('a'),
                Line::StartPostedHold('b'),
                Line::Stop,
                Line::StopHold('b'),
                Line::StopForced,
                Line::Restart,
                Line::RestartUnchecked,
                Line::Release('a'),
                Line::Release('b'),
                Line::Unready('b'),
                Line::Term,
                Line::StopCall,
            ],
            faults: 1,
            ..Stage::PLAIN
        },
    );
}

#[test]
fn restart_in_place_keeps_the_directory() {
    explore(
        "in place",
        Stage {
            lines: &[Line::Stop, Line::StartHold('a'), Line::StopHold('a'), Line::Term],
            restart_on_exit: true,
            faults: 2,
            ..Stage::PLAIN
        },
    );
}
