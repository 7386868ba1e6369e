// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The schema of a release's component descriptor and what it finds in one. Knows the shape alone,
//! not what this release's descriptor has to say.

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

const SCHEMA: &str = include_str!("descriptor-schema.json");

/// What the schema finds wrong in a descriptor, a line each.
pub(crate) fn findings(descriptor: &str) -> Result<Vec<String>> {
    let schema: Value = serde_json::from_str(SCHEMA).context("parse the schema of descriptors")?;
    let document: Value = serde_saphyr::from_str(descriptor).context("parse the component descriptor")?;
    let validator =
        jsonschema::validator_for(&schema).map_err(|e| anyhow!("the schema of descriptors: {e}"))?;
    Ok(validator.iter_errors(&document).map(|e| format!("{} at {}", e, e.instance_path())).collect())
}
