// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Rows 1 and 13: how soon a member is ready, and how soon its port answers, out of whole lives.
use std::time::SystemTime;

use anyhow::{Context, Result};

use super::life::Lives;
use crate::finding::{Plot, Row};
use crate::log::{self, Line, between, find};
use crate::stats::median;
use crate::verdict::{Bar, Side};

/// Row 1.
pub(super) fn ready(row: &mut Row, lives: &Lives, peer: &str, trace: bool) {
    let total = lives.of_ours(|life| life.ready);
    let own = lives.of_ours(|life| life.own);
    let over: Vec<f64> = total.iter().zip(&own).map(|(total, own)| total - own).collect();
    let theirs = lives.of_peer(|life| life.ready);
    // What is inside of another wrapper's etcd cannot be seen: bare etcd's median stands for it.
    let alone = median(&lives.bare);
    let their_over: Vec<f64> = theirs.iter().map(|total| total - alone).collect();
    row.figure(
        "exec to ready",
        "ms",
        [
            ("bare etcd", &*lives.bare),
            ("minimal client", &lives.minimal),
            ("etcd-wrapper", &total),
            (peer, &theirs),
        ],
    );
    row.figure(
        "of it, not etcd's own",
        "ms",
        [("minimal client", &*lives.minimal_over), ("etcd-wrapper", &over), (peer, &their_over)],
    );
    row.bar(Bar::median("overhead", "ms", &over, Side::AtMost, 80.0));
    match &lives.peer_missing {
        None => row.bar(Bar::ratio(format!("overhead of {peer} / ours"), &their_over, &over, 25.0)),
        Some(why) => row.missing("the ratio to a peer", why),
    }
    row.plots.push(trace_plot(lives, trace));
}

fn trace_plot(lives: &Lives, all: bool) -> Plot {
    let names: Vec<String> = lives
        .ours
        .first()
        .map(|life| life.phases.iter().map(|(name, _)| name.clone()).collect())
        .unwrap_or_default();
    let runs = |pick: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        (0..names.len())
            .map(|at| {
                let all: Vec<f64> =
                    lives.ours.iter().filter_map(|life| life.phases.get(at).map(|(_, took)| *took)).collect();
                pick(&all)
            })
            .collect()
    };
    let mut of = vec![("median".to_owned(), runs(&median))];
    if all {
        let each = lives.ours.iter().enumerate();
        of.extend(each.map(|(run, life)| {
            (format!("run {}", run + 1), life.phases.iter().map(|(_, took)| *took).collect())
        }));
    }
    Plot::Phases { title: "a start, part by part (ms)".into(), phases: names, of }
}

/// The parts of a start, in ms, as the wrapper's log and etcd's tell them.
pub(super) fn phases(lines: &[Line], began: SystemTime) -> Result<Vec<(String, f64)>> {
    let phase = |name: &str| {
        lines
            .iter()
            .find(|line| {
                line.message == "phase" && line.fields["phase"] == name && line.at >= began - MILLISECOND
            })
            .map(|line| line.at)
            .with_context(|| format!("no phase {name} in the log"))
    };
    let message = |text: &str| {
        find(lines, text, began).map(|line| line.at).with_context(|| format!("no line `{text}` in the log"))
    };
    let spawned = find(lines, log::SPAWNED, began);
    let fork = spawned.and_then(|line| log::span(line.fields["took"].as_str()?));
    let moments = [
        ("bind", message("etcd-wrapper listens")?),
        ("sidecar", phase("configuring")?),
        ("config", message(log::SPAWNED)?),
        ("etcd to READY", message(log::NOTIFIED)?),
        ("confirmed", phase("running")?),
    ];
    let mut last = began;
    let mut parts = Vec::new();
    for (name, at) in moments {
        let took = between(last, at).max(0.0);
        if name == "config" {
            // The fork and the exec are the end of it.
            let fork = fork.unwrap_or_default().min(took);
            parts.extend([(name.to_owned(), took - fork), ("spawn".to_owned(), fork)]);
        } else {
            parts.push((name.to_owned(), took));
        }
        last = at;
    }
    Ok(parts)
}

const MILLISECOND: std::time::Duration = std::time::Duration::from_millis(1);

/// Row 13.
pub(super) fn port(row: &mut Row, lives: &Lives, peer: &str) {
    let (ours, theirs) = (lives.of_ours(|life| life.port), lives.of_peer(|life| life.port));
    row.figure("exec to an open port", "ms", [("etcd-wrapper", &*ours), (peer, &theirs)]);
    row.bar(Bar::median("median", "ms", &ours, Side::AtMost, 30.0));
    row.bar(Bar::worst("worst", "ms", &ours, 200.0));
    if let Some(why) = &lives.peer_missing {
        row.missing("the figure of a peer", why);
    }
}
