// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The report of the end-to-end suite: of this commit and image, whole, passed, and against the real neighbours. Reads
//! `results.json` of `cargo xtask e2e --report`; the crate that writes it is not linked, as its shape is an interface.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::super::bundle::Bundle;
use super::super::evidence::{self, Kind};
use super::Findings;
use crate::image::oci::Manifest;

const PART: &str = "e2e-report";
const FILE: &str = "results.json";
/// Images that a scenario stands on, and whose identity a reader of the report wants to know.
const NEIGHBOURS: [&str; 2] = ["druid", "sidecar"];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Results {
    commit: String,
    images: Vec<Image>,
    double: bool,
    finished: Option<u64>,
    interrupted: bool,
    selection: String,
    outcomes: Vec<Outcome>,
}

#[derive(Debug, Deserialize)]
struct Image {
    role: String,
    reference: String,
    digest: String,
    from: String,
}

#[derive(Debug, Deserialize)]
struct Outcome {
    name: String,
    verdict: String,
}

pub(super) fn look(bundle: &Bundle, commit: &str, rehearsal: bool, findings: &mut Findings) {
    let folder = bundle.evidence(Kind::E2e);
    let mut files = Vec::new();
    if folder.is_dir() {
        let listed = evidence::list(&folder, Path::new(""), &mut files);
        findings.take(PART, listed);
    }
    files.retain(|file| file.file_name().is_some_and(|name| name == FILE));
    if files.is_empty() {
        findings.add(PART, format!("it is missing; make one: {}", Kind::E2e.mend()));
        return;
    }
    let Some(ours) = findings.take(PART, digests(bundle)) else { return };
    // Each of several has to be good: none makes up for another.
    for file in files {
        let path = folder.join(file);
        let read = || -> Result<Results> {
            let text = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            serde_json::from_slice(&text).with_context(|| format!("parse {}", path.display()))
        };
        if let Some(results) = findings.take(PART, read()) {
            judge(&results, commit, &ours, rehearsal, findings);
        }
    }
}

fn judge(results: &Results, commit: &str, ours: &BTreeSet<String>, rehearsal: bool, findings: &mut Findings) {
    let mut add = |what: String| findings.add(PART, what);
    if results.commit != commit {
        add(format!("it is of commit {}, and the release is {commit}", results.commit));
    }
    match results.images.iter().find(|image| image.role == "wrapper") {
        None => add("it names no image of the wrapper".into()),
        Some(image) if !ours.contains(&image.digest) => add(format!(
            "it is of another image: {} {}; the release has {}",
            image.reference,
            image.digest,
            ours.iter().cloned().collect::<Vec<_>>().join(", ")
        )),
        Some(_) => {}
    }
    if results.interrupted || results.finished.is_none() {
        add("the run did not come to its end".into());
    }
    if !results.selection.trim().is_empty() && !rehearsal {
        add(format!("it is of a part of the scenarios: {}", results.selection.trim()));
    }
    if results.outcomes.is_empty() {
        add("no scenario ran".into());
    }
    for outcome in results.outcomes.iter().filter(|outcome| outcome.verdict != "passed") {
        add(format!("scenario {} is {}", outcome.name, outcome.verdict));
    }
    for role in NEIGHBOURS {
        match results.images.iter().find(|image| image.role == role) {
            None => add(format!("it names no image of {role}")),
            Some(image) if !is_digest(&image.digest) => add(format!("it names no digest of {role}")),
            Some(image) if image.from == "double" && !rehearsal => {
                add(format!("{role} was its double, which says nothing of the real one"));
            }
            Some(_) => {}
        }
    }
    if results.double && !rehearsal {
        add("it was made with the sidecar's double".into());
    }
}

/// All digests under which an engine may know the image of the release: of the index, of an architecture's manifest,
/// and of its settings, which is what most engines call its id.
fn digests(bundle: &Bundle) -> Result<BTreeSet<String>> {
    let layout = bundle.layout()?;
    let mut all = BTreeSet::from([layout.digest.to_string()]);
    for one in layout.index()?.manifests {
        let manifest: Manifest = layout.document(&one)?;
        all.insert(one.digest.to_string());
        all.insert(manifest.config.digest.to_string());
    }
    Ok(all)
}

fn is_digest(text: &str) -> bool {
    crate::image::Digest::parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn report() -> serde_json::Value {
        let image = |role: &str, from: &str| serde_json::json!({"role": role, "reference": format!("r/{role}:1"), "digest": HEX, "from": from});
        serde_json::json!({
            "run": "r", "seed": 1, "commit": "c0ffee", "cluster": "e2e", "kubernetes": "v1", "double": false,
            "started": 1, "finished": 2, "interrupted": false, "host": [], "selection": "",
            "images": [image("wrapper", "built"), image("druid", "pulled"), image("sidecar", "engine")],
            "outcomes": [{"name": "a", "verdict": "passed"}, {"name": "b", "verdict": "passed"}],
        })
    }

    fn found(report: serde_json::Value, rehearsal: bool) -> Vec<String> {
        let mut findings = Findings::default();
        let results = serde_json::from_value(report).unwrap();
        judge(&results, "c0ffee", &BTreeSet::from([HEX.to_owned()]), rehearsal, &mut findings);
        findings.0.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_whole_report_of_this_commit_and_image_counts() {
        assert_eq!(found(report(), false), Vec::<String>::new());
    }

    #[test]
    fn each_thing_that_makes_a_report_worthless_is_named() {
        for (pointer, value, why) in [
            ("/commit", serde_json::json!("c0ffee-dirty"), "of commit c0ffee-dirty"),
            ("/images/0/digest", serde_json::json!(HEX.replace("e3b0", "0000")), "another image"),
            ("/images/1/digest", serde_json::json!("none"), "no digest of druid"),
            ("/images/2/role", serde_json::json!("other"), "no image of sidecar"),
            ("/finished", serde_json::Value::Null, "did not come to its end"),
            ("/interrupted", serde_json::json!(true), "did not come to its end"),
            ("/selection", serde_json::json!("--smoke"), "a part of the scenarios: --smoke"),
            ("/outcomes", serde_json::json!([]), "no scenario ran"),
            ("/outcomes/1/verdict", serde_json::json!("missing"), "scenario b is missing"),
            ("/outcomes/0/verdict", serde_json::json!("hung"), "scenario a is hung"),
            ("/double", serde_json::json!(true), "the sidecar's double"),
            ("/images/2/from", serde_json::json!("double"), "sidecar was its double"),
        ] {
            let mut changed = report();
            *changed.pointer_mut(pointer).unwrap() = value;
            let found = found(changed, false);
            assert!(found.len() == 1 && found[0].contains(why), "{pointer}: {found:?}");
        }
    }

    #[test]
    fn a_rehearsal_takes_the_double_and_a_part_and_nothing_else() {
        let mut changed = report();
        changed["double"] = true.into();
        changed["images"][2]["from"] = "double".into();
        changed["selection"] = "--smoke".into();
        assert_eq!(found(changed.clone(), true), Vec::<String>::new());
        assert_eq!(found(changed.clone(), false).len(), 3);
        changed["outcomes"][0]["verdict"] = "failed".into();
        assert_eq!(found(changed, true).len(), 1);
    }
}
