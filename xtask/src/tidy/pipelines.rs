// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The pages of `pipelines/` and `codecov.yml`: each holds to its schema, what one says of another is there, and a version
//! stands nowhere else. What the values mean is their readers' business.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Finding;
use super::tree::Tree;

const PAGES: &str = "pipelines/";
const SCHEMAS: &str = "pipelines/schema/";
const CODECOV: &str = "codecov.yml";
const IMAGES: &str = "pipelines/images.yaml";
const MATRIX: &str = "pipelines/matrix.yaml";
const TOOLS: &str = "pipelines/tools.yaml";

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = schemas(tree)?;
    findings.extend(matrix(&page(tree, MATRIX)?, &page(tree, IMAGES)?, tree));
    findings.extend(once(&page(tree, IMAGES)?, &page(tree, TOOLS)?, tree));
    Ok(findings)
}

fn page(tree: &Tree, path: &str) -> Result<Value> {
    serde_saphyr::from_str(tree.text(path)?).with_context(|| format!("parse {path}"))
}

/// Every page has a schema and holds to it; no schema is without a page.
fn schemas(tree: &Tree) -> Result<Vec<Finding>> {
    let pages = tree.files().map(|(path, _)| path).filter_map(|path| {
        let name = path.strip_prefix(PAGES)?.strip_suffix(".yaml").filter(|name| !name.contains('/'))?;
        Some((name, path))
    });
    let pages: Vec<(&str, &str)> = pages.chain([("codecov", CODECOV)]).collect();
    let mut findings = Vec::new();
    for (name, path) in &pages {
        let schema = format!("{SCHEMAS}{name}.json");
        let Ok(text) = tree.text(&schema) else {
            findings.push(Finding::new(path, 0, format!("has no schema: {schema}")));
            continue;
        };
        findings.extend(against(path, tree.text(path)?, &schema, text)?);
    }
    for (path, _) in tree.files() {
        let name = path.strip_prefix(SCHEMAS).and_then(|name| name.strip_suffix(".json"));
        if let Some(name) = name
            && !pages.iter().any(|(page, _)| *page == name)
        {
            findings.push(Finding::new(path, 0, "is the schema of no page"));
        }
    }
    Ok(findings)
}

/// What of a page breaks its schema.
fn against(path: &str, page: &str, schema_path: &str, schema: &str) -> Result<Vec<Finding>> {
    let schema: Value = serde_json::from_str(schema).with_context(|| format!("parse {schema_path}"))?;
    let validator = jsonschema::validator_for(&schema)
        .map_err(|error| anyhow::anyhow!("{schema_path} is no JSON schema: {error}"))?;
    let value: Value = match serde_saphyr::from_str(page) {
        Ok(value) => value,
        Err(error) => return Ok(vec![Finding::new(path, 0, format!("no YAML: {error}"))]),
    };
    let errors = validator.iter_errors(&value);
    Ok(errors
        .map(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "/".to_owned() } else { place };
            Finding::new(path, 0, format!("{place}: {error}, says {schema_path}"))
        })
        .collect())
}

/// Each etcd of the matrix has its module, each Kubernetes its node, and a node stands under its own minor.
fn matrix(matrix: &Value, images: &Value, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut nodes: BTreeSet<String> = minor_of(&images["node"]).into_iter().collect();
    for (minor, node) in images["older-nodes"].as_object().into_iter().flatten() {
        if minor_of(node).as_ref() != Some(minor) {
            findings.push(Finding::new(
                IMAGES,
                0,
                format!("older-nodes: {minor} is the image of another minor"),
            ));
        }
        nodes.insert(minor.clone());
    }
    let entries = ["small", "wide"].iter().flat_map(|set| matrix[*set].as_array().into_iter().flatten());
    let mut lines = BTreeSet::new();
    let mut minors = BTreeSet::new();
    for entry in entries {
        lines.extend(words(&entry["etcd"]));
        minors.extend(words(&entry["kubernetes"]));
    }
    for line in &lines {
        let module = format!("hack/tools/etcd{}/go.mod", line.replace('.', ""));
        if !tree.holds(&module) {
            findings.push(Finding::new(MATRIX, 0, format!("etcd {line} has no {module}")));
        }
    }
    for minor in minors.difference(&nodes) {
        findings.push(Finding::new(MATRIX, 0, format!("Kubernetes {minor} has no node in {IMAGES}")));
    }
    for minor in nodes.difference(&minors) {
        findings.push(Finding::new(
            IMAGES,
            0,
            format!("the node of Kubernetes {minor} is in no set of {MATRIX}"),
        ));
    }
    findings
}

