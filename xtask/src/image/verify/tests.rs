// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A small image that passes what needs no program of Go, and then one thing wrong with it after the other.

use std::path::Path;

use super::super::blobs::Blobs;
use super::super::contents::{self, ROOTS};
use super::super::inventory::{Component, Inventory, Kind};
use super::super::oci::{Annotations, Platform};
use super::super::sbom::{self, Subject};
use super::super::{Entry, Image, Layer, What, provenance};
use super::*;

const COMMIT: &str = "0123456789012345678901234567890123456789";
const PROGRAM: &[u8] = b"\x7fELF\x02\x01 /crates/a-1.0.0/src/lib.rs";

/// What is made, and what may be wrong with it.
struct Sample {
    user: &'static str,
    revision: &'static str,
    more: Vec<Entry>,
    /// The program that the lists tell of.
    listed: &'static [u8],
    crate_listed: bool,
    archs: Vec<Arch>,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            user: "65532:65532",
            revision: COMMIT,
            more: Vec::new(),
            listed: PROGRAM,
            crate_listed: true,
            archs: vec![Arch::Amd64],
        }
    }
}

fn labels(revision: &str) -> Annotations {
    LABELS
        .iter()
        .map(|name| {
            let value = match *name {
                "title" => "etcd-wrapper",
                "revision" => revision,
                _ => "x",
            };
            (format!("org.opencontainers.image.{name}"), value.to_owned())
        })
        .collect()
}

impl Sample {
    fn write(&self, place: &Path) -> Layout {
        let blobs = Blobs::begin(place).unwrap();
        let mut entries = contents::base();
        entries.push(Entry::text(ROOTS, contents::roots()));
        let program = What::Bytes(PROGRAM.to_vec());
        entries.push(Entry { path: "etcd-wrapper".into(), mode: 0o755, owner: 0, what: program });
        entries.extend(self.more.clone());
        let (mut manifests, mut lists) = (Vec::new(), Vec::new());
        for arch in self.archs.iter().copied() {
            let image = Image {
                arch,
                user: self.user.into(),
                entrypoint: vec!["/etcd-wrapper".into()],
                labels: labels(self.revision),
                layers: vec![Layer::Entries(entries.clone())],
                ..Image::default()
            };
            let (layer, content) = blobs.layer(&entries).unwrap();
            let config = blobs.json(oci::CONFIG, &image.config(&[&content])).unwrap();
            let manifest = Manifest::image(config, vec![layer], image.labels);
            let mut manifest = blobs.json(oci::MANIFEST, &manifest).unwrap();
            manifest.platform = Some(Platform::linux(arch));
            lists.extend(self.lists(arch, &manifest.digest));
            manifests.push(manifest);
        }
        let index = blobs.json(oci::INDEX, &Index::new(manifests, labels(self.revision))).unwrap();
        let mut listed = vec![index.clone()];
        let mut attach = |kind: &str, bytes: &[u8], notes| {
            let document = blobs.bytes(kind, bytes).unwrap();
            let referrer = Manifest::referrer(kind, document, index.clone(), notes);
            listed.push(blobs.json(oci::MANIFEST, &referrer).unwrap());
        };
        for list in lists {
            attach(list.media_type, &list.bytes, list.annotations);
        }
        let statement = serde_json::json!({
            "subject": [{ "digest": { "sha256": index.digest.hex() } }],
            "predicateType": provenance::PREDICATE,
            "predicate": { "buildDefinition": { "resolvedDependencies": [{ "digest": { "gitCommit": COMMIT } }] } },
        });
        attach(provenance::KIND, &serde_json::to_vec(&statement).unwrap(), Annotations::new());
        blobs.bytes(oci::EMPTY, b"{}").unwrap();
        blobs.publish(listed).unwrap();
        Layout::open(place).unwrap()
    }

    fn lists(&self, arch: Arch, image: &Digest) -> [sbom::Document; 2] {
        let mut inventory = Inventory::default();
        let mut add = |id: &str, purl: &str, path: Option<&str>, content: &[u8]| {
            inventory.add(Component {
                id: id.into(),
                kind: Kind::Program,
                name: id.into(),
                version: "1".into(),
                purl: purl.into(),
                licence: "MIT".into(),
                sha256: Some(Digest::of(content).hex().into()),
                path: path.map(str::to_owned),
            });
        };
        add("wrapper", "pkg:x/wrapper@1", Some("/etcd-wrapper"), self.listed);
        add("roots", "pkg:x/roots@1", Some(&format!("/{ROOTS}")), contents::roots().as_bytes());
        if self.crate_listed {
            add("a", "pkg:cargo/a@1.0.0", None, b"");
        }
        let subject = Subject {
            title: "etcd-wrapper",
            version: "1",
            arch,
            image,
            created: "2024-01-01T00:00:00Z",
            source: "https://example.org/x",
            licence: "MIT",
        };
        sbom::write(&subject, &inventory).unwrap()
    }

