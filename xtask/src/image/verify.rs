// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Is a layout what we ship? It believes nothing that it can look up: blobs are hashed, layers unpacked, programs asked.
//! Every property is a check with a name; a failed one never keeps the others from being looked at.

mod elf;
mod files;
mod lists;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;

use super::contents::NONROOT;
use super::oci::{self, Descriptor, Index, Manifest, Settings};
use super::unpack::{Tree, unpack};
use super::{Digest, Layout};
use crate::arch::Arch;

/// Most that the layers of one architecture may have, compressed.
const IMAGE_LIMIT: u64 = 20 << 20;
/// Most that the wrapper may have.
const WRAPPER_LIMIT: u64 = 8 << 20;

/// The labels that every image has, on the index, the manifest and the settings alike.
const LABELS: [&str; 7] = ["title", "description", "version", "revision", "source", "licenses", "created"];

/// What a layout is held against.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) archs: Vec<Arch>,
    /// The image with a shell and more tools.
    pub(crate) ops: bool,
}

/// One property and how it was found.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) check: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arch: Option<&'static str>,
    pub(crate) ok: bool,
    /// What was seen, or what is wrong.
    pub(crate) seen: String,
}

/// What was found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) digest: Digest,
    pub(crate) ok: bool,
    pub(crate) images: BTreeMap<&'static str, Figures>,
    pub(crate) checks: Vec<Check>,
}

/// Sizes in bytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    pub(crate) compressed: u64,
    pub(crate) wrapper: u64,
}

/// Looks at everything in `layout`.
pub(crate) fn verify(layout: &Layout, expected: &Expected) -> Result<Report> {
    let mut report =
        Report { digest: layout.digest.clone(), ok: true, images: BTreeMap::new(), checks: Vec::new() };
    report.note("blobs", None, blobs(layout));
    let index = match layout.index() {
        Ok(index) => index,
        Err(error) => {
            report.note("index", None, Err(error));
            return Ok(report);
        }
    };
    report.note("architectures", None, architectures(&index, expected));
    report.note("labels", None, labels(&index.annotations, &index.annotations, expected));
    report.note("provenance", None, lists::provenance(layout, &index));
    for arch in expected.archs.iter().copied() {
        let Some(image) = index.manifests.iter().find(|one| one.is_of(arch)) else { continue };
        match Opened::open(layout, image) {
            Ok(opened) => opened.look(&mut report, layout, &index, arch, expected),
            Err(error) => report.note("layers", Some(arch), Err(error)),
        }
    }
    Ok(report)
}

impl Report {
    fn note(&mut self, check: &'static str, arch: Option<Arch>, found: Result<String>) {
        let ok = found.is_ok();
        let seen = found.unwrap_or_else(|error| format!("{error:#}"));
        self.ok &= ok;
        self.checks.push(Check { check, arch: arch.map(Arch::as_str), ok, seen });
    }
}

/// An image with its files on disk.
struct Opened {
    manifest: Manifest,
    settings: Settings,
    tree: Tree,
    folder: tempfile::TempDir,
}

impl Opened {
    fn open(layout: &Layout, image: &Descriptor) -> Result<Self> {
        let manifest: Manifest = layout.document(image)?;
        let settings: Settings = layout.document(&manifest.config)?;
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let tree = unpack(layout, &manifest, &settings, folder.path())?;
        Ok(Self { manifest, settings, tree, folder })
    }

    fn look(&self, report: &mut Report, layout: &Layout, index: &Index, arch: Arch, expected: &Expected) {
        let Self { manifest, settings, tree, folder } = self;
        let execution = &settings.config;
        let mut note = |check, found| report.note(check, Some(arch), found);
        note("layers", Ok(format!("{} layers, {} files", manifest.layers.len(), tree.nodes.len())));
        note("platform", same("platform", &platform(settings), &format!("linux/{arch}")));
        note(
            "labels",
            labels(&manifest.annotations, &index.annotations, expected)
                .and_then(|_| labels(&execution.labels, &index.annotations, expected)),
        );
        note("user", same("user", &execution.user, &format!("{NONROOT}:{NONROOT}")));
        note("entrypoint", same("entrypoint", &execution.entrypoint.join(" "), "/etcd-wrapper"));
        note("modes", files::modes(tree));
        note("shell", files::shell(tree, expected.ops));
        note("users", files::users(tree, folder.path()));
        note("authorities", files::authorities(tree, folder.path()));
        note("programs", elf::programs(tree, folder.path(), arch));
        note("sbom", lists::sbom(layout, tree, folder.path(), arch));
        let wrapper = tree.programs().find(|(path, ..)| *path == "etcd-wrapper").map_or(0, |(.., size)| size);
        note("wrapper size", at_most(wrapper, WRAPPER_LIMIT));
        // The image for people has more in it and no limit.
        let limit = if expected.ops { u64::MAX } else { IMAGE_LIMIT };
        note("image size", at_most(tree.compressed, limit));
        report.images.insert(arch.as_str(), Figures { compressed: tree.compressed, wrapper });
    }
}

