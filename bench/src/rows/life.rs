// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Whole lives, each candidate's in turn: from exec over ready to the end. Rows 1, 13 and 5 look at the same runs; what
//! they make of them stands in `start` and `stop`.
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::{progress, start, stop};
use crate::etcd::Bare;
use crate::finding::Row;
use crate::log;
use crate::minimal;
use crate::process;
use crate::scene::{LONG, Scene};
use crate::stage::{Peer, Stage};

/// From ready to SIGTERM: an etcd that has just begun is still busy with itself.
const SETTLES: Duration = Duration::from_secs(1);
/// A life without a supervisor or with the least of one ends within this time, or never.
const ENDS: Duration = Duration::from_secs(40);

/// Runs of all candidates, in ms, the nth of each from the same turn.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// etcd alone: exec to `READY=1`.
    pub(super) bare: Vec<f64>,
    pub(super) bare_stop: Vec<f64>,
    /// The least supervisor: all of it, and without what etcd took.
    pub(super) minimal: Vec<f64>,
    pub(super) minimal_over: Vec<f64>,
    pub(super) ours: Vec<Ours>,
    pub(super) peer: Vec<Theirs>,
    /// Why there are no runs of the peer.
    pub(super) peer_missing: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Ours {
    pub(super) port: f64,
    pub(super) ready: f64,
    /// etcd's own share of `ready`.
    pub(super) own: f64,
    pub(super) stop: f64,
    /// Name and length of each part of the start, one after the other.
    pub(super) phases: Vec<(String, f64)>,
}

#[derive(Debug)]
pub(super) struct Theirs {
    pub(super) port: f64,
    pub(super) ready: f64,
    pub(super) stop: f64,
}

impl Lives {
    pub(super) fn of_ours(&self, value: fn(&Ours) -> f64) -> Vec<f64> {
        self.ours.iter().map(value).collect()
    }

    pub(super) fn of_peer(&self, value: fn(&Theirs) -> f64) -> Vec<f64> {
        self.peer.iter().map(value).collect()
    }
}

pub(super) fn run(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let mut lives = Lives::default();
    if stage.peer.is_none() {
        lives.peer_missing = Some("no --peer was given".into());
    }
    for turn in 0..stage.runs {
        progress("lives", turn, stage.runs);
        bare(stage, &mut lives).context("etcd alone")?;
        least(stage, &mut lives).context("the minimal client")?;
        lives.ours.push(ours(stage).context("our wrapper")?);
        if let Some(peer) = stage.peer.as_ref().filter(|_| lives.peer_missing.is_none()) {
            match theirs(stage, peer) {
                Ok(life) => lives.peer.push(life),
                Err(error) => {
                    lives.peer_missing = Some(format!("{} cannot be measured: {error:#}", peer.name));
                }
            }
        }
        crate::interrupted()?;
    }
    let name = stage.peer.as_ref().map_or("peer", |peer| peer.name.as_str());
    for row in rows {
        match row.id {
            "1" => start::ready(row, &lives, name, stage.trace),
            "13" => start::port(row, &lives, name),
            _ => stop::row(row, &lives, name),
        }
    }
    Ok(())
}

fn bare(stage: &Stage, lives: &mut Lives) -> Result<()> {
    let scene = Scene::bare(stage)?;
    let mut bare = Bare::start(&scene, scene.config()?.as_bytes())?;
    lives.bare.push(bare.took());
    crate::machine::pass(SETTLES);
    let asked = Instant::now();
    bare.program.signal(Signal::TERM)?;
    bare.program.wait(ENDS)?;
    lives.bare_stop.push(since(asked, Instant::now()));
    Ok(())
}

fn least(stage: &Stage, lives: &mut Lives) -> Result<()> {
    let scene = Scene::new(stage)?;
    let up = minimal::start(&scene, scene.sidecar_at().context("no sidecar in the scene")?)?;
    lives.minimal.push(up.total);
    lives.minimal_over.push(up.total - up.bare.took());
    Ok(())
}

fn ours(stage: &Stage) -> Result<Ours> {
    let scene = Scene::new(stage)?;
    let began = SystemTime::now();
    let mut program = scene.start()?;
    let port = scene.wait_port(&mut program)?;
    let ready = scene.wait_ready(&mut program)?;
    let etcd = scene.etcd_pid()?;
    crate::machine::pass(SETTLES);
    let asked = Instant::now();
    program.signal(Signal::TERM)?;
    program.wait(ENDS)?;
    anyhow::ensure!(process::wait_gone(etcd, LONG)?, "etcd outlived the wrapper");
    let gone = Instant::now();
    let lines = log::read(&program.log)?;
    Ok(Ours {
        port: since(program.began, port),
        ready: since(program.began, ready),
        own: log::etcds_own(&lines, began).with_context(|| program.tail())?,
        stop: since(asked, gone),
        phases: start::phases(&lines, began)?,
    })
}

fn theirs(stage: &Stage, peer: &Peer) -> Result<Theirs> {
    let scene = Scene::new(stage)?;
    let sidecar = scene.sidecar_at().context("no sidecar in the scene")?;
    let mut program = scene.run(scene.peer(peer, sidecar), "peer")?;
    let port = scene.wait_port(&mut program)?;
    let ready = scene.wait_ready(&mut program)?;
    crate::machine::pass(SETTLES);
    let asked = Instant::now();
    program.signal(Signal::TERM)?;
    program.wait(ENDS)?;
    let gone = Instant::now();
    Ok(Theirs {
        port: since(program.began, port),
        ready: since(program.began, ready),
        stop: since(asked, gone),
    })
}

/// Milliseconds.
pub(super) fn since(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1e3
}
