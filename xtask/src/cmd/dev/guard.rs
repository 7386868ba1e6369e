// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A second process that clears up when the first one is killed hard (SIGKILL, out of memory): nothing of ours could
//! run then. It is told over a pipe what there is, and acts when that pipe ends without a goodbye. A parent-death
//! signal would need unsafe code between fork and exec, and would not remove the folder.

use std::io::{BufRead, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::sh::Step;

use super::fleet::GRACE;

/// Told by `cargo xtask dev` over stdin; of no use to anybody else
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// The guard as the guarded sees it.
pub(super) struct Guard {
    process: Child,
    pipe: ChildStdin,
}

impl Guard {
    /// Starts the guard of `folder`.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        // Not by its path: cargo may have replaced the file meanwhile.
        let mut process = Step::new("/proc/self/exe").arg("dev-guard").start_listening()?;
        let pipe = process.stdin.take().context("the guard has no stdin")?;
        let mut guard = Self { process, pipe };
        guard.tell(&format!("folder {}", folder.display()))?;
        Ok(guard)
    }

    /// Adds a process to stop.
    pub(super) fn add(&mut self, pid: u32) -> Result<()> {
        self.tell(&format!("process {pid}"))
    }

    /// Sends it home: we have cleared up ourselves.
    pub(super) fn dismiss(mut self) -> Result<()> {
        self.tell("done")?;
        drop(self.pipe);
        self.process.wait().context("wait for the guard")?;
        Ok(())
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        writeln!(self.pipe, "{line}").context("tell the guard what to clear up")
    }
}

/// What is left to clear up.
#[derive(Debug, Default)]
struct Left {
    folder: Option<PathBuf>,
    processes: Vec<OwnedFd>,
}

pub(crate) fn run(_: &Args) -> Result<ExitCode> {
    if let Some(left) = listen(std::io::stdin().lock()) {
        clear(left);
    }
    Ok(ExitCode::SUCCESS)
}

/// Listens until the pipe ends; `None` after a goodbye.
fn listen(pipe: impl BufRead) -> Option<Left> {
    let mut left = Left::default();
    for line in pipe.lines().map_while(Result::ok) {
        match line.split_once(' ') {
            Some(("folder", path)) => left.folder = Some(PathBuf::from(path)),
            Some(("process", pid)) => left.processes.extend(pid.parse().ok().and_then(open)),
            _ if line == "done" => return None,
            _ => {}
        }
    }
    Some(left)
}

fn clear(left: Left) {
    for process in &left.processes {
        // Whoever is gone already needs no signal.
        let _ = pidfd_send_signal(process, Signal::TERM);
    }
    let deadline = Instant::now() + GRACE;
    for process in &left.processes {
        if !has_ended(process, deadline.saturating_duration_since(Instant::now())) {
            let _ = pidfd_send_signal(process, Signal::KILL);
            has_ended(process, Duration::from_secs(2));
        }
    }
    if let Some(folder) = left.folder {
        // There is nobody left who could be told of an error.
        let _ = remove(&folder);
    }
}

/// A descriptor that means this process and no later one with its number.
pub(super) fn open(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}

/// Waits for the end of a process, child or not.
fn has_ended(process: &OwnedFd, patience: Duration) -> bool {
    let patience =
        Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: i64::from(patience.subsec_nanos()) };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&patience)).is_ok_and(|ready| ready > 0)
}

/// Removes the folder. An etcd that was killed with its wrapper may still write for a moment.
pub(super) fn remove(folder: &Path) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(3);
    loop {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > deadline => {
                return Err(error).with_context(|| format!("remove {}", folder.display()));
            }
            Err(_) => std::thread::park_timeout(Duration::from_millis(50)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn after_a_goodbye_nothing_is_touched() {
        assert!(listen(&b"folder /x\nprocess 1\ndone\n"[..]).is_none());
    }

    #[test]
    fn without_a_goodbye_processes_and_folder_are_gone() {
        let folder = tempfile::tempdir().unwrap().keep();
        // One that goes when asked, and one that has to be killed is too slow for a test of the pure road.
        let mut child = Step::new("sleep").arg("600").start(Stdio::null(), Stdio::null()).unwrap();
        let told = format!("folder {}\nprocess {}\n", folder.display(), child.id());
        clear(listen(told.as_bytes()).unwrap());
        assert!(child.try_wait().unwrap().is_some(), "still running");
        assert!(!folder.exists());
    }

    #[test]
    fn a_pipe_that_breaks_in_the_middle_of_a_line_still_names_what_came_before() {
        let left = listen(&b"folder /x\nproc"[..]).unwrap();
        assert_eq!(left.folder, Some(PathBuf::from("/x")));
        assert!(left.processes.is_empty());
    }
}
