// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An etcd client for scenarios: one member at the other end of a [`Connector`], each call once, with a deadline, and
//! with an error that tells "nothing happened" from "it may have happened". It never repeats a call, and it never goes
//! to another member when one fails: both would blur what a history says about a fault.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use e2e::etcd::{Client, Connector, Expect};
//! let client = Client::new(Connector::tcp("127.0.0.1:2379"));
//! let written = client.put("a", "1").await?;
//! let swapped = client.swap("a", Expect::Revision(written), "2").await?;
//! assert!(swapped.written.is_some());
//! # Ok(())
//! # }
//! ```
mod call;
mod cluster;
mod dial;
#[cfg(test)]
pub(crate) mod fake;
mod kv;
mod lease;
mod maintenance;
#[cfg(test)]
mod tests;
mod watch;

pub use self::call::{CallError, Client, Trouble};
pub use self::dial::{ByteStream, Connector, Tls};
pub use self::kv::{Deleted, Entry, Expect, Got, Swapped, prefix_end};
pub use self::maintenance::{Alarm, Standing};
pub use self::watch::{Change, Heard, Watching};

/// etcd's messages, generated from `proto/etcd.proto`.
pub mod proto {
    #![expect(clippy::allow_attributes, missing_docs, reason = "generated code")]
    tonic::include_proto!("etcdserverpb");
}
