// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The verbs of the end-to-end suite. It knows the product only as its users do: by image, HTTP and Kubernetes API.
//!
//! - [`stage`], [`cluster`], [`engine`], [`host`]: what a run stands on
//! - [`mod@scenario`], [`runner`], [`outcome`]: what is run, and what came of it
//! - [`case`], [`namespace`], [`pki`], [`timeline`], [`observe`], [`scene`]: one run of one scenario, and its evidence
//! - [`druid`], [`member`], [`wrapper`], [`toolbox`], [`forward`]: an Etcd, its members, and how to talk to them (over `exchange`)
//! - [`fault`], [`wait`]: what goes wrong on purpose, and the one way to wait
//! - [`load`], [`etcd`], [`traffic`], [`history`]: clients during a scenario, and whether what they were told was linearizable
//! - [`container`], [`schedule`], [`check`]: the container tier, without a cluster: faults from a seed, and what must hold after them
//! - [`report`]: what a run brought, as a page and for machines

// The example of a report is shared with its tests, and names this crate from outside.
#[cfg(test)]
extern crate self as e2e;

pub mod case;
pub mod check;
pub mod cluster;
pub mod container;
pub mod druid;
pub mod engine;
pub mod etcd;
mod exchange;
pub mod fault;
pub mod forward;
pub mod history;
pub mod host;
pub mod load;
pub mod member;
pub mod namespace;
pub mod observe;
pub mod outcome;
pub mod pki;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod scene;
pub mod schedule;
pub mod stage;
pub mod timeline;
pub mod toolbox;
pub mod traffic;
pub mod wait;
pub mod wrapper;
