// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The images of a run: which roles there are, where each comes from, and how it gets into the node. Nothing is taken
//! in silence, and the sidecar's double only when the run allows it.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Serialize, Serializer};

use super::Clock;
use crate::cluster::Cluster;
use crate::engine::Engine;
use crate::image::{Image, ours};
use crate::images::{Foreign, From};
use crate::tools::Line;
use crate::{repo, workspace};

/// In the place of the sidecar's image: asks for its double.
const DOUBLE: &str = "double";

/// What an image is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The wrapper of this tree with the etcd of the run.
    Wrapper,
    /// The same with another etcd.
    WrapperWith(Line),
    /// The same under another id.
    WrapperNew,
    Sidecar,
    /// For the scenarios that tell the sidecar to misbehave, whatever the others have.
    SidecarDouble,
    Druid,
    /// What druid's init containers run.
    Init,
    Toolbox,
    GoWrapper,
    /// The pause container of the container tier.
    Hand,
}

/// Which sidecar's double, and which etcd beside the wrapper.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kit {
    pub(super) line: Line,
    /// The double that needs no Kubernetes.
    pub(super) light_double: bool,
}

/// `--image ROLE=IMAGE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    role: Role,
    image: String,
}

/// An image that the run has.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    pub(super) role: Role,
    pub(super) reference: String,
    pub(super) digest: String,
    from: From,
    /// Ours, as an archive; others are in the engine.
    #[serde(skip)]
    archive: Option<PathBuf>,
}

/// The roles of a run, in the order in which they are told.
pub(super) fn wanted(smoke: bool) -> Vec<Role> {
    let mut roles = vec![Role::Wrapper, Role::Sidecar, Role::Druid, Role::Init, Role::Toolbox];
    if !smoke {
        roles.extend([Role::WrapperWith(Line::L34), Role::WrapperWith(Line::L36), Role::GoWrapper]);
        roles.push(Role::SidecarDouble);
    }
    roles
}

/// The roles of the container tier: on one line of etcd, or on rising ones.
pub(super) fn wanted_by_containers(mixed: bool) -> Vec<Role> {
    let wrappers = if mixed {
        vec![Role::Wrapper, Role::WrapperWith(Line::L36), Role::WrapperWith(Line::L37)]
    } else {
        vec![Role::Wrapper, Role::WrapperNew]
    };
    [wrappers, vec![Role::Sidecar, Role::Hand]].concat()
}

/// All images of `roles`; those that scenarios can do without are left out with a word.
pub(super) fn collect(
    engine: &Engine,
    roles: &[Role],
    kit: Kit,
    choices: &[Choice],
    allow_double: bool,
    target: &Path,
    clock: &Clock,
) -> Result<Vec<Found>> {
    let foreign = Foreign::read(&repo::root())?;
    let mut found = Vec::new();
    let mut to_build = Vec::new();
    // What others made first: a name that is wrong must not cost a build.
    for role in roles.iter().copied() {
        let choice =
            choices.iter().rev().find(|choice| choice.role == role).map(|choice| choice.image.as_str());
        let double = role == Role::Sidecar && choice == Some(DOUBLE);
        if let Some(reference) = choice.filter(|_| !double) {
            let held = engine.image(reference)?;
            let held =
                held.with_context(|| format!("--image {role}={reference}: the engine has no such image"))?;
            found.push(Found::of_engine(role, reference, held.digest, From::Engine));
            continue;
        }
        let public = match role {
            Role::Sidecar if !double => Some(&foreign.sidecar),
            Role::Druid => Some(&foreign.druid),
            Role::Init => Some(&foreign.chown),
            Role::GoWrapper => Some(&foreign.go_wrapper),
            Role::Sidecar | Role::Wrapper | Role::WrapperWith(_) | Role::WrapperNew => None,
            Role::SidecarDouble | Role::Toolbox | Role::Hand => None,
        };
        let Some(image) = public else {
            to_build.push(role);
            continue;
        };
        match image.find(engine)? {
            Ok((digest, from)) => found.push(Found::of_engine(role, &image.reference, digest, from)),
            Err(why) if role == Role::GoWrapper => {
                clock
                    .say(&format!("no {role}: {} is neither here nor to be pulled ({why})", image.reference));
            }
            Err(why) if role == Role::Sidecar && !allow_double => bail!(
                "the sidecar's image {} is neither in the engine nor to be pulled ({why}); put it into the engine under this name, or name one: --image sidecar=IMAGE, or run with its double: --allow-double",
                image.reference
            ),
            Err(why) => {
                clock.say(&format!("{role}: {} cannot be pulled ({why})", image.reference));
                to_build.push(role);
            }
        }
    }
    let work = target.join("image");
    std::fs::create_dir_all(&work).with_context(|| format!("create {}", work.display()))?;
    for role in to_build {
        match build(role, kit) {
            Ok((name, image, from)) => found.push(pack(role, &name, &image, from, &work)?),
            // Its etcd is Debian's, which not every machine can have.
            Err(error) if role == Role::WrapperWith(Line::L34) => clock.say(&format!("no {role}: {error:#}")),
            Err(error) => return Err(error.context(format!("build the image for {role}"))),
        }
    }
    Ok(found)
}