    /// The checks that fail, with what they say.
    fn failures(&self) -> BTreeMap<&'static str, String> {
        let folder = tempfile::tempdir().unwrap();
        failures(&self.write(&folder.path().join("x")))
    }
}

/// Without those that no image without etcd passes.
fn failures(layout: &Layout) -> BTreeMap<&'static str, String> {
    let expected = Expected { archs: vec![Arch::Amd64], ops: false };
    let report = verify(layout, &expected).unwrap();
    let failed: BTreeMap<_, _> =
        report.checks.into_iter().filter(|check| !check.ok).map(|check| (check.check, check.seen)).collect();
    assert_eq!(report.ok, failed.is_empty());
    failed.into_iter().filter(|(check, _)| !["programs", "shell"].contains(check)).collect()
}

fn shell(entry: Entry) -> String {
    let folder = tempfile::tempdir().unwrap();
    let layout = Sample { more: vec![entry], ..Sample::default() }.write(&folder.path().join("x"));
    let report = verify(&layout, &Expected { archs: vec![Arch::Amd64], ops: false }).unwrap();
    let check = report.checks.into_iter().find(|check| check.check == "shell").unwrap();
    assert!(!check.ok);
    check.seen
}

#[test]
fn a_sound_image_passes() {
    assert_eq!(Sample::default().failures(), BTreeMap::new());
}

#[test]
fn a_wrong_user_a_changed_tree_and_another_architecture_are_each_named() {
    let failed = Sample { user: "0:0", ..Sample::default() }.failures();
    assert_eq!(failed.keys().collect::<Vec<_>>(), [&"user"]);
    let failed = Sample { revision: "0123-dirty", ..Sample::default() }.failures();
    assert!(
        failed["labels"].contains("the tree had changes") && failed.contains_key("provenance"),
        "{failed:?}"
    );
    let failed = Sample { archs: vec![Arch::Arm64], ..Sample::default() }.failures();
    assert!(failed["architectures"].contains("\"linux/arm64\" should be \"linux/amd64\""), "{failed:?}");
    let failed = Sample { archs: Arch::ALL.into(), ..Sample::default() }.failures();
    assert_eq!(failed.keys().collect::<Vec<_>>(), [&"architectures"]);
}

#[test]
fn a_file_that_lends_rights_or_that_anybody_may_change_is_named() {
    let mut su = Entry::text("su", "x");
    su.mode = 0o4644;
    let mut open = Entry::text("open", "x");
    open.mode = 0o666;
    let failed = Sample { more: vec![su, open], ..Sample::default() }.failures();
    assert!(
        failed["modes"].contains("su has the mode 4644") && failed["modes"].contains("open has"),
        "{failed:?}"
    );
}

// Shows: H9
#[test]
fn a_shell_is_found_under_any_name_and_as_a_link() {
    let said = shell(Entry { what: What::Bytes(b"#!".to_vec()), ..Entry::program("usr/local/x", "") });
    assert!(said.contains("a program that does not belong here: usr/local/x"), "{said}");
    let said = shell(Entry::symlink("bin/sh", "/etcd-wrapper"));
    assert!(said.contains("a link that does not belong here: bin/sh to /etcd-wrapper"), "{said}");
}

#[test]
fn a_list_of_another_program_or_without_one_of_its_crates_is_named() {
    let failed = Sample { listed: b"another", ..Sample::default() }.failures();
    assert_eq!(failed.keys().collect::<Vec<_>>(), [&"sbom"]);
    assert!(failed["sbom"].contains("/etcd-wrapper is"), "{failed:?}");
    let failed = Sample { crate_listed: false, ..Sample::default() }.failures();
    assert_eq!(failed["sbom"], "pkg:cargo/a@1.0.0 is not listed");
}

#[test]
fn a_layer_that_was_changed_and_a_blob_too_many_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Sample::default().write(&folder.path().join("x"));
    let index = layout.index().unwrap();
    let manifest: Manifest = layout.document(&index.manifests[0]).unwrap();
    std::fs::write(layout.path.join("blobs/sha256/more"), "x").unwrap();
    assert_eq!(failures(&layout)["blobs"], "more belongs to nothing");
    let path = layout.blob(&manifest.layers[0].digest);
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let failed = failures(&layout);
    assert!(
        failed["blobs"].contains("was changed") && failed["layers"].contains("was changed"),
        "{failed:?}"
    );
}

#[test]
fn an_image_that_is_too_large_is_named_with_the_limit() {
    assert_eq!(at_most(8 << 20, WRAPPER_LIMIT).unwrap(), "8.00 MiB of 8.00 MiB");
    let error = at_most((8 << 20) + (1 << 19), WRAPPER_LIMIT).unwrap_err().to_string();
    assert_eq!(error, "8.50 MiB is more than 8.00 MiB");
    at_most(0, WRAPPER_LIMIT).unwrap_err();
}
