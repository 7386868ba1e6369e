// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The report's view of a run, out of what the runner and the cases left in files: results, timelines, histories and logs.
//! Reads, and decides nothing.
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::{
    Case, Fact, Fault, Image, LeaderChange, MOST_POINTS, MemberLine, Note, Origin, Outcome, PhaseChange, Run,
    Stage, Tail, Timeline, Traffic, sample,
};
use crate::load::Judged;
use crate::outcome::{self, Results, Verdict};
use crate::stage;
use crate::timeline::What;
use crate::{history, timeline};

/// Lines of a log that the page shows.
const LAST_LINES: usize = 12;

/// What there is to tell of `results`, whose evidence lies below `folder`.
pub fn gather(results: &Results, folder: &Path) -> Run {
    let took = results.finished.unwrap_or_else(timeline::now).saturating_sub(results.started);
    Run {
        stage: Stage {
            images: results.images.iter().map(image).collect(),
            kubernetes: results.kubernetes.clone(),
            seed: results.seed,
            commit: results.commit.clone(),
            command: format!("cargo xtask e2e --seed {} {}", results.seed, results.selection)
                .trim_end()
                .to_owned(),
            host: host(),
        },
        begun: moment(results.started),
        took: Duration::from_millis(took),
        cases: results.outcomes.iter().map(|outcome| case(outcome, folder)).collect(),
    }
}

fn image(image: &stage::Image) -> Image {
    Image {
        role: image.role.to_string(),
        reference: image.reference.clone(),
        digest: image.digest.clone(),
        origin: match image.from {
            stage::Origin::Engine => Origin::Engine,
            stage::Origin::Pulled => Origin::Pulled,
            stage::Origin::Built => Origin::Built,
            stage::Origin::Double => Origin::Double,
        },
    }
}

fn case(outcome: &outcome::Outcome, folder: &Path) -> Case {
    let reason = outcome.reason.clone();
    let evidence = outcome.evidence.as_ref().map(|path| folder.join(path));
    Case {
        name: outcome.name.clone(),
        outcome: match outcome.verdict {
            Verdict::Passed => Outcome::Passed,
            Verdict::Failed => Outcome::Failed,
            Verdict::Hung => Outcome::Hung,
            Verdict::Missing => Outcome::Skipped(reason.clone().unwrap_or_default()),
            Verdict::Interrupted => Outcome::Skipped("the run was interrupted".into()),
        },
        begun: moment(outcome.started),
        took: Duration::from_millis(outcome.took),
        message: reason.filter(|_| matches!(outcome.verdict, Verdict::Failed | Verdict::Hung)),
        evidence: outcome.evidence.as_ref().map(|path| path.display().to_string()),
        notes: notes(outcome),
        logs: match (&evidence, outcome.verdict) {
            (Some(evidence), Verdict::Failed | Verdict::Hung) => logs(&evidence.join("logs")),
            _ => Vec::new(),
        },
        timeline: Timeline {
            traffic: evidence.as_deref().and_then(|path| traffic(path, outcome.started)),
            ..along(outcome)
        },
    }
}

/// What the scenario did and measured.
fn notes(outcome: &outcome::Outcome) -> Vec<Note> {
    let steps = outcome.timeline.iter().filter_map(|entry| match &entry.what {
        What::Step { text } => Some(Note { at: since(outcome, entry.at), text: text.clone() }),
        What::Container { pod, container, state, restarts } => {
            let text = format!("container {container} of {pod}: {state}, {restarts} restarts");
            Some(Note { at: since(outcome, entry.at), text })
        }
        _ => None,
    });
    let took = Duration::from_millis(outcome.took);
    let measured =
        outcome.measured.iter().map(|(what, value)| Note { at: took, text: format!("{what}: {value}") });
    steps.chain(measured).collect()
}

