// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The container tier: three members as pods of containers on this machine's engine, with TLS everywhere, volumes on
//! disk, clients at work, and a schedule of faults. No Kubernetes: what a kubelet would do, [`pod`] does.
//!
//! - [`setting`]: what `cargo xtask` hands over
//! - [`cluster`], [`pod`], [`files`], [`volume`], [`links`], [`hand`]: the members, and what they stand on
//! - [`api_server`]: what the real sidecar wants of Kubernetes
//! - [`port`]: a caller of a wrapper's port
//! - [`fault`]: carries a step of the [`crate::schedule`] out, and mends it
//! - [`witness`]: watches from outside what [`crate::check`] then judges
//! - [`liar`]: a lie on purpose, which a run must find out
//! - [`run`]: from setting to report
pub mod api_server;
pub mod cluster;
pub mod fault;
pub mod files;
pub mod hand;
pub mod liar;
pub mod links;
pub mod pod;
pub mod port;
pub mod run;
pub mod setting;
pub mod volume;
pub mod witness;
