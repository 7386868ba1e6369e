// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Row 8: probes at a steady pace beside many idle connections, with an etcd that answers and with one that is frozen.
//! A probe is timed from the moment at which it was due, unless it was we who were late.
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::progress;
use crate::finding::{Plot, Row};
use crate::http::Connection;
use crate::process::signal_to;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::stats::quantile;
use crate::verdict::{Bar, Side};

const PER_SECOND: u32 = 1000;
const SENDERS: u32 = 2;
const LASTS: Duration = Duration::from_secs(10);
const IDLE: usize = 500;
/// The wrapper closes what is silent for 5 s: each is replaced before that.
const IDLE_FOR: Duration = Duration::from_secs(4);
const RUNS: usize = 3;
/// The last stretch before a probe is due is not slept, so that it leaves in time.
const AWAKE: Duration = Duration::from_micros(150);

pub(super) fn run(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    let scene = Scene::new(stage)?;
    let program = scene.start_ready()?;
    let etcd = scene.etcd_pid()?;
    let runs = stage.runs.min(RUNS);
    let (mut healthy, mut frozen) = (Vec::new(), Vec::new());
    let over = AtomicBool::new(false);
    let replaced = AtomicU64::new(0);
    std::thread::scope(|scope| -> Result<()> {
        let idle = scope.spawn(|| keep_idle(scene.api(), &over, &replaced));
        let measured = (|| -> Result<()> {
            for turn in 0..runs {
                progress("probes", turn, runs);
                healthy.push(burst(scene.api())?);
                signal_to(etcd, Signal::STOP)?;
                let calls = burst(scene.api());
                signal_to(etcd, Signal::CONT)?;
                frozen.push(calls?);
                crate::interrupted()?;
            }
            Ok(())
        })();
        over.store(true, Ordering::Relaxed);
        let kept = idle.join().map_err(|_| anyhow::anyhow!("the keeper of idle connections panicked"))?;
        measured.and(kept.context("500 idle connections"))
    })?;
    drop(program);
    for (name, bursts) in [("etcd healthy", &healthy), ("etcd frozen", &frozen)] {
        let of = |share: f64| -> Vec<f64> { bursts.iter().map(|calls| quantile(calls, share)).collect() };
        let (p99, worst) = (of(0.99), of(1.0));
        row.figure(format!("p50, {name}"), "ms", [("etcd-wrapper", &*of(0.5))]);
        row.figure(format!("p99, {name}"), "ms", [("etcd-wrapper", &*p99)]);
        row.figure(format!("worst, {name}"), "ms", [("etcd-wrapper", &*worst)]);
        row.bar(Bar::median(format!("p99, {name}"), "ms", &p99, Side::AtMost, 2.0));
        row.bar(Bar::worst(format!("worst, {name}"), "ms", &worst, 50.0));
    }
    let all = |bursts: &[Vec<f64>]| bursts.concat();
    let of = vec![("etcd healthy".to_owned(), all(&healthy)), ("etcd frozen".to_owned(), all(&frozen))];
    row.plots.push(Plot::Distribution { title: "a probe (ms)".into(), unit: "ms", of });
    row.notes.push(format!(
        "{PER_SECOND} probes/s for {} s a burst, no error; {IDLE} idle connections beside them, {} of them replaced in time.",
        LASTS.as_secs(),
        replaced.load(Ordering::Relaxed)
    ));
    Ok(())
}

/// Milliseconds of every probe; an answer that is none is an error.
pub(super) fn burst(address: SocketAddr) -> Result<Vec<f64>> {
    let began = Instant::now() + Duration::from_millis(20);
    std::thread::scope(|scope| {
        let senders: Vec<_> =
            (0..SENDERS).map(|number| scope.spawn(move || send(address, began, number))).collect();
        let mut calls = Vec::new();
        for sender in senders {
            calls.extend(sender.join().map_err(|_| anyhow::anyhow!("a sender panicked"))??);
        }
        Ok(calls)
    })
}

fn send(address: SocketAddr, began: Instant, number: u32) -> Result<Vec<f64>> {
    let step = Duration::from_secs(1) / PER_SECOND;
    let count = u32::try_from(LASTS.as_micros() / step.as_micros()).context("a short burst")? / SENDERS;
    let mut connection = Connection::open(address)?;
    let mut calls = Vec::with_capacity(count as usize);
    for probe in 0..count {
        let due = began + step * (probe * SENDERS + number);
        let came = Instant::now();
        let from = if came >= due {
            // The answer before took so long: what waits behind it counts, as it would for any caller.
            due
        } else {
            crate::machine::pass((due - came).saturating_sub(AWAKE));
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            // Woken late ourselves: none of the wrapper's doing.
            Instant::now()
        };
        let status = connection.get("/readyz")?.status;
        anyhow::ensure!(status == 200 || status == 503, "a probe was answered with {status}");
        calls.push(from.elapsed().as_secs_f64() * 1e3);
    }
    Ok(calls)
}

/// As many connections that say nothing, the oldest replaced before it is closed for its silence.
fn keep_idle(address: SocketAddr, over: &AtomicBool, replaced: &AtomicU64) -> Result<()> {
    let mut open: VecDeque<TcpStream> = VecDeque::new();
    let pause = IDLE_FOR / u32::try_from(IDLE).context("some hundred")?;
    while !over.load(Ordering::Relaxed) {
        if open.len() == IDLE {
            open.pop_front();
            replaced.fetch_add(1, Ordering::Relaxed);
            crate::machine::pass(pause);
        }
        open.push_back(TcpStream::connect(address).context("open an idle connection")?);
    }
    Ok(())
}
