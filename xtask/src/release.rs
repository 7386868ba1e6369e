// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A release, from its plan to its publication. What a step decides stands in the modules below; what a person sees of it
//! is the verb's. No module here reads the environment: what a laptop and hosted CI differ in comes in as a value.

#![expect(dead_code, reason = "the steps after `prepare` use the rest")]

pub(crate) mod changelog;
pub(crate) mod component;
pub(crate) mod git;
pub(crate) mod manifest;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod prepare;
pub(crate) mod version;

#[cfg(test)]
mod scene;