/// Every blob is what its descriptor says, and there are no others.
fn blobs(layout: &Layout) -> Result<String> {
    let mut reached = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut open = layout.list()?.manifests;
    while let Some(one) = open.pop() {
        let looked = layout.check(&one).and_then(|()| {
            Ok(match one.media_type.as_str() {
                oci::INDEX => layout.document::<Index>(&one)?.manifests,
                oci::MANIFEST => {
                    let manifest: Manifest = layout.document(&one)?;
                    manifest.layers.into_iter().chain([manifest.config]).collect()
                }
                _ => Vec::new(),
            })
        });
        match looked {
            Ok(below) => open.extend(below),
            Err(error) => wrong.push(format!("{error:#}")),
        }
        reached.insert(one.digest.hex().to_owned());
    }
    let folder = layout.path.join("blobs/sha256");
    for entry in std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !reached.contains(&name) {
            wrong.push(format!("{name} belongs to nothing"));
        }
    }
    all_well(wrong, || format!("{} blobs, each what its digest says", reached.len()))
}

fn architectures(index: &Index, expected: &Expected) -> Result<String> {
    let name = |one: &Descriptor| {
        one.platform.as_ref().map_or("unknown".into(), |p| format!("{}/{}", p.os, p.architecture))
    };
    let found: Vec<String> = index.manifests.iter().map(name).collect();
    let wanted: Vec<String> = expected.archs.iter().map(|arch| format!("linux/{arch}")).collect();
    same("architectures", &found.join(", "), &wanted.join(", "))
}

fn labels(held: &oci::Annotations, index: &oci::Annotations, expected: &Expected) -> Result<String> {
    let mut wrong = Vec::new();
    let value = |name: &str| {
        let key = format!("org.opencontainers.image.{name}");
        (held.get(&key).map_or("", String::as_str), index.get(&key).map_or("", String::as_str))
    };
    for name in LABELS {
        match value(name) {
            ("", _) => wrong.push(format!("no {name}")),
            (held, index) if held != index => {
                wrong.push(format!("{name} is {held:?}, and {index:?} on the index"));
            }
            _ => {}
        }
    }
    let title = if expected.ops { "etcd-wrapper-ops" } else { "etcd-wrapper" };
    if value("title").0 != title {
        wrong.push(format!("the title is {:?} and not {title:?}", value("title").0));
    }
    let revision = value("revision").0;
    if revision.len() != 40 || !revision.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        wrong.push(format!("the revision {revision:?} is no commit: the tree had changes"));
    }
    all_well(wrong, || format!("{} of {}", value("version").0, revision))
}

fn platform(settings: &Settings) -> String {
    format!("{}/{}", settings.os, settings.architecture)
}

fn same(what: &str, found: &str, wanted: &str) -> Result<String> {
    if found != wanted {
        bail!("the {what} {found:?} should be {wanted:?}");
    }
    Ok(found.to_owned())
}

fn at_most(size: u64, limit: u64) -> Result<String> {
    // Two digits say whether it is close.
    let mib = |bytes: u64| format!("{}.{:02} MiB", bytes >> 20, ((bytes % (1 << 20)) * 100) >> 20);
    match size {
        0 => bail!("there is none"),
        size if size > limit => bail!("{} is more than {}", mib(size), mib(limit)),
        size if limit == u64::MAX => Ok(mib(size)),
        size => Ok(format!("{} of {}", mib(size), mib(limit))),
    }
}

/// Nothing wrong, or all that is.
fn all_well(wrong: Vec<String>, well: impl FnOnce() -> String) -> Result<String> {
    if wrong.is_empty() { Ok(well()) } else { Err(anyhow!("{}", wrong.join("; "))) }
}

#[cfg(test)]
mod tests;
