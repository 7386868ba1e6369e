// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a run leaves: lines on the terminal, a JSON document for machines, and a page for people. Also what the run as
//! a whole is worth, as an exit code.
mod page;
mod plot;
mod terminal;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use crate::finding::Row;
use crate::stage::Stage;
use crate::verdict::{FOREIGN, LAG, SPREAD, Verdict};

pub(crate) use terminal::tell;

/// A bar was missed.
const MISSED: u8 = 1;
/// No bar was missed, but of one at least nothing can be said.
const UNDECIDED: u8 = 3;

#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) stage: &'a Stage,
    /// Name and value of what a reader needs to know of the machine.
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) rows: Vec<Row>,
}

impl Report<'_> {
    /// Writes both files and says where.
    pub(crate) fn write(&self) -> Result<()> {
        let folder = &self.stage.report;
        std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        let document = serde_json::to_string_pretty(&self.document())? + "\n";
        write(&folder.join("report.json"), &document)?;
        if let Some(path) = &self.stage.json {
            write(path, &document)?;
        }
        write(&folder.join("report.html"), &page::text(self))?;
        terminal::end(self, folder);
        Ok(())
    }

    fn document(&self) -> serde_json::Value {
        let facts: serde_json::Map<_, _> =
            self.facts.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut rows = json!(self.rows);
        for row in rows.as_array_mut().into_iter().flatten() {
            for bar in
                row["bars"].as_array_mut().into_iter().flatten().filter(|bar| bar["verdict"] == "noisy")
            {
                // A number that means nothing is none; the runs stand in the figures.
                bar["value"] = json!(null);
            }
        }
        json!({
            "commit": self.stage.commit,
            "command": self.stage.command,
            "etcd": self.stage.line,
            "peer": self.stage.peer.as_ref().map(|peer| &peer.name),
            "machine": facts,
            "limits": { "spread": SPREAD, "foreign": FOREIGN, "lag": LAG },
            "rows": rows,
        })
    }

    fn any(&self, verdict: Verdict) -> bool {
        self.rows.iter().any(|row| row.has(verdict))
    }

    /// Rows that brought no bar at all, or could not be measured as a whole.
    fn failed(&self) -> bool {
        self.rows.iter().any(|row| row.missing.iter().any(|missing| missing.what == THIS_ROW))
    }

    pub(crate) fn exit(&self) -> ExitCode {
        if self.failed() || (self.stage.check && self.any(Verdict::Missed)) {
            ExitCode::from(MISSED)
        } else if self.stage.check && !self.stage.allow_noise && self.any(Verdict::Noisy) {
            ExitCode::from(UNDECIDED)
        } else {
            ExitCode::SUCCESS
        }
    }
}

/// What is missing when a row came to nothing by an error.
pub(crate) const THIS_ROW: &str = "this row";

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Bar;

    fn stage(check: bool) -> Stage {
        let text = json!({
            "commit": "c", "command": "cargo xtask bench", "wrapper": "/w", "etcd": "/e", "line": "3.5", "peer": null,
            "sidecar": null, "image": null, "only": [], "runs": 1, "trace": false, "check": check, "allow_noise": false, "report": "/r",
            "json": null,
        });
        serde_json::from_value(text).unwrap()
    }

    fn code(check: bool, bars: &[f64], missing: Option<&str>) -> String {
        let stage = stage(check);
        let mut row = Row::new("1", "t");
        for value in bars {
            row.bar(Bar::plain("x", "ms", *value, 80.0));
        }
        if let Some(what) = missing {
            row.missing(what, "why");
        }
        format!("{:?}", Report { stage: &stage, facts: Vec::new(), rows: vec![row] }.exit())
    }

    #[test]
    fn a_missed_bar_fails_a_check_and_an_absent_peer_does_not() {
        let [success, failure, undecided] =
            [0, MISSED, UNDECIDED].map(|code| format!("{:?}", ExitCode::from(code)));
        assert_eq!(code(true, &[79.0], Some("the ratio to a peer")), success);
        assert_eq!(code(true, &[79.0, 81.0], None), failure);
        assert_eq!(code(false, &[81.0], None), success);
        assert_eq!(code(true, &[f64::NAN], None), undecided);
        assert_eq!(code(false, &[1.0], Some(THIS_ROW)), failure);
    }

    #[test]
    fn a_page_holds_what_was_found_and_nothing_that_it_would_have_to_fetch() {
        let stage = stage(false);
        let mut row = Row::new("1", "exec to <ready>");
        row.figure("total", "ms", [("ours", &[1.0, 2.0][..])]);
        row.bar(Bar::plain("total", "ms", 81.0, 80.0));
        row.missing("a ratio", "no --peer was given");
        row.plots.push(crate::finding::Plot::Lines {
            title: "l".into(),
            x: "s",
            unit: "MiB",
            of: vec![("a".into(), vec![(0.0, 1.0), (1.0, 2.0)])],
        });
        let page = page::text(&Report { stage: &stage, facts: Vec::new(), rows: vec![row] });
        for part in
            ["MISSED", "≤ 80 ms", "exec to &lt;ready&gt;", "no --peer was given", "<svg", "color-scheme"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<link"));
    }
}
