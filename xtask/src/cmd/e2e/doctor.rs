// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The pre-flight of the suite: what a machine must have before a cluster is made on it. It looks, and names the
//! command that mends each finding; it changes nothing.

use std::path::Path;

use anyhow::{Result, bail};

use crate::cache::Cache;
use crate::engine::{self, Engine};
use crate::images::Foreign;
use crate::{machine, repo};

/// Free space that node image, cluster and volumes need.
const DISK: u64 = 15 << 30;
/// Each pod and unit watches files; kubelets that get none say something else entirely.
const WATCHES: [(&str, u64); 2] =
    [("fs.inotify.max_user_instances", 128), ("fs.inotify.max_user_watches", 65_536)];
/// Certificates of a cluster made by a clock before this are refused at once (1 January 2026).
const CLOCK: u64 = 1_767_225_600;
const MEMORY: u64 = 3 << 30;

/// One thing that was looked at.
struct Finding {
    what: &'static str,
    seen: String,
    /// The command that mends it; none when it is well.
    mend: Option<String>,
}

/// All findings as a table; whether the machine is fit.
pub(super) fn run() -> Result<bool> {
    let engine = Engine::running();
    let findings = findings(&engine);
    for finding in &findings {
        match &finding.mend {
            None => println!("ok    {:30} {}", finding.what, finding.seen),
            Some(mend) => {
                println!("BAD   {:30} {}\n      {:30} mend: {mend}", finding.what, finding.seen, "");
            }
        }
    }
    if let Ok(engine) = &engine {
        let images = Foreign::read(&repo::root())?;
        for (role, image) in
            [("druid", &images.druid), ("sidecar", &images.sidecar), ("go-wrapper", &images.go_wrapper)]
        {
            let held = engine.image(&image.reference)?;
            let seen = held.map_or("not in the engine; a run tries to pull it".into(), |held| held.digest);
            println!("info  {role:30} {}: {seen}", image.reference);
        }
    }
    Ok(findings.iter().all(|finding| finding.mend.is_none()))
}

/// The engine, if the machine is fit; else the first finding.
pub(super) fn fit() -> Result<Engine> {
    let engine = Engine::running();
    let bad = findings(&engine).into_iter().find(|finding| finding.mend.is_some());
    match (bad, engine) {
        (Some(Finding { what, seen, mend: Some(mend) }), _) => bail!("{what}: {seen}; mend: {mend}"),
        (_, engine) => engine,
    }
}

fn findings(engine: &Result<Engine>) -> Vec<Finding> {
    let mut findings = vec![match engine {
        Ok(engine) => {
            Finding { what: "container engine", seen: format!("docker {}", engine.version), mend: None }
        }
        Err(error) => {
            let seen = format!("{error:#}").lines().next().unwrap_or_default().to_owned();
            Finding { what: "container engine", seen, mend: Some(engine::MEND.into()) }
        }
    }];
    findings.push(disk());
    for (name, least) in WATCHES {
        findings.push(limit(name, least));
    }
    findings.push(cgroups());
    findings.push(clock());
    findings.push(memory());
    for (program, mend) in [
        ("cc", machine::LINKER_MEND.to_owned()),
        ("git", "apt-get install -y git".into()),
        ("go", "cargo xtask setup".into()),
    ] {
        let path = machine::on_path(program);
        let seen = path.as_ref().map_or("not on PATH".into(), |path| path.display().to_string());
        findings.push(Finding { what: program, seen, mend: path.is_none().then_some(mend) });
    }
    findings
}

fn disk() -> Finding {
    let folder = Cache::locate().map(|cache| cache.scratch("."));
    // The engine has its own place, which may be on another disk; without one, the root.
    let places = [folder.unwrap_or_else(|_| "/".into()), "/var/lib/docker".into()];
    let free = places
        .iter()
        .filter_map(|path| path.ancestors().find(|path| path.exists()).map(Path::to_owned))
        .filter_map(|path| rustix::fs::statvfs(&path).ok().map(|stat| stat.f_bavail * stat.f_frsize))
        .min();
    let what = "free disk";
    match free {
        None => Finding { what, seen: "unknown".into(), mend: None },
        Some(free) => Finding {
            what,
            seen: format!("{} GiB, {} needed", free >> 30, DISK >> 30),
            mend: (free < DISK).then(|| "docker system prune --all, or free it elsewhere".into()),
        },
    }
}

fn limit(name: &'static str, least: u64) -> Finding {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    match std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u64>().ok()) {
        // Another kind of machine runs the engine in a virtual one, which this cannot see.
        None => Finding { what: name, seen: format!("{path} cannot be read"), mend: None },
        Some(value) => Finding {
            what: name,
            seen: format!("{value}, {least} needed"),
            mend: (value < least).then(|| format!("sysctl -w {name}={least}")),
        },
    }
}

fn cgroups() -> Finding {
    let what = "cgroups";
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    if unified {
        return Finding { what, seen: "version 2".into(), mend: None };
    }
    // Version 1 will do when each controller that a kubelet asks for has its hierarchy.
    let lacking: Vec<&str> = ["cpu", "cpuset", "memory", "pids"]
        .into_iter()
        .filter(|name| !Path::new("/sys/fs/cgroup").join(name).is_dir())
        .collect();
    let seen = if lacking.is_empty() {
        "version 1".into()
    } else {
        format!("version 1 without {}", lacking.join(", "))
    };
    let mend = (!lacking.is_empty()).then(|| "boot with systemd.unified_cgroup_hierarchy=1".into());
    Finding { what, seen, mend }
}

fn clock() -> Finding {
    let time = std::time::SystemTime::now();
    let now = time.duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let mend = (now < CLOCK).then(|| "set the clock: date --set=…".into());
    Finding { what: "clock", seen: humantime::format_rfc3339_seconds(time).to_string(), mend }
}

fn memory() -> Finding {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok())
        .map(|kib| kib << 10);
    let what = "memory";
    match available {
        None => Finding { what, seen: "unknown".into(), mend: None },
        Some(free) => Finding {
            what,
            seen: format!("{} MiB available, {} needed", free >> 20, MEMORY >> 20),
            mend: (free < MEMORY).then(|| "end what else runs here".into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_engine_is_a_finding_with_the_command_that_mends_it() {
        let found = findings(&Err(anyhow::anyhow!("no container engine answers")));
        let engine = &found[0];
        assert_eq!(engine.mend.as_deref(), Some(engine::MEND));
    }

    #[test]
    fn k7_a_limit_that_is_too_low_is_told_with_its_fix() {
        let finding = limit("fs.inotify.max_user_watches", u64::MAX);
        assert_eq!(finding.mend, Some(format!("sysctl -w fs.inotify.max_user_watches={}", u64::MAX)));
        assert_eq!(limit("fs.inotify.max_user_watches", 1).mend, None);
        assert_eq!(limit("no.such.limit", 1).mend, None);
    }
}
