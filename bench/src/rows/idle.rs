// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Row 4: processor time of a member that has nothing to do, wrapper and etcd apart, beside an etcd alone in the same
//! moments.
use std::time::{Duration, Instant};

use anyhow::Result;

use super::progress;
use crate::etcd::Bare;
use crate::finding::{Plot, Row};
use crate::process::processor_time;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::verdict::{Bar, Side};

const SETTLES: Duration = Duration::from_secs(5);
const WINDOW: Duration = Duration::from_secs(10);

pub(super) fn run(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    let (alone, scene) = (Scene::bare(stage)?, Scene::new(stage)?);
    let bare = Bare::start(&alone, alone.config()?.as_bytes())?;
    let program = scene.start_ready()?;
    let pids = [program.pid(), scene.etcd_pid()?, bare.program.pid()];
    crate::machine::pass(SETTLES);
    let mut shares: [Vec<f64>; 3] = Default::default();
    let began = Instant::now();
    let mut points: [Vec<(f64, f64)>; 3] = Default::default();
    for turn in 0..stage.runs {
        progress("idle", turn, stage.runs);
        let used = || -> Result<[Duration; 3]> {
            let [wrapper, etcd, bare] = pids;
            Ok([processor_time(wrapper)?, processor_time(etcd)?, processor_time(bare)?])
        };
        let (before, at) = (used()?, Instant::now());
        crate::machine::pass(WINDOW);
        let (after, span) = (used()?, at.elapsed());
        for (((shares, points), before), after) in shares.iter_mut().zip(&mut points).zip(before).zip(after) {
            let share = after.saturating_sub(before).as_secs_f64() / span.as_secs_f64() * 100.0;
            shares.push(share);
            points.push((began.elapsed().as_secs_f64(), share));
        }
        crate::interrupted()?;
    }
    let [wrapper, etcd, bare] = &shares;
    row.figure(
        "of a core",
        "%",
        [("etcd-wrapper", &**wrapper), ("etcd beside it", etcd), ("bare etcd", bare)],
    );
    row.bar(Bar::median("wrapper, of a core", "%", wrapper, Side::AtMost, 0.5));
    row.bar(Bar::difference("etcd beside it − bare etcd", "%", etcd, bare, 0.5));
    let names = ["etcd-wrapper", "etcd beside it", "bare etcd"].map(str::to_owned);
    let of = names.into_iter().zip(points).collect();
    row.plots.push(Plot::Lines { title: "processor time of an idle member".into(), x: "s", unit: "%", of });
    Ok(())
}
