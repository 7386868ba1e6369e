// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the local etcd says of itself: readiness, leadership, alarms, numbers.
//!
//! `prober` is the one task: it asks through `client` and `scraper` (both over `dial`) when `schedule` says so, lets
//! `fold` turn answers into a [`view::MemberView`], and publishes that. Everything else is pure and reads the view:
//! `readiness`, `health`, `warnings`, `guard`. This stage never starts, stops or signals etcd.
pub mod client;
pub mod dial;
mod fold;
pub mod gauges;
pub mod guard;
pub mod health;
pub mod prober;
pub mod readiness;
mod schedule;
pub mod scraper;
pub mod serial;
#[cfg(test)]
mod testing;
pub mod transfer;
pub mod view;
pub mod volume;
pub mod warnings;

pub use prober::{Settings, run};

/// etcd's messages, generated from proto/etcd.proto.
#[expect(unreachable_pub, reason = "generated code does not know how far it is seen")]
mod proto {
    tonic::include_proto!("etcdserverpb");
}
