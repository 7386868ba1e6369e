// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Lists of contents: an inventory as CycloneDX and as SPDX. Both say the same, and nothing about when or where they were
//! written: identifiers that have to be unique are made from the content.

mod cyclonedx;
mod spdx;

use anyhow::Result;
use serde_json::Value;

use super::digest::Digest;
use super::inventory::Inventory;
use super::oci::Annotations;
use crate::arch::Arch;

pub(crate) use self::{cyclonedx::KIND as CYCLONEDX, spdx::KIND as SPDX};

/// What a list is about.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) title: &'a str,
    pub(crate) version: &'a str,
    pub(crate) arch: Arch,
    /// The manifest of the image of this architecture.
    pub(crate) image: &'a Digest,
    /// In RFC 3339.
    pub(crate) created: &'a str,
    /// Where the source lies.
    pub(crate) source: &'a str,
    pub(crate) licence: &'a str,
}

impl Subject<'_> {
    fn purl(&self) -> String {
        format!("pkg:oci/{}@sha256%3A{}?arch={}", self.title, self.image.hex(), self.arch)
    }
}

/// A list as a document that can be attached to an image.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) media_type: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) annotations: Annotations,
}

/// Writes both lists.
pub(crate) fn write(subject: &Subject<'_>, inventory: &Inventory) -> Result<[Document; 2]> {
    Ok([
        document(subject, CYCLONEDX, "cdx.json", &cyclonedx::write(subject, inventory)?)?,
        document(subject, SPDX, "spdx.json", &spdx::write(subject, inventory)?)?,
    ])
}

fn document(subject: &Subject<'_>, kind: &'static str, end: &str, content: &Value) -> Result<Document> {
    let notes = [
        ("org.opencontainers.image.title", format!("{}-{}.{end}", subject.title, subject.arch)),
        ("org.opencontainers.image.created", subject.created.to_owned()),
        // Which of the subject's images it is about.
        (PLATFORM, format!("linux/{}", subject.arch)),
    ];
    Ok(Document {
        media_type: kind,
        bytes: serde_json::to_vec(content)?,
        annotations: notes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    })
}

/// The annotation that tells the platform of a list.
pub(crate) const PLATFORM: &str = "io.github.gardener.etcd-wrapper.platform";

/// A component, as either form tells it: what `image verify` holds against the image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Told {
    pub(crate) purl: String,
    /// Its place in the image, from the root, if it is a file there.
    pub(crate) path: Option<String>,
    pub(crate) sha256: Option<String>,
}

/// Reads the components back out of a list of either kind.
pub(crate) fn read(kind: &str, content: &Value) -> Result<Vec<Told>> {
    let mut told = if kind == CYCLONEDX { cyclonedx::read(content) } else { spdx::read(content) }?;
    told.sort();
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::super::inventory::{Component, Kind};
    use super::*;

    fn inventory() -> Inventory {
        let mut inventory = Inventory::default();
        let library = Component {
            id: "pkg:cargo/a@1.0.0".into(),
            kind: Kind::Library,
            name: "a".into(),
            version: "1.0.0".into(),
            purl: "pkg:cargo/a@1.0.0".into(),
            licence: "MIT OR Apache-2.0".into(),
            sha256: Some("ff".into()),
            path: None,
        };
        inventory.uses.insert("file:/x".into(), [library.id.clone()].into());
        inventory.add(Component {
            id: "file:/x".into(),
            kind: Kind::Program,
            name: "x".into(),
            purl: "pkg:golang/x@v1".into(),
            path: Some("/x".into()),
            ..library.clone()
        });
        inventory.add(library);
        inventory
    }

    fn lists(created: &str) -> [Document; 2] {
        let image = Digest::of(b"");
        let subject = Subject {
            title: "etcd-wrapper",
            version: "1.0.0",
            arch: Arch::Arm64,
            image: &image,
            created,
            source: "https://example.org/x",
            licence: "Apache-2.0",
        };
        write(&subject, &inventory()).unwrap()
    }

    #[test]
    fn both_forms_say_the_same_components_and_say_it_again() {
        let [cdx, spdx] = lists("2024-01-01T00:00:00Z");
        let read = |document: &Document| {
            read(document.media_type, &serde_json::from_slice(&document.bytes).unwrap()).unwrap()
        };
        let told = read(&cdx);
        assert_eq!(told, read(&spdx));
        let purls: Vec<&str> = told.iter().map(|one| one.purl.as_str()).collect();
        assert_eq!(purls, ["pkg:cargo/a@1.0.0", "pkg:golang/x@v1"]);
        assert_eq!(told[1].path.as_deref(), Some("/x"));
        assert_eq!(lists("2024-01-01T00:00:00Z").map(|one| one.bytes), [cdx.bytes, spdx.bytes]);
    }

    #[test]
    fn what_has_to_be_unique_changes_with_the_content() {
        let value = |created: &str| -> [Value; 2] {
            lists(created).map(|one| serde_json::from_slice(&one.bytes).unwrap())
        };
        let (one, other) = (value("2024-01-01T00:00:00Z"), value("2024-01-02T00:00:00Z"));
        assert_ne!(one[0]["serialNumber"], other[0]["serialNumber"]);
        assert_ne!(one[1]["documentNamespace"], other[1]["documentNamespace"]);
        let serial = one[0]["serialNumber"].as_str().unwrap();
        let parts: Vec<usize> = serial.trim_start_matches("urn:uuid:").split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
    }
}
