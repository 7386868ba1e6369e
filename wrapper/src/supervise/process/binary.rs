// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Finds the etcd binary and asks it for its version. Does not start members.
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::supervise::modes::describe;

use super::{Signal, clean_command, fork};

/// A binary that has not printed its version by then is not waited for.
const VERSION_LIMIT: Duration = Duration::from_secs(5);
/// `etcd --version` prints some 100 bytes.
const VERSION_BYTES: u64 = 4096;
/// How long a killed process may take to go.
const KILL_LIMIT: Duration = Duration::from_secs(1);

/// No etcd to run (exit 12). The text names every place that was looked at.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// What `--etcd-path` names is not there or cannot be executed.
    #[error("--etcd-path {0}: give the path of an etcd binary that we may execute")]
    Flag(String),
    /// Neither beside us nor on `PATH`.
    #[error("no etcd binary beside {own} nor in PATH ({seen}); give its path with --etcd-path")]
    Nowhere {
        /// The folder of our own binary.
        own: String,
        /// `PATH`.
        seen: String,
    },
}

/// The etcd to run, as an absolute path: `flag`, else `etcd` beside our own binary, else the first one on `PATH`.
///
/// # Errors
/// The named file is missing or not executable, or there is none in any of the places.
pub fn resolve_etcd(flag: Option<&Path>) -> Result<PathBuf, ResolveError> {
    let own = std::env::current_exe().ok();
    let path = std::env::var_os("PATH");
    resolve_among(flag, own.as_deref(), path.as_deref())
}

fn resolve_among(
    flag: Option<&Path>,
    own: Option<&Path>,
    path: Option<&OsStr>,
) -> Result<PathBuf, ResolveError> {
    if let Some(flag) = flag {
        return executable(flag).map_err(|error| ResolveError::Flag(format!("{}: {error}", describe(flag))));
    }
    let beside = own.and_then(Path::parent).map(|folder| folder.join("etcd"));
    let on_path =
        path.map(|list| std::env::split_paths(list).map(|folder| folder.join("etcd")).collect::<Vec<_>>());
    let mut seen = Vec::new();
    for candidate in beside.into_iter().chain(on_path.into_iter().flatten()) {
        match executable(&candidate) {
            Ok(found) => return Ok(found),
            // A folder of PATH without an etcd is no news.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => seen.push(format!("{}: {error}", describe(&candidate))),
        }
    }
    let own = own.map_or_else(|| "our own binary".to_owned(), |own| own.display().to_string());
    let seen = if seen.is_empty() { "none there".to_owned() } else { seen.join("; ") };
    Err(ResolveError::Nowhere { own, seen })
}

