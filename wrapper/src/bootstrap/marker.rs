// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The clean-end marker `exit_code` (contract.md §3, safety.md 9–11): reads, consumes and writes it. When that is
//! right is the state machine's to decide. Blocks: meant for the disk thread.
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::durable;
use crate::file_error::FileError;
use crate::supervise::command::Shutdown;

/// Longest text that is looked at; the words have 10 and 9 letters, Go writes no more than them.
const LONGEST: usize = 64;

/// Words of a clean end, the same as Go's, so that both images can replace each other on one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// After SIGTERM or `/stop`.
    Terminated,
    /// After SIGINT.
    Interrupt,
}

impl Word {
    /// The text in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::Interrupt => "interrupt",
        }
    }
}

impl From<Shutdown> for Word {
    fn from(shutdown: Shutdown) -> Self {
        match shutdown {
            Shutdown::Interrupt => Self::Interrupt,
            Shutdown::Terminate | Shutdown::StopCall => Self::Terminated,
        }
    }
}

/// What lay at the marker's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The last etcd ended cleanly.
    Clean,
    /// Anything else; the reason is for the log and holds no text of the file.
    NotClean(String),
}

/// The marker of one state directory.
#[derive(Clone, Debug)]
pub struct Marker {
    path: PathBuf,
    legacy: PathBuf,
}

impl Marker {
    /// `dir` is the state directory.
    pub fn new(dir: &Path) -> Self {
        Self { path: dir.join("exit_code"), legacy: dir.join("validation_marker") }
    }

    /// Where the marker lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at the first 64 bytes. Changes nothing; never fails: what cannot be read is not clean.
    pub fn read(&self) -> Found {
        let text = match self.text() {
            Ok(text) => text,
            Err(reason) => return Found::NotClean(reason),
        };
        match text.trim_ascii() {
            b"terminated" | b"interrupt" => Found::Clean,
            b"" => Found::NotClean("the marker is empty".into()),
            _ => Found::NotClean("the marker holds another text".into()),
        }
    }

    /// Removes the marker durably; absent is fine.
    ///
    /// # Errors
    /// The caller must not go on to the sidecar, a spawn, a hold or a stop then (exit 12).
    pub fn consume(&self) -> Result<(), FileError> {
        durable::remove(&self.path)
    }

    /// Writes the marker durably.
    ///
    /// # Errors
    /// None is left then, as far as the disk allows; the exit goes on without it.
    pub fn write(&self, word: Word) -> Result<(), FileError> {
        durable::write(&self.path, word.as_str().as_bytes(), 0o600).inspect_err(|_| {
            // An old one must not pass for this end; the first error is the one worth telling.
            let _ = durable::remove(&self.path);
        })
    }

    /// Removes `validation_marker`, which an older image left.
    ///
    /// # Errors
    /// Only worth a warning.
    pub fn remove_legacy(&self) -> Result<(), FileError> {
        durable::remove(&self.legacy)
    }

