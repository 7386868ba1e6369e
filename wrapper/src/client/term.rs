// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Text for a terminal: colours only where they are seen, columns that line up, times as ages, sizes in units. Knows no
//! document.
use std::io::{self, IsTerminal};
use std::time::{Duration, SystemTime};

use crate::api::wire;

/// Whether stdout is to be coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paint(bool);

impl Paint {
    /// Only on a terminal that can, and not where NO_COLOR is set (no-color.org).
    pub(super) fn of_stdout() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let able = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self(wanted && able && io::stdout().is_terminal())
    }

    #[cfg(test)]
    pub(super) fn never() -> Self {
        Self(false)
    }

    #[cfg(test)]
    pub(super) fn always() -> Self {
        Self(true)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }

    pub(super) fn notable(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(super) fn strong(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(super) fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// What a stranger wrote, without anything that a terminal would obey. Line breaks stay.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}

/// The same on one line.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Rows in columns two blanks apart; the last column is not padded. Cells must hold no colour.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..rows.iter().map(Vec::len).max().unwrap_or(0)).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// From one time of a document to a later one of the same: `3m12s`; None where either is none of ours.
pub(super) fn between(since: &str, now: &str) -> Option<String> {
    let (since, now) = (moment(since)?, moment(now)?);
    let length = now.duration_since(since).unwrap_or_default();
    // Nobody counts the milliseconds of a minute.
    let step = match length.as_secs() {
        0 => 1,
        1..10 => 100,
        _ => 1000,
    };
    let millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    Some(days(Duration::from_millis(millis / step * step)))
}

fn moment(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}

fn days(length: Duration) -> String {
    const DAY: u64 = 24 * 60 * 60;
    match length.as_secs() / DAY {
        0 => wire::duration(length),
        days => format!("{days}d{}h", length.as_secs() % DAY / 3600),
    }
}

/// `24.4 MiB`.
pub(super) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_write_cannot_drive_a_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\r\nc\u{9b}d"), "a [2Jb \nc d");
        assert_eq!(one_line("a\nb"), "a b");
    }

    #[test]
    fn columns_line_up_and_have_no_blanks_at_their_end() {
        let rows = [vec!["TIME".to_owned(), "CODE".to_owned()], vec!["now".to_owned(), "0".to_owned()]];
        assert_eq!(columns(&rows), "TIME  CODE\nnow   0\n");
        assert_eq!(columns(&[]), "");
    }

    #[test]
    fn ages_are_counted_by_the_documents_own_clock() {
        let since = "2026-12-01T10:00:00.000Z";
        for (now, age) in [
            ("2026-12-01T10:00:07.120Z", "7.1s"),
            ("2026-12-01T10:00:00.120Z", "120ms"),
            ("2026-12-01T10:00:17.120Z", "17s"),
            ("2026-12-01T10:03:12.900Z", "3m12s"),
            ("2026-12-04T11:00:00.000Z", "3d1h"),
            ("2026-12-01T09:59:59.000Z", "0s"),
        ] {
            assert_eq!(between(since, now).as_deref(), Some(age));
        }
        assert_eq!(between("…", since), None);
    }

    #[test]
    fn sizes_have_one_digit_behind_the_point() {
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (25_600_000, "24.4 MiB"), (8 << 30, "8.0 GiB")] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn colours_are_codes_or_nothing() {
        assert_eq!(Paint::never().bad("x"), "x");
        assert_eq!(Paint::always().bad("x"), "\u{1b}[1;31mx\u{1b}[0m");
    }
}
