// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a run brought: `index.html`, one page for people that needs nothing else, and `junit.xml` for machines; all there
//! is to know stands in the runner's own `results.json`. Judges no scenario: it says what it is told, and first of all
//! what the whole run is worth. A run in which nothing ran is a failure.
mod gather;
mod junit;
mod model;
mod page;
mod sample;
mod terminal;
#[cfg(test)]
mod tests;
mod timeline;
mod verdict;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use self::gather::gather;
pub use self::model::{Case, Fact, Image, Note, Origin, Outcome, Run, Stage, Tail};
pub use self::sample::{MOST_POINTS, sample};
pub use self::terminal::table;
pub use self::timeline::{
    Fault, LeaderChange, MemberLine, PhaseChange, Point, PointOutcome, Timeline, Traffic,
};
pub use self::verdict::Standing;

/// Writes both files into `folder`, which is made if it is missing, and returns the page's path. What was there
/// under these names is replaced.
///
/// # Errors
/// What the file system says.
pub fn write(run: &Run, folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok::<_, anyhow::Error>(path)
    };
    put("junit.xml", &junit::text(run)?)?;
    put("index.html", &page::text(run))
}
