// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Build, test and development verbs of the repository: `cargo xtask --help`. All logic lies in the modules.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a verb talks to the person who typed it")]

mod arch;
mod cache;
mod cluster;
mod cmd;
mod coverage;
mod druid;
mod engine;
mod image;
mod images;
mod interrupt;
mod junit;
mod machine;
mod node;
mod release;
mod repo;
mod sh;
mod tidy;
mod tools;
mod workspace;

fn main() -> std::process::ExitCode {
    cmd::main()
}
