// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Where a rehearsal takes place: a clone in a temporary folder with the workflows as they lie in the work tree, and the
//! command line of act. Nothing of it outlives the run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::Seen;
use crate::sh::Step;

/// What of the work tree is laid over the clone, so that what is not committed yet is rehearsed too.
const LAID_OVER: [&str; 3] = [".github", "pipelines", "hack/act"];
/// Labels of runners that this machine plays.
const RUNNERS: [&str; 2] = ["ubuntu-24.04", "ubuntu-24.04-arm"];

/// The clone and what lies beside it.
#[derive(Debug)]
pub(super) struct Ground {
    folder: tempfile::TempDir,
    /// Actions of others, `NAME@HASH`.
    actions: BTreeSet<String>,
    stand_ins: PathBuf,
}

impl Ground {
    pub(super) fn prepare(root: &Path) -> Result<Self> {
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let clone = folder.path().join("clone");
        Step::new("git").args(["clone", "--quiet", "--shared"]).arg(root).arg(&clone).read()?;
        for part in LAID_OVER {
            let to = clone.join(part);
            if to.exists() {
                std::fs::remove_dir_all(&to).with_context(|| format!("remove {}", to.display()))?;
            }
            Step::new("cp").arg("-a").arg(root.join(part)).arg(&to).read()?;
        }
        let mut actions = BTreeSet::new();
        collect(&clone.join(".github"), &mut actions)?;
        let ground = Self { folder, actions, stand_ins: root.join("hack/act") };
        ground.commit("the work tree")?;
        Ok(ground)
    }

    fn clone(&self) -> PathBuf {
        self.folder.path().join("clone")
    }

    fn git(&self) -> Step {
        let who = [
            "-c",
            "user.name=rehearsal",
            "-c",
            "user.email=rehearsal@localhost",
            "-c",
            "commit.gpgsign=false",
        ];
        Step::new("git").args(who).dir(&self.clone())
    }

    fn commit(&self, subject: &str) -> Result<String> {
        self.git().args(["add", "--all"]).read()?;
        self.git().args(["commit", "--quiet", "--no-verify", "--allow-empty", "-m", subject]).read()?;
        Ok(self.git().args(["rev-parse", "HEAD"]).read()?.trim().to_owned())
    }

    /// Commits a line at the end of a file, and runs ci.yml as if that had been pushed.
    pub(super) fn play(
        &self,
        act: &Path,
        (file, line): (&str, &str),
        breaks: &str,
        real: &str,
        verbose: bool,
    ) -> Result<Seen> {
        let before = self.git().args(["rev-parse", "HEAD"]).read()?.trim().to_owned();
        let path = self.clone().join(file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        std::fs::write(&path, format!("{text}{line}"))
            .with_context(|| format!("write {}", path.display()))?;
        let after = self.commit(file)?;
        let beside = |name: &str| self.folder.path().join(name);
        let event = json!({"ref": "refs/heads/main", "before": before, "after": after});
        std::fs::write(beside("event.json"), event.to_string()).context("write the event")?;
        let record = beside("record");
        std::fs::write(&record, "").context("write the record")?;
        // Its own home: settings and caches of whoever rehearses have no say.
        let home = beside("home");
        std::fs::create_dir_all(&home).with_context(|| format!("create {}", home.display()))?;
        let path = std::env::var("PATH").context("read PATH")?;
        let xtask = std::env::current_exe().context("find ourselves")?;
        let mut step = Step::new(act)
            .args(["push", "--workflows", ".github/workflows/ci.yml", "--pull=false", "--eventpath"])
            .arg(beside("event.json"))
            .args(["--container-daemon-socket", "-"])
            .dir(&self.clone());
        for runner in RUNNERS {
            step = step.arg("--platform").arg(format!("{runner}=-self-hosted"));
        }
        for action in &self.actions {
            let stand_in = self.stand_ins.join("pass");
            step = step.arg("--local-repository").arg(format!("{action}={}", stand_in.display()));
        }
        for (name, value) in [
            ("PATH", format!("{}:{path}", self.stand_ins.display())),
            ("REHEARSAL_RECORD", record.display().to_string()),
            ("REHEARSAL_XTASK", xtask.display().to_string()),
            ("REHEARSAL_BREAK", breaks.to_owned()),
            ("REHEARSAL_REAL", real.to_owned()),
        ] {
            step = step.arg("--env").arg(format!("{name}={value}"));
        }
        for name in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"] {
            step = step.env(name, &home);
        }
        let (good, said) = step.listen(verbose)?;
        let verbs = std::fs::read_to_string(&record).context("read the record")?;
        Ok(Seen { good, verbs: verbs.lines().map(str::to_owned).collect(), said })
    }
}

/// The actions of others that the files below a folder use.
fn collect(folder: &Path, actions: &mut BTreeSet<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry.with_context(|| format!("read {}", folder.display()))?.path();
        if path.is_dir() {
            collect(&path, actions)?;
        } else {
            let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            actions.extend(used(&text));
        }
    }
    Ok(())
}

fn used(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| {
        let (_, action) = line.split_once("uses: ")?;
        let action = action.split_whitespace().next()?;
        (!action.starts_with("./")).then(|| action.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_of_others_gets_a_stand_in() {
        let text =
            "      - uses: a/b@0123 # v1\n        uses: c/d@4567\n      - uses: ./.github/actions/setup\n";
        assert_eq!(used(text).collect::<Vec<_>>(), ["a/b@0123", "c/d@4567"]);
    }
}
