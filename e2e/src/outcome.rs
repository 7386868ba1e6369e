// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a run leaves for its report: `results.json` in the stage's report folder, rewritten after each scenario so that
//! a run that dies leaves what it had. Shapes and the exit code that follows from them; draws nothing.
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::stage::Image;
use crate::timeline::Entry;

/// The file's name in the report folder.
pub const FILE: &str = "results.json";

/// A run, as far as it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Results {
    /// Its id.
    pub run: String,
    /// Where random choices began.
    pub seed: u64,
    /// Of the tree under test.
    pub commit: String,
    /// Its name.
    pub cluster: String,
    /// Its version.
    pub kubernetes: String,
    /// What ran.
    pub images: Vec<Image>,
    /// The sidecar was the double: passes say nothing about the real one.
    pub double: bool,
    /// Milliseconds since 1970.
    pub started: u64,
    /// None while the run goes on, and for ever in a run that died.
    pub finished: Option<u64>,
    /// A signal ended the run.
    pub interrupted: bool,
    /// The machine: a name and what it is, `("cores", "2")`.
    #[serde(default)]
    pub host: Vec<(String, String)>,
    /// The selection, as it was given: `--smoke --shard 1/2`.
    pub selection: String,
    /// The command that runs the same once more; empty in files of older runs.
    #[serde(default)]
    pub replay: String,
    /// In the order of the table; a scenario that was selected and has not ended is not there.
    pub outcomes: Vec<Outcome>,
}

/// How one selected scenario ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Of the scenario.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// What came of it.
    pub verdict: Verdict,
    /// Why not passed; what is missing, for one that could not run. Several lines: the chain of an error, then a digest
    /// of the scene.
    pub reason: Option<String>,
    /// Milliseconds since 1970; 0 when it did not run.
    pub started: u64,
    /// Milliseconds.
    pub took: u64,
    /// Its namespace in the cluster; empty when it did not run.
    pub namespace: String,
    /// The folder with its logs and scene, below the report folder; None when it did not run.
    pub evidence: Option<PathBuf>,
    /// What happened, in its order.
    pub timeline: Vec<Entry>,
    /// Values that the scenario measured, in the order of measuring: a name and what it was, `("ready again", "1.2s")`.
    pub measured: Vec<(String, String)>,
}

/// The verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It did what it says.
    Passed,
    /// It did not, or more happened than it allows.
    Failed,
    /// It did not end within its time.
    Hung,
    /// Selected, and not run for want of something here.
    Missing,
    /// A signal ended the run before or in it.
    Interrupted,
}

impl Outcome {
    /// Of something that took no time and left nothing.
    pub fn new(name: &str, about: &str, verdict: Verdict) -> Self {
        Self {
            name: name.to_owned(),
            about: about.to_owned(),
            verdict,
            reason: None,
            started: 0,
            took: 0,
            namespace: String::new(),
            evidence: None,
            timeline: Vec::new(),
            measured: Vec::new(),
        }
    }
}

impl Results {
    /// Writes the file anew, whole or not at all.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let new = folder.join(format!("{FILE}.new"));
        let text = serde_json::to_vec_pretty(self).context("write the results as JSON")?;
        fs::write(&new, text).with_context(|| format!("write {}", new.display()))?;
        fs::rename(&new, &path).with_context(|| format!("rename {}", new.display()))
    }

    /// Reads a file that [`Results::write`] wrote.
    ///
    /// # Errors
    /// It cannot be read, or is something else.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let text = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("read {}", path.display()))
    }

    /// How many ended so.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.verdict == verdict).count()
    }

    /// What the program ends with: see [`Exit`].
    pub fn exit(&self) -> Exit {
        if self.interrupted {
            Exit::Interrupted
        } else if self.count(Verdict::Failed) + self.count(Verdict::Hung) > 0 {
            Exit::Failed
        } else if self.count(Verdict::Passed) == 0 {
            Exit::NothingRan
        } else if self.count(Verdict::Missing) > 0 {
            Exit::PartlyRan
        } else {
            Exit::Passed
        }
    }
}

/// Exit codes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: everything selected ran and passed.
    Passed,
    /// 1: a scenario failed or hung.
    Failed,
    /// 2: the command line cannot be meant.
    Usage,
    /// 3: what could run passed, and something selected could not run.
    PartlyRan,
    /// 4: nothing ran, or stage or cluster are not fit.
    NothingRan,
    /// 130: SIGINT or SIGTERM; what was running has been cleaned up.
    Interrupted,
}

impl Exit {
    /// The program's exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::PartlyRan => 3,
            Self::NothingRan => 4,
            Self::Interrupted => 130,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(verdicts: &[Verdict]) -> Results {
        let outcome = |verdict: &Verdict| Outcome {
            measured: vec![("ready again".into(), "1.2s".into())],
            ..Outcome::new("a", "b", *verdict)
        };
        Results {
            run: "r".into(),
            seed: 1,
            commit: "c".into(),
            cluster: "e2e".into(),
            kubernetes: "v1".into(),
            images: Vec::new(),
            double: false,
            started: 1,
            finished: None,
            interrupted: false,
            host: vec![("cores".into(), "2".into())],
            selection: String::new(),
            replay: String::new(),
            outcomes: verdicts.iter().map(outcome).collect(),
        }
    }

    #[test]
    fn the_exit_code_is_that_of_a_full_pass_only_for_one() {
        use Verdict::{Failed, Hung, Interrupted, Missing, Passed};
        for (verdicts, exit) in [
            (&[Passed, Passed][..], Exit::Passed),
            (&[Passed, Missing], Exit::PartlyRan),
            (&[Missing], Exit::NothingRan),
            (&[], Exit::NothingRan),
            (&[Passed, Missing, Failed], Exit::Failed),
            (&[Passed, Hung], Exit::Failed),
        ] {
            assert_eq!(results(verdicts).exit(), exit, "{verdicts:?}");
        }
        let stopped = Results { interrupted: true, ..results(&[Passed, Failed, Interrupted]) };
        assert_eq!(stopped.exit().code(), 130);
    }

    #[test]
    fn results_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let written = results(&[Verdict::Missing]);
        written.write(folder.path()).unwrap();
        written.write(folder.path()).unwrap();
        assert_eq!(Results::read(folder.path()).unwrap(), written);
    }
}
