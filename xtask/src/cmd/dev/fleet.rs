// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The processes of one run, from their start to the last one's end. A wrapper is stopped by one SIGTERM, as a
//! kubelet would; etcd itself is its wrapper's alone and never touched from here. Nothing is restarted.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Signal, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::sh::{self, Step};

use super::config_map;
use super::guard::{self, Guard};
use super::pki::Pki;
use super::plan::{Member, Plan};
use super::probe::{Probe, View};
use super::programs::{Programs, Role, meaning, sidecar, wrapper};
use super::screen::{Screen, row};

/// What a wrapper has to end after SIGTERM, as in a pod.
pub(super) const GRACE: Duration = Duration::from_secs(30);
/// What it has after the second signal, which makes it end within 1 s.
const FORCED_GRACE: Duration = Duration::from_secs(3);
/// Exit code of what was stopped by force, as a shell has it for SIGINT.
const FORCED: u8 = 130;
/// How often each wrapper is looked at.
const LOOK: Duration = Duration::from_millis(300);
/// Lines of a wrapper's log shown when it ended by itself.
const TAIL: usize = 15;
/// Characters shown of each of them.
const WIDTH: usize = 240;

struct Process {
    member: usize,
    role: Role,
    /// Signals go through it, so that none can hit a later process with the same number.
    pidfd: OwnedFd,
    log: Option<PathBuf>,
    alive: bool,
}

enum Event {
    /// Somebody wants us to end.
    Asked,
    Ended(usize, ExitStatus),
    Seen(usize, View),
    Log(String),
}

/// All processes, their folder, and what happens to them.
pub(super) struct Fleet {
    root: PathBuf,
    /// Until it is removed.
    folder: Option<TempDir>,
    programs: Programs,
    logs: bool,
    processes: Vec<Process>,
    guard: Option<Guard>,
    events: Receiver<Event>,
    sender: Sender<Event>,
}