/// `1.37` out of `…:v1.37.0@…`.
fn minor_of(node: &Value) -> Option<String> {
    let (_, tag) = node["reference"].as_str()?.split_once(":v")?;
    let mut parts = tag.split('.');
    Some(format!("{}.{}", parts.next()?, parts.next()?))
}

fn words(list: &Value) -> impl Iterator<Item = String> + '_ {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
}

/// A pinned version or image stands on its page alone. Prose may tell of it.
fn once(images: &Value, tools: &Value, tree: &Tree) -> Vec<Finding> {
    let mut pins: Vec<(String, &str)> = Vec::new();
    references(images, &mut |reference| {
        // With or without a digest behind it.
        pins.push((reference.split('@').next().unwrap_or(reference).to_owned(), IMAGES));
    });
    for (_, version) in tools["cargo"].as_object().into_iter().flatten() {
        pins.extend(version.as_str().map(|version| (version.to_owned(), TOOLS)));
    }
    let mut modules = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with("/go.mod")) {
        modules.extend(tool_versions(text).map(|version| (version.to_owned(), path)));
    }
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        let prose = path.ends_with(".md")
            || path.ends_with(".lock")
            || path.ends_with("go.mod")
            || path.ends_with("go.sum");
        if prose {
            continue;
        }
        // Sources use made-up versions in their tests; where nothing is made up, a module's version has no place either.
        let wired = path.starts_with(".github/") || path.starts_with(".ci/");
        for (pin, home) in pins.iter().chain(modules.iter().filter(|_| wired)) {
            if path != *home && stands(text, pin) {
                findings.push(Finding::new(path, 0, format!("`{pin}` stands in {home}, and nowhere else")));
            }
        }
    }
    findings
}

/// The versions of the modules that a `tool` line of a go.mod is about.
fn tool_versions(go_mod: &str) -> impl Iterator<Item = &str> {
    let tools = go_mod.lines().filter_map(|line| line.strip_prefix("tool "));
    tools.filter_map(|import| {
        let mut module = Some(import.trim());
        while let Some(path) = module {
            if let Some(version) = crate::repo::go_mod_version(go_mod, path) {
                return Some(version);
            }
            module = path.rsplit_once('/').map(|(parent, _)| parent);
        }
        None
    })
}

fn references(value: &Value, found: &mut impl FnMut(&str)) {
    for (name, value) in value.as_object().into_iter().flatten() {
        match value.as_str() {
            Some(reference) if name == "reference" => found(reference),
            _ => references(value, found),
        }
    }
}