/// `path` made absolute (a bare `etcd` must not be looked up on PATH by the exec), if it is a file that we may run.
fn executable(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    if !std::fs::metadata(&path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    rustix::fs::accessat(CWD, &path, Access::EXEC_OK, AtFlags::EACCESS)?;
    Ok(path)
}

/// What `program --version` calls itself (`3.5.30`), or None: a version we cannot learn is no reason not to start. The
/// process is gone when this returns.
pub async fn etcd_version(program: &Path) -> Option<String> {
    version_within(program, VERSION_LIMIT).await
}

async fn version_within(program: &Path, limit: Duration) -> Option<String> {
    let mut command = clean_command(program);
    command.arg("--version").stdout(Stdio::piped()).stderr(Stdio::null());
    let (mut child, stdout) = fork(&mut command, None)
        .inspect_err(
            |error| tracing::warn!(program = %describe(program), %error, "cannot ask for its version"),
        )
        .ok()?;
    // Without a pipe to read from the child finds it closed, and ends.
    let output = stdout.and_then(|stdout| pipe::Receiver::from_owned_fd(stdout.into()).ok());
    let version = timeout(limit, async {
        let version = match output {
            Some(output) => read_version(output).await,
            None => None,
        };
        child.wait().await;
        version
    })
    .await;
    if version.is_err() {
        tracing::warn!(program = %describe(program), ?limit, "gave no version in time; killing it");
        // Fails only when it has just ended by itself.
        let _ = child.signal(Signal::KILL);
        let _ = timeout(KILL_LIMIT, child.wait()).await;
    }
    version.ok().flatten()
}

/// Reads a bounded piece of output; closing the pipe afterwards ends whoever still writes.
async fn read_version(stdout: impl AsyncRead + Unpin) -> Option<String> {
    let mut text = Vec::new();
    stdout.take(VERSION_BYTES).read_to_end(&mut text).await.ok()?;
    parse_version(&String::from_utf8_lossy(&text))
}

/// `etcd Version: 3.5.30` → `3.5.30`.
fn parse_version(text: &str) -> Option<String> {
    let version = text.lines().find_map(|line| line.strip_prefix("etcd Version:"))?.trim();
    let plausible =
        !version.is_empty() && version.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    plausible.then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Instant;

    use crate::supervise::process::rerun::{run, until};

    use super::*;

    /// Written by another process: a descriptor of ours that is open for writing, caught in a fork of another test's
    /// thread, would make the kernel refuse to execute the file.
    fn script(path: &Path, mode: &str, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let write = "printf '#!/bin/sh\n%s\n' \"$1\" >\"$0\" && chmod \"$2\" \"$0\"";
        assert!(
            Command::new("/bin/sh")
                .args(["-c", write])
                .arg(path)
                .args([text, mode])
                .status()
                .unwrap()
                .success()
        );
    }

    #[test]
    fn the_version_is_what_etcd_calls_itself() {
        assert_eq!(parse_version("etcd Version: 3.5.30\nGit SHA: x\n").as_deref(), Some("3.5.30"));
        assert_eq!(parse_version("etcd Version: 3.6.0-rc.1+dirty\n").as_deref(), Some("3.6.0-rc.1+dirty"));
        assert_eq!(parse_version("etcd Version: \n"), None);
        assert_eq!(parse_version("etcd Version: 3.5\u{7}\n"), None);
        assert_eq!(parse_version("usage: etcd\n"), None);
        run(async {
            let place = tempfile::tempdir().unwrap();
            let etcd = place.path().join("etcd");
            script(&etcd, "755", "echo \"etcd Version: 3.4.34$1\"");
            assert_eq!(etcd_version(&etcd).await.as_deref(), Some("3.4.34--version"));
            assert_eq!(etcd_version(&place.path().join("absent")).await, None);
        });
    }

    #[test]
    fn a_binary_that_never_answers_is_killed_at_the_limit() {
        run(async {
            let place = tempfile::tempdir().unwrap();
            let etcd = place.path().join("etcd");
            script(&etcd, "755", "echo $$ >\"$(dirname \"$0\")/pid\"; exec sleep 600");
            let begun = Instant::now();
            assert_eq!(version_within(&etcd, Duration::from_secs(2)).await, None);
            assert!(begun.elapsed() >= Duration::from_secs(2));
            let pid = std::fs::read_to_string(place.path().join("pid")).unwrap();
            until(|| (!Path::new("/proc").join(pid.trim()).exists()).then_some(())).await;
        });
    }

    #[test]
    fn endless_output_is_not_read_to_its_end() {
        run(async {
            let place = tempfile::tempdir().unwrap();
            let etcd = place.path().join("etcd");
            script(&etcd, "755", "echo etcd Version: 3.5.1; exec yes");
            assert_eq!(version_within(&etcd, Duration::from_secs(15)).await.as_deref(), Some("3.5.1"));
        });
    }

    #[test]
    fn the_flag_wins_then_our_own_folder_then_path() {
        let place = tempfile::tempdir().unwrap();
        let [flag, own, first, second] =
            ["flag/e", "own/wrapper", "first/etcd", "second/etcd"].map(|p| place.path().join(p));
        let beside = place.path().join("own/etcd");
        let path = std::env::join_paths([first.parent().unwrap(), second.parent().unwrap()]).unwrap();
        let resolve = |flag: Option<&Path>| resolve_among(flag, Some(&own), Some(&path));
        let nowhere = resolve(None).unwrap_err().to_string();
        assert!(nowhere.contains(own.to_str().unwrap()) && nowhere.contains("--etcd-path"), "{nowhere}");
        script(&second, "755", "");
        assert_eq!(resolve(None).unwrap(), second);
        script(&first, "644", "");
        assert_eq!(resolve(None).unwrap(), second);
        script(&first, "755", "");
        assert_eq!(resolve(None).unwrap(), first);
        script(&beside, "755", "");
        assert_eq!(resolve(None).unwrap(), beside);
        script(&flag, "755", "");
        assert_eq!(resolve(Some(&flag)).unwrap(), flag);
    }

    #[test]
    fn what_cannot_be_executed_is_named_with_its_mode() {
        let place = tempfile::tempdir().unwrap();
        let etcd = place.path().join("etcd");
        let refused = |path: &Path| resolve_among(Some(path), None, None).unwrap_err().to_string();
        assert!(refused(&etcd).contains("No such file"), "{}", refused(&etcd));
        script(&etcd, "640", "");
        assert!(refused(&etcd).contains("(mode 0640, owner "), "{}", refused(&etcd));
        assert!(refused(place.path()).contains("not a regular file"), "{}", refused(place.path()));
        let seen = resolve_among(None, None, Some(place.path().as_os_str())).unwrap_err().to_string();
        assert!(seen.contains("etcd (mode 0640, owner ") && seen.contains("Permission denied"), "{seen}");
    }

    #[test]
    fn a_bare_name_is_a_file_here_and_not_a_search() {
        let error = resolve_among(Some(Path::new("sh")), None, Some(OsStr::new("/bin"))).unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
    }
}
