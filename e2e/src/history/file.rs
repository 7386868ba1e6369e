// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Histories as files of JSON lines: a first line with prefix and seed, one line per call, a last line that says how it
//! ended. A file without the last line is a history that was cut.
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::{End, History, Op};

/// Takes the calls of a history as they end.
#[derive(Debug)]
pub struct Sink {
    file: BufWriter<File>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    prefix: String,
    seed: u64,
    began: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Foot {
    end: End,
}

impl Sink {
    /// Begins the file anew. The arguments are as in [`History`].
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(path: &Path, prefix: &str, seed: u64, began: u64) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
        let mut sink = Self { file: BufWriter::new(file) };
        sink.line(&Head { prefix: prefix.to_owned(), seed, began })?;
        Ok(sink)
    }

    /// Adds a call.
    ///
    /// # Errors
    /// What the file system says.
    pub fn add(&mut self, op: &Op) -> Result<()> {
        self.line(op)?;
        // At once: whoever hangs is not asked to close its files.
        self.file.flush().context("flush the history's file")
    }

    /// Adds the last line.
    ///
    /// # Errors
    /// What the file system says.
    pub fn finish(mut self, end: End) -> Result<()> {
        self.line(&Foot { end })?;
        self.file.flush().context("flush the history's file")
    }

    fn line(&mut self, value: &impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut self.file, value).context("write a line of the history")?;
        self.file.write_all(b"\n").context("write a line of the history")
    }
}

/// Reads a history back. A last line that was cut in the middle is left out.
///
/// # Errors
/// No such file, or a line that is none of a history's.
pub fn read(path: &Path) -> Result<History> {
    let named = || format!("read the history {}", path.display());
    let mut lines = BufReader::new(File::open(path).with_context(named)?).lines();
    let head = lines.next().context("an empty file").with_context(named)?.with_context(named)?;
    let Head { prefix, seed, began } = serde_json::from_str(&head).context("line 1").with_context(named)?;
    let mut history = History { prefix, seed, began, ..History::default() };
    let mut lines = lines.enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let line = line.with_context(named)?;
        if let Ok(Foot { end }) = serde_json::from_str(&line) {
            ensure!(lines.peek().is_none(), "{}: lines behind the last one", named());
            history.end = end;
            break;
        }
        match serde_json::from_str(&line) {
            Ok(op) => history.ops.push(op),
            Err(_) if lines.peek().is_none() => break,
            Err(error) => {
                return Err(error).with_context(|| format!("line {}", number + 2)).with_context(named);
            }
        }
    }
    Ok(history)
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Call, Outcome, Seen};
    use super::*;

    fn history() -> History {
        let seen = || Seen { value: "<\"1\">".into(), revision: 7 };
        let calls = [
            (Call::Read, Outcome::Ok(Answer { seen: Some(seen()), store: 9, ..Answer::default() })),
            (Call::Put { value: "2".into() }, Outcome::Unknown { why: "no answer".into() }),
            (Call::Swap { expect: Some(seen()), value: None }, Outcome::Failed { why: "no\nline".into() }),
            (Call::Delete, Outcome::Ok(Answer { written: Some(10), store: 10, ..Answer::default() })),
        ];
        let ops = (0..).zip(calls).map(|(at, (call, outcome))| Op {
            client: at,
            member: "m-0".into(),
            key: "k".into(),
            call,
            begun: at,
            ended: at + 1,
            outcome,
            last: at == 3,
        });
        History { prefix: "p/".into(), seed: 3, began: 5, ops: ops.collect(), end: End::Stopped }
    }

    fn write(path: &Path, history: &History) {
        let mut sink = Sink::create(path, &history.prefix, history.seed, history.began).unwrap();
        for op in &history.ops {
            sink.add(op).unwrap();
        }
        sink.finish(history.end).unwrap();
    }

    #[test]
    fn a_history_is_read_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        write(&path, &history());
        assert_eq!(read(&path).unwrap(), history());
    }

    #[test]
    fn a_file_that_was_cut_is_a_history_that_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        write(&path, &history());
        let text = std::fs::read_to_string(&path).unwrap();
        let last = text.rfind("{\"client\":3").unwrap();
        std::fs::write(&path, &text[..last + 20]).unwrap();
        let cut = read(&path).unwrap();
        assert_eq!((cut.end, cut.ops.len()), (End::Cut, 3));
        std::fs::write(&path, text.replacen("begun", "gone", 1)).unwrap();
        assert!(format!("{:#}", read(&path).unwrap_err()).contains("line 2"), "a broken line is no end");
        std::fs::write(&path, "").unwrap();
        read(&path).unwrap_err();
    }
}
