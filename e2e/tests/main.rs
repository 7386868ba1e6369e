// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The scenarios, as one program that `cargo xtask e2e` starts. A file is a group of them, with a table at its head.
mod agent;
mod change;
mod first;
mod growth;
mod neighbours;
mod network;
mod planted;
mod processes;
mod started;
mod tls;
mod volumes;

use std::process::ExitCode;

fn main() -> ExitCode {
    let groups = [
        first::SCENARIOS,
        growth::SCENARIOS,
        agent::SCENARIOS,
        change::SCENARIOS,
        neighbours::SCENARIOS,
        network::SCENARIOS,
        planted::SCENARIOS,
        processes::SCENARIOS,
        tls::SCENARIOS,
        volumes::SCENARIOS,
    ];
    e2e::runner::main(groups.concat().leak())
}
