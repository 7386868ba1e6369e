// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Forks, signals and waits for the one child; the only file with `unsafe`, so the system calls of its neighbours that
//! need it stand here too. It decides nothing: when to start, to signal or to give up is the state machine's business. Nothing here relies on kill-on-drop (F4): dropping a
//! [`Child`] leaves the process alone, and the kernel's parent-death signal is the last net (F5).
//!
//! Needs Linux 5.4 (pidfd with `waitid`).
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::Mode;
use rustix::process::{Pid, PidfdFlags, Resource, WaitId, WaitIdOptions, WaitIdStatus};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::modes::describe;
use super::view::ExitStatus;

pub mod binary;
pub mod reaper;
#[cfg(test)]
pub(crate) mod rerun;
#[cfg(test)]
mod tests;

pub use rustix::process::Signal;

/// What a generation of etcd is started with. Everything else it gets from us: stdout, stderr and the working
/// directory (a relative data-dir must mean the same to both), and the environment but for `ETCD_*`.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Absolute, from [`binary::resolve_etcd`].
    pub program: &'a Path,
    /// Without the program's own name.
    pub args: &'a [OsString],
    /// Value of `NOTIFY_SOCKET`, from [`NotifySocket::address`](super::notify::NotifySocket::address).
    pub notify_socket: &'a OsStr,
    /// Holds the flock of `<state-dir>/etcd.lock`; the only descriptor above stderr that the child inherits, so that
    /// an orphan etcd keeps the lock (safety.md 8).
    pub lock: BorrowedFd<'a>,
}

/// etcd could not be started; nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
#[error("start {program}: {error}")]
pub struct SpawnError {
    /// Path, mode, owner and our uid.
    program: String,
    error: io::Error,
}

/// Starts etcd. Must be called on the main thread, inside the runtime: the parent-death signal fires when the *thread*
/// that forked ends.
///
/// # Errors
/// The program cannot be executed, or the machine has no room for a process or a descriptor (F8).
pub fn spawn(launch: &Launch<'_>) -> Result<Child, SpawnError> {
    let mut command = clean_command(launch.program);
    command.args(launch.args).env("NOTIFY_SOCKET", launch.notify_socket);
    match fork(&mut command, Some(launch.lock)) {
        Ok((child, _)) => Ok(child),
        Err(error) => Err(SpawnError { program: describe(launch.program), error }),
    }
}

/// A child process. At most one waits at a time; all methods are for the thread that owns it.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    pidfd: AsyncFd<OwnedFd>,
    /// Set once the process was reaped.
    status: Option<ExitStatus>,
}

impl Child {
    /// Process id in our own PID namespace.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// How it ended, as soon as it has; may be dropped and called again. An end whose status somebody else has taken
    /// counts as the worst one, killed by SIGKILL.
    pub async fn wait(&mut self) -> ExitStatus {
        loop {
            if let Some(status) = self.status {
                return status;
            }
            let Ok(mut guard) = self.pidfd.readable().await else {
                // The runtime is shutting down: nobody will see an answer.
                return std::future::pending().await;
            };
            match reaper::collect(self.pid, guard.get_inner().as_fd()) {
                Some(status) => self.status = Some(status),
                None => guard.clear_ready(),
            }
        }
    }

    /// Sends `signal`, never to a process that was reaped: neither here nor, should the number be in use again, to a
    /// stranger (the pidfd stands for this very process).
    ///
    /// # Errors
    /// `ESRCH` once the process has been reaped.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.status.is_some() {
            return Err(rustix::io::Errno::SRCH.into());
        }
        Ok(rustix::process::pidfd_send_signal(self.pidfd.get_ref(), signal)?)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // From now on it is an orphan like any other: the reaper may have its status.
        reaper::disown(self.pid);
    }
}

/// Ends a child whose [`Child`] was lost in a panic: SIGTERM, and SIGKILL after `grace`. True if it went by itself. Blocks:
/// for a process that is about to exit anyway. The child was not waited for, so the number is still its own.
pub fn end_abandoned(pid: u32, grace: Duration) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return true };
    let ended = |limit: Duration| {
        let limit = Timespec::try_from(limit).ok();
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        matches!(rustix::event::poll(&mut fds, limit.as_ref()), Ok(1..))
    };
    let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::TERM);
    if ended(grace) {
        return true;
    }
    let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
    ended(Duration::from_secs(1));
    false
}

/// A command with the environment etcd may see. `ETCD_*` would be taken for flags (Kubernetes itself injects such names
/// for a service called `etcd`), and a notify socket of our own parent is none of etcd's business.
fn clean_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"ETCD_") || name == "NOTIFY_SOCKET" {
            command.env_remove(name);
        }
    }
    if cfg!(target_arch = "aarch64") {
        // No flag but a consent: etcd 3.4 refuses to run on arm64 without it, later ones do not look at it.
        command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
    }
    command
}

