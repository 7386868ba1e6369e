// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The scenarios, as one program that `cargo xtask e2e` starts. A file is a group of them, with a table at its head.
mod agent;
mod change;
mod first;
mod neighbours;
mod tls;

use std::process::ExitCode;

use e2e::scenario::Scenario;

fn main() -> ExitCode {
    let groups: [&[Scenario]; 5] =
        [first::SCENARIOS, agent::SCENARIOS, change::SCENARIOS, tls::SCENARIOS, neighbours::SCENARIOS];
    e2e::runner::main(groups.concat().leak())
}
