// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Row 6: a restart of the member in place, beside what a plain supervisor of bare etcd takes and what a peer takes whose
//! process has to end for it.
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::begin::expect;
use super::life::since;
use super::progress;
use crate::etcd::{self, Bare, Client};
use crate::finding::Row;
use crate::http;
use crate::log::{self, between, find};
use crate::scene::Scene;
use crate::stage::{Peer, Stage};
use crate::stats::median;
use crate::verdict::{Bar, Side};

const ENDS: Duration = Duration::from_secs(40);
/// Between two restarts.
const SETTLES: Duration = Duration::from_millis(500);

pub(super) fn run(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    let (mut plain, mut plain_over) = (Vec::new(), Vec::new());
    let (mut total, mut over) = (Vec::new(), Vec::new());
    let mut peer = Vec::new();
    let mut peer_missing = stage.peer.is_none().then(|| "no --peer was given".to_owned());
    let scene = Scene::new(stage)?;
    let mut program = scene.start_ready()?;
    for turn in 0..stage.runs {
        progress("restarts", turn, stage.runs);
        let (took, own) = of_etcd_alone(stage)?;
        plain.push(took);
        plain_over.push(took - own);
        crate::machine::pass(SETTLES);
        let (asked, at) = (Instant::now(), SystemTime::now());
        expect(&scene, "/v1/etcd/restart?wait=60s", &[], 200)?;
        let ready = scene.wait_ready(&mut program)?;
        let lines = log::read(&program.log)?;
        let moment = |message: &str| {
            find(&lines, message, at)
                .map(|line| line.at)
                .with_context(|| format!("no line `{message}` in the log"))
        };
        let own = between(moment(log::SIGNALLED)?, moment(log::ENDED)?) + log::etcds_own(&lines, at)?;
        total.push(since(asked, ready));
        over.push(since(asked, ready) - own);
        if let Some(other) = stage.peer.as_ref().filter(|_| peer_missing.is_none()) {
            match of_peer(stage, other) {
                Ok(took) => peer.push(took),
                Err(error) => peer_missing = Some(format!("{} cannot be measured: {error:#}", other.name)),
            }
        }
        crate::interrupted()?;
    }
    let name = stage.peer.as_ref().map_or("peer", |peer| peer.name.as_str());
    let alone = median(&plain) - median(&plain_over);
    let peer_over: Vec<f64> = peer.iter().map(|took| took - alone).collect();
    row.figure("restart to ready", "ms", [("bare etcd", &*plain), ("etcd-wrapper", &total), (name, &peer)]);
    row.figure(
        "of it, not etcd's own stop and start",
        "ms",
        [("bare etcd", &*plain_over), ("etcd-wrapper", &over), (name, &peer_over)],
    );
    row.bar(Bar::median("of it, not etcd's own stop and start", "ms", &over, Side::AtMost, 80.0));
    row.missing(
        "the same in a cluster (ready again in 3 s, no restart counted)",
        "it needs one: run `cargo xtask e2e`",
    );
    if let Some(why) = peer_missing {
        row.missing("the figure of a peer", why);
    }
    Ok(())
}

/// Stop, start, one read through consensus: the whole in ms, and what of it was etcd's own.
fn of_etcd_alone(stage: &Stage) -> Result<(f64, f64)> {
    let scene = Scene::bare(stage)?;
    let config = scene.config()?;
    let mut bare = Bare::start(&scene, config.as_bytes())?;
    let runtime = etcd::runtime()?;
    crate::machine::pass(SETTLES);
    let asked = Instant::now();
    bare.program.signal(Signal::TERM)?;
    bare.program.wait(ENDS)?;
    let stopped = since(asked, Instant::now());
    let again = Bare::start(&scene, config.as_bytes())?;
    runtime.block_on(async { Client::new(scene.client.addr())?.read(b"a").await })?;
    Ok((since(asked, Instant::now()), stopped + again.took()))
}

/// Its process ends by `/stop` and is started again at once, which no kubelet does as quickly.
fn of_peer(stage: &Stage, peer: &Peer) -> Result<f64> {
    let scene = Scene::new(stage)?;
    let sidecar = scene.sidecar_at().context("no sidecar in the scene")?;
    let mut program = scene.run(scene.peer(peer, sidecar), "peer")?;
    scene.wait_ready(&mut program)?;
    crate::machine::pass(SETTLES);
    let asked = Instant::now();
    let answer = http::call(scene.api(), "POST", "/stop", "", &[])?;
    anyhow::ensure!(answer.status == 200, "POST /stop: {}", answer.status);
    program.wait(ENDS)?;
    let mut again = scene.run(scene.peer(peer, sidecar), "peer-again")?;
    Ok(since(asked, scene.wait_ready(&mut again)?))
}
