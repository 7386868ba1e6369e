// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a run brought, for people: `index.html`, one page that needs nothing else, `junit.xml` for whatever shows tests,
//! and a table for the terminal. Drawn from `results.json` and the evidence beside it, so a run that is long over, or that
//! died, can be drawn again. Judges no scenario: it says what it reads, and first of all what the whole run is worth.
mod gather;
mod headline;
mod junit;
mod model;
mod page;
mod rows;
mod sample;
mod terminal;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::outcome::Results;

pub use self::headline::headline;
pub use self::terminal::table;

/// Names in the report's folder.
pub const PAGE: &str = "index.html";
/// Its file in the run's folder.
pub const JUNIT: &str = "junit.xml";

/// Draws the results that lie in `folder` with the evidence beside them, and returns the page's path. Evidence that cannot
/// be read is left out, and the page says so.
///
/// # Errors
/// No results there, or the page cannot be written.
pub fn draw(folder: &Path) -> Result<PathBuf> {
    let run = gather::run(Results::read(folder)?, folder);
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok::<_, anyhow::Error>(path)
    };
    put(JUNIT, &junit::text(&run)?)?;
    put(PAGE, &page::text(&run))
}
