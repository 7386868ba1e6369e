// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The release's folder: files as they were summed, and a descriptor that is valid and names every part.

use anyhow::{Context, Result};

use super::super::bundle::{self, Bundle};
use super::super::component::Component;
use super::super::descriptor::{Access, CVE, Descriptor, RESPONSIBLES, Resource};
use super::super::document::WANTED;
use super::super::evidence::Kind;
use super::super::schema;
use super::Findings;
use crate::image::Digest;

const PART: &str = "component-descriptor";

pub(super) fn files(bundle: &Bundle, commit: &str, findings: &mut Findings) {
    if let Some(summary) = findings.take("files", bundle.summary())
        && summary.commit != commit
    {
        let is = summary.commit;
        findings.add("files", format!("they are of commit {is}, and {commit} is checked out; build them anew: cargo xtask release build"));
    }
    for wrong in findings.take(bundle::SUMS, bundle.against_sums()).unwrap_or_default() {
        findings.add("files", wrong);
    }
    if !bundle.transport().is_file() {
        findings.add("transport archive", "it is missing");
    }
}

pub(super) fn descriptor(bundle: &Bundle, component: &Component, commit: &str, findings: &mut Findings) {
    let text = bundle.read(bundle::DESCRIPTOR).and_then(|bytes| {
        String::from_utf8(bytes).with_context(|| format!("{} is no text", bundle::DESCRIPTOR))
    });
    let Some(text) = findings.take(PART, text) else { return };
    for wrong in findings.take(PART, schema::findings(&text)).unwrap_or_default() {
        findings.add(PART, format!("against the schema: {wrong}"));
    }
    let Some(descriptor) = findings.take(PART, Descriptor::parse(&text)) else { return };
    let looked = identity(bundle, component, commit, &descriptor, findings);
    findings.take(PART, looked);
    resources(bundle, &descriptor, findings);
}

fn identity(
    bundle: &Bundle,
    component: &Component,
    commit: &str,
    descriptor: &Descriptor,
    findings: &mut Findings,
) -> Result<()> {
    let body = &descriptor.component;
    let tag = bundle.version.tag();
    for (what, is, wanted) in [
        ("name", &body.name, &component.name),
        ("version", &body.version, &tag),
        ("provider", &body.provider, &component.provider),
    ] {
        if is != wanted {
            findings.add(PART, format!("its {what} is {is:?}, not {wanted:?}"));
        }
    }
    let made = body
        .sources
        .iter()
        .any(|source| matches!(&source.access, Access::GitHub { commit: is, .. } if is == commit));
    if !made {
        findings.add("sources", format!("the descriptor does not name commit {commit}"));
    }
    let teams = body.labels.iter().find(|label| label.name == RESPONSIBLES);
    if teams.and_then(|label| label.value.as_array()).is_none_or(Vec::is_empty) {
        findings.add("responsibles", format!("the descriptor has no label {RESPONSIBLES}"));
    }
    let Some(image) = descriptor.resource(component.short()) else {
        findings.add("image", "the descriptor does not name it");
        return Ok(());
    };
    for wanted in &component.image.labels {
        match image.labels.iter().find(|label| label.name == wanted.name) {
            None => findings.add(&format!("label {}", wanted.name), "the image in the descriptor lacks it"),
            Some(is) if is != wanted => findings.add(
                &format!("label {}", wanted.name),
                format!(
                    "the image in the descriptor says {}, and pipelines/component.yaml {}",
                    is.value, wanted.value
                ),
            ),
            Some(_) => {}
        }
    }
    if !image.labels.iter().any(|label| label.name == CVE) {
        findings.add("cve categorisation", format!("no label {CVE}"));
    }
    let digest = bundle.layout()?.digest;
    if image.digest.value != digest.hex() {
        findings
            .add("image", format!("the descriptor names {}, and the image is {digest}", image.digest.value));
    }
    Ok(())
}

/// Everything else that has to be there, and every blob a file with that digest.
fn resources(bundle: &Bundle, descriptor: &Descriptor, findings: &mut Findings) {
    let named = |name: &str| -> Vec<&Resource> {
        let all = descriptor.component.resources.iter();
        all.filter(|one| one.name == name || one.name.starts_with(&format!("{name}-"))).collect()
    };
    let documents = WANTED.iter().map(|(_, name)| *name);
    for name in documents.chain(["release-notes"]) {
        if named(name).is_empty() {
            findings.add(name, "the descriptor does not name it");
        }
    }
    for kind in Kind::ALL {
        if descriptor.resource(kind.resource()).is_none() && kind != Kind::E2e {
            findings
                .add(kind.resource(), format!("the descriptor does not name it; make one: {}", kind.mend()));
        }
    }
    let sums: Vec<Digest> = bundle
        .assets()
        .unwrap_or_default()
        .iter()
        .filter_map(|name| Digest::of_file(&bundle.path.join(name)).ok())
        .collect();
    for resource in &descriptor.component.resources {
        if let Access::LocalBlob { local_reference, .. } = &resource.access
            && !sums.iter().any(|sum| sum.to_string() == *local_reference)
        {
            findings.add(&resource.name, format!("no file of the release is {local_reference}"));
        }
    }
}
