// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The machine that a run is on, as far as it explains how long things take. What cannot be read is left out.
use std::fs;
use std::path::Path;

/// Names and values for the report: cores, memory, kernel, version of cgroups.
pub fn facts() -> Vec<(String, String)> {
    let cores = std::thread::available_parallelism().ok().map(|cores| cores.to_string());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned());
    let cgroups = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() { "2" } else { "1" };
    let facts =
        [("cores", cores), ("memory", memory()), ("kernel", kernel), ("cgroups", Some(cgroups.into()))];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn memory() -> Option<String> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.split_whitespace().next()?.parse().ok()?;
    Some(format!("{} MiB", kibibytes >> 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_says_what_it_is() {
        let facts = facts();
        let names: Vec<&str> = facts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["cores", "memory", "kernel", "cgroups"]);
        assert!(facts.iter().all(|(_, value)| !value.is_empty() && value != "0 MiB"), "{facts:?}");
    }
}
