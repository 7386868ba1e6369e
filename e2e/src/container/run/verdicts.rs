// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! From what a storm left to the outcomes of a report: the storm itself, the history of its clients, and each check.
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{EVIDENCE, Storm};
use crate::check::{self, Finding};
use crate::history::{Judgement, Verdict as Judged, judge_within};
use crate::load::{self, JUDGEMENT};
use crate::outcome::{Outcome, Results, Verdict};
use crate::runner::show::{indented, line};
use crate::schedule::{Kind, MEMBERS, Schedule};
use crate::timeline::{Timeline, now};

/// For a history of some hundred thousand calls.
const STEPS: u64 = 50_000_000;

/// All outcomes, in the order in which they are told. `began`: milliseconds since 1970.
pub(super) fn outcomes(
    storm: &Storm,
    schedule: &Schedule,
    timeline: &Timeline,
    evidence: &Path,
    began: u64,
) -> Result<Vec<Outcome>> {
    let judging = Instant::now();
    let judgement = judge_within(&storm.history, STEPS);
    let judged = judging.elapsed();
    let seen = &storm.testimony;
    let done = &schedule.steps[..schedule.steps.len() - storm.left];
    let dark = done.iter().flat_map(|step| &step.faults).any(|fault| fault.kind == Kind::Isolate);
    let findings = [
        check::watches(&seen.watchers, &storm.history),
        check::leases(&seen.leases, began),
        check::agreement(&seen.hashes, MEMBERS),
        check::readiness(&seen.looks, &seen.reads, dark, began),
        check::leaders(&seen.claims, began),
        check::marker(&storm.exits, began),
        check::one_etcd(&seen.seen, began),
        check::zombies(&seen.seen, began),
        check::leaks(&seen.seen, began),
        check::operations(&storm.operations, began),
    ];
    keep(storm, &judgement, evidence)?;
    let mut outcomes =
        vec![of_storm(storm, schedule, timeline, began), of_history(storm, &judgement, judged)];
    outcomes.extend(findings.iter().map(of_finding));
    Ok(outcomes)
}

/// The storm did not come to its end.
pub(super) fn broken(error: &anyhow::Error, timeline: &Timeline, began: u64) -> Outcome {
    Outcome {
        verdict: Verdict::Failed,
        reason: Some(format!("{error:#}\n{}", timeline.last_words().join("\n"))),
        started: began,
        took: now().saturating_sub(began),
        evidence: Some(PathBuf::from(EVIDENCE)),
        timeline: timeline.entries(),
        ..Outcome::new(
            "storm",
            "every fault of the schedule, and all members well after each",
            Verdict::Passed,
        )
    }
}

fn of_storm(storm: &Storm, schedule: &Schedule, timeline: &Timeline, began: u64) -> Outcome {
    let done = schedule.steps.len() - storm.left;
    let answered = storm.history.answered().count();
    let rate = answered as f64 / storm.lasted.as_secs_f64().max(1.0);
    let faults = schedule.steps[..done].iter().map(|step| step.faults.len()).sum::<usize>();
    let measured = [
        ("steps", done.to_string()),
        ("faults", faults.to_string()),
        ("steps not reached", storm.left.to_string()),
        ("operations answered per second", format!("{rate:.0}")),
        ("clients at work", format!("{:.0} s", storm.lasted.as_secs_f64())),
    ];
    Outcome {
        started: began,
        took: now().saturating_sub(began),
        evidence: Some(PathBuf::from(EVIDENCE)),
        timeline: timeline.entries(),
        measured: measured.map(|(name, value)| (name.to_owned(), value)).into(),
        ..Outcome::new(
            "storm",
            "every fault of the schedule, and all members well after each",
            Verdict::Passed,
        )
    }
}

fn of_history(storm: &Storm, judgement: &Judgement, judged: Duration) -> Outcome {
    let reason = match &judgement.verdict {
        Judged::Linearizable => None,
        Judged::Violated(_) | Judged::Undecided(_) => Some(judgement.to_string()),
    };
    let pause = judgement.longest_pause.map_or(0, |(from, to)| to.saturating_sub(from));
    let measured = [
        ("calls", storm.history.ops.len().to_string()),
        ("answered", format!("{} writes, {} reads", judgement.writes, judgement.reads)),
        ("refused", judgement.failed.to_string()),
        ("without an answer", judgement.unknown.to_string()),
        (
            "longest time without an acknowledged write",
            format!("{:.1} s", Duration::from_micros(pause).as_secs_f64()),
        ),
        ("judged within", format!("{:.1} s", judged.as_secs_f64())),
    ];
    Outcome {
        verdict: if reason.is_some() { Verdict::Failed } else { Verdict::Passed },
        reason,
        measured: measured.map(|(name, value)| (name.to_owned(), value)).into(),
        ..Outcome::new(
            "history",
            "every key is one linearizable register, and no acknowledged write is lost",
            Verdict::Passed,
        )
    }
}

fn of_finding(finding: &Finding) -> Outcome {
    Outcome {
        verdict: if finding.holds() { Verdict::Passed } else { Verdict::Failed },
        reason: (!finding.holds()).then(|| finding.trouble.join("\n")),
        measured: vec![("seen".to_owned(), finding.seen.clone())],
        ..Outcome::new(finding.name, finding.about, Verdict::Passed)
    }
}

/// What the page reads of the clients.
fn keep(storm: &Storm, judgement: &Judgement, evidence: &Path) -> Result<()> {
    let judged = load::Judged { began: storm.history.began, judgement: judgement.clone() };
    let path = evidence.join(JUDGEMENT);
    std::fs::write(&path, serde_json::to_vec_pretty(&judged)?)
        .with_context(|| format!("write {}", path.display()))
}

/// What went wrong, in whole: a table cuts it short.
pub(super) fn tell(results: &Results) {
    for outcome in results.outcomes.iter().filter(|outcome| outcome.verdict != Verdict::Passed) {
        line(&format!("{}:", outcome.name));
        indented(outcome.reason.as_deref().unwrap_or("no reason was told"));
    }
}
