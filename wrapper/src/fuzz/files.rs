// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Files in the state directory, which older images, operators and half-dead disks write too.
use std::time::{Duration, SystemTime};

use super::{Folder, Target, assert_short, shape};
use crate::bootstrap::hold::Hold;
use crate::bootstrap::marker::{Found, Marker};
use crate::exit::record::{End, ExitRecord, LONGEST};
use crate::exit::{ExitCode, history};
use crate::supervise::view::Phase;

/// The lines of the history of exits.
pub const HISTORY: Target = Target {
    words: &[
        "{\"time\":\"2026-12-01T10:00:07Z\",\"code\":10,\"cause\":\"etcd_ended\",\"phase\":\"running\",",
        "\"generation\":1,\"uptime\":\"1.2s\",\"etcd\":null,\"hint\":\"x\"}",
        "\n",
        "{\"exitCode\":2,\"signal\":null,\"requested\":false,\"readySeen\":true}",
        "{}",
        "[",
        "\\ud800",
    ],
    longest: 64 * 1024,
    cases: 400,
    ..Target::new("history", run_history)
};

/// The marker of a clean end.
pub const MARKER: Target = Target {
    words: &["terminated", "interrupt", "\n", " ", "\0"],
    longest: 256,
    cases: 2000,
    ..Target::new("marker", run_marker)
};

/// The hold file.
pub const HOLD: Target = Target {
    words: &["owner:", "owner: backup-restore\n", "\n", "\r\n", " ", "\u{85}", "\u{2028}", "reason"],
    longest: 8 * 1024,
    cases: 1500,
    ..Target::new("hold", run_hold)
};

/// An exit history: whatever lies there, a record can be added, is the last one, and the file stays small.
pub fn run_history(input: &[u8]) -> u64 {
    let folder = Folder::new();
    std::fs::write(history::path(&folder.0), input).expect("a file can be written");
    let before = history::read(&folder.0);
    assert!(before.len() <= history::KEPT);
    let end = End {
        code: ExitCode::EtcdEnded,
        phase: Phase::Running,
        generation: 77,
        uptime: Duration::from_secs(1),
        etcd: None,
        error: None,
    };
    let ours = ExitRecord::new(end, SystemTime::UNIX_EPOCH);
    history::append(&folder.0, &ours).expect("whatever lay there does not matter");
    let after = history::read(&folder.0);
    assert_eq!(after.last(), Some(&ours), "what was added is read back");
    let kept = &before[before.len().saturating_sub(history::KEPT - 1)..];
    assert_eq!(&after[..after.len() - 1], kept, "and nothing else was lost or changed");
    let length = std::fs::metadata(history::path(&folder.0)).expect("it was written").len();
    assert!(length <= (history::KEPT * (LONGEST + 1)) as u64, "{length} bytes");
    before.len() as u64
}

/// A marker: clean only with one of the two words and nothing else.
pub fn run_marker(input: &[u8]) -> u64 {
    let folder = Folder::new();
    let marker = Marker::new(&folder.0);
    std::fs::write(marker.path(), input).expect("a file can be written");
    let word = input.len() <= 64 && matches!(input.trim_ascii(), b"terminated" | b"interrupt");
    match marker.read() {
        Found::Clean => {
            assert!(word, "{:?} passed for a clean end", String::from_utf8_lossy(input));
            1
        }
        Found::NotClean(reason) => {
            assert!(!word, "a clean end was not believed: {reason}");
            assert_short(&reason, 512);
            shape(&reason)
        }
    }
}

/// A hold: any file holds, and what was read of it can be written back and read the same.
pub fn run_hold(input: &[u8]) -> u64 {
    let folder = Folder::new();
    let hold = Hold::new(&folder.0);
    std::fs::write(hold.path(), input).expect("a file can be written");
    let read = hold.read().expect("any file holds");
    assert!(!read.reason.trim().is_empty(), "a hold without a reason");
    assert_short(&read.reason, 3 * 16 * 1024);
    assert!(read.owner.as_ref().is_none_or(|owner| !owner.trim().is_empty()), "{read:?}");
    match hold.write(&read) {
        Ok(()) => {
            let again = hold.read().expect("it was written");
            assert_eq!(again.owner, read.owner, "the owner of a hold is read back");
            1 + u64::from(again == read)
        }
        // A name by hand may be longer than one that is written.
        Err(error) => {
            assert!(read.owner.is_some(), "{error}");
            assert_eq!(hold.read().as_ref(), Some(&read), "a refused write sets nothing");
            3
        }
    }
}
