// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Moments that a wrapper's log tells, its own lines and etcd's: both have a time of the same clock.
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use serde_json::Value;

/// One line: etcd's or the wrapper's.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) at: SystemTime,
    pub(crate) message: String,
    pub(crate) fields: Value,
}

/// All lines that have a time, in order.
pub(crate) fn read(path: &Path) -> Result<Vec<Line>> {
    let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Line> {
    let fields: Value = serde_json::from_str(line).ok()?;
    let time = fields["timestamp"].as_str().or(fields["ts"].as_str())?;
    let message = fields["message"].as_str().or(fields["msg"].as_str())?.to_owned();
    Some(Line { at: humantime::parse_rfc3339(time).ok()?, message, fields })
}

/// The first line with this message that is not older than `since`.
pub(crate) fn find<'a>(lines: &'a [Line], message: &str, since: SystemTime) -> Option<&'a Line> {
    // A line's time is cut to milliseconds.
    let since = since.checked_sub(Duration::from_millis(1)).unwrap_or(since);
    lines.iter().find(|line| line.message == message && line.at >= since)
}

/// When the wrapper had started etcd.
pub(crate) const SPAWNED: &str = "etcd spawned";
/// When etcd had sent `READY=1`, by etcd's own word, from 3.5 on.
pub(crate) const NOTIFIED: &str = "successfully notified init daemon";
/// When etcd had ended.
pub(crate) const ENDED: &str = "etcd ended";
/// When a signal went to etcd.
pub(crate) const SIGNALLED: &str = "to etcd";

/// Milliseconds from one moment to another; negative when they are in the other order.
pub(crate) fn between(from: SystemTime, to: SystemTime) -> f64 {
    match to.duration_since(from) {
        Ok(span) => span.as_secs_f64() * 1e3,
        Err(error) => -error.duration().as_secs_f64() * 1e3,
    }
}

/// A span as the wrapper's log writes it, `1.5ms`, in ms.
pub(crate) fn span(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ns" => 1e-6,
        "µs" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

/// What etcd itself took from exec to `READY=1`, in ms.
pub(crate) fn etcds_own(lines: &[Line], since: SystemTime) -> Result<f64> {
    let spawned = find(lines, SPAWNED, since).with_context(|| format!("no line `{SPAWNED}` in the log"))?;
    let notified = find(lines, NOTIFIED, spawned.at)
        .with_context(|| format!("no line `{NOTIFIED}` of etcd in the log"))?;
    Ok(between(spawned.at, notified.at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_every_size_are_read() {
        let spans = ["250ns", "39.464µs", "53.5ms", "1.5s"].map(|text| span(text).unwrap());
        assert_eq!(spans, [0.00025, 0.039464, 53.5, 1500.0]);
        assert_eq!((span("5"), span("5 m"), span("x")), (None, None, None));
    }

    #[test]
    fn lines_of_both_programs_have_one_clock() {
        let text = [
            r#"{"timestamp":"2026-12-01T10:00:00.100Z","level":"INFO","message":"etcd spawned","pid":7}"#,
            "not json",
            r#"{"level":"info","ts":"2026-12-01T10:00:00.650250Z","caller":"x","msg":"successfully notified init daemon"}"#,
        ];
        let lines: Vec<Line> = text.iter().filter_map(|line| parse(line)).collect();
        assert_eq!(etcds_own(&lines, lines[0].at).unwrap(), 550.25);
        assert_eq!(lines[0].fields["pid"], 7);
        assert!(etcds_own(&lines[..1], lines[0].at).is_err());
    }
}
