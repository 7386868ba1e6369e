// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What is attached to an index: do the lists of contents name the very programs of the image and what is in them, and
//! does the provenance speak of this index? Programs are asked themselves, as far as they know.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::super::contents::ROOTS;
use super::super::inventory::modules::BuildInfo;
use super::super::oci::{Index, Manifest};
use super::super::unpack::{Kind, Tree};
use super::super::{Layout, provenance, sbom};
use super::all_well;
use crate::arch::Arch;
use crate::workspace;

/// The provenance names this index and the commit of its labels.
pub(super) fn provenance(layout: &Layout, index: &Index) -> Result<String> {
    let attached = attached(layout, provenance::KIND, |_| true)?;
    let statement = document(layout, &attached)?;
    let subject = &statement["subject"][0]["digest"]["sha256"];
    if subject != layout.digest.hex() {
        bail!("it is about {subject}");
    }
    if statement["predicateType"] != provenance::PREDICATE {
        bail!("it is of the type {}", statement["predicateType"]);
    }
    let commit = &statement["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"];
    let label = index.annotations.get("org.opencontainers.image.revision");
    if label.is_none_or(|label| commit != label.as_str()) {
        bail!("it is about the commit {commit}, and the label says {label:?}");
    }
    Ok(format!("of this index, from {}", commit.as_str().unwrap_or_default()))
}

/// Both lists say the same, and say what the programs are and have in them.
pub(super) fn sbom(layout: &Layout, tree: &Tree, folder: &Path, arch: Arch) -> Result<String> {
    let platform = format!("linux/{arch}");
    let [cyclonedx, spdx] = [sbom::CYCLONEDX, sbom::SPDX].map(|kind| {
        let of_arch = |manifest: &Manifest| manifest.annotations.get(sbom::PLATFORM) == Some(&platform);
        let attached = attached(layout, kind, of_arch)?;
        sbom::read(kind, &document(layout, &attached)?)
    });
    let (told, spdx) = (cyclonedx?, spdx?);
    if told != spdx {
        bail!("the CycloneDX list and the SPDX list differ: {} and {} components", told.len(), spdx.len());
    }
    let purls: BTreeSet<&str> = told.iter().map(|one| one.purl.as_str()).collect();
    let mut wrong = Vec::new();

    // Files: those that are told, and no others.
    let path = |path: &str| format!("/{path}");
    let mut held: BTreeSet<(String, &str)> =
        tree.programs().map(|(name, digest, _)| (path(name), digest.hex())).collect();
    if let Some(Kind::File { digest, .. }) = tree.nodes.get(ROOTS).map(|node| &node.what) {
        held.insert((path(ROOTS), digest.hex()));
    }
    let said: BTreeSet<(String, &str)> = told
        .iter()
        .filter_map(|one| Some((one.path.clone()?, one.sha256.as_deref().unwrap_or("no digest"))))
        .collect();
    wrong.extend(
        held.difference(&said).map(|(path, digest)| format!("{path} is {digest}, which is not listed")),
    );
    wrong.extend(
        said.difference(&held).map(|(path, digest)| format!("{path} is listed as {digest} and is not that")),
    );

    // Modules, as each program of Go carries them; crates, as far as the wrapper's messages name them.
    let mut seen = BTreeSet::new();
    for (name, ..) in tree.programs() {
        let file = folder.join(name);
        if name.starts_with("usr/local/bin/") {
            seen.extend(BuildInfo::of(&file)?.purls());
        } else if name == "etcd-wrapper" {
            let bytes = std::fs::read(&file).with_context(|| format!("read {name}"))?;
            let crates = crates(&bytes);
            if crates.is_empty() {
                wrong.push("the wrapper names no crate: it was not built as it is shipped".into());
            }
            seen.extend(crates);
        }
    }
    wrong.extend(
        seen.iter().filter(|purl| !purls.contains(purl.as_str())).map(|purl| format!("{purl} is not listed")),
    );
    let modules = told.iter().filter(|one| one.path.is_none() && one.purl.starts_with("pkg:golang/"));
    wrong.extend(
        modules
            .filter(|one| !seen.contains(&one.purl))
            .map(|one| format!("{} is listed and in no program", one.purl)),
    );
    all_well(wrong, || format!("{} components, {} of them seen in the programs", told.len(), seen.len()))
}

/// The crates whose paths stand in a program, as package URLs: `/crates/NAME-VERSION/src/…`.
fn crates(program: &[u8]) -> BTreeSet<String> {
    let mark = format!("{}/", workspace::CRATES);
    let mark = mark.as_bytes();
    let mut found = BTreeSet::new();
    let mut rest = program;
    while let Some(at) = rest.windows(mark.len()).position(|window| window == mark) {
        rest = &rest[at + mark.len()..];
        let name: String = rest
            .iter()
            .take(128)
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"-_.+".contains(byte))
            .map(|byte| char::from(*byte))
            .collect();
        // The version begins at the first dash that a number and a point follow: `tokio-1.54.1`, `x-2y-1.0.0`.
        let split = name.match_indices('-').find(|(at, _)| {
            let major = name[at + 1..].split_once('.').map(|(major, _)| major);
            major.is_some_and(|major| !major.is_empty() && major.bytes().all(|byte| byte.is_ascii_digit()))
        });
        if let Some((at, _)) = split {
            found.insert(format!("pkg:cargo/{}@{}", &name[..at], name[at + 1..].replace('+', "%2B")));
        }
    }
    found
}

/// The one document of a kind that belongs to the index.
fn attached(layout: &Layout, kind: &str, wanted: impl Fn(&Manifest) -> bool) -> Result<Manifest> {
    let mut found: Vec<Manifest> = layout.referrers()?;
    found.retain(|manifest| manifest.artifact_type.as_deref() == Some(kind) && wanted(manifest));
    match <[Manifest; 1]>::try_from(found) {
        Ok([one]) => Ok(one),
        Err(found) => Err(anyhow!("{} documents of type {kind} are attached, and not one", found.len())),
    }
}

fn document(layout: &Layout, manifest: &Manifest) -> Result<Value> {
    layout.document(manifest.layers.first().context("an attached document without content")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_read_out_of_the_paths_that_messages_carry() {
        let program =
            b"\0/crates/tokio-1.54.1/src/a.rs\0\xff/crates/x-2y-1.0.0+b.1/src/crates/none/b.rs/crates/";
        let found: Vec<String> = crates(program).into_iter().collect();
        assert_eq!(found, ["pkg:cargo/tokio@1.54.1", "pkg:cargo/x-2y@1.0.0%2Bb.1"]);
    }
}
