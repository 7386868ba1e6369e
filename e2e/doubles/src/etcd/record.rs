// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a scripted etcd noted of its life: one JSON line an event, appended by each process in one write, so that
//! lines of several generations never mix. Both sides live here: the writing and the reading.
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::script::How;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Microseconds since 1970, wall clock.
    pub at_us: u64,
    /// Whose line it is.
    pub pid: u32,
    /// What happened to it.
    pub event: Event,
}

/// What a scripted etcd saw and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Called with `--version`.
    VersionAsked {
        /// The program's name first.
        argv: Vec<String>,
    },
    /// The first event of a generation.
    Started(Box<StartFacts>),
    /// A changed script took effect.
    ScriptRead {
        /// Of its text.
        digest: String,
    },
    /// Somebody else holds the database; from now on it waits in silence.
    LockWaiting,
    /// The database's lock is ours.
    LockTaken,
    /// Answers calls at these URLs.
    Serving {
        /// Of `listen-client-urls`.
        urls: Vec<String>,
    },
    /// A datagram was sent, by this process.
    ReadySent {
        /// Its pid.
        sender: u32,
    },
    /// `NOTIFY_SOCKET` is missing or takes nothing.
    NotifyFailed {
        /// The kernel's answer.
        error: String,
    },
    /// Only signals that have a handler by then can be noted.
    Signal {
        /// As in signal(7).
        number: i32,
    },
    /// A client connected.
    Connected {
        /// Of the connection, counted from 1.
        number: u64,
        /// It speaks TLS.
        tls: bool,
        /// It showed a certificate.
        certificate: bool,
    },
    /// A connection that never got as far as a call, such as a failed TLS handshake.
    Rejected {
        /// Of the connection, counted from 1.
        number: u64,
        /// Why.
        error: String,
    },
    /// Somebody asked.
    Called {
        /// gRPC's path, or that of a page.
        method: String,
        /// What was answered.
        outcome: String,
    },
    /// The last event of a generation that ended by its own doing.
    Ending {
        /// As its script says.
        how: How,
    },
    /// Ends by a signal's default action.
    Raising {
        /// As in signal(7).
        number: i32,
    },
}

/// What a process finds of itself when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFacts {
    /// Parent.
    pub ppid: u32,
    /// Process group.
    pub pgid: u32,
    /// The program's name first.
    pub argv: Vec<String>,
    /// As it was given.
    pub environment: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Effective user.
    pub uid: u32,
    /// Octal in the file of the kernel; here the number.
    pub umask: u32,
    /// By the kernel's names, e.g. `Max open files`: soft and hard limit.
    pub limits: BTreeMap<String, (String, String)>,
    /// Open descriptors and what they point to.
    pub descriptors: BTreeMap<u32, String>,
    /// Bit masks: signal n is bit n-1.
    pub signals_blocked: u64,
    /// A bit for each, as in /proc.
    pub signals_ignored: u64,
    /// The signal the kernel sends when the parent's thread ends.
    pub parent_death_signal: Option<i32>,
    /// As in /proc.
    pub oom_score_adj: i32,
    /// Of `--config-file`; None where there was none.
    pub config: Option<ConfigFacts>,
}

/// The config file as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigFacts {
    /// Of the file.
    pub path: PathBuf,
    /// Hex.
    pub sha256: String,
    /// Permission bits.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
}

/// Appends records; does nothing without a path.
#[derive(Debug)]
pub struct Recorder {
    file: Option<File>,
}

impl Recorder {
    /// # Errors
    /// When the file cannot be opened for appending.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let file = path.map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
        Ok(Self { file })
    }

    /// A record that cannot be written is a broken test bed: say so where somebody sees it, and go on.
    pub fn note(&self, event: Event) {
        let Some(mut file) = self.file.as_ref() else {
            return;
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_us = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        let record = Record { at_us, pid: std::process::id(), event };
        let written = serde_json::to_string(&record)
            .map_err(io::Error::other)
            .and_then(|line| file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            let _ = writeln!(io::stderr(), "etcd-double: write a record: {error}");
        }
    }
}

impl Record {
    /// When it was written.
    pub fn at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.at_us)
    }
}

