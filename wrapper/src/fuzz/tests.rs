// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Every target, for about a second in the ordinary test run; for as long as one likes, or with one input, when
//! `cargo xtask fuzz` says so in the `E2E_FUZZ_*` variables. Also shows that a defect would be found.
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::drive::{Budget, Failure, Progress, attempt, drive};
use super::*;

const TELL_EVERY: Duration = Duration::from_secs(2);

macro_rules! targets {
    ($($module:ident: $target:expr;)*) => {
        $(mod $module {
            #[test]
            fn survives_any_bytes() {
                super::run(&$target);
            }
        })*

        const NAMES: &[&str] = &[$(stringify!($module)),*];
    };
}

targets! {
    config: crate::fuzz::config::TARGET;
    flags: crate::fuzz::command_line::FLAGS;
    duration: crate::fuzz::command_line::DURATION;
    host_port: crate::fuzz::command_line::HOST_PORT;
    notify_url: crate::fuzz::command_line::NOTIFY_URL;
    query: crate::fuzz::query::TARGET;
    fields: crate::fuzz::query::FIELDS;
    position: crate::fuzz::query::POSITION;
    sidecar: crate::fuzz::sidecar::TARGET;
    gauges: crate::fuzz::etcd::GAUGES;
    pages: crate::fuzz::etcd::PAGES;
    grpc: crate::fuzz::etcd::GRPC;
    notify: crate::fuzz::notify::TARGET;
    history: crate::fuzz::files::HISTORY;
    marker: crate::fuzz::files::MARKER;
    hold: crate::fuzz::files::HOLD;
    tls: crate::fuzz::tls::TARGET;
    listener: crate::fuzz::listener::TARGET;
}

#[test]
fn every_target_has_a_test_and_a_corpus() {
    let listed: Vec<&str> = TARGETS.iter().map(|target| target.name).chain(["listener"]).collect();
    assert_eq!(listed, NAMES);
    for name in NAMES {
        assert!(!corpus(name).is_empty(), "wrapper/fuzz/corpus/{name} is empty");
    }
}

/// A defect that only a mutation meets, behind three steps that each show something new.
fn planted_run(input: &[u8]) -> u64 {
    let depth = b"hold".iter().zip(input).take_while(|(want, byte)| want == byte).count();
    assert!(depth < 4, "the planted defect");
    depth as u64
}

const PLANTED: Target = Target { words: &["ho", "ld"], longest: 64, ..Target::new("planted", planted_run) };

/// Chosen by name (`cargo xtask fuzz planted`) it is a target like any other, and fails.
mod planted {
    #[test]
    fn survives_any_bytes() {
        if std::env::var_os("E2E_FUZZ_SECONDS").is_some() {
            super::run(&super::PLANTED);
        }
    }
}

#[test]
fn a_planted_defect_is_found_made_short_and_found_again_by_its_seed() {
    let find = |seed| drive(&PLANTED, vec![b"xyz".to_vec()], seed, Budget::Cases(1_000_000), |_| ());
    let failure = find(7).expect_err("a defect four steps deep");
    assert_eq!(failure.input, b"hold");
    assert!(failure.why.contains("the planted defect"), "{}", failure.why);
    assert!(attempt(&PLANTED, &failure.input).unwrap_err().contains("the planted defect"));
    assert_eq!(find(7).expect_err("again").case, failure.case);
    assert!(
        drive(&PLANTED, vec![b"hold".to_vec()], 1, Budget::Cases(0), |_| ()).is_err(),
        "in the corpus too"
    );
}

