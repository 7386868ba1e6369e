// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The two locks that say who owns the data directory (safety.md 8): our own on `etcd.lock`, and the one that an etcd
//! holds on its database. Takes, tries and tells who holds them; never ends a holder. Blocks: meant for the disk thread.
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::file_error::FileError;

/// The lock on `<state-dir>/etcd.lock`. It lives as long as any descriptor of the same opening does: the child gets
/// one too, so that an etcd whose wrapper died keeps the lock.
#[derive(Debug)]
pub struct StateLock {
    file: File,
}

/// A process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Its short name; empty where it cannot be read.
    pub comm: String,
}

/// Why the lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody holds it: wait, say so, end nobody.
    #[error("{} is held by {}", .path.display(), describe(.holder.as_ref()))]
    Held {
        /// Of the lock.
        path: PathBuf,
        /// None: it cannot be told.
        holder: Option<Holder>,
    },
    /// The state directory does not let us: waiting will not help.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The lock of the database in a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DbLock {
    /// There is a database, and nobody holds it.
    Free,
    /// An etcd, or a tool that opened the database for writing, holds it.
    Held(Option<Holder>),
    /// There is no database yet.
    Absent,
}

impl StateLock {
    /// Tries once, without waiting.
    ///
    /// # Errors
    /// `Held` with the holder as far as it can be seen, or the file cannot be opened or created.
    pub fn try_take(state_dir: &Path) -> Result<Self, LockError> {
        let path = state_dir.join("etcd.lock");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(careful())
            .open(&path)
            .map_err(|error| FileError::new("open the lock file", &path, error))?;
        if take(&file).map_err(|error| FileError::new("lock", &path, error))? {
            Ok(Self { file })
        } else {
            Err(LockError::Held { holder: holder(&file), path })
        }
    }
}

/// The descriptor to hand to the child. It is close-on-exec, so that no other program we run can keep the lock by
/// accident: clear that flag in the child, between fork and exec.
impl AsFd for StateLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Tries the lock of `<data-dir>/member/snap/db` and lets go of it at once. bbolt, etcd's storage, takes it by flock(2)
/// without a time limit, so a second etcd hangs there for ever, silently.
///
/// # Errors
/// The database is there and cannot be opened or locked.
pub fn probe_db(data_dir: &Path) -> Result<DbLock, FileError> {
    let path = data_dir.join("member/snap/db");
    let open = |write: bool| OpenOptions::new().read(true).write(write).custom_flags(careful()).open(&path);
    let file = match open(true) {
        // An exclusive lock needs no right to write, except on NFS.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open(false),
        other => other,
    };
    let file = match file {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(DbLock::Absent);
        }
        Err(error) => return Err(FileError::new("open the database", &path, error)),
    };
    if take(&file).map_err(|error| FileError::new("lock", &path, error))? {
        // Closing it releases it: this opening has no other descriptor.
        Ok(DbLock::Free)
    } else {
        Ok(DbLock::Held(holder(&file)))
    }
}

/// "etcd (pid 12)" for messages.
pub fn describe(holder: Option<&Holder>) -> String {
    match holder {
        Some(Holder { pid, comm }) => format!("{comm} (pid {pid})"),
        None => "a process that cannot be seen from here".to_owned(),
    }
}

/// Neither links that lead elsewhere nor pipes that block.
fn careful() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}

/// False: somebody else has it.
fn take(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Best effort. The descriptors in /proc come first: `/proc/locks` knows only the process that once took the lock,
/// not an orphan that inherited it, and not processes of other users' descriptors.
fn holder(file: &File) -> Option<Holder> {
    let metadata = file.metadata().ok()?;
    let pid = by_descriptor(metadata.dev(), metadata.ino()).or_else(|| by_table(metadata.ino()))?;
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(Holder { pid, comm: comm.trim_end().to_owned() })
}

/// The process with a descriptor of this file whose `fdinfo` shows a flock.
fn by_descriptor(dev: u64, ino: u64) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?;
    processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|pid| {
        let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        descriptors.flatten().any(|descriptor| {
            let same = std::fs::metadata(descriptor.path())
                .is_ok_and(|metadata| metadata.dev() == dev && metadata.ino() == ino);
            let name = descriptor.file_name();
            same && std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", name.to_string_lossy()))
                .is_ok_and(|text| {
                    text.lines().any(|line| line.starts_with("lock:") && line.contains("FLOCK"))
                })
        })
    })
}

