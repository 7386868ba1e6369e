// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Runs the programs of an image once, out of its own layers: do they start on their processor, and are they the versions
//! that were meant? Those of another architecture run under qemu. It starts no member and touches no network.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::oci::{Manifest, Settings};
use super::unpack::unpack;
use super::{Layout, Options};
use crate::arch::Arch;
use crate::sh::Step;
use crate::tools::Tool;

/// How an architecture came out.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// What each program said of itself.
    Ran(Vec<String>),
    /// Why its programs cannot be run here.
    NotRun(String),
}

/// Runs the programs of every image in the layout.
pub(crate) fn run(layout: &Layout, options: &Options) -> Result<Vec<(Arch, Outcome)>> {
    let mut outcomes = Vec::new();
    let index = layout.index()?;
    let version = index.annotations.get("org.opencontainers.image.version");
    let version = version.context("the index names no version")?;
    for arch in options.archs.iter().copied() {
        let image = index.manifests.iter().find(|one| one.is_of(arch));
        let image = image.with_context(|| format!("{} has no image for {arch}", layout.path.display()))?;
        let emulator = if arch == Arch::HERE { Ok(None) } else { Tool::Qemu(arch).ensure().map(Some) };
        let outcome = match emulator {
            Err(error) => Outcome::NotRun(format!("{error:#}")),
            Ok(emulator) => {
                let manifest: Manifest = layout.document(image)?;
                let settings: Settings = layout.document(&manifest.config)?;
                let folder = tempfile::tempdir().context("make a temporary folder")?;
                unpack(layout, &manifest, &settings, folder.path())?;
                let said = programs(options, version)?
                    .into_iter()
                    .map(|program| program.run(folder.path(), emulator.as_deref()));
                let said = said.collect::<Result<_>>();
                Outcome::Ran(said.with_context(|| format!("run the programs for {arch} once"))?)
            }
        };
        outcomes.push((arch, outcome));
    }
    Ok(outcomes)
}

/// A program, how it is asked for its version, and the version that it should name.
struct Program {
    path: &'static str,
    args: &'static [&'static str],
    version: String,
}

fn programs(options: &Options, version: &str) -> Result<Vec<Program>> {
    let pinned = |tool: Tool| {
        let version = tool.pinned()?.with_context(|| format!("{tool} is pinned by no module"))?;
        Ok::<_, anyhow::Error>(version.trim_start_matches('v').to_owned())
    };
    let line = options.line;
    let mut programs = vec![
        Program { path: "etcd-wrapper", args: &["--version"], version: version.to_owned() },
        Program { path: "usr/local/bin/etcd", args: &["--version"], version: pinned(Tool::Etcd(line))? },
        Program { path: "usr/local/bin/etcdctl", args: &["version"], version: pinned(Tool::Etcdctl(line))? },
    ];
    if options.ops {
        let etcdutl = pinned(Tool::Etcdutl(line))?;
        programs.push(Program { path: "usr/local/bin/etcdutl", args: &["version"], version: etcdutl });
        programs.push(Program {
            path: "bin/busybox",
            args: &["sh", "-c", "echo shell"],
            version: "shell".into(),
        });
        programs.push(Program {
            path: "etcd-wrapper",
            args: &["cheatsheet", "--help"],
            version: "Usage".into(),
        });
    }
    Ok(programs)
}

impl Program {
    /// The line that names the version.
    fn run(&self, root: &Path, emulator: Option<&Path>) -> Result<String> {
        let program: PathBuf = root.join(self.path);
        let step = match emulator {
            Some(emulator) => Step::new(emulator).arg(&program),
            None => Step::new(&program),
        };
        let said = step.args(self.args).read().with_context(|| format!("run /{}", self.path))?;
        match said.lines().find(|line| line.contains(&self.version)) {
            Some(line) => Ok(line.trim().to_owned()),
            None => bail!(
                "/{} {} does not name {}: {}",
                self.path,
                self.args.join(" "),
                self.version,
                said.trim()
            ),
        }
    }
}
