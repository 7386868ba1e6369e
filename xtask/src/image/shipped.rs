// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The image that is shipped: one index over the architectures, as an OCI image layout. The same commit gives the same
//! digest in every folder; where it goes from here is the business of whoever asked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::blobs::Blobs;
use super::contents::{Contents, contents};
use super::oci::{self, Annotations, Descriptor, Index, Manifest, Platform};
use super::revision::Revision;
use super::sbom::{self, Subject};
use super::{Image, Layer, Layout, inventory, provenance};
use crate::arch::Arch;
use crate::tools::Line;
use crate::{repo, workspace};

/// Of the image that runs members.
pub(super) const TITLE: &str = "etcd-wrapper";

/// What shall be built.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// In the order of the index, each once.
    pub(crate) archs: Vec<Arch>,
    pub(crate) line: Line,
    /// With a shell and more tools, for people.
    pub(crate) ops: bool,
    /// Wrappers that were built elsewhere, such as on a machine of their architecture.
    pub(crate) wrappers: BTreeMap<Arch, PathBuf>,
}

impl Options {
    /// What the image is called: `etcd-wrapper`, or `etcd-wrapper-ops`.
    pub(crate) fn title(&self) -> &'static str {
        if self.ops { "etcd-wrapper-ops" } else { TITLE }
    }

    /// The name of its layout: with the line, `etcd-wrapper-3.5`.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.title(), self.line.as_str())
    }

    /// The tag of a version: `0.1.0`; with the line of etcd where it is not the default one.
    fn tag(&self, version: &str) -> String {
        // A tag has no `+`.
        let version = version.replace('+', "_");
        let line =
            if self.line == Line::DEFAULT { String::new() } else { format!("-etcd{}", self.line.as_str()) };
        format!("{version}{line}")
    }
}

/// Builds everything that is lacking and writes the layout to `target/image/NAME`.
pub(crate) fn build(options: &Options) -> Result<Layout> {
    if options.line == Line::L34 {
        bail!(
            "etcd 3.4 is Debian's and for the tests alone; the lines that are shipped are 3.5, 3.6 and 3.7"
        );
    }
    let root = repo::root();
    let revision = Revision::of(&root)?;
    if revision.dirty {
        eprintln!("the tree has changes that are not committed: the image says {}", revision.commit);
    }
    let mut parts = Vec::new();
    for arch in options.archs.iter().copied() {
        let wrapper = match options.wrappers.get(&arch) {
            Some(path) => path.clone(),
            None => workspace::build_for(arch, "etcd-wrapper", "etcd-wrapper", true)?,
        };
        let contents = contents(arch, &wrapper, options.line, options.ops)
            .with_context(|| format!("put together the image for {arch}"))?;
        parts.push((arch, contents));
    }
    let place = workspace::target_folder(&root)?.join("image").join(options.name());
    eprintln!("writing the layout {}", place.display());
    write(&root, options, &revision, &parts, &place)?;
    Layout::open(&place)
}

/// The image of one architecture, as it says of itself what it is.
pub(super) fn image(contents: &Contents, arch: Arch, revision: &Revision, title: &str) -> Image {
    Image { created: revision.created.clone(), labels: revision.labels(title), ..contents.image(arch) }
}

/// Writes the layout of what was built.
fn write(
    root: &Path,
    options: &Options,
    revision: &Revision,
    parts: &[(Arch, Contents)],
    place: &Path,
) -> Result<()> {
    let blobs = Blobs::begin(place)?;
    let labels = revision.labels(options.title());
    let package = &revision.package;
    let mut manifests = Vec::new();
    let mut lists = Vec::new();
    for (arch, contents) in parts {
        let manifest = manifest(&blobs, &image(contents, *arch, revision, options.title()))?;
        let subject = Subject {
            title: options.title(),
            version: &package.version,
            arch: *arch,
            image: &manifest.digest,
            created: &revision.created,
            source: &package.repository,
            licence: &package.license,
        };
        let inventory = inventory::take(root, *arch, contents)
            .with_context(|| format!("list what the image for {arch} is made of"))?;
        lists.extend(sbom::write(&subject, &inventory)?);
        manifests.push(manifest);
    }
    let index = blobs.json(oci::INDEX, &Index::new(manifests, labels))?;
    let mut listed = vec![index.clone()];
    listed[0].annotations.insert(oci::REF_NAME.into(), options.tag(&package.version));
    for list in lists {
        let document = blobs.bytes(list.media_type, &list.bytes)?;
        listed.push(attach(&blobs, list.media_type, document, &index, list.annotations)?);
    }
    let statement = provenance::statement(root, options, revision, &index.digest)?;
    let document = blobs.json(provenance::KIND, &statement)?;
    let notes = [
        ("org.opencontainers.image.created", revision.created.as_str()),
        ("in-toto.io/predicate-type", provenance::PREDICATE),
    ];
    let notes = notes.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    listed.push(attach(&blobs, provenance::KIND, document, &index, notes)?);
    blobs.bytes(oci::EMPTY, b"{}")?;
    blobs.publish(listed)
}

/// The manifest that makes a document belong to `subject`.
fn attach(
    blobs: &Blobs,
    kind: &str,
    document: Descriptor,
    subject: &Descriptor,
    notes: Annotations,
) -> Result<Descriptor> {
    let manifest = Manifest::referrer(kind, document, subject.clone(), notes.clone());
    let mut described = blobs.json(oci::MANIFEST, &manifest)?;
    described.artifact_type = Some(kind.into());
    described.annotations = notes;
    Ok(described)
}

/// The manifest of one image, with its blobs.
fn manifest(blobs: &Blobs, image: &Image) -> Result<Descriptor> {
    let mut layers = Vec::new();
    let mut contents = Vec::new();
    for layer in &image.layers {
        let Layer::Entries(entries) = layer else { bail!("a layout is made of files, not of a tar") };
        let (layer, content) = blobs.layer(entries)?;
        layers.push(layer);
        contents.push(content);
    }
    let config = image.config(&contents.iter().collect::<Vec<_>>());
    let config = blobs.json(oci::CONFIG, &config)?;
    let manifest = Manifest::image(config, layers, image.labels.clone());
    let mut described = blobs.json(oci::MANIFEST, &manifest)?;
    described.platform = Some(Platform::linux(image.arch));
    Ok(described)
}
