// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The processes of each pod over time: one etcd at most on a data directory, and none beside a validation; no zombie
//! that stays; no wrapper that grows.
use std::collections::BTreeMap;

use doubles::pod::{Process, Sample};

use super::{Finding, moment};

const ETCD: &str = "etcd";
const WRAPPER: &str = "etcd-wrapper";
/// Two looks: within one look a process can end and the next one begin.
const OVERLAP: u64 = 450;
/// An end that nobody has taken for so long is a zombie that stays.
const UNREAPED: u64 = 5_000;
/// A wrapper younger than this has not settled, in milliseconds.
const SETTLED: u64 = 20_000;
/// In a shorter run nobody need have settled, in milliseconds.
const SHORT: u64 = 180_000;
/// How many looks make the beginning and the end of a life.
const ENDS: usize = 3;
/// What a settled wrapper may grow by: descriptors, and KiB.
const MORE_DESCRIPTORS: u32 = 24;
const MORE_MEMORY: u64 = 8 << 10;
/// What a wrapper may have at all, in KiB.
const MOST_MEMORY: u64 = 32 << 10;

/// What was seen of one pod, in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Name of the member.
    pub member: String,
    /// In the order of time.
    pub samples: Vec<Sample>,
}

/// `began`: the zero of the times that are told.
pub fn one_etcd(seen: &[Seen], began: u64) -> Finding {
    let mut trouble = Vec::new();
    for Seen { member, samples } in seen {
        // Since when each pair has been there.
        let mut pairs: BTreeMap<[Id; 2], (u64, &'static str, bool)> = BTreeMap::new();
        for sample in samples {
            let now = pairs_of(sample);
            pairs.retain(|pair, _| now.contains_key(pair));
            for (pair, what) in now {
                let (since, _, told) = pairs.entry(pair).or_insert((sample.at, what, false));
                if sample.at >= *since + OVERLAP && !*told {
                    *told = true;
                    let [(one, _), (other, _)] = pair;
                    trouble.push(format!(
                        "{member}: {what}, pids {one} and {other}, from {} to {} at least",
                        moment(*since, began),
                        moment(sample.at, began)
                    ));
                }
            }
        }
    }
    let etcds: usize = seen.iter().map(|seen| lives(&seen.samples, ETCD).len()).sum();
    Finding::new(
        "one etcd",
        "at most one etcd lives per data directory, and none beside a validation",
        etcds,
        format!("{etcds} lives of etcd"),
        trouble,
    )
}

type Id = (i32, u64);

fn id(process: &Process) -> Id {
    (process.pid, process.began)
}

fn pairs_of(sample: &Sample) -> BTreeMap<[Id; 2], &'static str> {
    let living = || sample.processes.iter().filter(|process| !process.is_zombie());
    let mut pairs = BTreeMap::new();
    for one in living() {
        for other in living().filter(|other| id(other) > id(one)) {
            let etcds = [one, other].iter().filter(|process| process.name == ETCD).count();
            let share = one.database.is_some() && one.database == other.database;
            match (etcds, share) {
                (2, _) => drop(pairs.insert([id(one), id(other)], "two etcds live")),
                (1, true) => drop(
                    pairs.insert([id(one), id(other)], "somebody has the database of a living etcd open"),
                ),
                _ => {}
            }
        }
    }
    pairs
}

/// `began`: the zero of the times that are told.
pub fn zombies(seen: &[Seen], began: u64) -> Finding {
    let mut trouble = Vec::new();
    let mut count = 0;
    for Seen { member, samples } in seen {
        let mut since: BTreeMap<Id, (u64, bool)> = BTreeMap::new();
        for sample in samples {
            let stopped: Vec<i32> = sample
                .processes
                .iter()
                .filter(|process| process.is_stopped())
                .map(|process| process.pid)
                .collect();
            // Whoever is stopped reaps nobody.
            let dead = sample
                .processes
                .iter()
                .filter(|process| process.is_zombie() && !stopped.contains(&process.parent));
            let dead: BTreeMap<Id, &Process> = dead.map(|process| (id(process), process)).collect();
            since.retain(|id, _| dead.contains_key(id));
            for (id, process) in dead {
                let (first, told) = since.entry(id).or_insert_with(|| {
                    count += 1;
                    (sample.at, false)
                });
                if sample.at >= *first + UNREAPED && !*told {
                    *told = true;
                    trouble.push(format!(
                        "{member}: {} (pid {}, of {}) is a zombie from {} to {} at least",
                        process.name,
                        process.pid,
                        process.parent,
                        moment(*first, began),
                        moment(sample.at, began)
                    ));
                }
            }
        }
    }
    let samples: usize = seen.iter().map(|seen| seen.samples.len()).sum();
    Finding::new(
        "zombies",
        "no process stays a zombie",
        samples,
        format!("{samples} looks at all processes, {count} ends that somebody had still to take"),
        trouble,
    )
}

