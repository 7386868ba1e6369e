// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Programs that come ready-made in a wheel: `hack/tools/python/requirements.txt` pins each with the hashes of its
//! wheels. Nothing in Python is run, and nothing that a wheel does not hold is fetched.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cache::{self, Cache};
use crate::machine;
use crate::sh::Step;

/// Where the pins stand, below the clone.
const REQUIREMENTS: &str = "hack/tools/python/requirements.txt";
/// The command that brings pip.
const MEND: &str = "apt-get install -y python3-pip";

/// The path of the program `name`, out of the wheels that the page pins; all of them are unpacked together.
pub(super) fn program(cache: &Cache, root: &Path, name: &str) -> Result<PathBuf> {
    let page = root.join(REQUIREMENTS);
    let text = std::fs::read_to_string(&page).with_context(|| format!("read {}", page.display()))?;
    let key = cache::key(&[("requirements", text.as_bytes()), ("arch", std::env::consts::ARCH.as_bytes())]);
    let folder = cache.entry("wheels", &key, |folder| {
        if machine::on_path("python3").is_none() {
            bail!("python3: not found; it comes with: {MEND}");
        }
        Step::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
            .args([
                "--only-binary",
                ":all:",
                "--require-hashes",
                "--no-compile",
                "--root-user-action",
                "ignore",
            ])
            .arg("--target")
            .arg(folder)
            .arg("--requirement")
            .arg(&page)
            .watch("fetching the pinned wheels")
            .with_context(|| format!("pip comes with: {MEND}"))
    })?;
    let path = folder.join("bin").join(name);
    if path.is_file() {
        Ok(path)
    } else {
        bail!("{}: not in the wheels that {REQUIREMENTS} pins", path.display())
    }
}
