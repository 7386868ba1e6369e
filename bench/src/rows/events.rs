// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Row 14: many events through all streams, some of whose readers take nothing. How long the wrapper's one thread keeps
//! others waiting is what a probe on loopback takes meanwhile; what it keeps is seen in its memory.
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::progress;
use crate::finding::{Plot, Row};
use crate::http::{self, Connection};
use crate::process::{descriptors, memory};
use crate::scene::Scene;
use crate::stage::Stage;
use crate::stats::{median, quantile};
use crate::verdict::{Bar, Side};

const EVENTS: u64 = 10_000;
/// More than the ring holds: from here on every event takes another's place.
const WARM: u64 = 2_000;
const READERS: usize = 24;
const SLOW: usize = 8;
const RUNS: usize = 3;
const KNOCK: Duration = Duration::from_millis(2);

/// What one storm of events brought.
struct Storm {
    /// Milliseconds that each knock waited.
    delays: Vec<f64>,
    /// MiB after so many events.
    looks: Vec<(f64, f64)>,
    /// Bytes for each event, once the ring was full.
    growth: f64,
    events_per_second: f64,
    /// What each quick reader got.
    received: Vec<f64>,
    descriptors: (usize, usize),
}

pub(super) fn run(stage: &Stage, rows: &mut [Row]) -> Result<()> {
    let [row] = rows else { unreachable!("one row") };
    let runs = stage.runs.min(RUNS);
    let mut storms = Vec::new();
    for turn in 0..runs {
        progress("events", turn, runs);
        storms.push(storm(stage)?);
        crate::interrupted()?;
    }
    let of = |value: &dyn Fn(&Storm) -> f64| -> Vec<f64> { storms.iter().map(value).collect() };
    let p99 = of(&|storm| quantile(&storm.delays, 0.99));
    let growth = of(&|storm| storm.growth);
    row.figure("delay of the loop, p50", "ms", [("etcd-wrapper", &*of(&|storm| median(&storm.delays)))]);
    row.figure("delay of the loop, p99", "ms", [("etcd-wrapper", &*p99)]);
    row.figure("growth of memory, the ring being full", "MiB", [("etcd-wrapper", &*growth)]);
    row.figure(
        "resident at the end",
        "MiB",
        [("etcd-wrapper", &*of(&|storm| storm.looks.last().map_or(f64::NAN, |look| look.1)))],
    );
    row.figure("events", "/s", [("etcd-wrapper", &*of(&|storm| storm.events_per_second))]);
    row.figure(
        "events that a quick reader got",
        "",
        [("least of 24", &*of(&|storm| quantile(&storm.received, 0.0)))],
    );
    row.bar(Bar::median("delay of the loop, p99", "ms", &p99, Side::AtMost, 5.0));
    row.bar(Bar::median("growth of memory, the ring being full", "MiB", &growth, Side::AtMost, 1.0));
    let leaked = of(&|storm| storm.descriptors.1 as f64 - storm.descriptors.0 as f64);
    row.bar(Bar::median("descriptors more than before", "", &leaked, Side::AtMost, 0.0));
    row.notes.push(format!(
        "{EVENTS} events by changes of a readiness override, {READERS} readers that keep up and {SLOW} that take nothing."
    ));
    let lines =
        storms.iter().enumerate().map(|(run, storm)| (format!("run {}", run + 1), storm.looks.clone()));
    row.plots.push(Plot::Lines {
        title: "memory over events".into(),
        x: "events",
        unit: "MiB",
        of: lines.collect(),
    });
    let all = storms.iter().flat_map(|storm| storm.delays.iter().copied()).collect();
    row.plots.push(Plot::Distribution {
        title: "delay of the loop (ms)".into(),
        unit: "ms",
        of: vec![("a knock".into(), all)],
    });
    Ok(())
}

