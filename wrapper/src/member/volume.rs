// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Space left on the volume of the data directory. One system call that may block on a dead network file system, so
//! the caller chooses the thread; never called by the prober.
use std::io;
use std::path::Path;

use rustix::fs::statvfs;

const GIB: u64 = 1 << 30;

/// Bytes and inodes of a file system, as far as an unprivileged process may use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// For who is not root.
    pub free_bytes: u64,
    /// Of the file system.
    pub total_bytes: u64,
    /// For who is not root.
    pub free_inodes: u64,
    /// 0 where the file system does not count them.
    pub total_inodes: u64,
}

impl Volume {
    /// Reads the numbers of the file system that holds `path`.
    pub fn read(path: &Path) -> io::Result<Self> {
        let numbers = statvfs(path)?;
        Ok(Self {
            free_bytes: numbers.f_bavail.saturating_mul(numbers.f_frsize),
            total_bytes: numbers.f_blocks.saturating_mul(numbers.f_frsize),
            free_inodes: numbers.f_favail,
            total_inodes: numbers.f_files,
        })
    }

    /// Less than 10 % left, or less than 1 GiB (of a small volume: a quarter); the same tenth goes for inodes.
    pub fn is_nearly_full(&self) -> bool {
        let tenth = |total: u64| total / 10;
        // Without the quarter a volume of 1 GiB would warn when it is empty.
        let least = GIB.min(self.total_bytes / 4);
        self.free_bytes < tenth(self.total_bytes).max(least)
            || (self.total_inodes > 0 && self.free_inodes < tenth(self.total_inodes))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(100 * GIB, 11 * GIB, false)]
    #[case(100 * GIB, 9 * GIB, true)]
    #[case(5 * GIB, GIB + 1, false)]
    #[case(5 * GIB, GIB - 1, true)]
    #[case(GIB, GIB / 2, false)]
    #[case(GIB, GIB / 5, true)]
    fn i12_nearly_full_is_a_tenth_or_a_gib(#[case] total: u64, #[case] free: u64, #[case] full: bool) {
        let volume = Volume { free_bytes: free, total_bytes: total, free_inodes: 0, total_inodes: 0 };
        assert_eq!(volume.is_nearly_full(), full);
    }

    #[test]
    fn i12_a_volume_out_of_inodes_is_nearly_full() {
        let volume =
            Volume { free_bytes: 50 * GIB, total_bytes: 100 * GIB, free_inodes: 99, total_inodes: 1000 };
        assert!(volume.is_nearly_full());
        assert!(!Volume { free_inodes: 100, ..volume }.is_nearly_full());
    }

    #[test]
    fn the_numbers_of_a_directory_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let volume = Volume::read(directory.path()).unwrap();
        assert!(volume.total_bytes >= volume.free_bytes && volume.total_bytes > 0, "{volume:?}");
        assert!(Volume::read(&directory.path().join("absent")).is_err());
    }
}
