// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the person sees: lines that stay, and below them one row per member. On a terminal the rows are drawn again
//! in place; elsewhere a row is a plain line, written when it changes.

use std::io::{IsTerminal, Write};

use super::probe::View;

/// The output of one run.
pub(super) struct Screen<W = std::io::Stdout> {
    out: W,
    terminal: bool,
    rows: Vec<String>,
    gone: bool,
}

impl Screen {
    /// On stdout.
    pub(super) fn new() -> Self {
        let out = std::io::stdout();
        let terminal = out.is_terminal();
        Self { out, terminal, rows: Vec::new(), gone: false }
    }
}

impl<W: Write> Screen<W> {
    /// Nobody reads any more: the terminal was closed, or the pipe's other end.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Writes a line that stays.
    pub(super) fn line(&mut self, text: &str) {
        let mut frame = self.erase();
        frame.push_str(text);
        frame.push('\n');
        frame.push_str(&self.draw());
        self.write(&frame);
    }

    /// Shows the members as they are now.
    pub(super) fn members(&mut self, rows: Vec<String>) {
        if rows == self.rows {
            return;
        }
        let frame = if self.terminal {
            let erased = self.erase();
            self.rows = rows;
            format!("{erased}{}", self.draw())
        } else {
            let changed = rows.iter().enumerate().filter(|(index, row)| self.rows.get(*index) != Some(row));
            let frame = changed.map(|(_, row)| format!("{row}\n")).collect();
            self.rows = rows;
            frame
        };
        self.write(&frame);
    }

    fn erase(&self) -> String {
        match self.rows.len() {
            // From the first column: a terminal echoes `^C` before we hear of it.
            drawn if self.terminal && drawn > 0 => format!("\r\x1b[{drawn}A\x1b[J"),
            _ => String::new(),
        }
    }

    fn draw(&self) -> String {
        if !self.terminal || self.rows.is_empty() {
            return String::new();
        }
        // Without wrapping, or a narrow terminal would have more lines than we erase.
        format!("\x1b[?7l{}\n\x1b[?7h", self.rows.join("\n"))
    }

    fn write(&mut self, frame: &str) {
        self.gone |= self.out.write_all(frame.as_bytes()).and_then(|()| self.out.flush()).is_err();
    }
}

/// One member's row.
pub(super) fn row(name: &str, view: &View) -> String {
    let unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
    let ready = match (view.answered, view.ready, &view.reason) {
        (false, ..) => "no answer yet".to_owned(),
        (true, true, _) => "ready".to_owned(),
        (true, false, Some(reason)) => format!("unready ({reason})"),
        (true, false, None) => "unready".to_owned(),
    };
    let etcd = match (&view.etcd_version, view.etcd_pid) {
        (Some(version), Some(pid)) => format!("etcd {version} pid {pid}"),
        (None, Some(pid)) => format!("etcd pid {pid}"),
        (_, None) => String::new(),
    };
    let row = format!("{name}  {:<13} {ready:<30} {:<9} {etcd}", unknown(&view.phase), unknown(&view.role));
    row.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(terminal: bool) -> Screen<Vec<u8>> {
        Screen { out: Vec::new(), terminal, rows: Vec::new(), gone: false }
    }

    fn written(screen: Screen<Vec<u8>>) -> String {
        String::from_utf8(screen.out).unwrap()
    }

    #[test]
    fn elsewhere_than_on_a_terminal_only_a_changed_member_is_written() {
        let mut screen = screen(false);
        screen.line("client: x");
        screen.members(vec!["a 1".into(), "b 1".into()]);
        screen.members(vec!["a 1".into(), "b 1".into()]);
        screen.members(vec!["a 1".into(), "b 2".into()]);
        assert_eq!(written(screen), "client: x\na 1\nb 1\nb 2\n");
    }

    #[test]
    fn on_a_terminal_rows_are_erased_before_a_line_that_stays() {
        let mut screen = screen(true);
        screen.members(vec!["a".into(), "b".into()]);
        screen.line("note");
        let rows = "\x1b[?7la\nb\n\x1b[?7h";
        assert_eq!(written(screen), format!("{rows}\r\x1b[2A\x1b[Jnote\n{rows}"));
    }

    #[test]
    fn a_reader_that_went_away_is_noticed_and_no_panic() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut screen = Screen { out: Closed, terminal: false, rows: Vec::new(), gone: false };
        screen.line("x");
        assert!(screen.is_gone());
    }

    #[test]
    fn a_row_says_why_a_member_is_not_ready() {
        let view = View {
            answered: true,
            reason: Some("linearizable_read".into()),
            phase: Some("running".into()),
            ..View::default()
        };
        assert_eq!(row("dev-0", &view), "dev-0  running       unready (linearizable_read)    -");
        assert!(row("dev-0", &View::default()).contains("no answer yet"));
    }
}
