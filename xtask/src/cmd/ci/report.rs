// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask ci report`: makes an issue of a night that failed, or adds to the one that is open. It closes none: whether
//! something is mended is for people to say.

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::Value;

use super::gate::{self, Jobs};
use crate::sh::Step;

/// How the one open issue is found.
const LABEL: &str = "nightly";
const TITLE: &str = "The nightly run failed";

/// Opens an issue about jobs that failed, or adds to the open one
///
/// Reads NEEDS, the workflow's `toJSON(needs)`, and RUN_URL. Speaks to GitHub by its program `gh`, with GH_TOKEN and
/// GH_REPO. Without --execute it only prints what it would say.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    NEEDS='{\"soak\":{\"result\":\"failure\"}}' \\\n    RUN_URL=https://example.org/1 cargo xtask ci report")]
pub(super) struct Args {
    /// Do it
    #[arg(long)]
    execute: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let jobs = gate::read()?;
    let url = std::env::var("RUN_URL").context("read RUN_URL: the page of the run")?;
    let Some(text) = text(&jobs, &url) else {
        println!("nothing failed: nothing to tell");
        return Ok(ExitCode::SUCCESS);
    };
    println!("{text}");
    if !args.execute {
        println!("not sent: --execute sends it");
        return Ok(ExitCode::SUCCESS);
    }
    let gh = || Step::new("gh").mend("https://cli.github.com");
    // Making it twice is no error.
    gh().args(["label", "create", LABEL, "--force", "--description", "Found by the nightly run"]).read()?;
    let said = gh()
        .args(["issue", "list", "--state", "open", "--label", LABEL, "--limit", "1", "--json", "number"])
        .read()?;
    match open(&said)? {
        Some(number) => gh().args(["issue", "comment", &number.to_string(), "--body", &text]).run()?,
        None => gh().args(["issue", "create", "--title", TITLE, "--label", LABEL, "--body", &text]).run()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What the issue says; none if nothing failed.
fn text(jobs: &Jobs, url: &str) -> Option<String> {
    let failed: Vec<String> = jobs
        .iter()
        .filter(|(_, job)| job.result != "success")
        .map(|(name, job)| format!("- `{name}`: {}", job.result))
        .collect();
    (!failed.is_empty()).then(|| format!("{url}\n\n{}\n", failed.join("\n")))
}

/// The number of the first issue in a list.
fn open(said: &str) -> Result<Option<u64>> {
    let list: Value = serde_json::from_str(said).context("parse what gh said")?;
    Ok(list[0]["number"].as_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_did_not_end_well_is_told() {
        let of = |text: &str| serde_json::from_str::<Jobs>(text).unwrap();
        let jobs =
            of(r#"{"soak":{"result":"failure"},"fuzz":{"result":"success"},"e2e":{"result":"cancelled"}}"#);
        assert_eq!(text(&jobs, "u").unwrap(), "u\n\n- `e2e`: cancelled\n- `soak`: failure\n");
        assert_eq!(text(&of(r#"{"fuzz":{"result":"success"}}"#), "u"), None);
    }

    #[test]
    fn the_open_issue_is_the_first_of_the_list() {
        assert_eq!(open(r#"[{"number":7}]"#).unwrap(), Some(7));
        assert_eq!(open("[]").unwrap(), None);
        assert!(open("oops").is_err());
    }
}
