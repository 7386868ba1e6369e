// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Build, test and development verbs of the repository: `cargo xtask --help`. All logic lies in the modules.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a verb talks to the person who typed it")]

mod cache;
mod cmd;
mod junit;
mod machine;
mod repo;
mod sh;
mod tidy;
mod tools;

fn main() -> std::process::ExitCode {
    cmd::main()
}
