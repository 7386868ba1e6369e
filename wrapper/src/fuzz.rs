// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Fuzz targets: everything in the wrapper that reads bytes which somebody else wrote, each as a function of such bytes
//! that panics when a promise is broken. Compiled for tests, and for `cargo fuzz` (`cfg(fuzzing)`); never into the
//! product. `drive` runs them on a stable compiler; docs/testing.md says how.
//!
//! A target promises more than not to panic: what is accepted comes back the same when it is written and read again,
//! what Go or etcd would refuse is not accepted, what is said about an input has a bounded length.
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

pub mod command_line;
pub mod config;
pub mod drive;
pub mod etcd;
pub mod files;
#[cfg(test)]
pub mod listener;
pub mod mutate;
pub mod notify;
pub mod query;
pub mod sidecar;
pub mod tls;

#[cfg(test)]
mod tests;

/// One function to feed, and what is known of its inputs.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Also the name of the folder with its corpus.
    pub name: &'static str,
    /// Returns a number for what it saw, the same for the same kind of thing.
    pub run: fn(&[u8]) -> u64,
    /// Words that are worth writing into an input.
    pub words: &'static [&'static str],
    /// Longest input, in bytes.
    pub longest: usize,
    /// Inputs in the ordinary test run: about a second's worth.
    pub cases: u64,
    /// No input takes longer, on an idle machine, without optimisation.
    pub slowest: Duration,
    /// Bytes by which the process may grow during a run; None: not measured.
    pub memory: Option<usize>,
}

impl Target {
    const fn new(name: &'static str, run: fn(&[u8]) -> u64) -> Self {
        Self {
            name,
            run,
            words: &[],
            longest: 4096,
            cases: 2000,
            slowest: Duration::from_millis(500),
            memory: Some(64 << 20),
        }
    }
}

/// Every target but the listener's, which needs the rig of the API's tests.
pub const TARGETS: &[Target] = &[
    config::TARGET,
    command_line::FLAGS,
    command_line::DURATION,
    command_line::HOST_PORT,
    command_line::NOTIFY_URL,
    query::TARGET,
    query::FIELDS,
    query::POSITION,
    sidecar::TARGET,
    etcd::GAUGES,
    etcd::PAGES,
    etcd::GRPC,
    notify::TARGET,
    files::HISTORY,
    files::MARKER,
    files::HOLD,
    tls::TARGET,
];

/// What was seen, as a number: the text without what it quotes and counts.
fn shape(text: &str) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    for (n, part) in text.split('"').enumerate() {
        if n % 2 == 0 {
            part.chars().filter(|c| c.is_ascii_alphabetic()).take(200).for_each(|c| c.hash(&mut hasher));
        }
    }
    hasher.finish()
}

/// What is said about an input must fit into a log line and an answer, however long the input was.
#[track_caller]
fn assert_short(text: &str, longest: usize) {
    let length = text.len();
    assert!(length <= longest, "{length} bytes are said, more than {longest}: {:?}…", text.get(..200));
}

/// A folder of this process's own, in memory where there is such a place, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let shm = PathBuf::from("/dev/shm");
        let base = if shm.is_dir() { shm } else { std::env::temp_dir() };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("etcd-wrapper-fuzz-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing to be done about a leftover.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the future on a runtime of this thread's own, which lives as long as the thread.
fn on_runtime<F: Future>(future: F) -> F::Output {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be made");
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}
