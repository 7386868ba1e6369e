// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The check of histories: against hand-made ones, simulated ones, broken ones, and a checker that tries everything.
mod brute;
mod cases;
mod large;
pub(super) mod ops;
mod properties;
mod revisions;
mod simulate;
mod traffic;

use super::register::Register;
use super::search::{Budget, search};
use super::{History, Op};

/// Whether there is an order for the calls on each key, whatever revisions and last reads say.
fn is_orderable(history: &History) -> bool {
    let mut keys: Vec<&str> = history.ops.iter().map(|op| op.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    let of_key = |key: &str| history.ops.iter().filter(|op| op.key == key).collect::<Vec<&Op>>();
    let mut budget = Budget(10_000_000);
    keys.iter().all(|key| search(&Register::new(&of_key(key)), &mut budget).unwrap().is_none())
}