/// Members, leaders and faults.
fn along(outcome: &outcome::Outcome) -> Timeline {
    let mut told = Timeline::default();
    let mut now: BTreeMap<&str, (String, bool)> = BTreeMap::new();
    let mut open: BTreeMap<u32, usize> = BTreeMap::new();
    for entry in &outcome.timeline {
        let at = since(outcome, entry.at);
        match &entry.what {
            What::Phase { pod, phase, .. } => {
                let seen = now.entry(pod).or_default();
                seen.0.clone_from(phase);
                // Whoever cannot be asked says nothing of its readiness any more.
                seen.1 &= phase != "gone";
                push(&mut told, pod, at, seen);
            }
            What::Readiness { pod, ready, .. } => {
                let seen = now.entry(pod).or_default();
                seen.1 = *ready;
                push(&mut told, pod, at, seen);
            }
            What::Leader { pod, leads, term, .. } => leader(&mut told, pod, *leads, term.unwrap_or(0), at),
            What::FaultBegan { fault, name, subjects } => {
                open.insert(*fault, told.faults.len());
                let label = format!("{name} {}", subjects.join(", "));
                told.faults.push(Fault { from: at, to: Some(at), label: label.trim_end().to_owned() });
            }
            What::FaultEnded { fault } => {
                if let Some(place) = open.remove(fault) {
                    told.faults[place].to = Some(at);
                }
            }
            What::Pod { .. } | What::Container { .. } | What::Step { .. } => {}
        }
    }
    told
}

fn push(told: &mut Timeline, pod: &str, at: Duration, (phase, ready): &(String, bool)) {
    let change = PhaseChange { at, phase: phase.clone(), ready: *ready };
    match told.members.iter_mut().find(|line| line.name == pod) {
        Some(line) => line.phases.push(change),
        None => told.members.push(MemberLine { name: pod.to_owned(), phases: vec![change] }),
    }
}

/// Each member says for itself whether it leads; of two that say so the one with the higher term does.
fn leader(told: &mut Timeline, pod: &str, leads: bool, term: u64, at: Duration) {
    let last = told.leaders.last();
    let (leading, in_term) =
        (last.and_then(|change| change.member.as_deref()), last.map_or(0, |change| change.term));
    if leads && term >= in_term && leading != Some(pod) {
        told.leaders.push(LeaderChange { at, member: Some(pod.to_owned()), term });
    } else if !leads && leading == Some(pod) {
        told.leaders.push(LeaderChange { at, member: None, term });
    }
}

/// What clients saw, if a history was judged.
fn traffic(evidence: &Path, started: u64) -> Option<Traffic> {
    let text = std::fs::read(evidence.join("judgement.json")).ok()?;
    let judged: Judged = serde_json::from_slice(&text).ok()?;
    let history = history::read(&evidence.join("history.jsonl")).ok()?;
    // The history counts from the beginning of the traffic.
    let later = Duration::from_millis(judged.began.saturating_sub(started));
    let mut points = sample(&history, MOST_POINTS);
    for point in &mut points {
        point.at += later;
    }
    let mut judgement = judged.judgement;
    let shift = u64::try_from(later.as_micros()).unwrap_or(u64::MAX);
    judgement.longest_pause = judgement.longest_pause.map(|(from, to)| (from + shift, to + shift));
    Some(Traffic { points, calls: history.ops.len(), judgement })
}

fn logs(folder: &Path) -> Vec<Tail> {
    let Ok(listed) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut tails: Vec<Tail> = listed
        .flatten()
        .filter_map(|entry| {
            let text = String::from_utf8_lossy(&std::fs::read(entry.path()).ok()?).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
            let name = entry.path().file_stem()?.to_string_lossy().into_owned();
            Some(Tail { name, lines: last.iter().map(|line| (*line).to_owned()).collect() })
        })
        .collect();
    tails.sort_by(|a, b| a.name.cmp(&b.name));
    tails
}

fn since(outcome: &outcome::Outcome, at: u64) -> Duration {
    Duration::from_millis(at.saturating_sub(outcome.started))
}

