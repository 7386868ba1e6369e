// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Feeds a target: the corpus first, then mutations, until the budget is spent or an input fails. An input fails by a
//! panic (in a task of the target's runtime too), by taking too long, and by taking too much memory.
//!
//! A target says what it saw as a number (the shape of an error, say); an input that shows something new joins the pool
//! that mutations start from. That is what stands in for coverage where no nightly compiler is.
use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

use super::Target;
use super::mutate::{Random, mutated};

/// Inputs that mutations start from, the corpus included.
const POOL: usize = 2048;
/// A slow input is tried again: it must be the input and not the machine.
const TRIES_WHEN_SLOW: usize = 5;
/// Attempts to make a failing input shorter.
const SHORTENINGS: usize = 2000;
/// A budget of cases ends after this time too.
const CASES_WITHIN: Duration = Duration::from_secs(10);
const SHORTEN_WITHIN: Duration = Duration::from_secs(10);

/// When to end.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    /// So many inputs, or fewer on a machine that is too busy for them.
    Cases(u64),
    /// So long; the case that runs then is the last.
    Time(Duration),
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Inputs that were tried.
    pub cases: u64,
    /// Inputs that others are made from.
    pub pool: usize,
    /// Since the beginning.
    pub elapsed: Duration,
    /// What one input took at most.
    pub slowest: Duration,
}

/// An input that shows a defect.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The input itself.
    pub input: Vec<u8>,
    /// What went wrong with it.
    pub why: String,
    /// The number of the case, from 0; None for an input of the corpus.
    pub case: Option<u64>,
}

/// Runs the corpus, then mutations of it.
///
/// # Errors
/// The first input that failed, made shorter where that was possible.
pub fn drive(
    target: &Target,
    corpus: Vec<Vec<u8>>,
    seed: u64,
    budget: Budget,
    mut tell: impl FnMut(Progress),
) -> Result<Progress, Box<Failure>> {
    let began = Instant::now();
    let measure_memory = target.memory.map(|limit| (limit, peak_memory()));
    let mut seen = HashSet::new();
    let mut progress = Progress { cases: 0, pool: 0, elapsed: Duration::ZERO, slowest: Duration::ZERO };
    let check = |input: &[u8], progress: &mut Progress| {
        let (shape, took) = attempt(target, input)?;
        progress.slowest = progress.slowest.max(took);
        if let Some((limit, before)) = measure_memory {
            let grown = peak_memory().saturating_sub(before);
            if grown > limit {
                return Err(format!("memory grew by {} KiB, more than {} KiB", grown >> 10, limit >> 10));
            }
        }
        Ok(shape)
    };
    let mut pool = Vec::new();
    for input in corpus {
        match check(&input, &mut progress) {
            Ok(shape) => seen.insert(shape),
            Err(why) => return Err(Box::new(Failure { input, why, case: None })),
        };
        pool.push(input);
    }
    if pool.is_empty() {
        pool.push(Vec::new());
    }
    let mut random = Random::new(seed);
    loop {
        (progress.pool, progress.elapsed) = (pool.len(), began.elapsed());
        tell(progress);
        let done = match budget {
            Budget::Cases(cases) => progress.cases >= cases || progress.elapsed >= CASES_WITHIN,
            Budget::Time(time) => progress.elapsed >= time,
        };
        if done {
            return Ok(progress);
        }
        let input = mutated(&mut random, &pool, target.words, target.longest);
        match check(&input, &mut progress) {
            Ok(shape) => {
                if seen.insert(shape) && pool.len() < POOL {
                    pool.push(input);
                }
            }
            Err(why) => {
                let case = Some(progress.cases);
                return Err(Box::new(shortened(target, Failure { input, why, case })));
            }
        }
        progress.cases += 1;
    }
}

/// One input: what was seen and how long it took.
///
/// # Errors
/// Why it is a defect.
pub fn attempt(target: &Target, input: &[u8]) -> Result<(u64, Duration), String> {
    let mut fastest = Duration::MAX;
    for _ in 0..TRIES_WHEN_SLOW {
        let began = Instant::now();
        let shape = watched(|| (target.run)(input))?;
        fastest = fastest.min(began.elapsed());
        if fastest <= target.slowest {
            return Ok((shape, fastest));
        }
    }
    Err(format!("{} bytes took {fastest:?}, longer than {:?}", input.len(), target.slowest))
}

thread_local! {
    /// Panics of this thread while it is watched; the runtime catches those of its tasks.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

fn watched(run: impl FnOnce() -> u64) -> Result<u64, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let kept = PANICS.with_borrow_mut(|panics| {
                panics.as_mut().map(|panics| panics.push(info.to_string().replace('\n', " "))).is_some()
            });
            if !kept {
                usual(info);
            }
        }));
    });
    PANICS.set(Some(Vec::new()));
    let ended = catch_unwind(AssertUnwindSafe(run));
    let panics = PANICS.take().unwrap_or_default();
    match (ended, panics.first()) {
        (Ok(shape), None) => Ok(shape),
        (_, Some(panic)) => Err(panic.clone()),
        (Err(_), None) => Err("a panic without words".to_owned()),
    }
}

/// Cuts pieces out as long as the input goes on failing.
fn shortened(target: &Target, mut failure: Failure) -> Failure {
    let began = Instant::now();
    let (mut piece, mut at, mut tries) = (failure.input.len() / 2, 0, 0);
    // A slow or hungry one would take for ever.
    while piece > 0 && tries < SHORTENINGS && began.elapsed() < SHORTEN_WITHIN {
        if at >= failure.input.len() {
            (piece, at) = (piece / 2, 0);
            continue;
        }
        let mut shorter = failure.input.clone();
        shorter.drain(at..(at + piece).min(shorter.len()));
        tries += 1;
        match attempt(target, &shorter) {
            Err(why) => failure = Failure { input: shorter, why, case: failure.case },
            Ok(_) => at += piece,
        }
    }
    failure
}

/// The most memory this process has had resident, in bytes; 0 where the kernel does not tell.
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: Option<usize> = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    kib.unwrap_or_default() * 1024
}
