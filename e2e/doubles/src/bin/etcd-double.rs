// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The scripted etcd as a program, called as etcd is. Everything is in [`doubles::etcd::program`]; the script's
//! form stands at the head of `doubles::etcd::script`.
use std::process::ExitCode;

fn main() -> ExitCode {
    doubles::etcd::program::run()
}
