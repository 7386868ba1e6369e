// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The frame of a micro benchmark: a program that lists its cases, or runs one of them so many times and prints what was
//! allocated and how long it took, as one line of JSON. Whoever runs it counts instructions from outside: twice, with
//! different counts, so that everything but the hot path cancels out. `cargo xtask bench --compare` does.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to another one")]
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;

/// A hot path, set up: does its work so many times.
pub type Work = Box<dyn FnMut(u64)>;

/// Name and set-up of a case.
#[derive(Clone, Copy)]
pub struct Case {
    /// As it is chosen on the command line.
    pub name: &'static str,
    /// Makes what the hot path needs; nothing of it is counted.
    pub set_up: fn() -> Work,
    /// Runs before anything is counted: buffers and pools get their size.
    pub warm: u64,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The whole program: `list`, or `NAME COUNT`.
pub fn main(cases: &[Case]) -> ExitCode {
    // cargo adds a flag of its own when it runs a benchmark.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["list"] => {
            cases.iter().for_each(|case| println!("{}", case.name));
            ExitCode::SUCCESS
        }
        [name, count] => match (cases.iter().find(|case| case.name == name), count.parse()) {
            (Some(case), Ok(count)) => {
                println!("{}", run(case, count));
                ExitCode::SUCCESS
            }
            _ => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("error: `list`, or the name of a case and how many times it shall run");
    ExitCode::from(2)
}

fn run(case: &Case, count: u64) -> serde_json::Value {
    let mut work = (case.set_up)();
    work(case.warm);
    let began = Instant::now();
    let counted = allocation_counter::measure(|| work(count));
    let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    json!({
        "name": case.name,
        "count": count,
        "nanos": nanos,
        "allocations": counted.count_total,
        "bytes": counted.bytes_total,
        // What is still there afterwards: a leak, or a buffer that grew.
        "kept": counted.count_current,
        "keptBytes": counted.bytes_current,
        "mostBytes": counted.bytes_max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_and_what_is_kept_is_counted() {
        fn set_up() -> Work {
            let mut kept = Vec::with_capacity(1024);
            Box::new(move |count| {
                for number in 0..count {
                    drop(std::hint::black_box(Box::new(number)));
                    kept.push(Box::new(number));
                }
            })
        }
        let counted = run(&Case { name: "leaky", set_up, warm: 3 }, 10);
        assert_eq!((counted["allocations"].as_u64(), counted["kept"].as_i64()), (Some(20), Some(10)));
        assert_eq!(counted["keptBytes"].as_i64(), Some(80));
    }
}
