// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Cost against work, beside the numbered rows: a big config, a data directory with many files, a day of polling.
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};

use super::life::since;
use super::progress;
use crate::finding::{Plot, Row};
use crate::log;
use crate::process::{descriptors, memory};
use crate::scene::Scene;
use crate::stage::Stage;
use crate::stats::{median, slope};
use crate::verdict::{Bar, Side};

const RUNS: usize = 3;
/// What a served config may have.
const CONFIG: usize = 1024 * 1024;
const FILES: usize = 100_000;
const FOLDERS: usize = 100;
/// Status calls of a day at the default pace.
const DAY: f64 = 24.0 * 3600.0 * 4.0;
/// Polls of the shortened day, at this pace.
const PACE: &str = "--status-interval=10ms";
const READS: &str = "--readiness-interval=80ms";
const LASTS: Duration = Duration::from_secs(120);
const PACE_SECONDS: f64 = 0.010;
/// Polls after which buffers and pools have their size.
const WARM: Duration = Duration::from_secs(20);
/// F8: what a wrapper may have after a day.
const LIMIT: f64 = 15.0;

/// Overhead of a start in ms, and resident memory afterwards in MiB.
fn start(scene: &Scene<'_>) -> Result<(f64, f64)> {
    let began = SystemTime::now();
    let mut program = scene.start()?;
    let ready = scene.wait_ready(&mut program)?;
    let lines = log::read(&program.log)?;
    let own = log::etcds_own(&lines, began).with_context(|| program.tail())?;
    Ok((since(program.began, ready) - own, memory(program.pid(), "VmRSS")? / 1024.0))
}

/// The same beside a plain start, in turn.
fn beside_plain<'a>(
    stage: &'a Stage,
    row: &mut Row,
    name: &'static str,
    prepare: impl Fn(Scene<'a>) -> Result<Scene<'a>>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut plain, mut loaded) = (Vec::new(), Vec::new());
    for turn in 0..stage.runs.min(RUNS) {
        progress(name, turn, stage.runs.min(RUNS));
        plain.push(start(&Scene::new(stage)?)?);
        loaded.push(start(&prepare(Scene::bare(stage)?)?)?);
        crate::interrupted()?;
    }
    let of =
        |runs: &[(f64, f64)], value: fn(&(f64, f64)) -> f64| -> Vec<f64> { runs.iter().map(value).collect() };
    let [times, sizes] = [|run: &(f64, f64)| run.0, |run: &(f64, f64)| run.1]
        .map(|value: fn(&(f64, f64)) -> f64| (of(&plain, value), of(&loaded, value)));
    row.figure("start, not etcd's own", "ms", [("plain", &*times.0), (name, &times.1)]);
    row.figure("resident once ready", "MiB", [("plain", &*sizes.0), (name, &sizes.1)]);
    let grown = |(plain, loaded): &(Vec<f64>, Vec<f64>)| -> Vec<f64> {
        plain.iter().zip(loaded).map(|(plain, loaded)| loaded - plain).collect()
    };
    Ok((grown(&times), grown(&sizes)))
}

/// A config of 1 MiB: a comment line and what a config has.
pub(super) fn config(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    let (time, size) = beside_plain(stage, row, "config of 1 MiB", |scene| {
        // Keys that etcd does not know, as a config of the future has them: each is parsed, and named in the log.
        let room = CONFIG - scene.config()?.len() - 1024;
        let words = "0123456789abcdef".repeat(room / 16 / 64);
        scene.served(|map| {
            (0..64).fold(map, |map, number| map.with(&format!("x-filling-{number}"), words.as_str()))
        })
    })?;
    row.bar(Bar::median("longer than a plain start", "ms", &time, Side::AtMost, 250.0));
    row.bar(Bar::median("more memory", "MiB", &size, Side::AtMost, 6.0));
    Ok(())
}

/// A data directory with 100,000 files, whose modes are looked at before etcd starts.
pub(super) fn files(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    let (time, size) = beside_plain(stage, row, "100,000 files", |scene| {
        let scene = scene.served(|map| map)?;
        for folder in 0..FOLDERS {
            let folder = scene.data_dir().join(format!("other/{folder}"));
            std::fs::create_dir_all(&folder).context("make a folder")?;
            for file in 0..FILES / FOLDERS {
                std::fs::write(folder.join(file.to_string()), b"").context("make a file")?;
            }
        }
        Ok(scene)
    })?;
    row.notes.push(format!("{:.1} µs a file", median(&time) * 1e3 / FILES as f64));
    row.bar(Bar::median("longer than a plain start", "ms", &time, Side::AtMost, 5_000.0));
    row.bar(Bar::median("more memory", "MiB", &size, Side::AtMost, 1.0));
    Ok(())
}

/// A day of polling in two minutes, and what it would come to.
pub(super) fn polling(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    let scene = Scene::new(stage)?;
    let mut command = scene.wrapper(scene.sidecar_at());
    command.args([PACE, READS]);
    let mut program = scene.run(command, "wrapper")?;
    scene.wait_ready(&mut program)?;
    progress("a day of polling, shortened", 0, 1);
    crate::machine::pass(WARM);
    let (began, mut sizes, mut open) = (Instant::now(), Vec::new(), Vec::new());
    while began.elapsed() < LASTS {
        let polls = began.elapsed().as_secs_f64() / PACE_SECONDS;
        sizes.push((polls, memory(program.pid(), "VmRSS")? / 1024.0));
        open.push((polls, descriptors(program.pid())? as f64));
        crate::machine::pass(Duration::from_secs(1));
        crate::interrupted()?;
        program.check_alive()?;
    }
    let last = sizes.last().map_or(f64::NAN, |look| look.1);
    let (a_day, descriptors) = (slope(&sizes) * DAY, slope(&open) * DAY);
    row.figure(
        "resident",
        "MiB",
        [("etcd-wrapper", &sizes.iter().map(|look| look.1).collect::<Vec<_>>()[..])],
    );
    row.figure("growth, taken to a day", "MiB", [("etcd-wrapper", &[a_day][..])]);
    row.bar(Bar::plain("resident after a day, by the slope", "MiB", last + a_day.max(0.0), LIMIT));
    row.bar(Bar::plain("descriptors more after a day, by the slope", "", descriptors, 8.0));
    row.plots.push(Plot::Lines {
        title: "memory over polls".into(),
        x: "polls",
        unit: "MiB",
        of: vec![("etcd-wrapper".into(), sizes)],
    });
    row.plots.push(Plot::Lines {
        title: "descriptors over polls".into(),
        x: "polls",
        unit: "",
        of: vec![("etcd-wrapper".into(), open)],
    });
    Ok(())
}
