// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The program beside real etcd members and a made-up API server, asked as a wrapper asks. What needs druid and pods
//! is shown by the end-to-end scenarios.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking, with what it saw")]
mod api_server;
mod membership;
mod scene;
mod silence;
