// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The stage: what was brought up for a run, as the file that `cargo xtask e2e` writes and this program reads. It
//! says what there is; what a scenario needs of it is judged in `scenario`, and nothing is brought up from here.
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Everything a run stands on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Unique among all runs; fit for a label's value and a file name.
    pub run: String,
    /// Where the random choices of all scenarios begin; `--seed` replaces it.
    pub seed: u64,
    /// The commit of the tree under test, with `-dirty` when it has changes.
    pub commit: String,
    /// The program that drives containers, on PATH: `docker`.
    pub engine: String,
    /// The cluster's name.
    pub cluster: String,
    /// The container that is the cluster's only node, by its name at the engine.
    pub node: String,
    /// An administrator's kubeconfig for the cluster.
    pub kubeconfig: PathBuf,
    /// The cluster's version, `v1.34.4`.
    pub kubernetes: String,
    /// What the cluster can start, each under the name that a pod uses.
    pub images: Vec<Image>,
    /// The folder for everything that this run leaves behind; made if it is missing.
    pub report: PathBuf,
}

/// One image that the cluster's node has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// What it is for.
    pub role: Role,
    /// As a pod names it.
    pub reference: String,
    /// The digest that the engine gave, `sha256:…`.
    pub digest: String,
    /// Where it came from.
    pub from: Origin,
}

/// What an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// Ours, with the newest etcd that etcd-druid knows.
    #[serde(rename = "wrapper")]
    Wrapper,
    /// Ours, with etcd 3.4.
    #[serde(rename = "wrapper-3.4")]
    Wrapper34,
    /// Ours, with etcd 3.6.
    #[serde(rename = "wrapper-3.6")]
    Wrapper36,
    /// Ours, with etcd 3.7.
    #[serde(rename = "wrapper-3.7")]
    Wrapper37,
    /// Ours once more, under another name: what a member is moved to, and back.
    #[serde(rename = "wrapper-new")]
    WrapperNew,
    /// Go's, as etcd-druid starts it beside the sidecar at hand.
    #[serde(rename = "go-wrapper")]
    GoWrapper,
    /// etcd-backup-restore, or its double.
    #[serde(rename = "sidecar")]
    Sidecar,
    /// The double, for scenarios that tell the sidecar to misbehave.
    #[serde(rename = "sidecar-double")]
    SidecarDouble,
    /// The operator that makes the pods.
    #[serde(rename = "druid")]
    Druid,
    /// What etcd-druid's init containers run.
    #[serde(rename = "init")]
    Init,
    /// A shell, etcdctl, etcdutl and our binary, for a pod that sits and waits for commands.
    #[serde(rename = "toolbox")]
    Toolbox,
    /// The pause container of the container tier, and the sidecar's light double.
    #[serde(rename = "hand")]
    Hand,
}

/// Where an image came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The local engine had it under its public name.
    Engine,
    /// From its public registry.
    Pulled,
    /// Made here, from this tree or from a pinned module.
    Built,
    /// A stand-in of ours for somebody else's.
    Double,
}

impl Stage {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, is no stage, names a role twice, or has a run that cannot be a label.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("read the stage {}: `cargo xtask e2e` writes one", path.display()))?;
        Self::parse(&text).with_context(|| format!("read the stage {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let stage: Self = serde_json::from_str(text)?;
        for (place, image) in stage.images.iter().enumerate() {
            if stage.images[..place].iter().any(|other| other.role == image.role) {
                bail!("two images for the role {}", image.role);
            }
        }
        let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let run = &stage.run;
        if run.len() > 40
            || !run.chars().all(label)
            || !ends(run.chars().next())
            || !ends(run.chars().next_back())
        {
            bail!("run {run:?}: 1 to 40 of a-z, 0-9 and -, no - at either end");
        }
        Ok(stage)
    }

    /// The image for a role.
    pub fn image(&self, role: Role) -> Option<&Image> {
        self.images.iter().find(|image| image.role == role)
    }

    /// Whether the sidecar is the double: then a pass says nothing about the real one.
    pub fn has_double(&self) -> bool {
        self.image(Role::Sidecar).is_some_and(|image| image.from == Origin::Double)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Wrapper => "wrapper",
            Self::Wrapper34 => "wrapper-3.4",
            Self::Wrapper36 => "wrapper-3.6",
            Self::Wrapper37 => "wrapper-3.7",
            Self::WrapperNew => "wrapper-new",
            Self::GoWrapper => "go-wrapper",
            Self::Sidecar => "sidecar",
            Self::SidecarDouble => "sidecar-double",
            Self::Druid => "druid",
            Self::Init => "init",
            Self::Toolbox => "toolbox",
            Self::Hand => "hand",
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Engine => "engine",
            Self::Pulled => "pulled",
            Self::Built => "built",
            Self::Double => "double",
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A stage as xtask writes it, for the tests of what reads one.
    pub(crate) fn stage(images: &[(Role, Origin)]) -> Stage {
        let images = images.iter().map(|(role, from)| Image {
            role: *role,
            reference: format!("example.test/{role}:1"),
            digest: "sha256:1234567890abcdef".into(),
            from: *from,
        });
        Stage {
            run: "r-1".into(),
            seed: 7,
            commit: "0123abc".into(),
            engine: "docker".into(),
            cluster: "e2e".into(),
            node: "e2e-control-plane".into(),
            kubeconfig: "kubeconfig".into(),
            kubernetes: "v1.34.4".into(),
            images: images.collect(),
            report: "report".into(),
        }
    }

    #[test]
    fn a_stage_is_read_as_it_was_written() {
        let written = stage(&[(Role::Wrapper34, Origin::Built), (Role::Sidecar, Origin::Double)]);
        let text = serde_json::to_string(&written).unwrap();
        assert!(text.contains(r#""role":"wrapper-3.4""#) && text.contains(r#""from":"double""#), "{text}");
        assert_eq!(Stage::parse(&text).unwrap(), written);
        assert!(written.has_double());
    }

    #[test]
    fn names_shown_are_names_written() {
        for role in [Role::Wrapper, Role::Wrapper34, Role::Wrapper36, Role::Wrapper37, Role::WrapperNew] {
            assert_eq!(serde_json::to_string(&role).unwrap(), format!("\"{role}\""));
        }
        for role in [Role::GoWrapper, Role::Sidecar, Role::Druid, Role::Init, Role::Toolbox, Role::Hand] {
            assert_eq!(serde_json::to_string(&role).unwrap(), format!("\"{role}\""));
        }
        for from in [Origin::Engine, Origin::Pulled, Origin::Built, Origin::Double] {
            assert_eq!(serde_json::to_string(&from).unwrap(), format!("\"{from}\""));
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let twice = stage(&[(Role::Druid, Origin::Built), (Role::Druid, Origin::Pulled)]);
        let run = |run: &str| Stage { run: run.into(), ..stage(&[]) };
        for (stage, why) in [
            (twice, "two images for the role druid"),
            (run(""), "1 to 40"),
            (run("a_b"), "1 to 40"),
            (run("a-"), "1 to 40"),
            (run(&"a".repeat(41)), "1 to 40"),
        ] {
            let told = Stage::parse(&serde_json::to_string(&stage).unwrap()).unwrap_err();
            assert!(format!("{told:#}").contains(why), "{told:#}");
        }
        assert!(Stage::parse("{}").is_err());
        assert!(Stage::parse(r#"{"unknown":1}"#).is_err());
    }
}
