// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The container tier, as the program that `cargo xtask e2e --tier container` starts.
use std::process::ExitCode;

fn main() -> ExitCode {
    e2e::container::run::main()
}
