// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Whether a release is whole: the tree, the folder that `build` made, and what others say of the commit. Names every part
//! that is missing or wrong, and changes nothing.

mod bundle;
mod ci;
mod e2e;
mod image;
mod tree;

use std::fmt;
use std::path::Path;

use anyhow::Result;

use super::build;
use super::bundle::Bundle;
use super::component::Component;
use super::git::Git;
use super::github::Client;

/// A part that is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What it is about, such as `sbom-spdx`.
    pub(crate) part: String,
    pub(crate) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.part, self.what)
    }
}

/// What is looked at.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) root: &'a Path,
    pub(crate) target: &'a Path,
    /// Where the tags of others are; none: this clone's alone.
    pub(crate) remote: Option<&'a str>,
    /// Whom to ask whether CI is green; none: nobody.
    pub(crate) github: Option<&'a Client>,
    /// A report counts that was made with the sidecar's double.
    pub(crate) rehearsal: bool,
}

/// What a look brought.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) bundle: Bundle,
    pub(crate) commit: String,
    pub(crate) findings: Vec<Finding>,
    /// What was looked at and is well.
    pub(crate) well: Vec<&'static str>,
    /// What was not looked at, and why.
    pub(crate) unseen: Vec<String>,
}

/// Collects what one part brings.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, part: &str, what: impl Into<String>) {
        self.0.push(Finding { part: part.to_owned(), what: what.into() });
    }

    /// Takes the value of what can be read; what cannot is a finding.
    fn take<T>(&mut self, part: &str, value: Result<T>) -> Option<T> {
        value.map_err(|error| self.add(part, format!("{error:#}"))).ok()
    }
}

/// Looks at all parts.
///
/// # Errors
/// There is nothing to look at: no clone, no component, or a version that is still worked on.
pub(crate) fn run(subject: &Subject<'_>) -> Result<Report> {
    let component = Component::read(subject.root)?;
    let git = Git::new(subject.root);
    let version = super::manifest::version(subject.root)?;
    let commit = git.head()?;
    let bundle = Bundle::of(subject.target, component.short(), version);
    let mut all = Vec::new();
    let mut well = Vec::new();
    let mut unseen = Vec::new();
    let mut part = |name: &'static str, look: &mut dyn FnMut(&mut Findings)| {
        let mut findings = Findings::default();
        look(&mut findings);
        if findings.0.is_empty() {
            well.push(name);
        }
        all.extend(findings.0);
    };
    part("tree", &mut |findings| tree::look(subject, &component, version, &commit, findings));
    if let Err(error) = build::prepared(subject.root) {
        part("release", &mut |findings| findings.add("release", format!("{error:#}")));
    }
    if bundle.path.is_dir() {
        part("files", &mut |findings| bundle::files(&bundle, &commit, findings));
        part("image", &mut |findings| image::look(&bundle, &component, &commit, findings));
        part("component-descriptor", &mut |findings| {
            bundle::descriptor(&bundle, &component, &commit, findings);
        });
        part("e2e-report", &mut |findings| e2e::look(&bundle, &commit, subject.rehearsal, findings));
    } else {
        part("files", &mut |findings| {
            let path = bundle.path.display();
            findings.add(
                "files",
                format!("there is no {path}; it is made by: cargo xtask release build --evidence DIR"),
            );
        });
    }
    match subject.github {
        Some(client) => part("ci", &mut |findings| ci::look(client, &commit, findings)),
        None => unseen.push("ci: not looked at (--offline)".to_owned()),
    }
    if subject.remote.is_none() {
        unseen.push("tags of the remote: not looked at (--offline)".to_owned());
    }
    Ok(Report { bundle, commit, findings: all, well, unseen })
}

#[cfg(test)]
mod tests;