/// All records in a file, in order; none where there is no file. A line still being written is left out.
///
/// # Panics
/// When a whole line is no record.
pub fn read(path: &Path) -> Vec<Record> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("no record ({error}): {line}")))
        .collect()
}

impl StartFacts {
    /// Looks at the calling process. To be called before it opens anything.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn look(config: Option<&Path>) -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim().to_owned()
        };
        let mask = |name: &str| u64::from_str_radix(&field(name), 16).unwrap_or_default();
        let oom = fs::read_to_string("/proc/self/oom_score_adj")?;
        Ok(Self {
            ppid: std::os::unix::process::parent_id(),
            pgid: rustix::process::getpgrp().as_raw_nonzero().get().cast_unsigned(),
            argv: std::env::args().collect(),
            environment: std::env::vars_os()
                .map(|(key, value)| {
                    (key.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
                })
                .collect(),
            cwd: std::env::current_dir()?,
            uid: rustix::process::getuid().as_raw(),
            umask: u32::from_str_radix(&field("Umask"), 8).unwrap_or_default(),
            limits: parse_limits(&fs::read_to_string("/proc/self/limits")?),
            descriptors: descriptors()?,
            signals_blocked: mask("SigBlk"),
            signals_ignored: mask("SigIgn"),
            parent_death_signal: rustix::process::parent_process_death_signal()?
                .map(|signal| signal.as_raw()),
            oom_score_adj: oom.trim().parse().unwrap_or_default(),
            config: config.and_then(|path| ConfigFacts::look(path).ok()),
        })
    }

    /// Soft and hard limit of a kind, e.g. `Max open files`.
    pub fn limit(&self, name: &str) -> Option<(&str, &str)> {
        self.limits.get(name).map(|(soft, hard)| (soft.as_str(), hard.as_str()))
    }
}

impl ConfigFacts {
    fn look(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            path: path.into(),
            sha256: sha256(&fs::read(path)?),
            mode: metadata.permissions().mode() & 0o7777,
            uid: metadata.uid(),
        })
    }
}

/// Hex of the digest, to compare with records.
pub fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut hex = String::new();
    for byte in ring::digest::digest(&ring::digest::SHA256, bytes).as_ref() {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn parse_limits(text: &str) -> BTreeMap<String, (String, String)> {
    let row = |line: &str| {
        // The kernel pads the name to 25 columns; names hold single spaces.
        let (name, values) = line.split_at_checked(25)?;
        let mut values = values.split_whitespace();
        Some((name.trim().to_owned(), (values.next()?.to_owned(), values.next()?.to_owned())))
    };
    text.lines().skip(1).filter_map(row).collect()
}

fn descriptors() -> io::Result<BTreeMap<u32, String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        // The one descriptor that is ours: the listing itself, closed again when it is asked for.
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        if target.starts_with("/proc") && target.ends_with("fd") {
            continue;
        }
        if let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
            found.insert(number, target.to_string_lossy().into_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written_and_half_lines_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.jsonl");
        assert_eq!(read(&path), []);
        let recorder = Recorder::open(Some(&path)).unwrap();
        let facts = StartFacts::look(Some(Path::new("/proc/self/limits"))).unwrap();
        recorder.note(Event::Started(Box::new(facts.clone())));
        recorder.note(Event::Signal { number: 15 });
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"at_us\":").unwrap();
        let events: Vec<Event> = read(&path).into_iter().map(|record| record.event).collect();
        assert_eq!(events, [Event::Started(Box::new(facts)), Event::Signal { number: 15 }]);
    }

    #[test]
    fn a_process_knows_its_own_facts() {
        let facts = StartFacts::look(None).unwrap();
        assert_eq!(facts.cwd, std::env::current_dir().unwrap());
        assert!(facts.limit("Max open files").is_some(), "{:?}", facts.limits);
        assert!(facts.descriptors.contains_key(&2), "{:?}", facts.descriptors);
        assert_eq!(facts.environment.len(), std::env::vars_os().count());
        assert_eq!(facts.environment.get("PATH").cloned(), std::env::var("PATH").ok());
    }
}
