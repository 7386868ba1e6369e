// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The integration tier: the real binary against doubles and real etcds. One file per group of requirements.
#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene must fail where it stands")]
#![expect(clippy::print_stderr, reason = "a failing test prints its scene")]
mod bootstrap;
mod damage;
mod first;
mod hold_and_history;
mod http;
mod locks;
mod marker;
mod member_etcd;
mod scene;
mod served_config;
mod sidecar_faults;
