// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The crates that are linked into the wrapper for an architecture, as cargo resolves them for this one package: without
//! what only tests, build scripts and macros need. Checksums are those of Cargo.lock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{About, Component, Inventory, Kind};
use crate::arch::Arch;
use crate::sh::Step;

const OURS: &str = "etcd-wrapper";
const ROOTS_CRATE: &str = "webpki-root-certs";

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

/// Adds the crates of the wrapper for `arch`, and says what the wrapper is.
pub(super) fn add(inventory: &mut Inventory, root: &Path, arch: Arch) -> Result<About> {
    let triple = arch.triple();
    let tree = Step::new("cargo")
        .args(["tree", "--locked", "--package", OURS, "--target", triple])
        .args(["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"])
        .dir(root)
        .read()?;
    let linked = linked(&tree);
    let metadata = metadata(root, &["--filter-platform", triple])?;
    let lock = lock(root)?;
    let held: BTreeMap<&str, &Package> = metadata
        .packages
        .iter()
        .filter(|package| linked.contains(&(package.name.clone(), package.version.clone())))
        .map(|package| (package.id.as_str(), package))
        .collect();
    let ours = held.values().find(|package| package.name == OURS).context("cargo tree: no etcd-wrapper")?;
    for package in held.values().filter(|package| package.name != OURS) {
        inventory.add(component(package, &lock)?);
    }
    for node in metadata.resolve.nodes.iter().filter(|node| held.contains_key(node.id.as_str())) {
        let normal = node.deps.iter().filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        let uses: BTreeSet<String> =
            normal.filter_map(|edge| held.get(edge.pkg.as_str())).map(|package| purl(package)).collect();
        if node.id != ours.id && !uses.is_empty() {
            inventory.uses.insert(purl(held[node.id.as_str()]), uses);
        }
    }
    let mut uses: BTreeSet<String> =
        held.values().filter(|package| package.name != OURS).map(|package| purl(package)).collect();
    uses.insert(standard_library(inventory, root)?);
    Ok(About {
        name: OURS.into(),
        version: ours.version.clone(),
        purl: format!(
            "pkg:github/{}@{}",
            ours.repository.as_deref().unwrap_or_default().trim_start_matches("https://github.com/"),
            ours.version
        ),
        licence: licence(ours)?,
        uses,
    })
}

/// The crate that the certificates of public authorities come from.
pub(super) fn roots(root: &Path) -> Result<Component> {
    let metadata = metadata(root, &[])?;
    let package = metadata.packages.iter().find(|package| package.name == ROOTS_CRATE);
    component(package.with_context(|| format!("cargo metadata: no {ROOTS_CRATE}"))?, &lock(root)?)
}

/// Rust's own library, which no registry lists.
fn standard_library(inventory: &mut Inventory, root: &Path) -> Result<String> {
    let said = Step::new("rustc").arg("--version").dir(root).read()?;
    let version = said.split_whitespace().nth(1).context("rustc --version: no version")?;
    let purl = format!("pkg:github/rust-lang/rust@{version}");
    inventory.add(Component {
        id: purl.clone(),
        kind: Kind::Library,
        name: "rust-std".into(),
        version: version.into(),
        purl: purl.clone(),
        licence: "MIT OR Apache-2.0".into(),
        sha256: None,
        path: None,
    });
    Ok(purl)
}

/// Name and version of each line `name v1.2.3 …`.
fn linked(tree: &str) -> BTreeSet<(String, String)> {
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    };
    tree.lines().filter_map(parse).collect()
}

fn metadata(root: &Path, args: &[&str]) -> Result<Metadata> {
    let step = Step::new("cargo").args(["metadata", "--locked", "--format-version", "1"]).args(args);
    serde_json::from_str(&step.dir(root).read()?).context("parse cargo metadata")
}

fn component(package: &Package, lock: &BTreeMap<(String, String), String>) -> Result<Component> {
    let purl = purl(package);
    let checksum = lock.get(&(package.name.clone(), package.version.clone()));
    Ok(Component {
        id: purl.clone(),
        kind: Kind::Library,
        name: package.name.clone(),
        version: package.version.clone(),
        purl,
        licence: licence(package)?,
        sha256: checksum.cloned(),
        path: None,
    })
}

fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version.replace('+', "%2B"))
}

fn licence(package: &Package) -> Result<String> {
    // Old crates write `MIT/Apache-2.0` for a choice.
    let said = package.license.as_deref().map(|text| text.replace('/', " OR "));
    said.with_context(|| format!("the crate {} {} names no licence", package.name, package.version))
}

/// The checksums of Cargo.lock, by name and version.
fn lock(root: &Path) -> Result<BTreeMap<(String, String), String>> {
    let path = root.join("Cargo.lock");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(checksums(&text))
}

fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, name: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    lock.split("[[package]]")
        .filter_map(|block| {
            Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    #[test]
    fn the_wrappers_own_crates_are_listed_and_those_of_tests_and_builds_are_not() {
        for arch in Arch::ALL {
            let mut inventory = Inventory::default();
            let about = add(&mut inventory, &repo::root(), arch).unwrap();
            let names: BTreeSet<&str> = inventory.components.values().map(|c| c.name.as_str()).collect();
            assert!(names.contains("tokio") && names.contains("ring"), "{names:?}");
            for other in ["protox", "proptest", "doubles", "clap_derive", "syn", "kube"] {
                assert!(!names.contains(other), "{other}");
            }
            assert_eq!(about.uses.len(), inventory.components.len());
            let bare = inventory.components.values().filter(|c| c.sha256.is_none()).count();
            assert_eq!(bare, 1, "only the standard library has no checksum");
        }
    }

    #[test]
    fn checksums_are_read_by_name_and_version() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"r\"\nchecksum = \"ff\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\n";
        let read = checksums(lock);
        assert_eq!(read.len(), 1);
        assert_eq!(read[&("a".into(), "1.0.0".into())], "ff");
    }
}