/// The process that `/proc/locks` names. Only the inode is compared: the device number shown there differs from
/// stat's on some file systems.
fn by_table(ino: u64) -> Option<u32> {
    let table = std::fs::read_to_string("/proc/locks").ok()?;
    table.lines().find_map(|line| in_table(line, ino))
}

/// A line reads `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`; the pid is 0 for a process of another namespace.
fn in_table(line: &str, ino: u64) -> Option<u32> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let &[_, "FLOCK", _, "WRITE", pid, file, ..] = fields.as_slice() else { return None };
    let inode = file.rsplit(':').next()?.parse::<u64>().ok()?;
    pid.parse().ok().filter(|&pid| pid != 0 && inode == ino)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_second_opening_is_told_who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let first = StateLock::try_take(dir.path()).unwrap();
        let error = StateLock::try_take(dir.path()).unwrap_err();
        assert!(error.to_string().contains(&format!("(pid {})", std::process::id())), "{error}");
        assert!(error.to_string().contains("etcd.lock is held by"), "{error}");
        drop(first);
        StateLock::try_take(dir.path()).unwrap();
    }

    #[test]
    fn a_child_that_inherited_the_descriptor_keeps_the_lock_of_a_dead_wrapper() {
        let dir = tempfile::tempdir().unwrap();
        let lock = StateLock::try_take(dir.path()).unwrap();
        rustix::io::fcntl_setfd(&lock, rustix::io::FdFlags::empty()).unwrap();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        drop(lock);
        let seen = StateLock::try_take(dir.path());
        child.kill().unwrap();
        child.wait().unwrap();
        match seen {
            Err(LockError::Held { holder, .. }) => {
                assert_eq!(holder, Some(Holder { pid: child.id(), comm: "sleep".into() }));
            }
            other => panic!("the lock of a living child was not seen: {other:?}"),
        }
        StateLock::try_take(dir.path()).unwrap();
    }

    #[test]
    fn a_state_directory_that_is_none_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = StateLock::try_take(&dir.path().join("gone")).unwrap_err().to_string();
        assert!(error.contains("gone/etcd.lock") && error.contains("our uid"), "{error}");
    }

    #[test]
    fn f6_a_held_database_is_seen_and_a_free_one_is_let_go_at_once() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(probe_db(dir.path()).unwrap(), DbLock::Absent);
        std::fs::create_dir_all(dir.path().join("member/snap")).unwrap();
        let db = dir.path().join("member/snap/db");
        std::fs::write(&db, "x").unwrap();
        assert_eq!(probe_db(dir.path()).unwrap(), DbLock::Free);
        assert_eq!(probe_db(dir.path()).unwrap(), DbLock::Free);

        let etcd = File::open(&db).unwrap();
        assert!(take(&etcd).unwrap());
        match probe_db(dir.path()).unwrap() {
            DbLock::Held(Some(holder)) => assert_eq!(holder.pid, std::process::id()),
            other => panic!("held by us, yet {other:?}"),
        }
    }

    #[test]
    fn the_table_of_locks_is_read_by_inode_and_kind() {
        let line = "3: FLOCK  ADVISORY  WRITE 4711 08:01:131090 0 EOF";
        assert_eq!(in_table(line, 131_090), Some(4711));
        assert_eq!(in_table(line, 1), None);
        assert_eq!(in_table("3: POSIX  ADVISORY  WRITE 4711 08:01:131090 0 EOF", 131_090), None);
        assert_eq!(in_table("3: FLOCK  ADVISORY  WRITE 0 08:01:131090 0 EOF", 131_090), None);
        assert_eq!(in_table("3: -> FLOCK", 131_090), None);
    }
}
