// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The exit record (wire.md): the last thing the process says, in the log, in the history, and where `kubectl describe
//! pod` shows it. Holds no secrets: only words of ours, numbers, and the hint it is given.
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::supervise::view::{ExitStatus, Phase};

use super::ExitCode;

/// Longest record on one line, in bytes: the kubelet keeps no more of a termination message.
pub const LONGEST: usize = 4096;

/// Where the kubelet looks for a container's last words.
pub const TERMINATION_LOG: &str = "/dev/termination-log";

/// An exit record. Times are RFC 3339 UTC, `uptime` is a Go-like duration; what cannot be known is null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitRecord {
    /// RFC 3339, UTC.
    pub time: String,
    /// The process's exit code.
    pub code: u8,
    /// A stable word (api.md §7).
    pub cause: String,
    /// In which the end began.
    pub phase: String,
    /// Of the last etcd; 0: none was started.
    pub generation: u64,
    /// Of the process, as Go spells durations.
    pub uptime: String,
    /// Null: no etcd was started by this process.
    pub etcd: Option<EtcdEnd>,
    /// For people: what helps.
    pub hint: String,
}

/// How the last etcd ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdEnd {
    /// None: a signal ended it.
    pub exit_code: Option<i32>,
    /// E.g. `SIGKILL`.
    pub signal: Option<String>,
    /// Somebody had asked for this end.
    pub requested: bool,
    /// READY had come from that very process.
    pub ready_seen: bool,
}

impl EtcdEnd {
    /// From the wait status.
    pub fn new(status: ExitStatus, requested: bool, ready_seen: bool) -> Self {
        let (exit_code, signal) = match status {
            ExitStatus::Exited(code) => (Some(code), None),
            ExitStatus::Signaled(number) => (None, Some(signal_name(number))),
        };
        Self { exit_code, signal, requested, ready_seen }
    }
}

/// What the state machine knows at the end.
#[derive(Clone, Debug)]
pub struct End {
    /// What the process ends with.
    pub code: ExitCode,
    /// The phase before `exiting`.
    pub phase: Phase,
    /// Of the last etcd; 0: none was started.
    pub generation: u64,
    /// Of this process.
    pub uptime: Duration,
    /// How the last etcd ended; None: none was started.
    pub etcd: Option<EtcdEnd>,
    /// An error worth showing; it goes before the code's own hint.
    pub error: Option<String>,
}

impl ExitRecord {
    /// Makes the record; a hint that is too long for `LONGEST` is cut.
    pub fn new(end: End, at: SystemTime) -> Self {
        let hint = hint(&end);
        let mut record = Self {
            time: humantime::format_rfc3339_millis(at).to_string(),
            code: end.code.number(),
            cause: end.code.cause().to_owned(),
            phase: end.phase.as_str().to_owned(),
            generation: end.generation,
            uptime: go_duration(end.uptime),
            etcd: end.etcd,
            hint,
        };
        record.fit();
        record
    }

    /// The record as one line of JSON, without a line break, at most `LONGEST` bytes.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers always make JSON")
    }

    fn fit(&mut self) {
        // Escaping makes some letters longer, so the excess is only a first guess: halve until it fits.
        while self.line().len() > LONGEST && !self.hint.is_empty() {
            let half = self.hint.floor_char_boundary(self.hint.len().min(2 * LONGEST) / 2);
            self.hint.truncate(half);
            if let Some((letters, _)) = self.hint.char_indices().next_back() {
                self.hint.truncate(letters);
                if letters > 0 {
                    self.hint.push('…');
                }
            }
        }
    }
}

/// Writes the record's line to `path` (`TERMINATION_LOG`) if that is a regular file that lets us; true if it did.
/// Never creates one: outside a pod there is nobody to read it.
///
/// # Errors
/// The file let itself be opened, but not written; worth a debug line at most.
pub fn write_termination_log(path: &Path, record: &ExitRecord) -> io::Result<bool> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let Ok(mut file) = OpenOptions::new().write(true).custom_flags(flags).open(path) else {
        return Ok(false);
    };
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    file.set_len(0)?;
    file.write_all(record.line().as_bytes())?;
    Ok(true)
}

