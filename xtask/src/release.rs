// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A release, from its plan to its publication. What a step decides stands in the modules below; what a person sees of it
//! is the verb's. No module here reads the environment: what a laptop and hosted CI differ in comes in as a value.

pub(crate) mod build;
pub(crate) mod bundle;
pub(crate) mod changelog;
pub(crate) mod check;
pub(crate) mod component;
pub(crate) mod cut;
mod descriptor;
mod document;
mod double;
mod evidence;
pub(crate) mod git;
pub(crate) mod github;
mod manifest;
mod pack;
pub(crate) mod plan;
mod planted;
pub(crate) mod policy;
pub(crate) mod prepare;
pub(crate) mod registry;
pub(crate) mod rehearse;
mod schema;
pub(crate) mod sign;
mod transport;
mod version;

#[cfg(test)]
mod scene;
