// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The scenarios, as one program that `cargo xtask e2e` starts.

fn main() {}
