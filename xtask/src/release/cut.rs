// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Publishes a release, in steps of which each looks first whether it is done. No file remembers how far a cut came: the
//! remote, the registry and the host of releases are asked. So a cut that was cut off is continued by running it again,
//! and what gives something a name comes after what has none.

mod assets;
mod images;
mod lock;
mod next;
mod refs;

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::bundle::{self, Bundle};
use super::component::Component;
use super::git::Git;
use super::github::{Client, Release};
use super::policy::Line;
use super::registry::Registry;
use super::sign::Signer;
use super::version::Version;
use crate::image::Layout;

/// The command that goes on with a cut.
pub(crate) const CONTINUE: &str = "cargo xtask release cut --execute";

/// A step, in the order in which they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Step {
    /// Locks the release at the remote, so that no other cut runs beside.
    Lock,
    /// Makes a draft, which shows that the token may write.
    Draft,
    /// Pushes the image by digest, without a tag.
    Images,
    /// Signs the image, statements about it, and the sums; and verifies all of it.
    Sign,
    /// Pushes commit, branch and tag, all or none.
    Refs,
    /// Gives the image its tag.
    ImageTag,
    /// Attaches the files to the draft.
    Assets,
    /// Shows the release to everybody.
    Publish,
    /// Pushes the next development version.
    Next,
    /// Lets the next cut in.
    Unlock,
}

/// How far a step is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// What is there.
    Done(String),
    /// What would be done.
    Todo(String),
}

impl Step {
    pub(crate) const ALL: [Self; 10] = [
        Self::Lock,
        Self::Draft,
        Self::Images,
        Self::Sign,
        Self::Refs,
        Self::ImageTag,
        Self::Assets,
        Self::Publish,
        Self::Next,
        Self::Unlock,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Draft => "draft",
            Self::Images => "images",
            Self::Sign => "sign",
            Self::Refs => "refs",
            Self::ImageTag => "image-tag",
            Self::Assets => "assets",
            Self::Publish => "publish",
            Self::Next => "next",
            Self::Unlock => "unlock",
        }
    }
}

/// What a cut works with.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) component: Component,
    pub(crate) bundle: Bundle,
    pub(crate) version: Version,
    /// The commit of the release.
    pub(crate) commit: String,
    pub(crate) line: Line,
    pub(crate) git: Git,
    /// The remote's name or URL.
    pub(crate) remote: String,
    pub(crate) github: Client,
    pub(crate) registry: Registry,
    pub(crate) signer: Signer,
    /// Who cuts: the same for all runs that shall go on with one another.
    pub(crate) owner: String,
    /// The lock of another cut that is known to be dead.
    pub(crate) take_over: Option<String>,
    /// For rehearsals: the process kills itself after this step.
    pub(crate) halt_after: Option<Step>,
    /// For rehearsals: the process kills itself in this step, where it can be half done.
    pub(crate) halt_in: Option<Step>,
}

impl Cut {
    /// Looks at all steps but the lock's, and touches nothing. What stands in the way shows here, before the first step.
    pub(crate) fn survey(&self) -> Result<Vec<(Step, State)>> {
        self.github.may_write()?;
        self.git
            .ask(["var", "GIT_COMMITTER_IDENT"])
            .context("who makes tag and commits is not known; set it: git config user.name, user.email")?;
        let look = |step: Step| {
            let state = self.look(step).with_context(|| format!("look at step `{}`", step.name()))?;
            Ok((step, state))
        };
        Step::ALL.into_iter().map(look).collect()
    }

    /// Whether a survey says that nothing is left to do.
    pub(crate) fn is_done(states: &[(Step, State)]) -> bool {
        states.iter().all(|(step, state)| *step == Step::Lock || matches!(state, State::Done(_)))
    }

    /// Takes the steps that `survey` found not done; `say` is told of each. What was found done is not looked at again:
    /// nothing here is ever undone, and a look at signatures takes its time.
    ///
    /// # Errors
    /// A step failed, or did what it does and cannot be found done. No step after it was begun.
    pub(crate) fn execute(
        &self,
        survey: Vec<(Step, State)>,
        say: &mut dyn FnMut(Step, &State, bool),
    ) -> Result<()> {
        for (number, (step, found)) in survey.into_iter().enumerate() {
            let take = || -> Result<()> {
                // The lock's is the one that others change.
                let lasting = !matches!(step, Step::Lock | Step::Unlock);
                let before = match found {
                    done @ State::Done(_) if lasting => done,
                    State::Done(_) | State::Todo(_) => self.look(step)?,
                };
                let State::Todo(what) = &before else {
                    say(step, &before, true);
                    return Ok(());
                };
                say(step, &before, false);
                self.act(step)?;
                match self.look(step)? {
                    after @ State::Done(_) => say(step, &after, false),
                    State::Todo(still) => bail!("it was done ({what}), and is not there: {still}"),
                }
                Ok(())
            };
            take().with_context(|| {
                format!(
                    "step `{}` ({} of {}) failed; the steps before it stay as they are, none after it was begun; when it is mended, continue with: {CONTINUE}",
                    step.name(),
                    number + 1,
                    Step::ALL.len()
                )
            })?;
            if self.halt_after == Some(step) {
                die()?;
            }
        }
        Ok(())
    }

