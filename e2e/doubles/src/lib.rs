// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Stand-ins for etcd-wrapper's neighbours: a sidecar, faithful or scripted, and a scripted etcd, with the
//! certificates and the waiting that tests around them need. Knows nothing of the wrapper: talks as the
//! neighbours do, over HTTP, gRPC, signals and files.
//!
//! - [`sidecar`]: an etcd-backup-restore that lives on a thread of its own; also the program `sidecar-double`
//! - [`etcd`]: the script of the program `etcd-double`, and the reading of what it recorded
//! - [`ports`]: port numbers that belong to a test
//! - [`programs`]: where the built programs lie
//! - [`pki`]: throw-away certificates, good and bad
//! - [`wait`]: the one way to wait for a value in a test
pub mod etcd;
pub mod pki;
pub mod pod;
pub mod ports;
pub mod programs;
pub mod sidecar;
pub mod span;
pub mod wait;