fn hint(end: &End) -> String {
    let own = match (&end.etcd, end.code) {
        // etcd says in its own lines whether it was the directory (newer, damaged) or the configuration: the status
        // is the same, so we do not claim to know.
        (Some(etcd), ExitCode::EtcdEnded | ExitCode::CrashBudget) if !etcd.ready_seen && !etcd.requested => {
            "etcd refused this data directory or its configuration; its own lines above say why"
        }
        (Some(etcd), ExitCode::EtcdEnded) if etcd.signal.as_deref() == Some("SIGKILL") => {
            "somebody killed etcd with SIGKILL: most often the kernel, out of memory (see the pod's memory limit)"
        }
        (Some(_) | None, code) => code.hint(),
    };
    match &end.error {
        Some(error) => format!("{error}; {own}"),
        None => own.to_owned(),
    }
}

fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// As Go prints it, in milliseconds: `1h2m3.5s`, `120ms`, `0s`.
fn go_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 {
        return if millis == 0 { "0s".to_owned() } else { format!("{millis}ms") };
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut text = String::new();
    if hours > 0 {
        text = format!("{hours}h");
    }
    if hours > 0 || minutes > 0 {
        text.push_str(&format!("{minutes}m"));
    }
    text.push_str(&(seconds % 60).to_string());
    if millis > 0 {
        text.push_str(format!(".{millis:03}").trim_end_matches('0'));
    }
    text.push('s');
    text
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn end(code: ExitCode, etcd: Option<EtcdEnd>) -> End {
        let uptime = Duration::from_millis(1200);
        End { code, phase: Phase::Starting, generation: 1, uptime, etcd, error: None }
    }

    fn at() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_119_200)
    }

    #[test]
    fn i5_a_refused_directory_gives_the_record_of_the_documents() {
        let etcd = EtcdEnd::new(ExitStatus::Exited(2), false, false);
        let record = ExitRecord::new(end(ExitCode::EtcdEnded, Some(etcd)), at());
        assert_eq!(
            record.line(),
            concat!(
                r#"{"time":"2026-12-01T10:00:00.000Z","code":10,"cause":"etcd_ended","phase":"starting","#,
                r#""generation":1,"uptime":"1.2s","etcd":{"exitCode":2,"signal":null,"requested":false,"#,
                r#""readySeen":false},"hint":"etcd refused this data directory or its configuration; its own "#,
                r#"lines above say why"}"#
            )
        );
        assert_eq!(serde_json::from_str::<ExitRecord>(&record.line()).unwrap(), record);
    }

    #[rstest]
    #[case(ExitStatus::Signaled(9), None, Some("SIGKILL"))]
    #[case(ExitStatus::Signaled(40), None, Some("signal 40"))]
    #[case(ExitStatus::Exited(1), Some(1), None)]
    fn c7_the_record_carries_etcds_status_or_signal(
        #[case] status: ExitStatus,
        #[case] code: Option<i32>,
        #[case] signal: Option<&str>,
    ) {
        let etcd = EtcdEnd::new(status, false, true);
        assert_eq!((etcd.exit_code, etcd.signal.as_deref()), (code, signal));
    }

    #[test]
    fn without_an_etcd_its_part_is_null() {
        let record = ExitRecord::new(end(ExitCode::Stopped, None), at());
        assert!(record.line().contains(r#""etcd":null"#));
    }

    #[rstest]
    #[case::plain("x")]
    #[case::two_bytes("ä")]
    #[case::escaped("\u{1}")]
    fn an_endless_error_is_cut_to_four_kibibytes(#[case] letter: &str) {
        let error = Some(letter.repeat(20_000));
        let record = ExitRecord::new(End { error, ..end(ExitCode::BootstrapFailed, None) }, at());
        assert!(record.line().len() <= LONGEST);
        assert!(record.hint.ends_with('…') && record.hint.starts_with(letter));
        assert!(record.line().len() > 1000, "more was cut than needed");
    }

    #[test]
    fn the_termination_log_is_written_over_and_never_created() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("termination-log");
        let record = ExitRecord::new(end(ExitCode::Stopped, None), at());
        assert!(!write_termination_log(&path, &record).unwrap());
        assert!(!path.exists());
        std::fs::write(&path, "z".repeat(9000)).unwrap();
        assert!(write_termination_log(&path, &record).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), record.line());
    }

    #[rstest]
    #[case(0, "0s")]
    #[case(120, "120ms")]
    #[case(1_000, "1s")]
    #[case(62_050, "1m2.05s")]
    #[case(3_600_000, "1h0m0s")]
    fn uptime_reads_as_go_prints_it(#[case] millis: u64, #[case] text: &str) {
        assert_eq!(go_duration(Duration::from_millis(millis)), text);
    }
}
