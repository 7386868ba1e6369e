// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An inventory as an SPDX 2.3 document, and back.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::super::digest::Digest;
use super::super::inventory::{Component, Inventory, Kind};
use super::{Subject, Told};

pub(crate) const KIND: &str = "application/spdx+json";

const IMAGE: &str = "SPDXRef-image";

pub(super) fn write(subject: &Subject<'_>, inventory: &Inventory) -> Result<Value> {
    // An identifier may hold letters, digits, points and dashes only: numbers do not collide.
    let ids: BTreeMap<&str, String> = inventory
        .components
        .keys()
        .enumerate()
        .map(|(number, id)| (id.as_str(), format!("SPDXRef-{number}")))
        .collect();
    let mut packages = vec![json!({
        "SPDXID": IMAGE,
        "name": subject.title,
        "versionInfo": subject.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": subject.licence,
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "CONTAINER",
        "checksums": [{ "algorithm": "SHA256", "checksumValue": subject.image.hex() }],
        "externalRefs": [purl(&subject.purl())],
        "sourceInfo": subject.source,
    })];
    packages.extend(inventory.components.values().map(|one| package(one, &ids[one.id.as_str()])));
    let mut relations = vec![relation("SPDXRef-DOCUMENT", "DESCRIBES", IMAGE)];
    relations.extend(inventory.files().map(|file| relation(IMAGE, "CONTAINS", &ids[file.id.as_str()])));
    for (id, uses) in &inventory.uses {
        relations
            .extend(uses.iter().map(|used| relation(&ids[id.as_str()], "DEPENDS_ON", &ids[used.as_str()])));
    }
    let mut document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("{} {} linux/{}", subject.title, subject.version, subject.arch),
        "creationInfo": {
            "created": subject.created,
            "creators": [format!("Tool: etcd-wrapper-xtask-{}", subject.version)],
        },
        "packages": packages,
        "relationships": relations,
    });
    let digest = Digest::of(&serde_json::to_vec(&document)?);
    document["documentNamespace"] =
        format!("{}/spdx/{}-{}-{}", subject.source, subject.title, subject.arch, digest.hex()).into();
    Ok(document)
}

fn package(one: &Component, id: &str) -> Value {
    let purpose = match one.kind {
        Kind::Program => "APPLICATION",
        Kind::Library => "LIBRARY",
        Kind::Data => "FILE",
    };
    let mut value = json!({
        "SPDXID": id,
        "name": one.name,
        "versionInfo": one.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": one.licence,
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": purpose,
        "externalRefs": [purl(&one.purl)],
    });
    if let Some(sha256) = &one.sha256 {
        value["checksums"] = json!([{ "algorithm": "SHA256", "checksumValue": sha256 }]);
    }
    if let Some(path) = &one.path {
        value["packageFileName"] = format!(".{path}").into();
    }
    value
}

fn purl(purl: &str) -> Value {
    json!({ "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl })
}

fn relation(from: &str, kind: &str, to: &str) -> Value {
    json!({ "spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to })
}

pub(super) fn read(document: &Value) -> Result<Vec<Told>> {
    let packages = document["packages"].as_array().context("an SPDX list without packages")?;
    packages
        .iter()
        .filter(|one| one["SPDXID"] != IMAGE)
        .map(|one| {
            let purl = one["externalRefs"][0]["referenceLocator"].as_str();
            let path = one["packageFileName"].as_str().and_then(|path| path.strip_prefix('.'));
            Ok(Told {
                purl: purl.context("a package without purl")?.to_owned(),
                path: path.map(str::to_owned),
                sha256: one["checksums"][0]["checksumValue"].as_str().map(str::to_owned),
            })
        })
        .collect()
}