fn storm(stage: &Stage) -> Result<Storm> {
    let scene = Scene::new(stage)?;
    let program = scene.start_ready()?;
    let (address, pid) = (scene.api(), program.pid());
    let mut control = Connection::open(address)?;
    let before = descriptors(pid)?;
    let slow: Vec<_> =
        (0..SLOW).map(|_| Connection::open(address)?.ignore("/v1/events")).collect::<Result<Vec<_>>>()?;
    let quick: Vec<_> = (0..READERS)
        .map(|_| Connection::open(address)?.events("/v1/events?topics=readiness"))
        .collect::<Result<Vec<_>>>()?;
    let sockets: Vec<_> = quick.iter().map(|events| events.socket.try_clone()).collect::<Result<_, _>>()?;
    let over = AtomicBool::new(false);
    let counts: Vec<AtomicU64> = quick.iter().map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (events, count) in quick.into_iter().zip(&counts) {
            scope.spawn(move || {
                for event in events {
                    count.fetch_add(u64::from(event.topic == "readiness"), Ordering::Relaxed);
                }
            });
        }
        let knocking = scope.spawn(|| knock(address, &over));
        let blown = blow(&mut control, address, pid);
        over.store(true, Ordering::Relaxed);
        let delays = knocking.join().map_err(|_| anyhow::anyhow!("the knocking thread panicked"))?;
        // The last events are on their way still.
        crate::machine::pass(Duration::from_millis(300));
        for socket in &sockets {
            // It may have ended by itself.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        drop(slow);
        let Blown { looks, growth, events_per_second } = blown?;
        Ok(Storm {
            delays: delays?,
            looks,
            growth,
            events_per_second,
            received: counts.iter().map(|count| count.load(Ordering::Relaxed) as f64).collect(),
            descriptors: (before, settle(pid, before)?),
        })
    })
}

/// Descriptors once connections that end have ended.
fn settle(pid: u32, wanted: usize) -> Result<usize> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let open = descriptors(pid)?;
        if open <= wanted || Instant::now() >= deadline {
            return Ok(open);
        }
        crate::machine::pass(Duration::from_millis(20));
    }
}

/// What the making of events brought.
struct Blown {
    looks: Vec<(f64, f64)>,
    growth: f64,
    events_per_second: f64,
}

fn blow(control: &mut Connection, address: SocketAddr, pid: u32) -> Result<Blown> {
    let index = || -> Result<u64> {
        http::get(address, "/v1/status")?.json()?["index"].as_u64().context("a status without an index")
    };
    let resident = || Ok::<_, anyhow::Error>(memory(pid, "VmRSS")? / 1024.0);
    let (first, began) = (index()?, Instant::now());
    let mut looks = vec![(0.0, resident()?)];
    let mut warm = None;
    let mut round = 0_u32;
    loop {
        for _ in 0..100 {
            let mode = if round.is_multiple_of(2) { "unready" } else { "ready" };
            let body = format!(r#"{{"mode":"{mode}","owner":"bench","ttl":"10m","reason":"event {round}"}}"#);
            let answer = control.call("PUT", "/v1/readiness", "application/json", body.as_bytes())?;
            let said = String::from_utf8_lossy(&answer.body);
            anyhow::ensure!(answer.status == 200, "PUT /v1/readiness: {} {said}", answer.status);
            round += 1;
        }
        let events = index()? - first;
        let size = resident()?;
        looks.push((events as f64, size));
        if events >= WARM && warm.is_none() {
            warm = Some(size);
        }
        if events >= EVENTS {
            let growth = size - warm.context("more events than the ring holds")?;
            let events_per_second = events as f64 / began.elapsed().as_secs_f64();
            return Ok(Blown { looks, growth, events_per_second });
        }
        crate::interrupted()?;
    }
}

/// A probe every so often: how long the loop lets it wait, in ms.
fn knock(address: SocketAddr, over: &AtomicBool) -> Result<Vec<f64>> {
    let mut connection = Connection::open(address)?;
    let mut delays = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let at = Instant::now();
        let status = connection.get("/livez")?.status;
        anyhow::ensure!(status == 200, "/livez: {status}");
        delays.push(at.elapsed().as_secs_f64() * 1e3);
        crate::machine::pass(KNOCK);
    }
    Ok(delays)
}
