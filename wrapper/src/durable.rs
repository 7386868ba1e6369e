// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Durable steps on single files (safety.md 11): after a success the step survives a power loss, after an error no
//! half-written file is left. Knows nothing of what the files mean. Blocks: meant for the disk thread.
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::file_error::FileError;

/// Replaces `path` by a file with exactly these bytes and this mode: temporary name in the same folder, fsync, rename,
/// fsync of the folder. Has one writer a path at a time.
///
/// # Errors
/// Names path, mode, owner and our uid. The temporary file is gone then, and what was at `path` before is untouched,
/// unless only the folder's fsync failed: then the new file is there, but may not survive a power loss.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    write_with(path, mode, |file| file.write_all(bytes))
}

/// Removes `path` and makes that durable. An absent file is fine; the folder is synced all the same, because the
/// process that removed it may have died before its own fsync.
///
/// # Errors
/// Names path, mode, owner and our uid; also when `path` is a folder.
pub fn remove(path: &Path) -> Result<(), FileError> {
    match std::fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(FileError::new("remove", path, error)),
    }
    match sync_folder(path) {
        // No folder, nothing that could come back.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(FileError::new("make durable the removal of", path, error)),
        Ok(()) => Ok(()),
    }
}

/// The seam that lets a test play a full disk.
fn write_with(
    path: &Path,
    mode: u32,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), FileError> {
    let temporary = temporary_name(path);
    let filled = fill_temporary(&temporary, mode, fill).and_then(|()| std::fs::rename(&temporary, path));
    if let Err(error) = filled {
        // Best effort: the error worth telling is the first one.
        let _ = std::fs::remove_file(&temporary);
        return Err(FileError::new("write", path, error));
    }
    sync_folder(path).map_err(|error| FileError::new("make durable", path, error))
}

fn fill_temporary(
    temporary: &Path,
    mode: u32,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    match std::fs::remove_file(temporary) {
        Ok(()) => {}
        // Left by a process that died in the middle; a fixed name keeps such leftovers from piling up.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(temporary)?;
    // Again, because the umask took its share at the creation.
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    fill(&mut file)?;
    file.sync_all()
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

/// Fsyncs the folder that holds `path`.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    match File::open(folder)?.sync_all() {
        // Some file systems have no fsync for folders and say so; there is nothing more that could be done on them.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::OPNOTSUPP)) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_write_replaces_the_file_with_the_exact_mode_and_leaves_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("exit_code");
        std::fs::write(&path, "something longer than the new text").unwrap();
        write(&path, b"terminated", 0o604).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"terminated");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o604);
        assert_eq!(names(dir.path()), ["exit_code"]);
    }

    #[test]
    fn b5_a_full_disk_leaves_the_old_file_and_no_half_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("exit_code");
        std::fs::write(&path, "old").unwrap();
        let error = write_with(&path, 0o600, |file| {
            file.write_all(b"termi")?;
            Err(Errno::NOSPC.into())
        })
        .unwrap_err();
        assert_eq!(Errno::from_io_error(error.io_error()), Some(Errno::NOSPC));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["exit_code"]);
    }

    #[test]
    fn a_leftover_temporary_file_is_replaced_and_a_planted_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("hold"), dir.path().join("target"));
        std::fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join(".hold.tmp")).unwrap();
        write(&path, b"reason", 0o600).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
        assert_eq!(std::fs::read(&path).unwrap(), b"reason");
    }

    #[test]
    fn removing_what_is_absent_is_fine_and_a_folder_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        remove(&dir.path().join("nothing")).unwrap();
        remove(&dir.path().join("no/folder")).unwrap();
        let folder = dir.path().join("exit_code");
        std::fs::create_dir(&folder).unwrap();
        let message = remove(&folder).unwrap_err().to_string();
        assert!(message.contains("exit_code") && message.contains("mode 0"), "{message}");
    }
}
