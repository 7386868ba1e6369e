// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! etcd-wrapper: runs one etcd member in a pod. ARCHITECTURE.md has the map; the stages hand values on in this order:
//! `bootstrap` → `supervise` → `member` → `api`, each with one writer, none reaching forward.
pub mod api;
pub mod app;
pub mod bootstrap;
pub mod cli;
pub mod client;
pub mod config;
pub mod connect;
pub mod durable;
pub mod duration;
pub mod exit;
pub mod file_error;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod member;
pub mod metrics;
pub mod percent;
pub mod shutdown;
pub mod supervise;
pub mod telemetry;
pub mod tls;
