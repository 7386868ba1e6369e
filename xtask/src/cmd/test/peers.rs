// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Programs that tests start as their peers and that take long to build: a registry, and what signs. Built before the
//! tests; starts none of them.
use super::{REGISTRY, REHEARSAL};
use crate::tools::Tool;

/// Builds what the tests of a registry start, since a test that builds something runs out of time. Whether they can run.
pub(super) fn registry(notes: &mut Vec<String>) -> bool {
    let built = [Tool::Registry, Tool::Oras].map(|tool| match tool.ensure() {
        Ok(_) => true,
        Err(error) => {
            notes.push(format!("registry: {tool}: {error:#}; the tests of {REGISTRY} were not run"));
            false
        }
    });
    built == [true; 2]
}

/// The same for what the rehearsal of a release signs with.
pub(super) fn signing(notes: &mut Vec<String>) -> bool {
    match Tool::Cosign.ensure() {
        Ok(_) => true,
        Err(error) => {
            notes.push(format!("rehearsal: {error:#}; {REHEARSAL}… was not run"));
            false
        }
    }
}
