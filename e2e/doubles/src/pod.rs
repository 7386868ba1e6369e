// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The processes of a pod as its pause container sees them: who lives, in what state, with which database open. Looks
//! and reaps; starts and judges nothing.
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, WaitOptions};
use serde::{Deserialize, Serialize};

/// Between two looks: short against the life of any etcd, long against what a look costs.
pub const LOOK: Duration = Duration::from_millis(200);
/// A look that shows nothing new is told after this long all the same.
pub const WHOLE: Duration = Duration::from_secs(5);
/// What a data directory's database is called, from the data directory on.
const DATABASE: &str = "/member/snap/db";

/// All processes at one moment, as a line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Milliseconds since 1970.
    pub at: u64,
    /// One entry for each process of the pod.
    pub processes: Vec<Process>,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// In the pod.
    pub pid: i32,
    /// Process id of the parent, in the pod's namespace.
    pub parent: i32,
    /// As `pgrep` finds it.
    pub name: String,
    /// As in `/proc`: `S`, `T` (stopped), `Z` (a zombie), …
    pub state: char,
    /// When it began, in ticks since the machine did: a pid that is used again is another process.
    pub began: u64,
    /// Resident memory in KiB.
    pub memory: u64,
    /// Open descriptors; None: they could not be read.
    pub descriptors: Option<u32>,
    /// The etcd database that it has open.
    pub database: Option<String>,
}

impl Process {
    /// Ended, and nobody has taken its exit code.
    pub fn is_zombie(&self) -> bool {
        self.state == 'Z'
    }

    /// By SIGSTOP: it reaps nobody.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// What makes a look worth telling.
    fn gist(&self) -> (i32, u64, &str, [bool; 2], Option<&str>) {
        (self.pid, self.began, &self.name, [self.is_zombie(), self.is_stopped()], self.database.as_deref())
    }
}

impl Sample {
    /// Looks now. A process that ends meanwhile is left out.
    pub fn take() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let mut processes: Vec<Process> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(look)
            .collect();
        processes.sort_by_key(|process| process.pid);
        Self { at, processes }
    }

    /// Whether it tells something that `earlier` does not, memory and descriptors apart.
    pub fn differs(&self, earlier: &Self) -> bool {
        let gists = |sample: &Self| {
            let gists = sample.processes.iter().map(Process::gist);
            gists
                .map(|(pid, began, name, states, database)| {
                    (pid, began, name.to_owned(), states, database.map(str::to_owned))
                })
                .collect::<Vec<_>>()
        };
        gists(self) != gists(earlier)
    }
}

fn look(pid: i32) -> Option<Process> {
    let folder = format!("/proc/{pid}");
    let stat = fs::read_to_string(format!("{folder}/stat")).ok()?;
    let mut process = parse(pid, &stat)?;
    // Of a zombie nothing is left.
    process.memory =
        fs::read_to_string(format!("{folder}/status")).ok().and_then(|text| memory(&text)).unwrap_or(0);
    if let Ok(entries) = fs::read_dir(format!("{folder}/fd")) {
        let targets = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let mut count = 0;
        for target in targets {
            count += 1;
            if let Some(path) = target.to_str().filter(|path| path.ends_with(DATABASE)) {
                process.database = Some(path.to_owned());
            }
        }
        process.descriptors = Some(count);
    }
    Some(process)
}

/// A line of `/proc/PID/stat`; the name in it may hold blanks and parentheses.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_whitespace().collect();
    Some(Process {
        pid,
        name,
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        began: fields.get(19)?.parse().ok()?,
        memory: 0,
        descriptors: None,
        database: None,
    })
}

fn memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Takes the ends of children that nobody else waits for: what the first process of a pod is there for.
pub fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

/// Sends a signal to every process of this name, zombies apart; how many there were.
///
/// # Errors
/// The kernel's, for a process that is there.
pub fn signal(name: &str, signal: Signal) -> anyhow::Result<usize> {
    let sample = Sample::take();
    let mut count = 0;
    for process in sample.processes.iter().filter(|process| process.name == name && !process.is_zombie()) {
        let Some(pid) = Pid::from_raw(process.pid) else { continue };
        match rustix::process::kill_process(pid, signal) {
            Ok(()) => count += 1,
            Err(rustix::io::Errno::SRCH) => {}
            Err(error) => anyhow::bail!("signal {name}, pid {}: {error}", process.pid),
        }
    }
    Ok(count)
}

/// Takes all space of the volume that holds `file`, by making the file grow. Bytes taken.
///
/// # Errors
/// The file cannot be made, or grows no further for another reason than want of space.
pub fn fill(file: &Path) -> anyhow::Result<u64> {
    let opened = fs::File::options().create(true).append(true).open(file)?;
    let mut size = opened.metadata()?.len();
    let mut piece = 1 << 30;
    while piece >= 4096 {
        match rustix::fs::fallocate(&opened, rustix::fs::FallocateFlags::empty(), size, piece) {
            Ok(()) => size += piece,
            Err(rustix::io::Errno::NOSPC) => piece /= 2,
            Err(error) => anyhow::bail!("grow {}: {error}", file.display()),
        }
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "41 (a (b) c) S 7 41 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 123456 1000000 250 18446744073709551615 0";

    #[test]
    fn a_process_is_read_whatever_its_name_holds() {
        let process = parse(41, STAT).unwrap();
        assert_eq!((process.name.as_str(), process.state, process.parent), ("a (b) c", 'S', 7));
        assert_eq!(process.began, 123_456);
        assert_eq!(memory("Name:\tx\nVmRSS:\t  1000 kB\n"), Some(1000));
        assert!(parse(1, "1 (x").is_none());
    }

    #[test]
    fn this_process_is_seen_with_its_open_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("member/snap/db");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let own = |sample: &Sample| {
            let pid = i32::try_from(std::process::id()).unwrap();
            sample.processes.iter().find(|process| process.pid == pid).unwrap().clone()
        };
        let before = Sample::take();
        let _open = fs::File::create(&path).unwrap();
        let after = Sample::take();
        assert_eq!(own(&after).database.as_deref(), path.to_str());
        assert!(own(&after).descriptors > Some(2) && own(&after).memory > 0);
        assert!(after.differs(&before));
        let mut heavier = after.clone();
        heavier.processes.iter_mut().for_each(|process| process.memory += 1);
        assert!(!heavier.differs(&after));
    }
}
