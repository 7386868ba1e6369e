// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The hold file `hold` (safety.md 13–16): reads, writes and removes it. Whether a hold may be made or released is
//! the state machine's to decide. Blocks: meant for the disk thread.
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::durable;
use crate::file_error::FileError;

/// How much of a hold file is read; the rest of a longer one is left out of the reason.
const LONGEST_FILE: usize = 16 * 1024;
/// Longest reason that is written, in bytes.
const LONGEST_REASON: usize = 4 * 1024;
/// Longest owner that is written, in bytes.
const LONGEST_OWNER: usize = 256;

/// A hold that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldFile {
    /// From the first line `owner: NAME`; None for a file made by hand or by `stop` with `hold`.
    pub owner: Option<String>,
    /// The other lines; never empty.
    pub reason: String,
}

/// The hold file of one state directory.
#[derive(Clone, Debug)]
pub struct Hold {
    path: PathBuf,
}

impl Hold {
    /// `dir` is the state directory.
    pub fn new(dir: &Path) -> Self {
        Self { path: dir.join("hold") }
    }

    /// Where the hold file lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// None only if there surely is no hold file: one that cannot be read counts as held, with a reason that says so.
    pub fn read(&self) -> Option<HoldFile> {
        match self.text() {
            Ok(text) => Some(parse(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.is_link() => None,
            Err(error) => {
                let reason = FileError::new("read the hold file", &self.path, error).to_string();
                Some(HoldFile { owner: None, reason })
            }
        }
    }

    /// Writes the hold file durably, in place of any older one.
    ///
    /// # Errors
    /// An owner that is empty, too long or more than plain text on one line, or a disk that refuses: nothing was set.
    pub fn write(&self, hold: &HoldFile) -> Result<(), FileError> {
        let text = render(hold).map_err(|what| {
            FileError::new("write", &self.path, io::Error::new(io::ErrorKind::InvalidInput, what))
        })?;
        durable::write(&self.path, text.as_bytes(), 0o600)
    }

    /// Removes the hold file durably; absent is fine.
    ///
    /// # Errors
    /// The hold still stands then.
    pub fn remove(&self) -> Result<(), FileError> {
        durable::remove(&self.path)
    }

    fn text(&self) -> io::Result<String> {
        // Non-blocking: a pipe at this place must not stop the start for ever.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&self.path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
        }
        let mut text = Vec::new();
        file.take(LONGEST_FILE as u64).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// A link that leads nowhere is still something that somebody put there.
    fn is_link(&self) -> bool {
        self.path.is_symlink()
    }
}

fn owner_line(line: &str) -> Option<&str> {
    line.strip_prefix("owner:").map(str::trim)
}

fn parse(text: &str) -> HoldFile {
    let mut owner = None;
    let mut reason = Vec::new();
    for line in text.lines() {
        match owner_line(line) {
            Some(name) if owner.is_none() && !name.is_empty() => owner = Some(name.to_owned()),
            Some(_) | None => reason.push(line),
        }
    }
    let reason = reason.join("\n").trim().to_owned();
    let reason = if reason.is_empty() { "the hold file gives no reason".to_owned() } else { reason };
    HoldFile { owner, reason }
}

/// The owner comes first, so that neither a long reason nor one that looks like an owner line can hide it.
fn render(hold: &HoldFile) -> Result<String, String> {
    let mut text = String::new();
    if let Some(owner) = &hold.owner {
        if owner.is_empty() || owner.trim() != owner || owner.chars().any(char::is_control) {
            return Err("an owner is a name without line breaks or white space at its ends".into());
        }
        if owner.len() > LONGEST_OWNER {
            return Err(format!("an owner has at most {LONGEST_OWNER} bytes"));
        }
        text = format!("owner: {owner}\n");
    }
    let reason = &hold.reason[..hold.reason.floor_char_boundary(LONGEST_REASON)];
    for line in reason.lines() {
        // Indented, or it would name an owner where there is none.
        if hold.owner.is_none() && owner_line(line).is_some() {
            text.push(' ');
        }
        text.push_str(line);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_error::unprivileged::{chmod, unprivileged};

    fn hold() -> (tempfile::TempDir, Hold) {
        let dir = tempfile::tempdir().unwrap();
        let hold = Hold::new(dir.path());
        (dir, hold)
    }

    fn held(owner: Option<&str>, reason: &str) -> HoldFile {
        HoldFile { owner: owner.map(str::to_owned), reason: reason.to_owned() }
    }

    #[test]
    fn i11_a_file_made_by_hand_gives_its_text_as_the_reason() {
        let (_dir, hold) = hold();
        assert_eq!(hold.read(), None);
        std::fs::write(hold.path(), "repairing the db\nask alice\n").unwrap();
        assert_eq!(hold.read(), Some(held(None, "repairing the db\nask alice")));
        std::fs::write(hold.path(), "").unwrap();
        assert_eq!(hold.read(), Some(held(None, "the hold file gives no reason")));
    }

    #[test]
    fn e20_a_written_hold_comes_back_with_its_owner_until_it_is_removed() {
        let (_dir, hold) = hold();
        let wanted = held(Some("backup-restore"), "restore of snapshot 7\nowner: somebody else");
        hold.write(&wanted).unwrap();
        assert_eq!(hold.read(), Some(wanted));
        hold.remove().unwrap();
        assert_eq!(hold.read(), None);
        hold.remove().unwrap();
    }

    #[test]
    fn an_owner_line_by_hand_may_stand_anywhere() {
        assert_eq!(parse("restore\nowner: me \nmore"), held(Some("me"), "restore\nmore"));
        assert_eq!(parse("owner:\nx"), held(None, "owner:\nx"));
    }

    #[test]
    fn a_reason_cannot_name_an_owner() {
        let (_dir, hold) = hold();
        hold.write(&held(None, "owner: mallory")).unwrap();
        assert_eq!(hold.read().unwrap().owner, None);
    }

    #[test]
    fn an_owner_with_a_line_break_is_refused_and_sets_nothing() {
        let (_dir, hold) = hold();
        for owner in ["", " a", "a\nb", &"x".repeat(257)] {
            hold.write(&held(Some(owner), "r")).unwrap_err();
        }
        assert_eq!(hold.read(), None);
    }

    #[test]
    fn p7_a_hold_file_that_cannot_be_read_still_holds() {
        let (dir, hold) = hold();
        std::fs::create_dir(hold.path()).unwrap();
        let reason = hold.read().unwrap().reason;
        assert!(reason.contains("read the hold file") && reason.contains("not a regular file"), "{reason}");
        std::fs::remove_dir(hold.path()).unwrap();

        std::os::unix::fs::symlink(dir.path().join("nowhere"), hold.path()).unwrap();
        assert!(hold.read().is_some());
        std::fs::remove_file(hold.path()).unwrap();

        chmod(dir.path(), 0o755);
        std::fs::write(hold.path(), "owner: me").unwrap();
        chmod(hold.path(), 0o000);
        let reason = unprivileged(|| hold.read()).unwrap().reason;
        assert!(reason.contains("hold (mode 0000"), "{reason}");
    }

    #[test]
    fn a_huge_file_is_read_in_part_and_a_long_reason_cut_at_a_letter() {
        let (_dir, hold) = hold();
        std::fs::write(hold.path(), "x".repeat(1 << 20)).unwrap();
        assert_eq!(hold.read().unwrap().reason.len(), LONGEST_FILE);
        hold.write(&held(Some("o"), &"ä".repeat(5000))).unwrap();
        assert_eq!(hold.read(), Some(held(Some("o"), &"ä".repeat(LONGEST_REASON / 2))));
    }
}
