// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What may stand behind a sidecar double in place of its script: a data directory and a cluster that live. Only
//! the question; who answers is a program of its own.
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

/// The parameter `mode` of `/initialization/start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Content included.
    Full,
    /// What can be seen at a glance.
    Sanity,
}

/// Work under way.
pub type Work<T> = Pin<Box<dyn Future<Output = anyhow::Result<T>> + Send>>;

/// The part of a sidecar that the double leaves to others. Errors are for the one who answers to log: over HTTP
/// they are a `Failed` and a 500 without a text, as the real one's.
pub trait Backing: Debug + Send + Sync {
    /// Makes the data directory fit for a start of etcd. The double holds the lock of the database meanwhile.
    fn initialize(&self, mode: Mode) -> Work<()>;

    /// The etcd config for this member, as it is served.
    fn config(&self) -> Work<String>;
}
