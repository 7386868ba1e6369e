// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Writes the reports of a made-up run, for whoever works on the page: `cargo run -p e2e --example report -- FOLDER`.
#![expect(clippy::print_stdout, reason = "a program that shows something")]
mod example;

use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).context("usage: report FOLDER")?);
    let run = example::run();
    let page = e2e::report::write(&run, &folder)?;
    println!("{}\n{}", e2e::report::table(&run, false), page.display());
    Ok(())
}
