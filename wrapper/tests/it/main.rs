// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The integration tier: the real binary against doubles and real etcds. One file per group of requirements.
#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene must fail where it stands")]
#![expect(clippy::print_stderr, reason = "a failing test prints its scene")]
mod access;
mod bootstrap;
mod client;
mod cluster;
mod crash;
mod damage;
mod ending;
mod etcd_3_4;
mod events;
mod examples;
mod exit_codes;
mod exposition;
mod file_modes;
mod first;
mod flows;
mod frugal;
mod hold_and_history;
mod http;
mod inherited;
mod init;
mod launch;
mod limits;
mod locks;
mod marker;
mod member_etcd;
mod namespace;
#[path = "../../src/api/tests/openapi.rs"]
mod openapi;
mod overrides;
mod panic;
mod phases;
mod printed;
mod probes;
mod runbooks;
mod scene;
mod secrets;
mod served_config;
mod sidecar_faults;
mod stalled;
mod standing;
mod status;
mod stop_call;
mod storm;
mod subscriber;
mod three_members;
mod three_members_verbs;
mod tls_broken;
mod tls_matrix;
mod tls_reload;
mod verbs;
mod verbs_restart;
mod verbs_start;
mod verbs_stop;
mod waiting;