impl Fleet {
    /// An empty fleet with a new folder. From here on signals are heard, and the guard watches: nothing is made
    /// before that which a signal could leave behind.
    pub(super) fn new(programs: Programs, logs: bool) -> Result<Self> {
        let (sender, events) = mpsc::channel();
        let mut signals =
            signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).context("catch signals")?;
        let asked = sender.clone();
        std::thread::spawn(move || signals.forever().all(|_| asked.send(Event::Asked).is_ok()));
        let folder = tempfile::Builder::new()
            .prefix("etcd-wrapper-dev-")
            .tempdir()
            .context("make a temporary folder for the members")?;
        let guard = Guard::start(folder.path())?;
        Ok(Self {
            root: folder.path().to_owned(),
            folder: Some(folder),
            programs,
            logs,
            processes: Vec::new(),
            guard: Some(guard),
            events,
            sender,
        })
    }

    /// The folder that everything of this run lies in.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Makes a member's folders and files, and starts its sidecar and its wrapper.
    pub(super) fn start(&mut self, plan: &Plan, index: usize, pki: Option<&Pki>) -> Result<()> {
        let member = &plan.members[index];
        for folder in [&member.folder.join("data"), &member.state_dir(), &member.home()] {
            std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        }
        let map = member.config_map();
        std::fs::write(&map, config_map::render(plan, index, pki))
            .with_context(|| format!("write {}", map.display()))?;
        self.launch(member, index, Role::Sidecar, sidecar(&self.programs, member, pki))?;
        self.launch(member, index, Role::Wrapper, wrapper(&self.programs, member, pki))
    }

    fn launch(&mut self, member: &Member, index: usize, role: Role, step: Step) -> Result<()> {
        let path = member.folder.join(format!("{}.log", role.name()));
        let (stdout, stderr) = if self.logs {
            (Stdio::piped(), Stdio::piped())
        } else {
            let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
            (Stdio::from(file.try_clone()?), Stdio::from(file))
        };
        let mut child = step.start(stdout, stderr)?;
        let source = format!("{} {}", member.name, role.name());
        if let Some(out) = child.stdout.take() {
            relay(source.clone(), out, self.sender.clone());
        }
        if let Some(err) = child.stderr.take() {
            relay(source.clone(), err, self.sender.clone());
        }
        let pidfd = guard::open(child.id()).with_context(|| format!("open a pidfd of {source}"));
        let told = self.guard.as_mut().map_or(Ok(()), |guard| guard.add(child.id()));
        let number = self.processes.len();
        let (pidfd, ()) = match (pidfd, told) {
            (Ok(pidfd), Ok(())) => (pidfd, ()),
            (Err(error), _) | (_, Err(error)) => {
                // Not in the fleet yet: nobody else would stop it.
                child.kill().and_then(|()| child.wait()).with_context(|| format!("end {source}"))?;
                return Err(error);
            }
        };
        let log = (!self.logs).then_some(path);
        self.processes.push(Process { member: index, role, pidfd, log, alive: true });
        let ended = self.sender.clone();
        std::thread::spawn(move || {
            if let Ok(status) = child.wait() {
                // The fleet may be gone: then nobody needs to know.
                let _ = ended.send(Event::Ended(number, status));
            }
        });
        Ok(())
    }

    /// Shows what happens until it is over, clears up, and returns our exit code.
    pub(super) fn watch(mut self, plan: &Plan, pki: Option<&Pki>, screen: &mut Screen) -> Result<ExitCode> {
        for (index, member) in plan.members.iter().enumerate() {
            look_often(
                index,
                Probe::new(member.ports.wrapper, pki.map(|pki| pki.client_ca.as_path()))?,
                self.sender.clone(),
            );
        }
        let mut views: Vec<Option<View>> = plan.members.iter().map(|_| Some(View::default())).collect();
        let mut stopping: Option<Stopping> = None;
        loop {
            let rows = plan.members.iter().zip(&views).map(|(member, view)| match view {
                Some(view) => row(&member.name, view),
                None => format!("{}  ended", member.name),
            });
            screen.members(rows.collect());
            if !self.alive(Role::Wrapper) {
                break;
            }
            if screen.is_gone() && stopping.is_none() {
                stopping = Some(self.stop(screen));
            }
            match self.next(stopping.as_ref()) {
                Some(Event::Asked) => stopping = Some(self.asked(stopping, screen)),
                Some(Event::Seen(member, view)) => views[member] = views[member].as_ref().map(|_| view),
                Some(Event::Log(line)) => screen.line(&line),
                Some(Event::Ended(number, status)) => {
                    let process = &mut self.processes[number];
                    process.alive = false;
                    if process.role == Role::Wrapper {
                        views[process.member] = None;
                    }
                    tell_end(process, &plan.members[process.member].name, status, stopping.is_some(), screen);
                }
                None => stopping = Some(self.overdue(stopping, screen)),
            }
        }
        if stopping.is_none() {
            screen.line("every member has ended by itself");
        }
        self.clear()?;
        Ok(match stopping {
            Some(Stopping { forced: false, .. }) => ExitCode::SUCCESS,
            Some(Stopping { forced: true, .. }) => ExitCode::from(FORCED),
            None => ExitCode::FAILURE,
        })
    }

    /// The next event; `None` when the deadline of a stop has passed.
    fn next(&self, stopping: Option<&Stopping>) -> Option<Event> {
        // Far away where there is none; we hold a sender, so the channel never closes.
        let deadline = stopping.map_or(Duration::from_secs(3600), |stopping| {
            stopping.deadline.saturating_duration_since(Instant::now())
        });
        match self.events.recv_timeout(deadline) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) if stopping.is_none() => self.events.recv().ok(),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    fn asked(&self, stopping: Option<Stopping>, screen: &mut Screen) -> Stopping {
        if stopping.is_none() {
            return self.stop(screen);
        }
        screen.line("forced: not waiting for etcd to close");
        self.signal(Role::Wrapper, Signal::TERM);
        Stopping { deadline: Instant::now() + FORCED_GRACE, forced: true }
    }

    fn stop(&self, screen: &mut Screen) -> Stopping {
        screen.line("stopping (Ctrl-C again does not wait)");
        self.signal(Role::Wrapper, Signal::TERM);
        Stopping { deadline: Instant::now() + GRACE, forced: false }
    }

    fn overdue(&self, stopping: Option<Stopping>, screen: &mut Screen) -> Stopping {
        if stopping.is_some_and(|stopping| !stopping.forced) {
            screen.line(&format!("still there after {} s", GRACE.as_secs()));
            return self.asked(Some(Stopping { deadline: Instant::now(), forced: true }), screen);
        }
        // A wrapper's etcd dies with it by the parent-death signal.
        self.signal(Role::Wrapper, Signal::KILL);
        Stopping { deadline: Instant::now() + FORCED_GRACE, forced: true }
    }

    fn alive(&self, role: Role) -> bool {
        self.processes.iter().any(|process| process.role == role && process.alive)
    }

    fn signal(&self, role: Role, signal: Signal) {
        for process in self.processes.iter().filter(|process| process.role == role && process.alive) {
            // It may have ended a moment ago: that is what the signal is for.
            let _ = pidfd_send_signal(&process.pidfd, signal);
        }
    }

    /// Waits for the ends of a role's processes. Returns whether all ended in time.
    fn ended(&mut self, role: Role, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while self.alive(role) {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Ended(number, _)) => self.processes[number].alive = false,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Ends what still runs and removes the folder. May be called again.
    fn clear(&mut self) -> Result<()> {
        // No wrapper is left after an orderly end; this is for an error on the way.
        self.signal(Role::Wrapper, Signal::KILL);
        self.signal(Role::Sidecar, Signal::TERM);
        if !self.ended(Role::Sidecar, FORCED_GRACE) {
            self.signal(Role::Sidecar, Signal::KILL);
        }
        let all = self.ended(Role::Wrapper, FORCED_GRACE) && self.ended(Role::Sidecar, FORCED_GRACE);
        if let Some(folder) = self.folder.take() {
            guard::remove(&folder.keep())?;
        }
        match self.guard.take() {
            // One that does not die is the guard's to watch on.
            Some(guard) if all => guard.dismiss(),
            _ => Ok(()),
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            eprintln!("error: {error:#}");
        }
    }
}