/// `began`: the zero of the times that are told.
pub fn leaks(seen: &[Seen], began: u64) -> Finding {
    let mut trouble = Vec::new();
    let (mut settled, mut most) = (0, (0, 0));
    for Seen { member, samples } in seen {
        for life in lives(samples, WRAPPER).values() {
            let first = life.first().map_or(0, |(at, _)| *at);
            let life: Vec<&(u64, &Process)> = life.iter().filter(|(at, _)| *at >= first + SETTLED).collect();
            if life.len() < 2 * ENDS {
                continue;
            }
            settled += 1;
            let ends = [&life[..ENDS], &life[life.len() - ENDS..]];
            // The least of a few: what comes and goes is no leak.
            let memory = ends.map(|end| end.iter().map(|(_, process)| process.memory).min().unwrap_or(0));
            let descriptors =
                ends.map(|end| end.iter().filter_map(|(_, process)| process.descriptors).min().unwrap_or(0));
            most = (most.0.max(memory[1]), most.1.max(descriptors[1]));
            let (from, to) = (life[0].0, life[life.len() - 1].0);
            let when = format!("from {} to {}", moment(from, began), moment(to, began));
            if memory[1] > memory[0] + MORE_MEMORY || memory[1] > MOST_MEMORY {
                trouble.push(format!(
                    "{member}: the wrapper went from {} to {} KiB {when}",
                    memory[0], memory[1]
                ));
            }
            if descriptors[1] > descriptors[0] + MORE_DESCRIPTORS {
                let [one, other] = descriptors;
                trouble.push(format!("{member}: the wrapper went from {one} to {other} descriptors {when}"));
            }
        }
    }
    Finding::new(
        "leaks",
        "no wrapper's memory or descriptors grow",
        settled + usize::from(is_short(seen)),
        format!(
            "{settled} wrappers that lived long enough, at most {} KiB and {} descriptors",
            most.0, most.1
        ),
        trouble,
    )
}

/// Faults may have left no wrapper alone for long enough.
fn is_short(seen: &[Seen]) -> bool {
    let span = |samples: &[Sample]| Some(samples.last()?.at - samples.first()?.at);
    seen.iter().filter_map(|seen| span(&seen.samples)).any(|span| span > 0)
        && seen.iter().filter_map(|seen| span(&seen.samples)).all(|span| span < SHORT)
}

/// All looks at each process of this name, zombies apart.
fn lives<'a>(samples: &'a [Sample], name: &str) -> BTreeMap<Id, Vec<(u64, &'a Process)>> {
    let mut lives: BTreeMap<Id, Vec<(u64, &Process)>> = BTreeMap::new();
    for sample in samples {
        for process in sample.processes.iter().filter(|process| process.name == name && !process.is_zombie())
        {
            lives.entry(id(process)).or_default().push((sample.at, process));
        }
    }
    lives
}

#[cfg(test)]
mod tests {
    use super::*;

    const DB: &str = "/d/member/snap/db";

    fn process(pid: i32, name: &str) -> Process {
        Process {
            pid,
            parent: 1,
            name: name.into(),
            state: 'S',
            began: 100,
            memory: 9_000,
            descriptors: Some(30),
            database: None,
        }
    }

    fn seen(samples: &[(u64, &[Process])]) -> Vec<Seen> {
        let samples = samples.iter().map(|(at, processes)| Sample { at: *at, processes: processes.to_vec() });
        vec![Seen { member: "a".into(), samples: samples.collect() }]
    }

