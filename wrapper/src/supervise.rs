// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Owns the child and the state machine. `state` decides, `runtime` carries out, `process` is the only place that forks
//! and signals, `disk` the only thread that touches files, `view` what everybody else may read.
pub mod command;
pub mod disk;
pub mod lock;
pub mod modes;
pub mod notify;
pub mod process;
pub mod publish;
pub mod runtime;
pub mod state;
pub mod view;
