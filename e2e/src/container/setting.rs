// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a run of the container tier is started with: the file that `cargo xtask e2e --tier container` writes. Says what
//! there is and what is wanted; brings nothing up.
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::runner::Keep;
use crate::schedule::Kind;
use crate::stage::{Image, Origin, Role};

/// The file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Unique among all runs; fit for names of containers.
    pub run: String,
    /// Draws schedule, traffic and whatever else is random.
    pub seed: u64,
    /// Of the tree under test.
    pub commit: String,
    /// The program that drives containers, on PATH.
    pub engine: String,
    /// What the engine has.
    pub images: Vec<Image>,
    /// How long faults go on, in milliseconds.
    pub duration: u64,
    /// Names of the kinds of faults that may be drawn; empty: all.
    pub faults: Vec<String>,
    /// A lie that the run must find out; none in an honest run.
    pub planted: Option<Planted>,
    /// When containers and volumes stay: `never`, `always`, `on-failure`.
    pub keep: String,
    /// The command that does this run once more.
    pub replay: String,
    /// The folder for everything that this run leaves behind; made if it is missing.
    pub report: PathBuf,
}

/// What can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Planted {
    /// Acknowledged writes of the clients are dropped.
    LostWrite,
}

impl Setting {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or is no setting, or lacks an image that no run can do without.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let setting: Self =
            serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))?;
        for role in [Role::Wrapper, Role::Sidecar, Role::Hand] {
            ensure!(setting.image(role).is_some(), "{}: no image for {role}", path.display());
        }
        setting.kinds()?;
        setting.keeps(false)?;
        Ok(setting)
    }

    /// The image for a role.
    pub fn image(&self, role: Role) -> Option<&Image> {
        self.images.iter().find(|image| image.role == role)
    }

    /// Whether the sidecar is the double.
    pub fn has_double(&self) -> bool {
        self.image(Role::Sidecar).is_some_and(|image| image.from == Origin::Double)
    }

    /// What a member's image is replaced by, one after the other; the first is that of the beginning. They go around,
    /// unless they are of rising lines of etcd, from which there is no way back.
    pub fn wrappers(&self) -> Vec<&Image> {
        let roles = [Role::Wrapper, Role::WrapperNew, Role::Wrapper36, Role::Wrapper37];
        roles.into_iter().filter_map(|role| self.image(role)).collect()
    }

    /// The images are of rising lines of etcd.
    pub fn is_mixed(&self) -> bool {
        self.image(Role::Wrapper36).is_some()
    }

    /// How long faults are drawn for.
    pub fn length(&self) -> Duration {
        Duration::from_millis(self.duration)
    }

    /// The kinds of faults that may be drawn.
    ///
    /// # Errors
    /// A name that is none.
    pub fn kinds(&self) -> Result<Vec<Kind>> {
        if self.faults.is_empty() {
            return Ok(Kind::ALL.to_vec());
        }
        self.faults.iter().map(|name| name.parse().map_err(anyhow::Error::msg)).collect()
    }

    /// Whether containers stay, after a run that went well or not.
    ///
    /// # Errors
    /// A word that is none.
    pub fn keeps(&self, well: bool) -> Result<bool> {
        let keep = <Keep as clap::ValueEnum>::from_str(&self.keep, false).map_err(anyhow::Error::msg)?;
        Ok(match keep {
            Keep::Never => false,
            Keep::Always => true,
            Keep::OnFailure => !well,
        })
    }
}
