// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The modules that are linked into a program of Go, as the program itself carries them. Their licences are read out of
//! the module cache, where go puts what the pinned `go.mod` names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{About, Component, Inventory, Kind, licences};
use crate::sh::Step;
use crate::tools::Tool;

/// What `go version -m` says of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuildInfo {
    /// Without `go`.
    pub(crate) go: String,
    /// The import path of the program.
    pub(crate) program: String,
    /// Module → version, with `v`; the program's own module too.
    pub(crate) modules: BTreeMap<String, String>,
}

impl BuildInfo {
    /// Asks go about a program of any architecture.
    pub(crate) fn of(file: &Path) -> Result<Self> {
        let said = Step::new("go").args(["version", "-m"]).arg(file).mend("cargo xtask setup").read()?;
        Self::parse(&said).with_context(|| format!("{}: no program of Go", file.display()))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let go = lines.next()?.rsplit_once(": go")?.1.split_whitespace().next()?.to_owned();
        let (mut program, mut modules) = (None, BTreeMap::new());
        let mut last: Option<String> = None;
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["path", path] => program = Some((*path).to_owned()),
                ["mod" | "dep", module, version, ..] => {
                    modules.insert((*module).to_owned(), (*version).to_owned());
                    last = Some((*module).to_owned());
                }
                // What stands in for the module of the line before.
                ["=>", module, version, ..] => {
                    if let Some(before) = last.take() {
                        modules.remove(&before);
                    }
                    modules.insert((*module).to_owned(), (*version).to_owned());
                }
                _ => {}
            }
        }
        Some(Self { go, program: program?, modules })
    }

    /// The package URLs of everything linked into it.
    pub(crate) fn purls(&self) -> BTreeSet<String> {
        let modules = self.modules.iter().map(|(module, version)| purl(module, version));
        modules.chain([purl("stdlib", &self.go)]).collect()
    }

    /// The module that holds the program's package, and its version.
    fn own(&self) -> Option<(&str, &str)> {
        let holds = |module: &str| {
            self.program.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let own =
            self.modules.iter().filter(|(module, _)| holds(module)).max_by_key(|(module, _)| module.len());
        own.map(|(module, version)| (module.as_str(), version.as_str()))
    }
}

/// Adds the modules of the program `file`, and says what the program is.
pub(super) fn add(inventory: &mut Inventory, root: &Path, tool: Tool, file: &Path) -> Result<About> {
    let info = BuildInfo::of(file)?;
    let (own, version) = info.own().context("the program names no module that holds it")?;
    let folder = tool.module().with_context(|| format!("{tool} is pinned by no module"))?;
    let sources = sources(&root.join("hack/tools").join(folder), info.modules.keys())?;
    for (module, version) in &info.modules {
        let source = sources.get(module).with_context(|| format!("go mod download: no {module}"))?;
        if source.version != *version {
            bail!("{module} is {version} in the program and {} in {folder}/go.mod", source.version);
        }
        inventory.add(component(module, version, licences::of(&source.dir)?));
    }
    inventory.add(component("stdlib", &info.go, "BSD-3-Clause".into()));
    let licence = inventory.components[&purl(own, version)].licence.clone();
    Ok(About {
        name: info.program.clone(),
        version: version.to_owned(),
        purl: purl(own, version),
        licence,
        uses: info.purls(),
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Source {
    path: String,
    version: String,
    dir: PathBuf,
}

/// Where the source of each module lies, fetched first if the cache lacks it.
fn sources<'a>(folder: &Path, modules: impl Iterator<Item = &'a String>) -> Result<BTreeMap<String, Source>> {
    let said = Step::new("go")
        .args(["mod", "download", "-json"])
        .args(modules)
        .dir(folder)
        .env("GOFLAGS", "-mod=readonly")
        .env("GOWORK", "off")
        .read()?;
    let read = serde_json::Deserializer::from_str(&said).into_iter::<Source>();
    read.map(|source| source.map(|source| (source.path.clone(), source)))
        .collect::<Result<_, _>>()
        .context("parse go mod download")
}

fn component(module: &str, version: &str, licence: String) -> Component {
    let purl = purl(module, version);
    Component {
        id: purl.clone(),
        kind: Kind::Library,
        name: module.to_owned(),
        version: version.to_owned(),
        purl,
        licence,
        sha256: None,
        path: None,
    }
}

fn purl(module: &str, version: &str) -> String {
    format!("pkg:golang/{}@{}", module.to_lowercase(), version.replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "/x/etcd: go1.26.8\n\tpath\tgo.etcd.io/etcd/server/v3\n\tmod\tgo.etcd.io/etcd/server/v3\tv3.5.35\th1:x=\n\tdep\texample.org/A\tv1.0.0+incompatible\th1:y=\n\tdep\texample.org/b\tv1.0.0\n\t=>\texample.org/c\tv1.1.0\th1:z=\n\tbuild\t-buildmode=exe\n";

    #[test]
    fn a_program_tells_its_modules_with_those_that_stand_in_for_others() {
        let info = BuildInfo::parse(SAID).unwrap();
        assert_eq!(info.go, "1.26.8");
        assert_eq!(info.own(), Some(("go.etcd.io/etcd/server/v3", "v3.5.35")));
        let purls: Vec<String> = info.purls().into_iter().collect();
        assert_eq!(
            purls,
            [
                "pkg:golang/example.org/a@v1.0.0%2Bincompatible",
                "pkg:golang/example.org/c@v1.1.0",
                "pkg:golang/go.etcd.io/etcd/server/v3@v3.5.35",
                "pkg:golang/stdlib@1.26.8",
            ]
        );
        assert_eq!(BuildInfo::parse("/x/sh: not a Go executable\n"), None);
    }
}
