// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Reads the evidence that lies beside the results: of each scenario the history of its clients with the verdict on it,
//! and of those that went wrong the ends of their logs. What is missing or broken becomes a note; a report is most
//! wanted where things went wrong.
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::model::{Case, Note, Run, Tail, Traffic};
use super::rows::{notes, rows, since};
use super::sample::{MOST_POINTS, sample};
use crate::history::{self, judge};
use crate::load::{HISTORY, JUDGEMENT, Judged};
use crate::member::ETCD;
use crate::outcome::{Outcome, Results};

/// What is read of the end of a log, and of how many logs.
const TAIL: u64 = 32 * 1024;
const LINES: usize = 60;
const LOGS: usize = 14;

pub(super) fn run(results: Results, folder: &Path) -> Run {
    let cases = results.outcomes.iter().map(|outcome| case(outcome, folder)).collect();
    Run { results, cases }
}

fn case(outcome: &Outcome, folder: &Path) -> Case {
    let evidence = outcome.evidence.as_ref().map(|evidence| folder.join(evidence));
    let mut case = Case {
        rows: rows(&outcome.timeline, outcome.started),
        traffic: None,
        notes: notes(&outcome.timeline, outcome.started),
        logs: Vec::new(),
        outcome: outcome.clone(),
    };
    let Some(evidence) = evidence else { return case };
    match traffic(&evidence, outcome.started) {
        Ok(traffic) => case.traffic = traffic,
        Err(error) => {
            let text = format!("no picture of the traffic: {error:#}");
            case.notes.push(Note { at: case.took(), text });
        }
    }
    if case.is_bad() {
        case.logs = logs(&evidence.join("logs"));
    }
    case
}

/// None when there was no traffic.
fn traffic(evidence: &Path, started: u64) -> Result<Option<Traffic>> {
    let path = evidence.join(HISTORY);
    if !path.is_file() {
        return Ok(None);
    }
    let history = history::read(&path)?;
    let judged = evidence.join(JUDGEMENT);
    let judgement = if judged.is_file() {
        let text = std::fs::read(&judged).with_context(|| format!("read {}", judged.display()))?;
        let judged: Judged =
            serde_json::from_slice(&text).with_context(|| format!("read {}", judged.display()))?;
        judged.judgement
    } else {
        // The scenario came to an end before its clients did.
        judge(&history)
    };
    let zero = since(history.began, started);
    let mut points = sample(&history, MOST_POINTS);
    points.iter_mut().for_each(|point| point.at += zero);
    let moment = |micros| zero + Duration::from_micros(micros);
    let pause = judgement.longest_pause.map(|(from, to)| (moment(from), moment(to)));
    Ok(Some(Traffic { points, calls: history.ops.len(), judgement, pause }))
}

/// The ends of the logs, those of main containers first.
fn logs(folder: &Path) -> Vec<Tail> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let is_main = |path: &PathBuf| name(path).contains(&format!("-{ETCD}-"));
    paths.sort_by_key(|path| (!is_main(path), name(path)));
    let tails = paths.iter().map(|path| tail(path));
    tails.filter(|tail| !tail.lines.is_empty()).take(LOGS).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn tail(path: &Path) -> Tail {
    let lines = end(path).unwrap_or_else(|error| vec![format!("(cannot be read: {error:#})")]);
    Tail { name: name(path), lines }
}

fn end(path: &Path) -> Result<Vec<String>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let from = size.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line was cut, unless it is the log's first.
    let lines: Vec<&str> = text.lines().skip(usize::from(from > 0)).collect();
    Ok(lines[lines.len().saturating_sub(LINES)..].iter().map(|line| (*line).to_owned()).collect())
}
