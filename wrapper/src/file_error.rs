// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The error of an operation on one file: says what was tried, on which path, with which mode and owner, and who we
//! are, because "permission denied" alone has cost operators hours. Performs nothing on files but looking.
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A failed operation on a file: reads as "read /x/y (mode 0600, owner 0:0, our uid 65532): permission denied".
#[derive(Debug, thiserror::Error)]
#[error("{doing} {} ({facts}): {error}", .path.display())]
pub struct FileError {
    doing: &'static str,
    path: PathBuf,
    facts: String,
    error: io::Error,
}

impl FileError {
    /// `doing` is a verb in its plain form ("read", "write"); the facts about `path` are looked up here and now.
    pub fn new(doing: &'static str, path: &Path, error: io::Error) -> Self {
        Self { doing, path: path.to_owned(), facts: facts(path), error }
    }

    /// The file it is about.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The operating system's answer.
    pub fn io_error(&self) -> &io::Error {
        &self.error
    }
}

/// Mode and owner of `path`, or of the nearest folder above it that can be looked at, and our own uid:
/// "mode 0640, owner 0:0, our uid 65532".
pub fn facts(path: &Path) -> String {
    let uid = rustix::process::geteuid().as_raw();
    for candidate in path.ancestors() {
        // Followed, not `symlink_metadata`: the rights that count are those of what a mounted secret's link points to.
        let Ok(metadata) = std::fs::metadata(candidate) else { continue };
        let mode = metadata.mode() & 0o7777;
        let (owner, group) = (metadata.uid(), metadata.gid());
        return if candidate == path {
            format!("mode {mode:04o}, owner {owner}:{group}, our uid {uid}")
        } else {
            let folder = candidate.display();
            format!("nearest folder {folder} has mode {mode:04o}, owner {owner}:{group}; our uid {uid}")
        };
    }
    format!("our uid {uid}")
}

#[cfg(test)]
pub(crate) mod unprivileged;

#[cfg(test)]
mod tests {
    use super::unprivileged::chmod;
    use super::*;

    #[test]
    fn h8_the_message_carries_path_mode_owner_and_our_uid() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tls.key");
        std::fs::write(&path, "x").unwrap();
        chmod(&path, 0o640);
        let message = FileError::new("read", &path, io::Error::from_raw_os_error(13)).to_string();
        let owner = std::fs::metadata(&path).unwrap().uid();
        assert!(
            message.starts_with(&format!("read {} (mode 0640, owner {owner}:", path.display())),
            "{message}"
        );
        assert!(message.contains(&format!("our uid {}", rustix::process::geteuid().as_raw())), "{message}");
    }

    #[test]
    fn an_absent_file_is_described_by_the_nearest_folder() {
        let dir = tempfile::tempdir().unwrap();
        chmod(dir.path(), 0o710);
        let text = facts(&dir.path().join("no/such/file"));
        assert!(
            text.starts_with(&format!("nearest folder {} has mode 0710", dir.path().display())),
            "{text}"
        );
    }
}
