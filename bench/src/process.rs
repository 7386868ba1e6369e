// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Processes as /proc shows them, and programs that a run starts: each is gone when its guard is. The only place here
//! that starts, signals and waits.
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// Lines of a log that an error repeats.
const TAIL: usize = 3;

/// A running program whose output goes to a file. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    pub(crate) log: PathBuf,
    /// Right before the fork.
    pub(crate) began: Instant,
    ended: Option<ExitStatus>,
}

impl Program {
    /// Starts it in a process group of its own, so that a terminal's Ctrl-C reaches us alone.
    pub(crate) fn start(mut command: Command, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("create {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let began = Instant::now();
        let child =
            command.spawn().with_context(|| format!("start {}", command.get_program().to_string_lossy()))?;
        Ok(Self { child, log: log.to_owned(), began, ended: None })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        signal_to(self.pid(), signal)
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        if let Some(ended) = self.ended {
            return Ok(ended);
        }
        if !wait_gone(self.pid(), limit)? {
            bail!("process {} did not end within {limit:?}; {}", self.pid(), self.tail());
        }
        let status = self.child.wait().context("wait for a program")?;
        self.ended = Some(status);
        Ok(status)
    }

    /// An error once it has ended: whoever waits for something of it waits in vain then.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().context("look at a program")?;
        }
        match self.ended {
            None => Ok(()),
            Some(status) => bail!("it has ended, {}; {}", ended(status), self.tail()),
        }
    }

    /// The end of its log, for an error.
    pub(crate) fn tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let last: Vec<String> = lines[lines.len().saturating_sub(TAIL)..]
            .iter()
            .map(|line| line.chars().take(160).collect())
            .collect();
        format!("the end of its log: {}", last.join(" | "))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // It may have ended by itself a moment ago.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

fn pid(number: u32) -> Result<Pid> {
    Pid::from_raw(number.cast_signed()).context("0 is no process")
}

/// To a process that the caller knows to be one of its own.
pub(crate) fn signal_to(number: u32, signal: Signal) -> Result<()> {
    kill_process(pid(number)?, signal).with_context(|| format!("signal {signal:?} to process {number}"))
}

/// Waits until a process has ended; false: it has not within the limit. No polling, so the time is exact.
pub(crate) fn wait_gone(number: u32, limit: Duration) -> Result<bool> {
    let fd = match pidfd_open(pid(number)?, PidfdFlags::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::SRCH) => return Ok(true),
        Err(error) => return Err(error).context("open a pidfd"),
    };
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).context("a limit that is a time")?;
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("wait for a process"),
        }
    }
}

/// Memory in KiB by kind: `VmRSS`, `RssAnon`.
pub(crate) fn memory(number: u32, kind: &str) -> Result<f64> {
    let path = format!("/proc/{number}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let line =
        text.lines().find(|line| line.starts_with(kind)).with_context(|| format!("{path}: no {kind}"))?;
    line.split_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .with_context(|| format!("{path}: {line}"))
}

pub(crate) fn descriptors(number: u32) -> Result<usize> {
    let path = format!("/proc/{number}/fd");
    Ok(std::fs::read_dir(&path).with_context(|| format!("read {path}"))?.count())
}

/// Processor time of all living threads of a process, to the nanosecond.
pub(crate) fn processor_time(number: u32) -> Result<Duration> {
    let path = format!("/proc/{number}/task");
    let threads = std::fs::read_dir(&path).with_context(|| format!("read {path}"))?;
    let nanos = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Ok(Duration::from_nanos(nanos.sum()))
}

/// /proc counts processor time in these, on every architecture.
const TICKS_PER_SECOND: u64 = 100;

/// What this process, its living descendants, and all that it has waited for have used of the processors.
pub(crate) fn own() -> Duration {
    fn of(number: u32) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let Some((_, rest)) = text.rsplit_once(')') else { return 0 };
        // utime, stime, and both of the children that were waited for.
        let used: u64 =
            rest.split_whitespace().skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum();
        // Children are listed by the thread that forked them.
        let threads = std::fs::read_dir(format!("/proc/{number}/task")).into_iter().flatten().flatten();
        let children =
            threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
        let children: Vec<u32> = children
            .flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>())
            .collect();
        used + children.into_iter().map(of).sum::<u64>()
    }
    Duration::from_millis(of(std::process::id()) * 1000 / TICKS_PER_SECOND)
}

/// What all processors have done so far that was not idling.
pub(crate) fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let words = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in user already.
    let busy: u64 =
        ticks.iter().take(8).enumerate().filter(|(place, _)| !matches!(place, 3 | 4)).map(|(_, t)| t).sum();
    Duration::from_millis(busy * 1000 / TICKS_PER_SECOND)
}
