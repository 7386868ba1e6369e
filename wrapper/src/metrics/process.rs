// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `process_*` of the wrapper itself, read from /proc at scrape time. What cannot be read is left out.
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Clock ticks a second in /proc/<pid>/stat: part of Linux's interface to programs, the same on every platform we build for.
const USER_HZ: f64 = 100.0;

/// The series; `started_at` is when this process began.
pub(super) fn registry(started_at: SystemTime) -> Registry {
    let mut registry = Registry::with_prefix("process");
    if let Some(seconds) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(cpu_seconds) {
        registry.register("cpu_seconds", "User and system CPU time", ConstCounter::new(seconds));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (name, help, key, unit) in [
        ("resident_memory_bytes", "Resident memory", "VmRSS:", 1024),
        ("virtual_memory_bytes", "Virtual memory", "VmSize:", 1024),
        ("threads", "Threads", "Threads:", 1),
    ] {
        if let Some(value) = field(&status, key) {
            registry.register(name, help, ConstGauge::new(value * unit));
        }
    }
    // One of them is the descriptor that reads the directory.
    if let Some(open) = fs::read_dir("/proc/self/fd").ok().and_then(|fds| i64::try_from(fds.count()).ok()) {
        registry.register("open_fds", "Open file descriptors", ConstGauge::new(open - 1));
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(limit) = limit.and_then(|limit| i64::try_from(limit).ok()) {
        registry.register("max_fds", "Limit of open file descriptors", ConstGauge::new(limit));
    }
    let started = started_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    registry.register("start_time_seconds", "Start of the process, Unix time", ConstGauge::new(started));
    registry
}

/// Fields 14 and 15, counted after the name, which may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / USER_HZ)
}

fn field(status: &str, key: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_spaces_and_brackets_shifts_nothing() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("7 (a"), None);
    }

    #[test]
    fn memory_is_read_by_name() {
        assert_eq!(field("Name:\tx\nVmRSS:\t    5120 kB\n", "VmRSS:"), Some(5120));
        assert_eq!(field("Name:\tx\n", "VmRSS:"), None);
    }
}
