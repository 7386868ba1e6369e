// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Row 3: resident memory, idle and after many probes, beside bare etcd and a peer.
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};

use super::progress;
use crate::etcd::Bare;
use crate::finding::{Plot, Row};
use crate::http::Connection;
use crate::process::memory;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::verdict::{Bar, Side};

const PROBES: usize = 100_000;
/// Probes after which buffers and pools have their size.
const WARM: usize = 2_000;
const LOOKS: usize = 25;
const SETTLES: Duration = Duration::from_secs(3);
/// Minutes of work: fewer runs than of a start.
const RUNS: usize = 3;

pub(super) fn run(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    let (mut bare, mut idle, mut after, mut growth) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut peer_idle, mut peer_after) = (Vec::new(), Vec::new());
    let mut lines = Vec::new();
    let mut peer_missing = stage.peer.is_none().then(|| "no --peer was given".to_owned());
    for turn in 0..stage.runs.min(RUNS) {
        progress("memory", turn, stage.runs.min(RUNS));
        bare.push(of_etcd_alone(stage)?);
        let scene = Scene::new(stage)?;
        let program = scene.start_ready()?;
        let probed = probe(scene.api(), program.pid())?;
        idle.push(probed.idle);
        after.push(probed.after());
        growth.push(probed.after() - probed.warm);
        lines.push((format!("run {}", turn + 1), probed.looks));
        if let Some(peer) = stage.peer.as_ref().filter(|_| peer_missing.is_none()) {
            let theirs = || {
                let scene = Scene::new(stage)?;
                let sidecar = scene.sidecar_at().context("no sidecar in the scene")?;
                let mut program = scene.run(scene.peer(peer, sidecar), "peer")?;
                scene.wait_ready(&mut program)?;
                probe(scene.api(), program.pid())
            };
            match theirs() {
                Ok(probed) => {
                    peer_idle.push(probed.idle);
                    peer_after.push(probed.after());
                }
                Err(error) => peer_missing = Some(format!("{} cannot be measured: {error:#}", peer.name)),
            }
        }
        crate::interrupted()?;
    }
    let peer =
        stage.peer.as_ref().map_or_else(|| "peer".to_owned(), |peer| format!("{} (etcd inside)", peer.name));
    row.figure(
        "resident, idle",
        "MiB",
        [("bare etcd", &*bare), ("etcd-wrapper", &idle), (&peer, &peer_idle)],
    );
    row.figure("resident after 100,000 probes", "MiB", [("etcd-wrapper", &*after), (&peer, &peer_after)]);
    row.figure("growth over the probes", "MiB", [("etcd-wrapper", &*growth)]);
    row.bar(Bar::median("resident, idle", "MiB", &idle, Side::AtMost, 8.0));
    row.bar(Bar::median("resident after the probes", "MiB", &after, Side::AtMost, 8.0));
    row.bar(Bar::median("growth", "MiB", &growth, Side::AtMost, 1.0));
    if let Some(why) = peer_missing {
        row.missing("the figures of a peer", why);
    }
    row.plots.push(Plot::Lines { title: "memory over probes".into(), x: "probes", unit: "MiB", of: lines });
    Ok(())
}

fn of_etcd_alone(stage: &Stage) -> Result<f64> {
    let scene = Scene::bare(stage)?;
    let bare = Bare::start(&scene, scene.config()?.as_bytes())?;
    crate::machine::pass(SETTLES);
    resident(bare.program.pid())
}

/// MiB at some moments of a row of probes.
struct Probed {
    idle: f64,
    warm: f64,
    looks: Vec<(f64, f64)>,
}

impl Probed {
    fn after(&self) -> f64 {
        self.looks.last().map_or(f64::NAN, |(_, size)| *size)
    }
}

fn probe(address: SocketAddr, pid: u32) -> Result<Probed> {
    crate::machine::pass(SETTLES);
    let idle = resident(pid)?;
    let mut connection = Connection::open(address)?;
    let mut ask = |times: usize| -> Result<()> {
        for _ in 0..times {
            let status = connection.get("/readyz")?.status;
            anyhow::ensure!(status == 200, "a probe was answered with {status}");
        }
        crate::interrupted()
    };
    ask(WARM)?;
    let warm = resident(pid)?;
    let mut looks = vec![(0.0, idle)];
    for look in 1..=LOOKS {
        ask(PROBES / LOOKS)?;
        looks.push(((look * PROBES / LOOKS) as f64, resident(pid)?));
    }
    Ok(Probed { idle, warm, looks })
}

fn resident(pid: u32) -> Result<f64> {
    Ok(memory(pid, "VmRSS")? / 1024.0)
}