    fn text(&self) -> Result<Vec<u8>, String> {
        // Neither a link that leads elsewhere nor a pipe that blocks for ever can be a marker.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err("there is no marker".into());
            }
            Err(error) => return Err(FileError::new("read", &self.path, error).to_string()),
        };
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err("the marker is not a regular file".into());
        }
        let mut text = Vec::with_capacity(LONGEST + 1);
        file.take(LONGEST as u64 + 1)
            .read_to_end(&mut text)
            .map_err(|error| FileError::new("read", &self.path, error).to_string())?;
        if text.len() > LONGEST {
            return Err(format!("the marker is longer than {LONGEST} bytes"));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::file_error::unprivileged::{chmod, unprivileged};

    fn marker() -> (tempfile::TempDir, Marker) {
        let dir = tempfile::tempdir().unwrap();
        let marker = Marker::new(dir.path());
        (dir, marker)
    }

    #[rstest]
    #[case::terminated("terminated")]
    #[case::interrupt("interrupt")]
    #[case::newline("terminated\n")]
    #[case::white_space(" \t interrupt \r\n")]
    fn b1_gos_words_are_clean(#[case] text: &str) {
        let (_dir, marker) = marker();
        std::fs::write(marker.path(), text).unwrap();
        assert_eq!(marker.read(), Found::Clean);
    }

    #[rstest]
    #[case::empty("")]
    #[case::only_white_space(" \n")]
    #[case::killed("killed")]
    #[case::upper_case("Terminated")]
    #[case::two_words("terminated interrupt")]
    #[case::too_long(&format!("terminated{}", " ".repeat(60)))]
    fn b1_any_other_text_is_not_clean(#[case] text: &str) {
        let (_dir, marker) = marker();
        std::fs::write(marker.path(), text).unwrap();
        assert!(matches!(marker.read(), Found::NotClean(_)));
    }

    #[test]
    fn b1_a_megabyte_of_noise_is_not_clean_and_not_read() {
        let (_dir, marker) = marker();
        let noise: Vec<u8> = (0..1 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(marker.path(), noise).unwrap();
        assert_eq!(marker.text(), Err("the marker is longer than 64 bytes".into()));
    }

    #[test]
    fn b1_absent_folder_link_and_pipe_are_not_clean() {
        let (dir, marker) = marker();
        assert_eq!(marker.read(), Found::NotClean("there is no marker".into()));

        std::fs::create_dir(marker.path()).unwrap();
        assert_eq!(marker.read(), Found::NotClean("the marker is not a regular file".into()));
        std::fs::remove_dir(marker.path()).unwrap();

        std::fs::write(dir.path().join("elsewhere"), "terminated").unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), marker.path()).unwrap();
        assert!(matches!(marker.read(), Found::NotClean(_)));
        std::fs::remove_file(marker.path()).unwrap();

        rustix::fs::mkfifoat(rustix::fs::CWD, marker.path(), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        assert_eq!(marker.read(), Found::NotClean("the marker is not a regular file".into()));
    }

    #[test]
    fn b1_an_unreadable_marker_is_not_clean_and_a_folder_that_is_not_ours_keeps_it() {
        let (dir, marker) = marker();
        std::fs::write(marker.path(), "terminated").unwrap();
        chmod(marker.path(), 0o000);
        chmod(dir.path(), 0o555);
        let (found, consumed) = unprivileged(|| (marker.read(), marker.consume()));
        let Found::NotClean(reason) = found else { panic!("clean without having been read") };
        assert!(reason.contains("exit_code (mode 0000"), "{reason}");
        let error = consumed.unwrap_err().to_string();
        assert!(error.starts_with("remove ") && error.contains("mode 0000"), "{error}");
        chmod(dir.path(), 0o700);
    }

    #[rstest]
    #[case(Shutdown::Terminate, "terminated")]
    #[case(Shutdown::StopCall, "terminated")]
    #[case(Shutdown::Interrupt, "interrupt")]
    fn a_written_marker_has_gos_word_and_is_gone_once_consumed(
        #[case] shutdown: Shutdown,
        #[case] text: &str,
    ) {
        let (_dir, marker) = marker();
        marker.write(shutdown.into()).unwrap();
        assert_eq!(std::fs::read_to_string(marker.path()).unwrap(), text);
        assert_eq!(marker.read(), Found::Clean);
        marker.consume().unwrap();
        assert!(!marker.path().exists());
        marker.consume().unwrap();
    }

    #[test]
    fn b5_a_marker_that_cannot_be_written_leaves_no_old_one() {
        let (dir, marker) = marker();
        std::fs::write(marker.path(), "terminated").unwrap();
        // A folder at the temporary name makes the write fail for root too.
        std::fs::create_dir(dir.path().join(".exit_code.tmp")).unwrap();
        marker.write(Word::Terminated).unwrap_err();
        assert!(!marker.path().exists());
    }

    #[test]
    fn b6_the_legacy_marker_is_removed_and_a_failure_names_it() {
        let (dir, marker) = marker();
        let legacy = dir.path().join("validation_marker");
        std::fs::write(&legacy, "x").unwrap();
        marker.remove_legacy().unwrap();
        assert!(!legacy.exists());
        std::fs::create_dir(&legacy).unwrap();
        assert!(marker.remove_legacy().unwrap_err().to_string().contains("validation_marker"));
    }
}