/// Makes what no engine has: its name, itself, and what the report shall call it.
fn build(role: Role, kit: Kit) -> Result<(String, Image, From)> {
    let wrapper = || workspace::build("etcd-wrapper", "etcd-wrapper", true);
    let named = |line: Line| match line {
        Line::DEFAULT => "etcd-wrapper".to_owned(),
        line => format!("etcd-wrapper-{}", line.as_str()),
    };
    let light = || -> Result<Image> {
        let program = |name| workspace::build("doubles", name, false);
        Ok(ours::hand(&program("pod-hand")?, &program("sidecar-double")?))
    };
    Ok(match role {
        Role::Wrapper => (named(kit.line), ours::wrapper(&wrapper()?, kit.line)?, From::Built),
        Role::WrapperWith(line) => {
            (format!("etcd-wrapper-{}", line.as_str()), ours::wrapper(&wrapper()?, line)?, From::Built)
        }
        Role::WrapperNew => {
            (format!("{}-again", named(kit.line)), ours::wrapper_again(&wrapper()?, kit.line)?, From::Built)
        }
        Role::Toolbox => ("etcd-wrapper-toolbox".into(), ours::toolbox(&wrapper()?)?, From::Built),
        // It lies beside the hand.
        Role::Sidecar if kit.light_double => ("etcd-wrapper-hand".into(), light()?, From::Double),
        Role::Hand => ("etcd-wrapper-hand".into(), light()?, From::Built),
        Role::Sidecar | Role::SidecarDouble => {
            let double = workspace::build("cluster-sidecar", "cluster-sidecar", false)?;
            ("etcd-wrapper-sidecar-double".into(), ours::sidecar_double(&double), From::Double)
        }
        Role::Druid => ("etcd-wrapper-druid".into(), ours::druid()?, From::Built),
        Role::Init => ("etcd-wrapper-chown".into(), ours::chown()?, From::Built),
        Role::GoWrapper => bail!("nothing here builds it"),
    })
}

fn pack(role: Role, name: &str, image: &Image, from: From, work: &Path) -> Result<Found> {
    let ready = image.pack(work)?;
    let reference = ours::reference(name, &ready);
    let archive = work.join(format!("{name}.tar"));
    ready.write(&reference, &archive)?;
    Ok(Found { role, reference, digest: ready.id.to_string(), from, archive: Some(archive) })
}

impl Found {
    /// One that the engine has, under its own name.
    fn of_engine(role: Role, reference: &str, digest: String, from: From) -> Self {
        Self { role, reference: reference.to_owned(), digest, from, archive: None }
    }

    /// Puts it into the engine, unless it is there.
    pub(super) fn bring(&self, engine: &Engine) -> Result<()> {
        match &self.archive {
            // The tag is the image's own id: one of this name is this one.
            Some(archive) if engine.image(&self.reference)?.is_none() => engine.load(archive),
            Some(_) | None => Ok(()),
        }
        .with_context(|| format!("load {} into the engine", self.reference))
    }

    /// Puts it into the node, unless it is there.
    pub(super) fn load(&self, engine: &Engine, cluster: &Cluster) -> Result<()> {
        match &self.archive {
            // The tag is the image's own id: one of this name is this one.
            Some(_) if cluster.has_image(engine, &self.reference)? => Ok(()),
            Some(archive) => cluster.load_archive(engine, archive),
            None => cluster.load_image(&self.reference),
        }
        .with_context(|| format!("load {} into the node of {}", self.reference, cluster.name))
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wrapper => out.write_str("wrapper"),
            Self::WrapperWith(line) => write!(out, "wrapper-{}", line.as_str()),
            Self::Sidecar => out.write_str("sidecar"),
            Self::SidecarDouble => out.write_str("sidecar-double"),
            Self::Druid => out.write_str("druid"),
            Self::Init => out.write_str("init"),
            Self::Toolbox => out.write_str("toolbox"),
            Self::GoWrapper => out.write_str("go-wrapper"),
            Self::WrapperNew => out.write_str("wrapper-new"),
            Self::Hand => out.write_str("hand"),
        }
    }
}

impl std::fmt::Display for Choice {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}={}", self.role, self.image)
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Choice {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let roles = [
            Role::Wrapper,
            Role::WrapperWith(Line::L34),
            Role::WrapperWith(Line::L36),
            Role::WrapperWith(Line::L37),
            Role::WrapperNew,
            Role::Sidecar,
            Role::SidecarDouble,
            Role::Druid,
            Role::Init,
            Role::Toolbox,
            Role::GoWrapper,
            Role::Hand,
        ];
        let (name, image) = text.split_once('=').with_context(|| format!("{text:?} is not ROLE=IMAGE"))?;
        let role = roles.into_iter().find(|role| role.to_string() == name).ok_or_else(|| {
            anyhow!("no role {name:?}; there are: {}", roles.map(|role| role.to_string()).join(", "))
        })?;
        if image.is_empty() {
            bail!("{text:?} names no image");
        }
        Ok(Self { role, image: image.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_names_a_role_and_an_image() {
        let choice: Choice = "sidecar=r.io/x:v1".parse().unwrap();
        assert_eq!(choice, Choice { role: Role::Sidecar, image: "r.io/x:v1".into() });
        for wrong in ["sidecar", "sidecar=", "=x", "etcd=x:1"] {
            wrong.parse::<Choice>().expect_err(wrong);
        }
    }

    #[test]
    fn the_smoke_needs_no_image_that_only_some_scenarios_use() {
        for role in [Role::GoWrapper, Role::SidecarDouble] {
            assert!(!wanted(true).contains(&role) && wanted(false).contains(&role));
        }
    }
}
