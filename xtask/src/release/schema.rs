// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The Open Component Model's own schema for descriptors, in `pipelines/schema`, and what it finds in one. Knows nothing
//! of what this component's descriptor has to say beyond it.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

/// Where it lies below the root.
pub(crate) const PATH: &str = "pipelines/schema/ocm-component-descriptor-v2.yaml";

/// What the schema of the clone at `root` finds wrong in a descriptor, a line each.
pub(crate) fn findings(root: &Path, descriptor: &str) -> Result<Vec<String>> {
    let path = root.join(PATH);
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let schema: Value = serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))?;
    let document: Value = serde_saphyr::from_str(descriptor).context("parse the component descriptor")?;
    let validator = jsonschema::validator_for(&schema).map_err(|e| anyhow!("{}: {e}", path.display()))?;
    Ok(validator.iter_errors(&document).map(|e| format!("{} at {}", e, e.instance_path())).collect())
}
