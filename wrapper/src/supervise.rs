// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Owns the child and the state machine.
pub mod command;
pub mod lock;
pub mod notify;
pub mod process;
pub mod state;
pub mod view;
