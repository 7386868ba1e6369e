// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Wrappers in namespaces of their own: as PID 1, or with mounts that only they see. Needs `unshare` (util-linux), and
//! root or user namespaces.
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use doubles::wait::{self, Poll};

use crate::scene::{SECOND, Wrapper, children};

/// `unshare` with these arguments, as whoever we are.
fn unshare(arguments: &[&str]) -> Command {
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.args(arguments).arg("--");
    unshare
}

/// Appends program, arguments and environment of `inner`.
fn wrap(mut outer: Command, inner: &Command) -> Command {
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer
}

/// The same command as PID 1 of a namespace of its own. Its parent is `unshare`, which ends as it does.
pub(crate) fn as_init(command: &Command) -> Command {
    wrap(unshare(&["--pid", "--fork", "--kill-child", "--mount-proc"]), command)
}

/// The pid, seen from here, of the wrapper that [`as_init`] started.
#[track_caller]
pub(crate) fn init_of(wrapper: &Wrapper<'_>) -> u32 {
    wait::until(SECOND * 5, "the namespace's first process", || {
        let child = children(wrapper.pid()).first().map(|(pid, _)| *pid);
        Poll::from_option(child, || "unshare has no child".into())
    })
}

/// The same command with mounts made by `script`, a piece of shell with `arguments` as `$1`, `$2`, ...; nobody else
/// sees them, and they go with the process.
pub(crate) fn with_mounts(command: &Command, script: &str, arguments: &[&Path]) -> Command {
    let mut outer = unshare(&["--mount"]);
    let shift = arguments.len();
    outer.args(["sh", "-ec", &format!("{script}\nshift {shift}\nexec \"$@\""), "sh"]).args(arguments);
    wrap(outer, command)
}

/// A folder as a process in another mount namespace sees it; stays usable when the process has ended.
#[derive(Debug)]
pub(crate) struct SeenFolder(File);

impl SeenFolder {
    #[track_caller]
    pub(crate) fn of(pid: u32, folder: &Path) -> Self {
        let inside = format!("/proc/{pid}/root{}", folder.display());
        Self(File::open(&inside).unwrap_or_else(|error| panic!("open {inside}: {error}")))
    }

    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}
