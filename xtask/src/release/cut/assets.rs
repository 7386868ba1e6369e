// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The files of a release at its host. An upload that was cut off is found and made anew, as long as the release is a
//! draft; files of a published release are never touched.

use anyhow::{Context, Result, bail};

use super::super::github::{Asset, Release};
use super::{Cut, State, Step};
use crate::image::Digest;

pub(super) fn look(cut: &Cut) -> Result<State> {
    let names = cut.bundle.assets()?;
    let Some(release) = cut.release()? else {
        return Ok(State::Todo(format!("attach {} files", names.len())));
    };
    let wrong = wrong(cut, &release, &names)?;
    if wrong.is_empty() {
        return Ok(State::Done(format!("{} files are attached", release.assets.len())));
    }
    if !release.draft {
        bail!(
            "release {} is published with other files: {}; release the next version",
            cut.tag(),
            wrong.join(", ")
        );
    }
    Ok(State::Todo(format!("attach {}", wrong.join(", "))))
}

pub(super) fn act(cut: &Cut) -> Result<()> {
    let names = cut.bundle.assets()?;
    let release = cut.release()?.context("the draft is gone")?;
    if !release.draft {
        bail!("release {} is published", cut.tag());
    }
    for foreign in release.assets.iter().filter(|asset| !names.contains(&asset.name)) {
        cut.github.remove(foreign)?;
    }
    for name in &names {
        let there = release.assets.iter().find(|asset| asset.name == *name);
        match there {
            Some(asset) if good(cut, asset)? => continue,
            Some(asset) => cut.github.remove(asset)?,
            None => {}
        }
        let asset = cut.github.upload(&release, name, &cut.bundle.path.join(name))?;
        if !good(cut, &asset)? {
            bail!(
                "{name} was uploaded, and the host has something else: {} bytes, {}",
                asset.size,
                asset.state
            );
        }
        cut.halt_in(Step::Assets)?;
    }
    Ok(())
}

/// Names of files that are not attached as they are here, or that do not belong there.
fn wrong(cut: &Cut, release: &Release, names: &[String]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for name in names {
        let asset = release.assets.iter().find(|asset| asset.name == *name);
        if !asset.map(|asset| good(cut, asset)).transpose()?.unwrap_or(false) {
            wrong.push(name.clone());
        }
    }
    wrong
        .extend(release.assets.iter().map(|asset| &asset.name).filter(|name| !names.contains(name)).cloned());
    Ok(wrong)
}

/// Whether an attached file is whole and the one that lies here.
fn good(cut: &Cut, asset: &Asset) -> Result<bool> {
    let path = cut.bundle.path.join(&asset.name);
    let Ok(meta) = path.metadata() else { return Ok(false) };
    let digest = asset
        .digest
        .as_deref()
        .map_or(Ok(true), |digest| Ok::<_, anyhow::Error>(Digest::of_file(&path)?.to_string() == digest))?;
    Ok(asset.state == "uploaded" && asset.size == meta.len() && digest)
}
