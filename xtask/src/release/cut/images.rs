// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The image in its registry: there by digest, signed, and only then tagged.

use anyhow::{Context, Result, bail};

use super::super::bundle;
use super::super::document::{CYCLONEDX, Document, IN_TOTO, SPDX};
use super::super::sign::Statement;
use super::{Cut, State, Step};

pub(super) fn look(cut: &Cut) -> Result<State> {
    for one in cut.layout()?.list()?.manifests {
        if !cut.registry.has(&one.digest)? {
            return Ok(State::Todo(format!("push the image to {}, without a tag", cut.registry.repository)));
        }
    }
    Ok(State::Done(format!("{} is in its registry", cut.registry.by_digest(&cut.layout()?.digest))))
}

pub(super) fn look_at_tag(cut: &Cut) -> Result<State> {
    let (tag, digest) = (cut.tag(), cut.layout()?.digest);
    Ok(match cut.registry.tagged(&tag)? {
        None => State::Todo(format!("tag the image as {tag}")),
        Some(is) if is == digest => State::Done(format!("{}:{tag} is the image", cut.registry.repository)),
        Some(is) => bail!(
            "{}:{tag} is another image, {is}; a tag that is out is never moved: release the next version",
            cut.registry.repository
        ),
    })
}

pub(super) fn look_at_signatures(cut: &Cut) -> Result<State> {
    let image = cut.registry.by_digest(&cut.layout()?.digest);
    let todo = |what: &str| Ok(State::Todo(format!("sign {what}, and verify it")));
    if !matches!(look(cut)?, State::Done(_)) || cut.signer.verify(&image).is_err() {
        return todo("the image, its documents and the sums");
    }
    for statement in statements(cut)? {
        if cut.signer.verify_statement(&statement).is_err() {
            return todo(&format!("the {} of {}", statement.kind, statement.subject));
        }
    }
    // The signature of a release that is out is the one that is attached to it.
    let out = cut.release()?.is_some_and(|release| !release.draft);
    if !out && verify_sums(cut).is_err() {
        return todo(bundle::SUMS);
    }
    Ok(State::Done("image, documents and sums bear good signatures".into()))
}

pub(super) fn sign(cut: &Cut) -> Result<()> {
    let image = cut.registry.by_digest(&cut.layout()?.digest);
    if cut.signer.verify(&image).is_err() {
        cut.signer.sign(&image)?;
        cut.signer.verify(&image)?;
    }
    cut.halt_in(Step::Sign)?;
    for statement in statements(cut)? {
        if cut.signer.verify_statement(&statement).is_err() {
            cut.signer.attest(&statement)?;
            cut.signer.verify_statement(&statement)?;
        }
    }
    let path = |name: &str| cut.bundle.path.join(name);
    cut.signer.sign_file(&path(bundle::SUMS), &path(bundle::SIGNATURE))?;
    verify_sums(cut)
}

fn verify_sums(cut: &Cut) -> Result<()> {
    let path = |name: &str| cut.bundle.path.join(name);
    if !path(bundle::SIGNATURE).is_file() {
        bail!("{} is not signed", bundle::SUMS);
    }
    cut.signer.verify_file(&path(bundle::SUMS), &path(bundle::SIGNATURE))
}

/// What is said under signature: every list of contents and provenance, about the image that it is about.
fn statements(cut: &Cut) -> Result<Vec<Statement>> {
    let layout = cut.layout()?;
    let mut statements = Vec::new();
    for document in Document::all(&layout)? {
        let text = layout.bytes(&document.blob)?;
        let (kind, predicate) = match document.artifact_type.as_str() {
            CYCLONEDX => ("cyclonedx", text),
            SPDX => ("spdxjson", text),
            IN_TOTO => ("slsaprovenance1", predicate(&text)?),
            _ => continue,
        };
        statements.push(Statement { subject: cut.registry.by_digest(&document.subject), kind, predicate });
    }
    if statements.is_empty() {
        bail!("nothing is said about the image");
    }
    Ok(statements)
}

/// What an in-toto statement says; cosign puts its own statement around it.
fn predicate(statement: &[u8]) -> Result<Vec<u8>> {
    let statement: serde_json::Value = serde_json::from_slice(statement).context("parse the provenance")?;
    match statement.get("predicate") {
        Some(predicate) => Ok(serde_json::to_vec(predicate)?),
        None => bail!("the provenance has no predicate"),
    }
}
