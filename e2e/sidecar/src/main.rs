// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The double of the sidecar for pods that etcd-druid makes.

fn main() {}
