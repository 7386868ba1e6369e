// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The few lines of a scene that are printed: pods, what wrappers said last, warnings among the events, the last lines of the
//! main containers' logs. Read from what was collected.
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;

use crate::case::Case;
use crate::member::{self, ETCD};
use crate::observe::EVENTS;

const WARNINGS: usize = 8;
const LINES: usize = 4;
/// A line of a log is cut there.
const WIDTH: usize = 240;

pub(super) fn digest(case: &Case, pods: &[Pod]) -> String {
    let mut lines = Vec::new();
    if let Some(step) = case.last_step() {
        lines.push(format!("last step: {step}"));
    }
    section(&mut lines, "pods", pods.iter().map(member::shown).collect());
    let ended = pods.iter().flat_map(|pod| {
        let ended = member::containers(pod).into_iter().filter(|it| it.name == ETCD);
        ended.filter_map(|it| it.last).map(|last| format!("exit {}: {}", last.code, last.message.trim()))
    });
    section(&mut lines, "last ends of main containers", ended.collect());
    section(&mut lines, "wrappers", case.timeline().last_words());
    let events = fs::read_to_string(case.folder().join(EVENTS)).unwrap_or_default();
    section(&mut lines, "warnings", last(warnings(&events), WARNINGS));
    for log in newest_logs(&case.folder().join("logs")) {
        let text = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let tail = last(text.lines().map(str::to_owned).collect(), LINES);
        let name = log.file_name().unwrap_or_default().to_string_lossy().into_owned();
        section(&mut lines, &name, tail);
    }
    lines.push(format!("all of it: {}", case.folder().display()));
    lines.join("\n")
}

/// Warnings among the lines of events; of one that was counted up only the last.
fn warnings(events: &str) -> Vec<String> {
    let mut kept: Vec<(Vec<&str>, &str)> = Vec::new();
    for line in events.lines().filter(|line| line.split(' ').nth(1) == Some("Warning")) {
        // Time, type, object, reason, count, message: all but the time and the count.
        let words = line.splitn(6, ' ').enumerate();
        let key: Vec<&str> =
            words.filter(|(place, _)| ![0, 4].contains(place)).map(|(_, word)| word).collect();
        kept.retain(|(other, _)| *other != key);
        kept.push((key, line));
    }
    kept.into_iter().map(|(_, line)| line.to_owned()).collect()
}

fn section(lines: &mut Vec<String>, title: &str, content: Vec<String>) {
    if content.is_empty() {
        return;
    }
    lines.push(format!("{title}:"));
    lines.extend(content.into_iter().map(|line| format!("  {}", cut(&line))));
}

fn cut(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    line.chars().take(WIDTH - 1).chain(['…']).collect()
}

fn last<T>(mut all: Vec<T>, count: usize) -> Vec<T> {
    all.split_off(all.len().saturating_sub(count))
}

/// The newest log of the main container of each pod.
fn newest_logs(folder: &Path) -> Vec<PathBuf> {
    let mut newest: std::collections::BTreeMap<String, (std::time::SystemTime, PathBuf)> = Default::default();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((pod, run)) = name.split_once(&format!("-{ETCD}-")) else { continue };
        let written = entry.metadata().and_then(|metadata| metadata.modified());
        let (Ok(written), false) = (written, run.starts_with("previous")) else { continue };
        // `tri-0.2` is the second pod called `tri-0`.
        let pod = pod.split('.').next().unwrap_or(pod).to_owned();
        if newest.get(&pod).is_none_or(|(before, _)| *before <= written) {
            newest.insert(pod, (written, entry.path()));
        }
    }
    newest.into_values().map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_and_short_ones_are_not() {
        assert_eq!(cut("short"), "short");
        let long = cut(&"ä".repeat(WIDTH + 1));
        assert!(long.ends_with('…') && long.chars().count() == WIDTH);
        assert_eq!(last(vec![1, 2, 3], 2), [2, 3]);
        assert_eq!(last(vec![1], 2), [1]);
    }

    #[test]
    fn an_event_that_is_counted_up_is_told_once() {
        let events = "t1 Warning pod/a BackOff x1: m n\nt1 Normal pod/a Pulled x1: m\n\
                      t2 Warning pod/b BackOff x1: m\nt3 Warning pod/a BackOff x2: m n\n";
        assert_eq!(warnings(events), ["t2 Warning pod/b BackOff x1: m", "t3 Warning pod/a BackOff x2: m n"]);
    }

    // Shows: K6
    #[test]
    fn each_pods_newest_main_log_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["a-0-etcd-0.log", "a-0-backup-restore-0.log", "a-0-etcd-previous.log", "b-1-etcd-3.log"]
        {
            fs::write(folder.path().join(file), file).unwrap();
        }
        let newer = fs::File::create(folder.path().join("a-0.2-etcd-0.log")).unwrap();
        newer.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(5)).unwrap();
        let found = newest_logs(folder.path());
        let names: Vec<String> =
            found.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["a-0.2-etcd-0.log", "b-1-etcd-3.log"]);
    }
}
