// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What an image is made of: its programs, and the crates, modules and packages in them. Found out by asking those who
//! built it (cargo, and the very binaries of Go), never kept by hand; how it is written down is the business of `sbom`.

pub(crate) mod crates;
mod licences;
pub(crate) mod modules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use super::contents::{Contents, Origin, Program, ROOTS, roots};
use super::digest::Digest;
use crate::arch::Arch;

/// One thing in an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Component {
    /// Unique within an inventory.
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) version: String,
    /// Package URL.
    pub(crate) purl: String,
    /// An SPDX expression.
    pub(crate) licence: String,
    /// SHA-256 in hexadecimal digits: of the file, or of the crate as its registry has it.
    pub(crate) sha256: Option<String>,
    /// Its place in the image, from the root, for what is a file there.
    pub(crate) path: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Program,
    Library,
    Data,
}

/// The parts of one image, each once and sorted, and which is made of which.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inventory {
    pub(crate) components: BTreeMap<String, Component>,
    /// By id, what is linked into or used by each.
    pub(crate) uses: BTreeMap<String, BTreeSet<String>>,
}

/// Takes the inventory of what lies in `contents`.
pub(crate) fn take(root: &Path, arch: Arch, contents: &Contents) -> Result<Inventory> {
    let mut inventory = Inventory::default();
    for program in &contents.programs {
        let file = Digest::of_file(&program.file)?;
        let found = match program.origin {
            Origin::Crates => crates::add(&mut inventory, root, arch),
            Origin::Modules(tool) => modules::add(&mut inventory, root, tool, &program.file),
            Origin::Debian(package) => debian(program, package, arch),
        };
        let about = found.with_context(|| format!("list what {} is made of", program.path))?;
        inventory.program(program.path, &file, about);
    }
    let bundle = crates::roots(root)?;
    let digest = Digest::of(roots().as_bytes());
    inventory.add(Component {
        id: format!("file:/{ROOTS}"),
        kind: Kind::Data,
        sha256: Some(digest.hex().into()),
        path: Some(format!("/{ROOTS}")),
        ..bundle
    });
    Ok(inventory)
}

/// A program as its package knows it, and what it is linked from.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) purl: String,
    pub(crate) licence: String,
    pub(crate) uses: BTreeSet<String>,
}

impl Inventory {
    pub(crate) fn add(&mut self, component: Component) {
        self.components.insert(component.id.clone(), component);
    }

    fn program(&mut self, path: &str, file: &Digest, about: About) {
        let id = format!("file:/{path}");
        self.uses.insert(id.clone(), about.uses);
        self.add(Component {
            id,
            kind: Kind::Program,
            name: about.name,
            version: about.version,
            purl: about.purl,
            licence: about.licence,
            sha256: Some(file.hex().into()),
            path: Some(format!("/{path}")),
        });
    }

    /// All that has a place in the image: what the image consists of at first sight.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Component> {
        self.components.values().filter(|component| component.path.is_some())
    }
}

/// A program of Debian's, which carries its version in its own text.
fn debian(program: &Program, package: &str, arch: Arch) -> Result<About> {
    let bytes = std::fs::read(&program.file).with_context(|| format!("read {}", program.file.display()))?;
    let version = debian_version(&bytes)
        .with_context(|| format!("{}: no text `(Debian VERSION)` in it", program.file.display()))?;
    Ok(About {
        name: package.to_owned(),
        // A purl has no bare `+` and `:`.
        purl: format!(
            "pkg:deb/debian/{package}@{}?arch={arch}",
            version.replace('+', "%2B").replace(':', "%3A")
        ),
        version,
        licence: "GPL-2.0-only".into(),
        uses: BTreeSet::new(),
    })
}

fn debian_version(bytes: &[u8]) -> Option<String> {
    let mark = b"(Debian ";
    let start = bytes.windows(mark.len()).position(|window| window == mark)? + mark.len();
    let rest = &bytes[start..];
    let end = rest.iter().take(64).position(|byte| *byte == b')')?;
    String::from_utf8(rest[..end].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_debians_tells_its_version() {
        let text = b"\0BusyBox v1.35.0 (Debian 1:1.35.0-4+b7)\0(more)";
        assert_eq!(debian_version(text).as_deref(), Some("1:1.35.0-4+b7"));
        assert_eq!(debian_version(b"BusyBox v1.35.0"), None);
    }
}
