// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Looks at etcd's data directory and says whether etcd may start on it; removes it when told to. Repairs nothing,
//! and leaves the lock of the database to the double around it.
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use doubles::sidecar::Mode;

use crate::decide::Data;

mod bolt;
mod wal;

/// Looks at the directory; blocks on the disk. `Sanity` sees the structure and the head of the database, `Full` all
/// of the database's pages and of the log too.
pub(crate) fn look(data_dir: &Path, mode: Mode) -> Data {
    match std::fs::symlink_metadata(data_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Data::Absent,
        Err(error) => return Data::Spoilt(format!("{} cannot be looked at: {error}", data_dir.display())),
        Ok(_) => {}
    }
    let (snap, wal) = (data_dir.join("member/snap"), data_dir.join("member/wal"));
    for folder in [&snap, &wal] {
        if !folder.is_dir() {
            return Data::Spoilt(format!("{} is missing", folder.display()));
        }
    }
    let seen = bolt::check(&snap.join("db"), mode).and_then(|()| match mode {
        Mode::Full => wal::check(&wal),
        Mode::Sanity => Ok(()),
    });
    seen.map_or_else(|error| Data::Spoilt(format!("{error:#}")), |()| Data::Sound)
}

/// Removes the directory with all that is in it; fine when there is none.
pub(crate) fn remove(data_dir: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(data_dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", data_dir.display()))
        }
        _ => Ok(()),
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("read {}", path.display()))
}

/// Names and paths of the files in a folder that end so, sorted by name.
fn files(folder: &Path, suffix: &str) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let list = || format!("list {}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(list)? {
        let entry = entry.with_context(list)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(suffix) {
            found.push((name, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(folder: &Path) {
        for part in ["member/snap", "member/wal"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        std::fs::write(folder.join("member/snap/db"), bolt::tests::database()).unwrap();
        std::fs::write(folder.join("member/wal").join(wal::tests::NAME), wal::tests::log()).unwrap();
    }

    #[test]
    fn what_is_not_there_is_absent_and_what_is_whole_is_sound() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("new.etcd");
        assert_eq!(look(&data, Mode::Full), Data::Absent);
        whole(&data);
        assert_eq!(look(&data, Mode::Full), Data::Sound);
        remove(&data).unwrap();
        remove(&data).unwrap();
        assert_eq!(look(&data, Mode::Sanity), Data::Absent);
    }

    #[test]
    fn a_directory_without_its_parts_is_spoilt() {
        for part in ["member", "member/snap", "member/wal", "member/snap/db"] {
            let folder = tempfile::tempdir().unwrap();
            whole(folder.path());
            let gone = folder.path().join(part);
            if gone.is_dir() { remove(&gone) } else { std::fs::remove_file(&gone).map_err(Into::into) }
                .unwrap();
            let Data::Spoilt(why) = look(folder.path(), Mode::Sanity) else { panic!("{part} is not missed") };
            assert!(why.contains("member"), "{why}");
        }
    }

    #[test]
    fn a_spoilt_log_is_seen_by_a_full_look_alone() {
        let folder = tempfile::tempdir().unwrap();
        whole(folder.path());
        let log = folder.path().join("member/wal").join(wal::tests::NAME);
        std::fs::write(&log, vec![0; 4096]).unwrap();
        assert_eq!(look(folder.path(), Mode::Sanity), Data::Sound);
        assert!(matches!(look(folder.path(), Mode::Full), Data::Spoilt(_)));
    }
}