#[test]
fn slow_and_hungry_inputs_and_panics_in_tasks_are_defects() {
    let failing = |target: Target| {
        let found = drive(&target, vec![b"x".to_vec()], 1, Budget::Cases(10), |_| ());
        found.expect_err(target.name).why
    };
    let slow = Target {
        slowest: Duration::from_micros(1),
        ..Target::new("slow", |_| {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(1) {}
            0
        })
    };
    assert!(failing(slow).contains("longer than"));
    let task = Target::new("task", |_| {
        on_runtime(async { tokio::spawn(async { panic!("in a task") }).await.map_or(1, |()| 0) })
    });
    assert!(failing(task).contains("in a task"));
    let hungry = Target {
        memory: Some(1 << 20),
        slowest: Duration::from_secs(60),
        ..Target::new("hungry", |_| std::hint::black_box(vec![7_u8; 512 << 20]).len() as u64)
    };
    assert!(failing(hungry).contains("memory grew"));
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn run(target: &Target) {
    if let Some(path) = variable("E2E_FUZZ_INPUT") {
        let input = std::fs::read(&path).unwrap_or_else(|error| panic!("read {path}: {error}"));
        let (shape, took) = attempt(target, &input).unwrap_or_else(|why| panic!("{path}: {why}"));
        return say(&format!("{}: {path} is survived, in {took:?} (shape {shape:016x})", target.name));
    }
    let number = |name: &str| {
        variable(name)
            .map(|text| text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text:?} is no number")))
    };
    // The same inputs in every ordinary run: a change is judged by what it changes. New ones are `cargo xtask fuzz`'s.
    let seed = number("E2E_FUZZ_SEED").unwrap_or(1);
    let long = number("E2E_FUZZ_SECONDS").map(Duration::from_secs);
    // Memory is this process's: other tests in it would be measured too.
    let alone = long.is_some() || std::env::var_os("NEXTEST").is_some();
    let target = Target { memory: target.memory.filter(|_| alone), ..*target };
    let budget = long.map_or(Budget::Cases(target.cases), Budget::Time);
    let began = Instant::now();
    let mut told = began;
    let found = drive(&target, corpus(target.name), seed, budget, |progress| {
        if long.is_some() && told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            say(&line(&target, seed, progress));
        }
    });
    match found {
        Ok(progress) => say(&line(&target, seed, progress)),
        Err(failure) => panic!("{}", report(&target, seed, &failure)),
    }
}

fn line(target: &Target, seed: u64, progress: Progress) -> String {
    let Progress { cases, pool, elapsed, slowest } = progress;
    let rate = cases as f64 / elapsed.as_secs_f64().max(0.001);
    format!(
        "{:<10} {cases:>9} inputs  {rate:>8.0}/s  pool {pool:<5} slowest {slowest:<12.1?} seed {seed}",
        target.name
    )
}

/// Keeps the input, and says how to see it fail again.
fn report(target: &Target, seed: u64, failure: &Failure) -> String {
    let Failure { input, why, case } = failure;
    let path = failures().join(format!("{}-{:016x}", target.name, fingerprint(input)));
    let kept = std::fs::create_dir_all(failures()).and_then(|()| std::fs::write(&path, input));
    let kept = kept.map_or_else(|error| format!("not kept: {error}"), |()| path.display().to_string());
    let found = case.map_or("in the corpus".to_owned(), |case| format!("case {case} of seed {seed}"));
    format!(
        "{name}: {why}\n  input:  {kept} ({length} bytes, {found}): {excerpt:?}\n  replay: cargo xtask fuzz {name} \
         --input {kept}\n  again:  cargo xtask fuzz {name} --seed {seed}\n  once mended, keep it in \
         wrapper/fuzz/corpus/{name}",
        name = target.name,
        length = input.len(),
        excerpt = String::from_utf8_lossy(&input[..input.len().min(200)]),
    )
}

fn fingerprint(input: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    input.hash(&mut hasher);
    hasher.finish()
}

/// `fuzz` in the target folder that this test was built into.
fn failures() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(3).unwrap_or(Path::new(".")).join("fuzz")
}

/// The inputs of a target that are kept, in the order of their names.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn say(line: &str) {
    // Seen with --nocapture.
    let _ = writeln!(std::io::stderr(), "{line}");
}
