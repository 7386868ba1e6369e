// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The size of the image as a registry keeps it: its layer compressed, and each program in it by itself, so that one sees
//! whose bytes they are.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use crate::image::ours;
use crate::sh::Step;
use crate::tools::{Line, Tool};

/// Bytes by part: `image` is all of it.
pub(super) fn compressed(wrapper: &Path, line: Line, work: &Path) -> Result<BTreeMap<&'static str, u64>> {
    let folder =
        tempfile::tempdir_in(work).with_context(|| format!("make a folder in {}", work.display()))?;
    let ready = ours::wrapper(wrapper, line)?.pack(folder.path())?;
    let archive = folder.path().join("image");
    ready.write(&ours::reference("etcd-wrapper", &ready), &archive)?;
    let mut sizes = BTreeMap::from([("image", zipped(&archive)?)]);
    let parts = [
        ("etcd-wrapper", wrapper.to_owned()),
        ("etcd", Tool::Etcd(line).ensure()?),
        ("etcdctl", Tool::etcdctl_for(line).ensure()?),
    ];
    for (name, path) in parts {
        let copy = folder.path().join(name);
        std::fs::copy(&path, &copy).with_context(|| format!("copy {}", path.display()))?;
        sizes.insert(name, zipped(&copy)?);
    }
    Ok(sizes)
}

/// Compresses a file in its place, as registries do, and tells its size.
fn zipped(path: &Path) -> Result<u64> {
    Step::new("gzip").args(["-6", "--no-name", "--force"]).arg(path).mend("apt-get install gzip").read()?;
    let path = path.with_extension("gz");
    Ok(std::fs::metadata(&path).with_context(|| format!("look at {}", path.display()))?.len())
}
