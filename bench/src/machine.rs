// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The machine while something is measured: what others used of it, and how late it wakes a thread that only waits.
//! Both say how much a miss is worth.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::process;
use crate::stats::{most, quantile};

/// How long the waiting thread means to wait each time.
const STEP: Duration = Duration::from_millis(1);

/// Watches from its start to [`Watch::end`].
#[derive(Debug)]
pub(crate) struct Watch {
    began: Instant,
    busy: Duration,
    own: Duration,
    over: Arc<AtomicBool>,
    waiting: JoinHandle<Vec<f64>>,
}

/// What a watch saw.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Share of all processors that others used.
    pub(crate) foreign: f64,
    /// Milliseconds of each time that the waiting thread was late.
    lags: Vec<f64>,
    pub(crate) took: Duration,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let waiting = std::thread::spawn(move || {
            let mut lags = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                let began = Instant::now();
                pass(STEP);
                lags.push((began.elapsed().saturating_sub(STEP)).as_secs_f64() * 1e3);
            }
            lags
        });
        Self { began: Instant::now(), busy: process::busy(), own: process::own(), over, waiting }
    }

    pub(crate) fn end(self) -> Seen {
        let took = self.began.elapsed();
        let busy = process::busy().saturating_sub(self.busy);
        let own = process::own().saturating_sub(self.own);
        self.over.store(true, Ordering::Relaxed);
        let lags = self.waiting.join().unwrap_or_default();
        let all = took.as_secs_f64() * processors() as f64;
        Seen { foreign: (busy.saturating_sub(own).as_secs_f64() / all).clamp(0.0, 1.0), lags, took }
    }
}

impl Seen {
    /// 99th percentile, in ms.
    pub(crate) fn lag_p99(&self) -> f64 {
        quantile(&self.lags, 0.99)
    }

    /// Worst, in ms.
    pub(crate) fn lag_max(&self) -> f64 {
        most(&self.lags)
    }
}

/// Lets time pass: what is measured here is often a span, or a state after one.
#[expect(
    clippy::disallowed_methods,
    reason = "the program has threads of its own; no wrapper's loop stands still"
)]
pub(crate) fn pass(span: Duration) {
    std::thread::sleep(span);
}

pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Name and value of what a reader needs to know of the machine.
pub(crate) fn facts() -> Vec<(String, String)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| Some(line.strip_prefix("model name")?.split_once(": ")?.1.to_owned()));
    let memory = read("/proc/meminfo")
        .lines()
        .next()
        .and_then(|line| Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024));
    let load = read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ");
    let mut facts = vec![
        ("processors".to_owned(), processors().to_string()),
        ("kernel".to_owned(), read("/proc/sys/kernel/osrelease").trim().to_owned()),
        ("load before".to_owned(), load),
    ];
    facts.extend(model.map(|model| ("processor".to_owned(), model)));
    facts.extend(memory.map(|mebibytes| ("memory".to_owned(), format!("{mebibytes} MiB"))));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_work_is_not_counted_as_that_of_others() {
        let used = || process::processor_time(std::process::id()).unwrap();
        let (watch, before) = (Watch::start(), used());
        while used() - before < Duration::from_millis(300) {
            std::hint::black_box(before);
        }
        let seen = watch.end();
        // What was ours nobody else can have had; both are counted in hundredths of a second.
        let ours = 0.28 / (seen.took.as_secs_f64() * processors() as f64);
        assert!(seen.foreign + ours <= 1.0, "{} of others, {ours} of ours", seen.foreign);
        assert!(!seen.lags.is_empty() && seen.lag_max() >= seen.lag_p99());
    }
}