/// Whether `pin` stands in `text` as a whole: not as a part of a longer version or name.
fn stands(text: &str, pin: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    text.match_indices(pin).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + pin.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_page_without_a_schema_and_one_that_breaks_it_are_told() {
        let schema =
            r#"{"type": "object", "additionalProperties": false, "properties": {"a": {"type": "integer"}}}"#;
        let tree = Tree::of(&[
            ("pipelines/a.yaml", "a: 1\n"),
            ("pipelines/b.yaml", "a: one\nc: 2\n"),
            ("pipelines/c.yaml", "a: 1\n"),
            ("codecov.yml", "{}\n"),
            ("pipelines/schema/a.json", schema),
            ("pipelines/schema/b.json", schema),
            ("pipelines/schema/codecov.json", schema),
            ("pipelines/schema/d.json", schema),
        ]);
        let found = shown(&schemas(&tree).unwrap());
        assert_eq!(found.iter().filter(|line| line.starts_with("pipelines/b.yaml")).count(), 2, "{found:?}");
        assert!(found.iter().any(|line| line.contains("b.yaml: /a: ")), "{found:?}");
        assert!(found.contains(&"pipelines/c.yaml: has no schema: pipelines/schema/c.json".to_owned()));
        assert!(found.contains(&"pipelines/schema/d.json: is the schema of no page".to_owned()));
        assert_eq!(found.len(), 4, "{found:?}");
    }

    #[test]
    fn every_page_of_this_clone_breaks_its_schema_when_a_key_is_added_or_misspelt() {
        let tree = Tree::read(&crate::repo::root()).unwrap();
        for name in ["component", "images", "matrix", "tools", "codecov"] {
            let path = if name == "codecov" { CODECOV.to_owned() } else { format!("{PAGES}{name}.yaml") };
            let page = format!("{}\nsurplus: 1\n", tree.text(&path).unwrap());
            let schema = format!("{SCHEMAS}{name}.json");
            let found = against(&path, &page, &schema, tree.text(&schema).unwrap()).unwrap();
            assert!(shown(&found).iter().any(|line| line.contains("surplus")), "{name}: {found:?}");
        }
        let broken = |name: &str, from: &str, to: &str| {
            let path = if name == "codecov" { CODECOV.to_owned() } else { format!("{PAGES}{name}.yaml") };
            let text = tree.text(&path).unwrap();
            assert!(text.contains(from), "{path} has no {from}");
            let schema = format!("{SCHEMAS}{name}.json");
            let found = against(&path, &text.replacen(from, to, 1), &schema, tree.text(&schema).unwrap());
            assert!(!found.unwrap().is_empty(), "{name}: {from} → {to}");
        };
        broken("component", "network_exposure: protected", "network_exposure: some");
        broken("component", "gardener.cloud/cve-categorisation", "gardener.cloud/cve");
        broken("codecov", "threshold: 1%", "treshold: 1%");
        broken("codecov", "carryforward: true", "carryforward: maybe");
        broken("matrix", "scenarios: smoke", "scenarios: some");
        broken("tools", "cargo-nextest: ", "cargo-nextest: v");
        broken("images", "etcd-druid:v", "etcd-druid:latest # v");
    }

    #[test]
    fn the_matrix_names_only_what_there_is() {
        let images =
            json!({"node": {"reference": "n:v1.37.0"}, "older-nodes": {"1.36": {"reference": "n:v1.35.2"}}});
        let wide = json!({"small": [], "wide": [{"etcd": ["3.5", "3.9"], "kubernetes": ["1.37", "1.30"]}]});
        let tree = Tree::of(&[("hack/tools/etcd35/go.mod", "")]);
        assert_eq!(
            shown(&matrix(&wide, &images, &tree)),
            [
                "pipelines/images.yaml: older-nodes: 1.36 is the image of another minor",
                "pipelines/matrix.yaml: etcd 3.9 has no hack/tools/etcd39/go.mod",
                "pipelines/matrix.yaml: Kubernetes 1.30 has no node in pipelines/images.yaml",
                "pipelines/images.yaml: the node of Kubernetes 1.36 is in no set of pipelines/matrix.yaml",
            ]
        );
    }

    #[test]
    fn a_version_that_stands_twice_is_told() {
        let images = json!({"druid": {"reference": "r.io/druid:v0.1.2@sha256:0"}});
        let tools = json!({"cargo": {"cargo-x": "1.2.3"}});
        let tree = Tree::of(&[
            (IMAGES, "r.io/druid:v0.1.2"),
            ("hack/a.sh", "pull r.io/druid:v0.1.2\n"),
            (".github/w.yml", "cargo install cargo-x@1.2.3 act@v9.9.9\n"),
            ("docs/a.md", "r.io/druid:v0.1.2\n"),
            ("b.sh", "r.io/druid:v0.1.20 11.2.3 1.2.3-rc v9.9.9\n"),
            ("hack/tools/act/go.mod", "tool e.org/act/cmd\nrequire e.org/act v9.9.9\n"),
        ]);
        let found = shown(&once(&images, &tools, &tree));
        let want = [
            ".github/w.yml: `1.2.3` stands in pipelines/tools.yaml, and nowhere else",
            ".github/w.yml: `v9.9.9` stands in hack/tools/act/go.mod, and nowhere else",
            "hack/a.sh: `r.io/druid:v0.1.2` stands in pipelines/images.yaml, and nowhere else",
        ];
        assert_eq!(found, want);
    }
}
