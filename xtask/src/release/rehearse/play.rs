// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The scenes: a minor release that is killed after every step and continued, and a patch release of its branch.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use super::Clock;
use super::stage::Stage;
use crate::arch::Arch;
use crate::image::Layout;
use crate::release::build::{self, Inputs};
use crate::release::bundle::{self, Bundle};
use crate::release::changelog;
use crate::release::cut::Step;
use crate::release::manifest;
use crate::release::planted::{self, Seed};

const SIGKILL: i32 = 9;

/// A rehearsal under way.
#[derive(Debug)]
pub(super) struct Play<'a> {
    pub(super) stage: &'a Stage,
    pub(super) clock: &'a Clock,
}

impl Play<'_> {
    /// From the plan on main to a release that is out.
    pub(super) fn minor(&self) -> Result<()> {
        let plan = self.stage.release(&["plan", "--bump", "minor", "--json"])?.read()?;
        let plan: serde_json::Value = serde_json::from_str(&plan).context("parse the plan")?;
        ensure!(plan["version"] == "0.1.0", "the plan is for {}", plan["version"]);
        self.clock.say("minor release: the plan is for v0.1.0");
        self.prepare_and_build()?;
        self.same_in_another_folder()?;

        let said = self.stage.cut(&[])?.read()?;
        ensure!(said.contains("nothing was done") && said.contains("would: "), "a dry run said: {said}");
        ensure!(self.stage.github.releases().is_empty(), "a dry run made a release");
        self.clock.say("a dry run said what it would do, and did nothing");

        for step in Step::ALL {
            if step == Step::Images {
                self.registry_breaks_off()?;
            }
            if matches!(step, Step::Sign | Step::Assets) {
                self.killed("--halt-in", step)?;
            }
            self.killed("--halt-after", step)?;
        }
        self.is_out("v0.1.0", &["0.2.0-dev", "0.1.1-dev"])
    }

    /// A fix on the release branch.
    pub(super) fn patch(&self) -> Result<()> {
        let git = self.stage.git();
        git.ask(["fetch", "--quiet", "origin"])?;
        git.ask(["switch", "--quiet", "--create", "release-v0.1", "origin/release-v0.1"])?;
        let path = self.stage.clone.join(changelog::PATH);
        let text = std::fs::read_to_string(&path).context("read the changelog")?;
        let heading = "## [Unreleased]\n";
        let text = text.replacen(heading, &format!("{heading}\n- what the rehearsal's patch mends\n"), 1);
        std::fs::write(&path, text).context("write the changelog")?;
        git.record(&[changelog::PATH], "rehearsal: a fix")?;
        self.clock.say("patch release: a fix lies on release-v0.1");
        self.prepare_and_build()?;
        self.killed("--halt-in", Step::Sign)?;
        self.killed("--halt-after", Step::Refs)?;
        self.stage.cut(&["--execute"])?.read()?;
        self.clock.say("the cut was continued to its end");
        self.is_out("v0.1.1", &["0.2.0-dev", "0.1.2-dev"])
    }

    fn prepare_and_build(&self) -> Result<()> {
        self.stage.release(&["prepare"])?.read()?;
        let (commit, version) = (self.stage.git().head()?, manifest::version(&self.stage.clone)?);
        self.clock.say(&format!("prepared {} as {commit}", version.tag()));
        let image = self.image()?;
        let layout = Layout::open(&image)?;
        let evidence = self.stage.folder.join("evidence");
        planted::evidence(&evidence, &commit, &layout.digest.to_string())?;
        let (image, evidence) = (image.display().to_string(), evidence.display().to_string());
        self.stage.release(&["build", "--image", &image, "--evidence", &evidence])?.read()?;
        self.clock.say(&format!("built the release, image {}", layout.digest));
        let refused = self.stage.release(&["check"])?.read();
        ensure!(refused.is_err(), "a check let a report with doubles count");
        self.stage.release(&["check", "--rehearsal"])?.read()?;
        self.clock.say("check refuses the planted end-to-end report, and finds all else whole");
        Ok(())
    }

    /// The layout of the image, the real one or a planted one.
    fn image(&self) -> Result<PathBuf> {
        if self.stage.planted {
            let component = self.stage.component()?;
            let (commit, version) = (self.stage.git().head()?, manifest::version(&self.stage.clone)?);
            let (archs, without) = (&Arch::ALL[..], &[][..]);
            let seed = Seed { component: &component, version, commit: &commit, archs, without };
            let place = self.stage.folder.join("image");
            planted::image(&seed, &place)?;
            return Ok(place);
        }
        self.clock.say("building the real image; it takes some minutes");
        self.stage.verb(&["image"])?.read_loud()?;
        Ok(self.stage.target.join("image/etcd-wrapper-3.5"))
    }

    /// The same commit in a second clone gives the same sums.
    fn same_in_another_folder(&self) -> Result<()> {
        let second = self.stage.folder.join("second/clone");
        let (from, to) = (self.stage.clone.display().to_string(), second.display().to_string());
        self.stage.git().ask(["clone", "--quiet", "--no-local", &from, &to])?;
        let target = self.stage.folder.join("second/target");
        std::fs::create_dir_all(&target).with_context(|| format!("create {}", target.display()))?;
        let bundle = self.bundle()?;
        let evidence = self.stage.folder.join("evidence");
        let image = bundle.layout()?;
        let (other, _) =
            build::run(&Inputs { root: &second, target: &target, image: &image, evidence: Some(&evidence) })?;
        ensure!(
            bundle.read(bundle::SUMS)? == other.read(bundle::SUMS)?,
            "the same commit gave other files in another folder: {} and {}",
            bundle.path.display(),
            other.path.display()
        );
        self.clock.say("the same commit, image and reports gave the same bytes in another folder");
        Ok(())
    }

    fn bundle(&self) -> Result<Bundle> {
        let (component, version) = (self.stage.component()?, manifest::version(&self.stage.clone)?);
        Ok(Bundle::of(&self.stage.target, component.short(), version))
    }

    /// Runs a cut that is killed at a step.
    fn killed(&self, how: &str, step: Step) -> Result<()> {
        let log = self.stage.folder.join("cut.log");
        let file = std::fs::File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let also = file.try_clone().context("share the log of a cut")?;
        let words = ["--execute", how, step.name()];
        let mut child = self.stage.cut(&words)?.start(file.into(), also.into())?;
        let status = child.wait().context("wait for the cut")?;
        if status.signal() != Some(SIGKILL) {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let how = crate::sh::ended(status);
            bail!("a cut was to be killed at `{}`, and ended with {how}; it said:\n{said}", step.name());
        }
        let place = if how == "--halt-in" { "within" } else { "after" };
        self.clock.say(&format!("the cut was killed {place} step `{}`", step.name()));
        Ok(())
    }

    /// A push that breaks in its middle is told, and harms nothing.
    fn registry_breaks_off(&self) -> Result<()> {
        self.stage.wire.break_after(200 << 10);
        let ended = self.stage.cut(&["--execute"])?.read();
        let broke = self.stage.wire.mend();
        let Err(error) = ended else { bail!("a cut ended well although its registry broke off") };
        let error = format!("{error:#}");
        ensure!(broke, "the wire was to break, and did not: {error}");
        ensure!(error.contains("step `images`"), "the step is not named: {error}");
        ensure!(
            self.stage.git().remote_tag("origin", "v0.1.0")?.is_none(),
            "a tag is out although the image is not: {error}"
        );
        self.clock.say("the registry broke off: the cut named step `images`, and nothing has a name yet");
        Ok(())
    }

    /// What has to be true of a release that is out.
    fn is_out(&self, tag: &str, next: &[&str]) -> Result<()> {
        let git = self.stage.git();
        let said = self.stage.cut(&["--execute"])?.read()?;
        ensure!(said.contains("nothing is left to do"), "a cut of what is out said: {said}");
        let is = git.remote_tag("origin", tag)?;
        ensure!(is == Some(git.head()?), "{tag} of the remote is on {is:?}");
        ensure!(git.remote("origin", "refs/release/lock")?.is_none(), "the lock is still there");
        let releases = self.stage.github.releases();
        ensure!(releases.contains(&(tag.to_owned(), false)), "release {tag} is not published: {releases:?}");
        let mut found = Vec::new();
        for branch in ["main", "release-v0.1"] {
            let tip = git.fetch("origin", &format!("refs/heads/{branch}"))?.context("a branch is gone")?;
            found.push(manifest::of(&git.file(&tip, "Cargo.toml")?)?.to_string());
        }
        ensure!(found == next, "the branches work on {found:?}, not on {next:?}");
        self.clock.say(&format!("{tag} is out; the branches work on {}", found.join(" and ")));
        Ok(())
    }
}