/// Forks and executes `command` with our hygiene, and registers the child with the reaper. Stdout is handed back where
/// the command pipes it.
fn fork(command: &mut Command, inherit: Option<BorrowedFd<'_>>) -> io::Result<(Child, Option<ChildStdout>)> {
    keep_exit_statuses();
    let parent = rustix::process::getpid();
    let inherit = inherit.map(|fd| fd.as_raw_fd());
    command.stdin(Stdio::null()).process_group(0);
    #[expect(unsafe_code, reason = "the only hook between fork and exec")]
    // SAFETY: `prepare` makes system calls only; it takes no lock and allocates nothing.
    unsafe {
        command.pre_exec(move || prepare(parent, inherit));
    }
    let mut registered = reaper::registry();
    let mut spawned = command.spawn()?;
    let pid = Pid::from_child(&spawned);
    let watched =
        rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from).and_then(watch);
    match watched {
        Ok(pidfd) => {
            registered.insert(pid.as_raw_pid(), None);
            Ok((Child { pid, pidfd, status: None }, spawned.stdout.take()))
        }
        Err(error) => {
            // A child we could not watch must not live. It has not been waited for, so the number is still its own.
            let _ = spawned.kill();
            let _ = spawned.wait();
            Err(error)
        }
    }
}

#[expect(unsafe_code, reason = "tokio offers nothing else for foreign descriptors")]
fn watch(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays open, and the same number, until the `AsyncFd` that takes it is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }?)
}

/// The child's side, between fork and exec.
#[expect(unsafe_code, reason = "calls that rustix does not offer, on plain numbers")]
fn prepare(parent: Pid, inherit: Option<RawFd>) -> io::Result<()> {
    reset_signals();
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the line above; then nobody would ever end us (etcd.md 9).
    if rustix::process::getppid() != Some(parent) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused only where the hard limit exceeds the machine's own bound; etcd does better with the old limit than not at all.
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    // SAFETY: both calls touch nothing but the descriptor table of this new process. Ours are close-on-exec anyway; this
    // is for those that our own parent has left open. Before Linux 5.11 the first fails and they stay.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
        match inherit {
            Some(fd) if libc::fcntl(fd, libc::F_SETFD, 0) == -1 => Err(io::Error::last_os_error()),
            Some(_) | None => Ok(()),
        }
    }
}

/// Default action for every signal, and none blocked. Exec resets handlers by itself, but keeps what is ignored.
#[expect(unsafe_code, reason = "std and rustix have no signal dispositions")]
fn reset_signals() {
    // The kernel's `sigaction` (at most 32 bytes) with SIG_DFL, no flags, empty mask. Not the libc's function, which spares
    // two signals of its own.
    let default = [0_u64; 4];
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the kernel reads `default`, which outlives the call, and 8 is the size of its signal sets. SIG_DFL runs
        // no code of ours; for SIGKILL and SIGSTOP the call fails without effect.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                8_usize,
            )
        };
    }
    unblock_signals();
}

/// Unblocks all signals for this thread and those it starts later: a blocked SIGTERM, inherited from whoever started
/// us, would never arrive.
#[expect(unsafe_code, reason = "std and rustix have no signal masks")]
pub fn unblock_signals() {
    // SAFETY: an all-zero `sigset_t` is a valid place for `sigemptyset` to fill; both pointers outlive the calls.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// With SIGCHLD ignored, as a parent may have left it to us, the kernel throws exit statuses away.
#[expect(unsafe_code, reason = "std and rustix have no signal dispositions")]
fn keep_exit_statuses() {
    // SAFETY: an all-zero `sigaction` is a valid place for the old one; SIG_DFL runs no code of ours. A handler, which
    // the reaper may have installed, is left alone.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut old);
        if old.sa_sigaction == libc::SIG_IGN || old.sa_flags & libc::SA_NOCLDWAIT != 0 {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        }
    }
}

/// Reaps the process behind `pidfd` if it has ended. `Err` when it is not our child any more.
fn reap(pidfd: BorrowedFd<'_>) -> rustix::io::Result<Option<ExitStatus>> {
    let status =
        rustix::process::waitid(WaitId::PidFd(pidfd), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
    Ok(status.map(|status: WaitIdStatus| match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitStatus::Exited(code),
        (None, Some(signal)) => ExitStatus::Signaled(signal),
        (None, None) => unreachable!("waitid was asked for ended processes only"),
    }))
}

/// Takes one message from a datagram socket with SO_PASSCRED: its length, cut to the buffer, and the sender's pid, None
/// for a process that cannot be seen from our PID namespace. Descriptors sent along are closed by the kernel: there is
/// no room for them. Not rustix's `recvmsg`, whose pid must not be the 0 that the kernel reports for such a process.
#[expect(unsafe_code, reason = "see above")]
pub(super) fn receive(socket: BorrowedFd<'_>, message: &mut [u8]) -> io::Result<(usize, Option<u32>)> {
    let mut part = libc::iovec { iov_base: message.as_mut_ptr().cast(), iov_len: message.len() };
    // Exactly one `ucred`, aligned as its header wants it.
    let mut control = [0_u64; 4];
    // SAFETY: all-zero is a valid `msghdr`; its pointers are to `part`, `message` and `control`, which outlive the calls,
    // with their true lengths. The header that CMSG_FIRSTHDR finds lies within what the kernel wrote to `control`, and
    // its length is checked before the credentials are read.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let length =
            libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC);
        let Ok(length) = usize::try_from(length) else { return Err(io::Error::last_os_error()) };
        let found = libc::CMSG_FIRSTHDR(&header);
        let wanted = libc::CMSG_LEN(size_of::<libc::ucred>() as libc::c_uint);
        let credentials = !found.is_null()
            && (*found).cmsg_level == libc::SOL_SOCKET
            && (*found).cmsg_type == libc::SCM_CREDENTIALS
            && (*found).cmsg_len as usize >= wanted as usize;
        let sender = credentials.then(|| libc::CMSG_DATA(found).cast::<libc::ucred>().read_unaligned().pid);
        Ok((length, sender.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0)))
    }
}