/// A stop under way.
struct Stopping {
    deadline: Instant,
    forced: bool,
}

/// Looks at a wrapper until nobody listens, and reports what changed.
fn look_often(member: usize, probe: Probe, to: Sender<Event>) {
    std::thread::spawn(move || {
        let mut last = View::default();
        loop {
            let view = probe.look();
            if view != last {
                last = view.clone();
                if to.send(Event::Seen(member, view)).is_err() {
                    return;
                }
            }
            std::thread::park_timeout(LOOK);
        }
    });
}

/// Passes a program's lines on. Always read to the end: a full pipe would freeze etcd.
fn relay(source: String, from: impl Read + Send + 'static, to: Sender<Event>) {
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = format!("{source} | {}", String::from_utf8_lossy(&line).trim_end());
            line.clear();
            let _ = to.send(Event::Log(text));
        }
    });
}

fn tell_end<W: std::io::Write>(
    process: &Process,
    member: &str,
    status: ExitStatus,
    asked: bool,
    screen: &mut Screen<W>,
) {
    let name = process.role.name();
    if asked {
        // The expected end needs no word.
        if process.role == Role::Wrapper && !status.success() {
            screen.line(&format!("{member}: {name} ended with {}{}", sh::ended(status), meaning(status)));
        }
        return;
    }
    let meaning = if process.role == Role::Wrapper { meaning(status) } else { String::new() };
    screen.line(&format!("{member}: {name} ended by itself: {}{meaning}", sh::ended(status)));
    // The file goes with the folder: now is the time to show its end.
    for line in process.log.as_deref().map(tail).unwrap_or_default() {
        screen.line(&format!("  | {line}"));
    }
}

fn tail(path: &Path) -> Vec<String> {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL)..];
    // etcd's lines are JSON documents of any length.
    last.iter().map(|line| line.chars().take(WIDTH).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_log_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, (0..100).map(|n| format!("line {n}\n")).collect::<String>()).unwrap();
        let shown = tail(&path);
        assert_eq!((shown.len(), shown[0].as_str()), (TAIL, "line 85"));
        assert!(tail(&folder.path().join("absent")).is_empty());
    }
}
