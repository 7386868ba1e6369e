// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The last exits, `<state-dir>/exit_history.jsonl`: one record a line, best effort. Nothing here is ever a reason to
//! fail or to wait. Blocks: meant for the disk thread.
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::durable;
use crate::file_error::FileError;

use super::record::{ExitRecord, LONGEST};

/// How many records are kept.
pub const KEPT: usize = 64;

/// Where the history of a state directory lies.
pub fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("exit_history.jsonl")
}

/// The records that can be read, oldest first, at most `KEPT`. Lines that are none are left out; a file that cannot
/// be read has none. Of a huge file only the end is looked at.
pub fn read(state_dir: &Path) -> Vec<ExitRecord> {
    let text = tail(&path(state_dir)).unwrap_or_default();
    let mut records: Vec<ExitRecord> =
        text.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    records.drain(..records.len().saturating_sub(KEPT));
    records
}

/// Adds a record and drops the oldest beyond `KEPT`, together with lines that are no records.
///
/// # Errors
/// Only worth a debug line: the old history is still there.
pub fn append(state_dir: &Path, record: &ExitRecord) -> Result<(), FileError> {
    let mut records = read(state_dir);
    if records.len() == KEPT {
        records.remove(0);
    }
    let mut text = String::new();
    for record in records.iter().chain([record]) {
        text.push_str(&record.line());
        text.push('\n');
    }
    durable::write(&path(state_dir), text.as_bytes(), 0o600)
}

fn tail(path: &Path) -> std::io::Result<Vec<u8>> {
    let longest = (KEPT * (LONGEST + 1)) as u64;
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(longest)))?;
    let mut text = Vec::new();
    file.take(longest).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::exit::ExitCode;
    use crate::exit::record::End;
    use crate::supervise::view::Phase;

    fn record(generation: u64) -> ExitRecord {
        let end = End {
            code: ExitCode::EtcdEnded,
            phase: Phase::Running,
            generation,
            uptime: Duration::from_secs(1),
            etcd: None,
            error: None,
        };
        ExitRecord::new(end, SystemTime::UNIX_EPOCH)
    }

    fn generations(dir: &Path) -> Vec<u64> {
        read(dir).iter().map(|record| record.generation).collect()
    }

    #[test]
    fn the_last_64_exits_are_kept_oldest_first() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), []);
        for generation in 0..70 {
            append(dir.path(), &record(generation)).unwrap();
        }
        assert_eq!(generations(dir.path()), (6..70).collect::<Vec<_>>());
    }

    #[test]
    fn garbage_and_a_cut_line_are_survived() {
        let dir = tempfile::tempdir().unwrap();
        append(dir.path(), &record(1)).unwrap();
        let mut bytes = std::fs::read(path(dir.path())).unwrap();
        bytes.extend_from_slice(b"\xff\xfe not JSON\n{}\n{\"time\":\"cut");
        std::fs::write(path(dir.path()), bytes).unwrap();
        assert_eq!(generations(dir.path()), [1]);
        append(dir.path(), &record(2)).unwrap();
        assert_eq!(generations(dir.path()), [1, 2]);
    }

    #[test]
    fn of_a_huge_file_only_the_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("{}\n{}\n", "x".repeat(1 << 20), record(9).line());
        std::fs::write(path(dir.path()), text).unwrap();
        assert_eq!(generations(dir.path()), [9]);
        assert!(tail(&path(dir.path())).unwrap().len() < 300_000);
    }

    #[test]
    fn a_folder_in_the_way_is_an_error_and_no_panic() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(path(dir.path())).unwrap();
        assert_eq!(read(dir.path()), []);
        append(dir.path(), &record(1)).unwrap_err();
    }
}
