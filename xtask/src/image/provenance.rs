// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Where an image comes from: an in-toto statement with SLSA's provenance, version 1. It says what would make the image
//! again, and leaves out what differs from build to build; who built it says whoever signs it.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::digest::Digest;
use super::revision::Revision;
use super::shipped::Options;
use crate::machine;
use crate::sh::Step;

pub(crate) const KIND: &str = "application/vnd.in-toto+json";
pub(crate) const PREDICATE: &str = "https://slsa.dev/provenance/v1";

/// The files that pin what is built, beside the module of etcd.
const PINS: [&str; 3] = ["Cargo.lock", "rust-toolchain.toml", "pipelines/tools.yaml"];

/// The statement about the index `image`.
pub(super) fn statement(
    root: &Path,
    options: &Options,
    revision: &Revision,
    image: &Digest,
) -> Result<Value> {
    let source = &revision.package.repository;
    let etcd = options.line.module().context("a line that is shipped has a module")?;
    let mut inputs = vec![json!({
        "uri": format!("git+{source}"),
        "digest": { "gitCommit": revision.commit },
    })];
    let modules = ["go.mod", "go.sum"].map(|file| format!("hack/tools/{etcd}/{file}"));
    for file in PINS.iter().map(|file| (*file).to_owned()).chain(modules) {
        let digest = Digest::of_file(&root.join(&file))?;
        inputs.push(json!({ "name": file, "digest": { "sha256": digest.hex() } }));
    }
    let rustc = Step::new("rustc").arg("--version").dir(root).read()?;
    let go = machine::go_version(&root.join("hack/tools").join(etcd))?;
    // The host's architecture is no input: what it builds is the same.
    let go = go.split_whitespace().next().unwrap_or_default();
    for (name, version) in [("rustc", rustc.trim()), ("go", go)] {
        inputs.push(json!({ "name": name, "annotations": { "version": version } }));
    }
    Ok(json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "name": options.title(), "digest": { "sha256": image.hex() } }],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{source}/xtask/image/v1"),
                "externalParameters": {
                    "architectures": options.archs.iter().map(|arch| arch.as_str()).collect::<Vec<_>>(),
                    "etcd": options.line.as_str(),
                    "ops": options.ops,
                    "prebuiltWrappers": options.wrappers.keys().map(|arch| arch.as_str()).collect::<Vec<_>>(),
                },
                "internalParameters": {},
                "resolvedDependencies": inputs,
            },
            "runDetails": {
                "builder": { "id": format!("{source}/xtask") },
                "metadata": {},
            },
        },
    }))
}
