// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Line counts, read from lcov's format and written in it: of each file's record the lines `SF` and `DA`, nothing about
//! functions and branches.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};

use super::{is_product, tests_within};

/// How often each line ran, by file. A line that is not there holds no code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Path below the clone's root → number of the line from 1 → runs.
    files: BTreeMap<String, BTreeMap<usize, u64>>,
}

impl Lines {
    /// Reads what a tool wrote about the clone at `root`. Files outside of the clone are left out.
    ///
    /// # Errors
    /// A line that begins as a count and is none.
    pub(crate) fn parse(text: &str, root: &Path) -> Result<Self> {
        let mut lines = Self::default();
        let mut file: Option<&mut BTreeMap<usize, u64>> = None;
        for (number, line) in text.lines().enumerate() {
            if let Some(path) = line.strip_prefix("SF:") {
                let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(path));
                file = (!below.is_absolute())
                    .then(|| lines.files.entry(below.to_string_lossy().into_owned()).or_default());
            } else if let Some(count) = line.strip_prefix("DA:") {
                // A checksum may follow.
                let mut parts = count.split(',');
                let line = parts.next().and_then(|line| line.parse::<usize>().ok());
                let runs = parts.next().and_then(|runs| runs.parse::<u64>().ok());
                let (line, runs) =
                    line.zip(runs).with_context(|| format!("lcov, line {}: {count:?}", number + 1))?;
                if let Some(file) = &mut file {
                    *file.entry(line).or_default() += runs;
                }
            }
        }
        Ok(lines)
    }

    /// Only the product's files, and of those only what is no test.
    ///
    /// # Errors
    /// A file that was measured cannot be read.
    pub(crate) fn of_product(mut self, root: &Path) -> Result<Self> {
        self.files.retain(|path, _| is_product(path));
        let mut of_tests = Vec::new();
        for (path, lines) in &mut self.files {
            let source = root.join(path);
            let text =
                std::fs::read_to_string(&source).with_context(|| format!("read {}", source.display()))?;
            let tests = tests_within::ranges(&text);
            lines.retain(|line, _| !tests.iter().any(|range| range.contains(line)));
            of_tests.extend(tests_within::modules(path, &text));
        }
        self.files.retain(|path, lines| {
            let within = |module: &String| {
                path.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            };
            !lines.is_empty() && !of_tests.iter().any(within)
        });
        Ok(self)
    }

    /// In lcov's format.
    pub(crate) fn lcov(&self) -> String {
        let mut text = String::new();
        for (path, lines) in &self.files {
            let _ = writeln!(text, "SF:{path}");
            for (line, runs) in lines {
                let _ = writeln!(text, "DA:{line},{runs}");
            }
            let covered = lines.values().filter(|runs| **runs > 0).count();
            let _ = writeln!(text, "LF:{}\nLH:{covered}\nend_of_record", lines.len());
        }
        text
    }

    /// The files, by path, with the runs of their lines.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &BTreeMap<usize, u64>)> {
        self.files.iter().map(|(path, lines)| (&**path, lines))
    }

    pub(crate) fn file(&self, path: &str) -> Option<&BTreeMap<usize, u64>> {
        self.files.get(path)
    }

    /// Lines that ran, and lines with code, of all files.
    pub(crate) fn totals(&self) -> (usize, usize) {
        self.files.values().map(totals).fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }
}

/// Lines that ran, and lines with code, of one file.
pub(crate) fn totals(lines: &BTreeMap<usize, u64>) -> (usize, usize) {
    (lines.values().filter(|runs| **runs > 0).count(), lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "TN:\nSF:/r/wrapper/src/a.rs\nFN:1,x\nDA:1,2\nDA:3,0\nDA:4,0,abc\nLF:9\nend_of_record\n\
                        SF:/r/wrapper/src/a.rs\nDA:3,5\nend_of_record\nSF:/usr/lib/x.rs\nDA:1,1\nend_of_record\n";

    #[test]
    fn counts_of_one_file_are_added_and_files_of_others_left_out() {
        let lines = Lines::parse(TEXT, Path::new("/r")).unwrap();
        assert_eq!(lines.files().count(), 1);
        assert_eq!(lines.totals(), (2, 3));
        assert_eq!(lines.lcov(), "SF:wrapper/src/a.rs\nDA:1,2\nDA:3,5\nDA:4,0\nLF:3\nLH:2\nend_of_record\n");
    }

    #[test]
    fn what_was_written_can_be_read() {
        let lines = Lines::parse(TEXT, Path::new("/r")).unwrap();
        assert_eq!(Lines::parse(&lines.lcov(), Path::new("/r")).unwrap(), lines);
        assert!(Lines::parse("SF:a\nDA:x,1\n", Path::new("/r")).unwrap_err().to_string().contains("line 2"));
    }

    #[test]
    fn tests_beside_the_code_are_no_product() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("wrapper/src");
        std::fs::create_dir_all(&folder).unwrap();
        let source = "fn a() {\n}\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n#[cfg(test)]\nmod rig;\n";
        std::fs::write(folder.join("a.rs"), source).unwrap();
        std::fs::create_dir_all(folder.join("a/rig")).unwrap();
        std::fs::write(folder.join("a/rig.rs"), "fn r() {}\n").unwrap();
        std::fs::write(folder.join("a/rig/x.rs"), "fn x() {}\n").unwrap();
        let text = "SF:wrapper/src/a.rs\nDA:1,0\nDA:5,3\nend_of_record\nSF:xtask/src/b.rs\nDA:1,1\n\
                    SF:wrapper/src/a/rig.rs\nDA:1,1\nSF:wrapper/src/a/rig/x.rs\nDA:1,1\n";
        let lines = Lines::parse(text, root.path()).unwrap().of_product(root.path()).unwrap();
        assert_eq!(lines.lcov(), "SF:wrapper/src/a.rs\nDA:1,0\nLF:1\nLH:0\nend_of_record\n");
    }
}
