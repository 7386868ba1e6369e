// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! File modes of the data directory (contract.md §3): a walk that sets them before every start, and the question whether
//! the directory can be used at all. Which directory may be walked is decided before; this file refuses only the root of
//! the file system. Synchronous: for the thread that does the disk's work.
//!
//! The walk never follows a symbolic link below the directory, and changes a file only through a descriptor whose type
//! and owner it has looked at, so nothing that is swapped in meanwhile can lead it elsewhere. It does cross mounts: a
//! volume mounted inside a data directory (a WAL of its own) belongs to etcd like the rest.
use std::ffi::{CStr, OsStr};
use std::fmt::Display;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;

#[cfg(test)]
mod tests;

/// Entries that a report describes one by one.
const DETAILS: usize = 16;

/// Bounds of one walk. The defaults are far beyond any etcd: they keep a strange directory from holding up the start.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Levels below the directory. Each holds one descriptor.
    pub depth: usize,
    /// As many are looked at.
    pub entries: u64,
    /// As long is spent.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 32, entries: 1_000_000, time: Duration::from_secs(5) }
    }
}

/// What a walk did and did not do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Entries looked at, of whatever kind.
    pub seen: u64,
    /// Modes that were wrong and are right now.
    pub changed: u64,
    /// Files and directories left as they are.
    pub skipped: u64,
    /// The first of those, as text for a warning: path, reason, mode, owner, our uid.
    pub details: Vec<String>,
    /// Why the walk did not reach everything.
    pub cut: Option<String>,
}

/// Sets all regular files at and below `data_dir` to 0600 and all directories to 0700. An absent directory is fine. What
/// belongs to another uid or cannot be changed is skipped, for root too; a foreign directory is still walked.
pub fn repair(data_dir: &Path, limits: &Limits) -> Report {
    let mut walk = Walk {
        limits,
        started: Instant::now(),
        uid: rustix::process::geteuid().as_raw(),
        path: data_dir.to_owned(),
        report: Report::default(),
    };
    match walk.root() {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => walk.skip(None, error, None),
    }
    walk.report
}

struct Walk<'a> {
    limits: &'a Limits,
    started: Instant,
    uid: u32,
    /// Of the directory being read; for texts only, never opened.
    path: PathBuf,
    report: Report,
}

