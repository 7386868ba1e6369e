// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The tree: clean, on a branch that releases come from, and with one version in manifests, changelog and tag.

use super::super::changelog;
use super::super::component::Component;
use super::super::git::Git;
use super::super::manifest;
use super::super::policy::{self, Line};
use super::super::version::Version;
use super::{Findings, Subject};

pub(super) fn look(
    subject: &Subject<'_>,
    component: &Component,
    version: Version,
    commit: &str,
    findings: &mut Findings,
) {
    let git = Git::new(subject.root);
    let changes = findings.take("tree", git.changes()).unwrap_or_default();
    if let Some(first) = changes.first() {
        findings.add("tree", format!("dirty: {} changes, such as {first:?}", changes.len()));
    }
    if let Some(branch) = findings.take("branch", git.branch()) {
        let line = findings.take("branch", Line::of(&branch, &component.versions.branch_template));
        let tags = findings.take("tags", git.tags()).unwrap_or_default();
        let tags: Vec<Version> = tags.iter().filter_map(|tag| Version::of_tag(tag)).collect();
        if let Some(line) = line {
            findings.take("version", policy::next(&line, line.bump(), version, &tags));
        }
    }
    if version.dev {
        findings.add(
            "version",
            format!("Cargo.toml says {version}; make the commit: cargo xtask release prepare"),
        );
    }
    for path in findings.take("version", manifest::disagreeing(subject.root)).unwrap_or_default() {
        findings.add("version", format!("{path} says another one than Cargo.toml, {version}"));
    }
    let text = std::fs::read_to_string(subject.root.join(changelog::PATH)).unwrap_or_default();
    match changelog::released(&text, version) {
        None => findings.add("changelog", format!("{} has no section for {version}", changelog::PATH)),
        Some(section) => {
            if changelog::entries(section.body) == 0 {
                findings.add("changelog", format!("the section for {version} has no entry"));
            }
            if humantime::parse_rfc3339(&format!("{}T00:00:00Z", section.date)).is_err() {
                findings
                    .add("changelog", format!("the section for {version} has {:?} for a date", section.date));
            }
        }
    }
    tag(subject, &git, version, commit, findings);
}

/// A tag that is there has to be on this commit, here and at the remote.
fn tag(subject: &Subject<'_>, git: &Git, version: Version, commit: &str, findings: &mut Findings) {
    let name = version.tag();
    let mut moved = |place: &str, is: &str| {
        findings.add("tag", format!("{name} of {place} is on {is}, and the release is {commit}; a tag that is out is never moved: release the next version"));
    };
    if let Ok(is) = git.commit(&format!("refs/tags/{name}"))
        && is != commit
    {
        moved("this clone", &is);
    }
    let Some(remote) = subject.remote else { return };
    match git.remote_tag(remote, &name) {
        Ok(Some(is)) if is != commit => moved(remote, &is),
        Ok(_) => {}
        Err(error) => findings.add("tag", format!("{error:#}")),
    }
}