    fn look(&self, step: Step) -> Result<State> {
        match step {
            Step::Lock => lock::look(self),
            Step::Draft => self.look_at_draft(),
            Step::Images => images::look(self),
            Step::Sign => images::look_at_signatures(self),
            Step::Refs => refs::look(self),
            Step::ImageTag => images::look_at_tag(self),
            Step::Assets => assets::look(self),
            Step::Publish => self.look_at_publication(),
            Step::Next => next::look(self),
            Step::Unlock => lock::look_away(self),
        }
    }

    fn act(&self, step: Step) -> Result<()> {
        match step {
            Step::Lock => lock::act(self),
            Step::Draft => self.draft(),
            Step::Images => self.registry.push(&self.layout()?),
            Step::Sign => images::sign(self),
            Step::Refs => refs::act(self),
            Step::ImageTag => self.registry.tag(&self.layout()?.digest, &self.tag()),
            Step::Assets => assets::act(self),
            Step::Publish => self.publish(),
            Step::Next => next::act(self),
            Step::Unlock => lock::release(self),
        }
    }

    fn tag(&self) -> String {
        self.version.tag()
    }

    fn layout(&self) -> Result<Layout> {
        self.bundle.layout()
    }

    /// The branch that patch releases of this minor come from.
    fn branch(&self) -> String {
        self.version.fill(&self.component.versions.branch_template)
    }

    fn release(&self) -> Result<Option<Release>> {
        self.github.release(&self.tag())
    }

    /// What stands with the release: the changelog's section, then what it is and how to verify it.
    fn notes(&self) -> Result<String> {
        let notes = String::from_utf8(self.bundle.read(bundle::NOTES)?).context("the notes are no text")?;
        let image = self.registry.by_digest(&self.layout()?.digest);
        Ok(format!(
            "{notes}\n### Image\n\n`{}:{}`\n\n```console\n$ {}\n$ {}\n```\n",
            self.registry.repository,
            self.tag(),
            self.signer.how("verify", &image),
            self.signer.how("verify-blob", &format!("--bundle {} {}", bundle::SIGNATURE, bundle::SUMS)),
        ))
    }

    fn look_at_draft(&self) -> Result<State> {
        let tag = self.tag();
        Ok(match self.release()? {
            None => State::Todo(format!("make the draft of release {tag}")),
            // Notes of a published release are its readers', and may have been edited.
            Some(release) if !release.draft => State::Done(format!("release {tag} is published")),
            Some(release) if same(&release, &tag, &self.notes()?) => {
                State::Done(format!("the draft of {tag} is there"))
            }
            Some(_) => State::Todo(format!("write the notes of the draft of {tag}")),
        })
    }

    fn draft(&self) -> Result<()> {
        let notes = self.notes()?;
        match self.release()? {
            None => self.github.draft(&self.tag(), &self.commit, &notes).map(drop),
            Some(release) => self.github.rewrite(&release, &notes).map(drop),
        }
    }

    fn look_at_publication(&self) -> Result<State> {
        let tag = self.tag();
        Ok(match self.release()? {
            Some(release) if !release.draft => State::Done(format!("release {tag} is published")),
            Some(_) | None => State::Todo(format!("publish release {tag}")),
        })
    }

    fn publish(&self) -> Result<()> {
        let release = self.release()?.context("the draft is gone")?;
        let tags = self.git.remote_tags(&self.remote)?;
        let newer = tags.iter().filter_map(|tag| Version::of_tag(tag)).any(|tag| tag > self.version);
        self.github.publish(&release, !newer).map(drop)
    }

    fn halt_in(&self, step: Step) -> Result<()> {
        if self.halt_in == Some(step) { die() } else { Ok(()) }
    }
}

/// Whether a draft says what it shall; a server may change line ends.
fn same(release: &Release, name: &str, notes: &str) -> bool {
    let body = release.body.as_deref().unwrap_or_default().replace("\r\n", "\n");
    release.name.as_deref() == Some(name) && body.trim() == notes.trim()
}

/// As a machine goes that loses power: nothing is cleaned up.
fn die() -> Result<()> {
    eprintln!("killed, as this rehearsal was asked to");
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        .context("kill this process")
}

/// Keeps a second cut of this clone out for as long as it lives.
pub(crate) fn alone(target: &Path) -> Result<std::fs::File> {
    let path = target.join(".release.lock");
    let file = std::fs::File::create(&path).with_context(|| format!("create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            bail!("another cut runs in this clone; wait for it, then run this one again")
        }
        Err(std::fs::TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("lock {}", path.display()))
        }
    }
}

#[cfg(test)]
mod tests;
