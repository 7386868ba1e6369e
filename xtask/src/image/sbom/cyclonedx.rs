// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An inventory as a CycloneDX 1.6 document, and back.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::super::digest::Digest;
use super::super::inventory::{Component, Inventory, Kind};
use super::{Subject, Told};

pub(crate) const KIND: &str = "application/vnd.cyclonedx+json";

/// The property that tells where a file lies in the image.
const PATH: &str = "etcd-wrapper:path";

pub(super) fn write(subject: &Subject<'_>, inventory: &Inventory) -> Result<Value> {
    let image = subject.purl();
    let mut depends: Vec<Value> = vec![json!({
        "ref": image,
        "dependsOn": inventory.files().map(|file| &file.id).collect::<Vec<_>>(),
    })];
    depends.extend(inventory.uses.iter().map(|(id, uses)| json!({ "ref": id, "dependsOn": uses })));
    let mut document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": subject.created,
            "tools": { "components": [{ "type": "application", "name": "etcd-wrapper-xtask", "version": subject.version }] },
            "component": {
                "type": "container",
                "bom-ref": image,
                "name": subject.title,
                "version": subject.version,
                "purl": image,
                "licenses": [{ "expression": subject.licence }],
                "externalReferences": [{ "type": "vcs", "url": subject.source }],
            },
        },
        "components": inventory.components.values().map(component).collect::<Vec<_>>(),
        "dependencies": depends,
    });
    let serial = uuid(&Digest::of(&serde_json::to_vec(&document)?));
    document["serialNumber"] = format!("urn:uuid:{serial}").into();
    Ok(document)
}

fn component(one: &Component) -> Value {
    let kind = match one.kind {
        Kind::Program => "application",
        Kind::Library => "library",
        Kind::Data => "data",
    };
    let mut value = json!({
        "type": kind,
        "bom-ref": one.id,
        "name": one.name,
        "version": one.version,
        "purl": one.purl,
        "licenses": [{ "expression": one.licence }],
    });
    if let Some(sha256) = &one.sha256 {
        value["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
    }
    if let Some(path) = &one.path {
        value["properties"] = json!([{ "name": PATH, "value": path }]);
    }
    value
}

pub(super) fn read(document: &Value) -> Result<Vec<Told>> {
    let components = document["components"].as_array().context("a CycloneDX list without components")?;
    components
        .iter()
        .map(|one| {
            let found = |list: &str, key: &str, name: &str, value: &str| {
                let mut all = one[list].as_array().into_iter().flatten();
                Some(all.find(|item| item[key] == name)?[value].as_str()?.to_owned())
            };
            Ok(Told {
                purl: one["purl"].as_str().context("a component without purl")?.to_owned(),
                path: found("properties", "name", PATH, "value"),
                sha256: found("hashes", "alg", "SHA-256", "content"),
            })
        })
        .collect()
}

/// A UUID of version 8, that of one's own making, out of a digest.
fn uuid(digest: &Digest) -> String {
    let hex = digest.hex();
    // The first digit of the fourth part has two bits that say which kind of UUID it is.
    let variant = match &hex[16..17] {
        "0" | "4" | "8" | "c" => '8',
        "1" | "5" | "9" | "d" => '9',
        "2" | "6" | "a" | "e" => 'a',
        _ => 'b',
    };
    format!("{}-{}-8{}-{variant}{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
}
