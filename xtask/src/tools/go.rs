// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Go programs, built from the tool modules below `hack/tools`. The module's `go.mod` and `go.sum` alone decide what
//! is built: the environment's GOFLAGS and any go.work are left out of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::{self, Cache};
use crate::machine;
use crate::repo;
use crate::sh::Step;

/// Static, without the builder's paths and without symbols: the same inputs give the same file.
const FLAGS: [&str; 4] = ["-trimpath", "-buildvcs=false", "-ldflags", "-s -w"];

/// The path of `binary`, the program at `import` as the module `hack/tools/<module>` pins it.
pub(super) fn build(cache: &Cache, root: &Path, module: &str, binary: &str, import: &str) -> Result<PathBuf> {
    let dir = root.join("hack/tools").join(module);
    let read = |file: &str| {
        let path = dir.join(file);
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    };
    let (go_mod, go_sum) = (read("go.mod")?, read("go.sum")?);
    let go = machine::go_version(&dir)?;
    let key = cache::key(&[
        ("go.mod", go_mod.as_bytes()),
        ("go.sum", go_sum.as_bytes()),
        ("go", go.as_bytes()),
        ("import", import.as_bytes()),
        ("flags", FLAGS.join(" ").as_bytes()),
    ]);
    let version = repo::go_mod_version(&go_mod, import).unwrap_or("of an unknown version");
    let folder = cache.entry(&format!("{module}-{binary}"), &key, |folder| {
        Step::new("go")
            .arg("build")
            .args(FLAGS)
            .arg("-o")
            .arg(folder.join(binary))
            .arg(import)
            .dir(&dir)
            .env("CGO_ENABLED", "0")
            .env("GOFLAGS", "-mod=readonly")
            .env("GOWORK", "off")
            .watch(&format!(
                "building {binary} {version} (some 30 s on two cores, more when modules are fetched)"
            ))
    })?;
    Ok(folder.join(binary))
}