impl Walk<'_> {
    /// The directory itself, which may be named by a symbolic link, as for etcd.
    fn root(&mut self) -> rustix::io::Result<()> {
        let root = rustix::fs::openat(
            CWD,
            &self.path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let stat = rustix::fs::fstat(&root)?;
        let top = rustix::fs::stat("/")?;
        if (stat.st_dev, stat.st_ino) == (top.st_dev, top.st_ino) {
            self.skip(None, "it is the root of the file system", Some(&stat));
            return Ok(());
        }
        self.report.seen += 1;
        if self.is_ours(None, &stat) && permissions(&stat) != Mode::RWXU {
            match change(&root, Mode::RWXU) {
                Ok(()) => self.report.changed += 1,
                Err(error) => self.skip(None, error, Some(&stat)),
            }
        }
        self.directory(open_directory(&root, c".")?, 0);
        Ok(())
    }

    fn directory(&mut self, directory: OwnedFd, depth: usize) {
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut entries = RawDir::new(directory.as_fd(), &mut buffer);
        while let Some(entry) = entries.next() {
            if self.is_over() {
                return;
            }
            match entry {
                Ok(entry) => {
                    let name = entry.file_name();
                    let plain = matches!(
                        entry.file_type(),
                        FileType::RegularFile | FileType::Directory | FileType::Unknown
                    );
                    if name == c"." || name == c".." {
                        continue;
                    }
                    self.report.seen += 1;
                    // Links, sockets and devices have no mode that we would set.
                    if plain {
                        self.entry(&directory, name, depth);
                    }
                }
                Err(error) => {
                    self.skip(None, error, None);
                    return;
                }
            }
        }
    }

    fn entry(&mut self, parent: &OwnedFd, name: &CStr, depth: usize) {
        let stat = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // It is gone already.
            Err(Errno::NOENT) => return,
            Err(error) => return self.skip(Some(name), error, None),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let wanted = match kind {
            FileType::RegularFile => Mode::RUSR | Mode::WUSR,
            FileType::Directory => Mode::RWXU,
            _ => return,
        };
        if self.is_ours(Some(name), &stat) && permissions(&stat) != wanted {
            match self.change_entry(parent, name, kind, wanted) {
                Ok(true) => self.report.changed += 1,
                Ok(false) | Err(Errno::NOENT) => {}
                Err(error) => self.skip(Some(name), error, Some(&stat)),
            }
        }
        if kind != FileType::Directory {
            return;
        }
        if depth == self.limits.depth {
            let path = self.path.join(OsStr::from_bytes(name.to_bytes()));
            self.report.cut = Some(format!("{} lies deeper than {depth} levels", path.display()));
            return;
        }
        match open_directory(parent, name) {
            Ok(below) => {
                self.path.push(OsStr::from_bytes(name.to_bytes()));
                self.directory(below, depth + 1);
                self.path.pop();
            }
            Err(Errno::NOENT) => {}
            Err(error) => self.skip(Some(name), error, Some(&stat)),
        }
    }

    /// Changes what `name` stands for now, if it is still of this kind and ours; false if it is not.
    fn change_entry(
        &self,
        parent: &OwnedFd,
        name: &CStr,
        kind: FileType,
        wanted: Mode,
    ) -> rustix::io::Result<bool> {
        let entry = rustix::fs::openat(
            parent,
            name,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let stat = rustix::fs::fstat(&entry)?;
        if FileType::from_raw_mode(stat.st_mode) != kind || stat.st_uid != self.uid {
            return Ok(false);
        }
        change(&entry, wanted).map(|()| true)
    }

    fn is_ours(&mut self, name: Option<&CStr>, stat: &Stat) -> bool {
        let ours = stat.st_uid == self.uid;
        if !ours {
            self.skip(name, "it belongs to another user", Some(stat));
        }
        ours
    }

    /// Whether number or time is used up.
    fn is_over(&mut self) -> bool {
        let Limits { entries, time, .. } = *self.limits;
        // A look at the clock for every entry would cost as much as the entry.
        let over = if self.report.seen >= entries {
            format!("more than {entries} entries")
        } else if self.report.seen.is_multiple_of(64) && self.started.elapsed() >= time {
            format!("more than {time:?} used")
        } else {
            return false;
        };
        self.report.cut = Some(over);
        true
    }

    fn skip(&mut self, name: Option<&CStr>, reason: impl Display, stat: Option<&Stat>) {
        self.report.skipped += 1;
        if self.report.details.len() == DETAILS {
            return;
        }
        let path =
            name.map_or_else(|| self.path.clone(), |name| self.path.join(OsStr::from_bytes(name.to_bytes())));
        let rights = stat.map_or_else(String::new, |stat| {
            format!("mode {:04o}, owner {}:{}, ", stat.st_mode & 0o7777, stat.st_uid, stat.st_gid)
        });
        self.report.details.push(format!("{}: {reason} ({rights}our uid {})", path.display(), self.uid));
    }
}

fn permissions(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777)
}

/// By way of /proc, since the descriptor was opened without any right to the file: so a file that its owner cannot read
/// (0000) is mended too, and a pipe or a device can never hang or be touched by the opening.
fn change(entry: &OwnedFd, mode: Mode) -> rustix::io::Result<()> {
    rustix::fs::chmod(format!("/proc/self/fd/{}", entry.as_raw_fd()), mode)
}

fn open_directory(parent: &OwnedFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Whether etcd and we can work in `dir` (`what` it is, for the text), or make it where it is absent. Ask after
/// [`repair`], which may mend it.
///
/// # Errors
/// Text for exit 12 with path, mode, owner and our uid (H4).
pub fn check_writable(what: &str, dir: &Path) -> Result<(), String> {
    let absolute = std::path::absolute(dir).map_err(|error| format!("{what} {}: {error}", dir.display()))?;
    let nearest =
        absolute.ancestors().find(|path| std::fs::symlink_metadata(path).is_ok()).unwrap_or(Path::new("/"));
    let usable = std::fs::metadata(nearest).and_then(|found| match found.is_dir() {
        true => Ok(rustix::fs::accessat(
            CWD,
            nearest,
            Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK,
            AtFlags::EACCESS,
        )?),
        false => Err(io::Error::from_raw_os_error(libc::ENOTDIR)),
    });
    usable.map_err(|error| {
        let place = if nearest == absolute {
            String::new()
        } else {
            format!("{} cannot be made in ", absolute.display())
        };
        format!("{what} {place}{}: {error}; it must be a directory that our uid may write", describe(nearest))
    })
}

/// A directory of ours: whatever its mode, [`repair`] makes it one that we can work in.
pub fn is_ours(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir)
        .is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw())
}

/// A path with what decides whether we may use it: mode, owner, our uid.
pub fn describe(path: &Path) -> String {
    let uid = rustix::process::geteuid();
    match std::fs::metadata(path) {
        Ok(found) => format!(
            "{} (mode {:04o}, owner {}:{}, our uid {uid})",
            path.display(),
            found.mode() & 0o7777,
            found.uid(),
            found.gid(),
        ),
        Err(_) => format!("{} (our uid {uid})", path.display()),
    }
}
