// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The test's side of a scripted etcd: writes the script where the program finds it, changes it while the program
//! lives, and waits for what the program records. Spawns nothing: that is the business of whoever is tested.
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::pki;
use crate::wait::{self, Poll};

use super::program::SCRIPT_VARIABLE;
use super::record::{self, Event, Record, StartFacts};
use super::script::Script;

/// A script and its record, in a folder of the test's.
#[derive(Clone, Debug)]
pub struct Stage {
    script: PathBuf,
    record: PathBuf,
}

impl Stage {
    /// Writes `etcd-double.yaml` into the folder; records go to `etcd-double.jsonl` beside it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(folder: &Path, script: Script) -> io::Result<Self> {
        let stage =
            Self { script: folder.join("etcd-double.yaml"), record: folder.join("etcd-double.jsonl") };
        stage.write(script)?;
        Ok(stage)
    }

    /// Name and value for the environment of the wrapper, which hands it on.
    pub fn environment(&self) -> (&'static str, &Path) {
        (SCRIPT_VARIABLE, &self.script)
    }

    /// A script for processes to come; a living one reads it, too, at a time nobody waits for.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, script: Script) -> io::Result<String> {
        let text = serde_json::to_string_pretty(&Script { record: Some(self.record.clone()), ..script })?;
        pki::swap(&self.script, &text)?;
        Ok(record::sha256(text.as_bytes()))
    }

    /// Changes the script of the living process, and waits until it has read it. An `end` that is due at once may
    /// leave no time to say so: use [`Stage::write`] for that.
    #[track_caller]
    pub fn change(&self, script: Script, limit: Duration) {
        let before = self.records().len();
        let wanted = self.write(script).unwrap_or_else(|error| panic!("write the script: {error}"));
        self.wait_after(
            before,
            limit,
            "the changed script is read",
            |record| matches!(&record.event, Event::ScriptRead { digest } if *digest == wanted),
        );
    }

    /// All records so far, of all generations.
    pub fn records(&self) -> Vec<Record> {
        record::read(&self.record)
    }

    /// Waits for the first record that is `wanted`.
    #[track_caller]
    pub fn wait_for_record(&self, limit: Duration, what: &str, wanted: impl Fn(&Record) -> bool) -> Record {
        self.wait_after(0, limit, what, wanted)
    }

    /// The same, leaving out the first `skip` records.
    #[track_caller]
    pub fn wait_after(
        &self,
        skip: usize,
        limit: Duration,
        what: &str,
        wanted: impl Fn(&Record) -> bool,
    ) -> Record {
        wait::until(limit, &format!("a record of the etcd double: {what}"), || {
            let records = self.records();
            let found = records.iter().skip(skip).find(|record| wanted(record)).cloned();
            Poll::from_option(found, || match records.last() {
                Some(last) => format!("{} records, the last: {last:?}", records.len()),
                None => format!("no record in {}", self.record.display()),
            })
        })
    }

    /// Waits until `n` generations (from 1) have started; the `n`th one's pid and facts.
    #[track_caller]
    pub fn wait_for_start(&self, n: usize, limit: Duration) -> (u32, StartFacts) {
        wait::until(limit, &format!("start {n} of the etcd double"), || {
            let starts = self.starts();
            Poll::from_option(starts.get(n.saturating_sub(1)).cloned(), || format!("{} starts", starts.len()))
        })
    }

    /// Pid and facts of each generation so far.
    pub fn starts(&self) -> Vec<(u32, StartFacts)> {
        let facts = |record: Record| match record.event {
            Event::Started(facts) => Some((record.pid, *facts)),
            _ => None,
        };
        self.records().into_iter().filter_map(facts).collect()
    }

    /// Signals that a generation noted, in order.
    pub fn signals(&self, pid: u32) -> Vec<i32> {
        let number = |record: Record| match record.event {
            Event::Signal { number } if record.pid == pid => Some(number),
            _ => None,
        };
        self.records().into_iter().filter_map(number).collect()
    }
}
