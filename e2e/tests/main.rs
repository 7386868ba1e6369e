// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The scenarios, as one program that `cargo xtask e2e` starts. A file is a group of them, with a table at its head.
mod first;

use std::process::ExitCode;

use e2e::scenario::Scenario;

fn main() -> ExitCode {
    let groups: [&[Scenario]; 1] = [first::SCENARIOS];
    e2e::runner::main(groups.concat().leak())
}