/// The machine that the run was on.
fn host() -> Vec<Fact> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = read("/proc/meminfo");
    let memory = memory.lines().next().and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    let cgroups = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() { "2" } else { "1" };
    let fact = |name: &str, value: String| Fact { name: name.into(), value };
    vec![
        fact("cores", cores.to_string()),
        fact("memory", format!("{} MiB", memory.unwrap_or(0) >> 10)),
        fact("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
        fact("cgroups", cgroups.into()),
    ]
}

/// Milliseconds since 1970 as `2026-01-31T12:00:00Z`.
fn moment(at: u64) -> String {
    let at = std::time::UNIX_EPOCH + Duration::from_millis(at);
    humantime::format_rfc3339_seconds(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Entry;

    fn outcome(verdict: Verdict, timeline: Vec<(u64, What)>) -> outcome::Outcome {
        outcome::Outcome {
            name: "x".into(),
            about: "y".into(),
            verdict,
            reason: Some("because".into()),
            started: 1_000,
            took: 5_000,
            namespace: "n".into(),
            evidence: Some("x".into()),
            timeline: timeline.into_iter().map(|(at, what)| Entry { at: 1_000 + at, what }).collect(),
            measured: vec![("pause".into(), "1 s".into())],
        }
    }

    #[test]
    fn members_leaders_and_faults_lie_along_the_time_of_the_scenario() {
        let phase = |phase: &str| What::Phase { pod: "a-0".into(), phase: phase.into(), generation: 1 };
        let leads =
            |pod: &str, leads, term| What::Leader { pod: pod.into(), leads, leader: None, term: Some(term) };
        let told = along(&outcome(
            Verdict::Passed,
            vec![
                (0, phase("starting")),
                (10, What::Readiness { pod: "a-0".into(), ready: true, reason: None }),
                (20, leads("a-0", true, 2)),
                (30, What::FaultBegan { fault: 7, name: "kill".into(), subjects: vec!["a-0".into()] }),
                (40, phase("gone")),
                (50, leads("a-1", true, 3)),
                // The old leader hears of it late.
                (60, leads("a-0", false, 3)),
                (70, What::FaultEnded { fault: 7 }),
            ],
        ));
        let phases: Vec<(u128, &str, bool)> =
            told.members[0].phases.iter().map(|p| (p.at.as_millis(), p.phase.as_str(), p.ready)).collect();
        assert_eq!(phases, [(0, "starting", false), (10, "starting", true), (40, "gone", false)]);
        let leaders: Vec<_> = told.leaders.iter().map(|l| (l.member.as_deref(), l.term)).collect();
        assert_eq!(leaders, [(Some("a-0"), 2), (Some("a-1"), 3)]);
        let fault = &told.faults[0];
        assert_eq!((fault.from.as_millis(), fault.to.map(|to| to.as_millis())), (30, Some(70)));
        assert_eq!(fault.label, "kill a-0");
    }

    #[test]
    fn a_failure_comes_with_its_reason_its_notes_and_the_ends_of_its_logs() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("x/logs");
        std::fs::create_dir_all(&logs).unwrap();
        let lines: String = (0..50).map(|n| format!("line {n}\n")).collect();
        std::fs::write(logs.join("a-0-etcd-0.log"), lines).unwrap();
        let step = vec![(5, What::Step { text: "kill it".into() })];
        let failed = case(&outcome(Verdict::Failed, step.clone()), folder.path());
        assert_eq!(failed.message.as_deref(), Some("because"));
        assert_eq!(failed.logs[0].name, "a-0-etcd-0");
        assert_eq!(failed.logs[0].lines.len(), LAST_LINES);
        assert_eq!(failed.logs[0].lines.last().map(String::as_str), Some("line 49"));
        let notes: Vec<&str> = failed.notes.iter().map(|note| note.text.as_str()).collect();
        assert_eq!(notes, ["kill it", "pause: 1 s"]);
        let passed = case(&outcome(Verdict::Passed, step), folder.path());
        assert!(passed.message.is_none() && passed.logs.is_empty());
    }
}
