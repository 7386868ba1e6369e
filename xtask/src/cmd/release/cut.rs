// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask release cut`: what of the surroundings a cut needs, and what a person sees of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::check::{self, Common};
use super::surroundings::{self, variable};
use crate::release::component::Component;
use crate::release::cut::{self, CONTINUE, Cut, State, Step};
use crate::release::git::Git;
use crate::release::github::is_local;
use crate::release::policy::Line;
use crate::release::registry::Registry;
use crate::release::sign::{Means, Signer};
use crate::tools::Tool;
use crate::{repo, workspace};

/// Publishes a release that is whole; without --execute it says what it would do
///
/// Every step looks first whether it is done, so a cut that was cut off is continued by running it again. A lock at the
/// remote keeps a second cut out. What gives something a name comes last: the image lies signed in its registry before a
/// tag names it, and the release is a draft until all of its files are there.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask release cut                               what is done already\n  \
    cargo xtask release cut --execute --key cosign.key    on a laptop\n  \
    cargo xtask release cut --execute                     in hosted CI\n\n\
    GITHUB_TOKEN needs the right `contents: write`. For the registry, log in before: docker login HOST; or set \
    REGISTRY_USER and REGISTRY_PASSWORD. The password of --key is taken from COSIGN_PASSWORD.")]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Do it
    #[arg(long, conflicts_with = "dry_run")]
    execute: bool,
    /// Say what would be done, which is the default
    #[arg(long)]
    dry_run: bool,
    /// Sign with this private key of cosign's, and not with the identity of hosted CI
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Do not ask whether CI is green
    #[arg(long)]
    offline: bool,
    /// Take the lock of a cut over that is dead, by the name that it is refused with
    #[arg(long, value_name = "LOCK")]
    take_over: Option<String>,
    /// Kill this process after a step
    #[arg(long, value_name = "STEP", hide = true)]
    halt_after: Option<Step>,
    /// Kill this process within a step
    #[arg(long, value_name = "STEP", hide = true)]
    halt_in: Option<Step>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let root = repo::root();
    let target = workspace::target_folder(&root)?;
    let component = Component::read(&root)?;
    let git = surroundings::git(&root);
    if args.common.rehearsal {
        only_this_machine(&git, &args.common.remote, &component)?;
    }
    let report = check::look(&args.common, args.offline)?;
    if !report.findings.is_empty() {
        check::show(&report);
        bail!(
            "the release is not whole, and nothing was begun; mend what is missing, then: cargo xtask release check"
        );
    }
    for what in &report.unseen {
        eprintln!("not seen: {what}");
    }
    let keys = tempfile::tempdir().context("make a folder for the public key")?;
    let login = surroundings::login(&component.image_repository(), keys.path())?;
    let cut = Cut {
        version: report.bundle.version,
        bundle: report.bundle,
        commit: report.commit,
        line: Line::of(&git.branch()?, &component.versions.branch_template)?,
        owner: owner(&git)?,
        remote: args.common.remote.clone(),
        github: surroundings::github(component.slug()?)?,
        registry: Registry::new(&component.image_repository(), Tool::Oras.ensure()?, login.clone()),
        signer: signer(args.key.as_deref(), keys.path(), args.execute, login)?,
        take_over: args.take_over.clone(),
        halt_after: args.halt_after,
        halt_in: args.halt_in,
        git,
        component,
    };
    let _alone = cut::alone(&target)?;
    let states = cut.survey().context("nothing was begun")?;
    if Cut::is_done(&states) {
        println!("{} is out; nothing is left to do", cut.version.tag());
        return Ok(ExitCode::SUCCESS);
    }
    if !args.execute {
        for (step, state) in &states {
            show(*step, state, true);
        }
        println!("nothing was done; do it with: {CONTINUE}");
        return Ok(ExitCode::SUCCESS);
    }
    cut.execute(states, &mut |step, state, before| show(step, state, before))?;
    println!("{} is out", cut.version.tag());
    Ok(ExitCode::SUCCESS)
}

fn show(step: Step, state: &State, before: bool) {
    let name = step.name();
    match state {
        State::Done(what) if before => println!("{name:<10} done before: {what}"),
        State::Done(what) => println!("{name:<10} done: {what}"),
        State::Todo(what) if before => println!("{name:<10} would: {what}"),
        State::Todo(what) => println!("{name:<10} … {what}"),
    }
}

fn signer(key: Option<&Path>, keys: &Path, execute: bool, env: Vec<(String, OsString)>) -> Result<Signer> {
    let cosign = Tool::Cosign.ensure()?;
    let means = match (key, variable("GITHUB_WORKFLOW_REF")) {
        (Some(key), _) => {
            let public = keys.join("cosign.pub");
            Signer::public_key(&cosign, key, &public, &[])?;
            Means::Key { private: key.to_owned(), public }
        }
        (None, Some(workflow)) => {
            if execute && variable("ACTIONS_ID_TOKEN_REQUEST_URL").is_none() {
                bail!("the job has no identity to sign with; give it the permission `id-token: write`");
            }
            let server = variable("GITHUB_SERVER_URL").unwrap_or_else(|| "https://github.com".into());
            Means::Keyless { identity: format!("{server}/{workflow}") }
        }
        (None, None) => bail!(
            "nothing to sign with: name a key, --key FILE (made by: $(cargo xtask tool cosign) generate-key-pair), or run it in hosted CI"
        ),
    };
    Ok(Signer::new(cosign, means, env))
}

/// Who cuts: a run of hosted CI with all its attempts, or this clone.
fn owner(git: &Git) -> Result<String> {
    if let Some(run) = variable("GITHUB_RUN_ID") {
        return Ok(format!("run {run}"));
    }
    let folder = git.ask(["rev-parse", "--absolute-git-dir"])?;
    let path = Path::new(&folder).join("release-owner");
    match std::fs::read_to_string(&path) {
        Ok(owner) if !owner.trim().is_empty() => Ok(owner.trim().to_owned()),
        Ok(_) | Err(_) => {
            let mut bytes = [0_u8; 8];
            ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
                .map_err(|_| anyhow::anyhow!("the system gives no random numbers"))?;
            let owner = format!("clone {:016x}", u64::from_be_bytes(bytes));
            std::fs::write(&path, &owner).with_context(|| format!("write {}", path.display()))?;
            Ok(owner)
        }
    }
}

/// A rehearsal must not reach anything that others see.
fn only_this_machine(git: &Git, remote: &str, component: &Component) -> Result<()> {
    let url = git.ask(["remote", "get-url", "--push", remote])?;
    if !Path::new(&url).is_absolute() {
        bail!(
            "--rehearsal, and the remote {remote} is {url}: a rehearsal pushes to a folder of this machine"
        );
    }
    let images = component.image_repository();
    if !is_local(&images) {
        bail!("--rehearsal, and images go to {images}: a rehearsal pushes to this machine");
    }
    let api = variable("GITHUB_API_URL").unwrap_or_default();
    if !is_local(&api) {
        bail!("--rehearsal, and GITHUB_API_URL is {api:?}: a rehearsal speaks to a double on this machine");
    }
    Ok(())
}