    #[test]
    fn two_etcds_at_once_are_found_and_one_after_the_other_is_well() {
        let (one, two) = (process(7, "etcd"), process(9, "etcd"));
        let wrapper = process(3, "etcd-wrapper");
        let both = [wrapper.clone(), one.clone(), two.clone()];
        let found = one_etcd(&seen(&[(0, &[wrapper.clone(), one.clone()]), (500, &both), (1_000, &both)]), 0);
        assert!(
            found.trouble[0].contains("two etcds live, pids 7 and 9, from 0.500 s to 1.000 s"),
            "{found:?}"
        );
        // A look is not one moment.
        let in_turn = [(0, &[one][..]), (200, &both), (400, &[two])];
        assert!(one_etcd(&seen(&in_turn), 0).holds());
        assert!(!one_etcd(&seen(&[(0, &[wrapper])]), 0).holds(), "no etcd: nothing seen");
    }

    #[test]
    fn a_validation_beside_an_etcd_is_found() {
        let with = |mut process: Process| {
            process.database = Some(DB.into());
            process
        };
        let both = [with(process(7, "etcd")), with(process(8, "sidecar-double"))];
        assert!(!one_etcd(&seen(&[(0, &both), (600, &both)]), 0).holds());
        let apart = [with(process(7, "etcd")), process(8, "sidecar-double")];
        assert!(one_etcd(&seen(&[(0, &apart), (600, &apart)]), 0).holds());
    }

    #[test]
    fn a_zombie_that_stays_is_found_unless_its_parent_is_frozen() {
        let mut dead = process(7, "etcd");
        (dead.state, dead.parent) = ('Z', 3);
        let mut wrapper = process(3, "etcd-wrapper");
        let long = |wrapper: &Process| {
            seen(&[(0, &[wrapper.clone(), dead.clone()]), (6_000, &[wrapper.clone(), dead.clone()])])
        };
        assert!(zombies(&long(&wrapper), 0).trouble[0].contains("etcd (pid 7, of 3) is a zombie"));
        let short = seen(&[(0, &[dead.clone()]), (300, &[])]);
        assert!(zombies(&short, 0).holds());
        wrapper.state = 'T';
        assert!(zombies(&long(&wrapper), 0).holds());
    }

    #[test]
    fn a_wrapper_that_grows_is_found() {
        let at = |time: u64, memory: u64, descriptors: u32| {
            let mut wrapper = process(3, "etcd-wrapper");
            (wrapper.memory, wrapper.descriptors) = (memory, Some(descriptors));
            (time, wrapper)
        };
        let life = |memory: fn(u64) -> u64, descriptors: fn(u64) -> u32| {
            let life = (0..30).map(|step: u64| at(step * 5_000, memory(step), descriptors(step)));
            let samples = life.map(|(at, process)| Sample { at, processes: vec![process] });
            vec![Seen { member: "a".into(), samples: samples.collect() }]
        };
        assert!(leaks(&life(|_| 9_000, |step| 30 + u32::from(step % 4 == 0) * 90), 0).holds());
        assert!(leaks(&life(|step| 9_000 + step * 500, |_| 30), 0).trouble[0].contains("KiB"));
        assert!(leaks(&life(|_| 40_000, |_| 30), 0).trouble[0].contains("KiB"));
        let grows = leaks(&life(|_| 9_000, |step| 30 + u32::try_from(step * 2).unwrap()), 0);
        assert!(grows.trouble[0].contains("descriptors from 20.000 s to 145.000 s"), "{grows:?}");
        let short = |count: u64| {
            let lives = (0..count).map(|life| Sample {
                at: life * 10_000,
                processes: vec![process(3 + i32::try_from(life).unwrap(), "etcd-wrapper")],
            });
            vec![Seen { member: "a".into(), samples: lives.collect() }]
        };
        assert!(leaks(&short(10), 0).holds(), "a short run may kill them all");
        for nothing in [short(30), short(1), Vec::new()] {
            assert!(!leaks(&nothing, 0).holds(), "none lived long enough");
        }
    }
}
