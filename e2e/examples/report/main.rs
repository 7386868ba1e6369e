// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Draws the report of a folder once more; a folder without results gets those of a made-up run first, so that the page
//! can be worked on without a cluster: `cargo run -p e2e --example report -- FOLDER`.
#![expect(clippy::print_stdout, reason = "a program that shows something")]
mod example;
mod traffic;

use std::path::PathBuf;

use anyhow::{Context, Result};
use e2e::outcome::{self, Results};

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).context("usage: report FOLDER")?);
    if !folder.join(outcome::FILE).exists() {
        example::write(&folder)?;
    }
    let page = e2e::report::draw(&folder)?;
    println!("{}{}", e2e::report::table(&Results::read(&folder)?, false), page.display());
    Ok(())
}
