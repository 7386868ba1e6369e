// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Go programs, built from the tool modules below `hack/tools`. The module's `go.mod` and `go.sum` alone decide what
//! is built: the environment's GOFLAGS and any go.work are left out of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::arch::Arch;
use crate::cache::{self, Cache};
use crate::machine;
use crate::repo;
use crate::sh::Step;

/// Static, without the builder's paths and without symbols: the same inputs give the same file.
const FLAGS: [&str; 2] = ["-trimpath", "-buildvcs=false"];
const LINK: &str = "-s -w";

/// Programs of one module that are built together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Programs<'a> {
    /// The folder below `hack/tools`.
    pub(super) module: &'a str,
    /// What the entry in the cache is called, beside the module's name.
    pub(super) name: &'a str,
    /// Import path of each program, and what the binary shall be called.
    pub(super) imports: &'a [(&'a str, &'a str)],
    /// A flag beside those that all get, such as `-tags=a,b`.
    pub(super) flag: Option<&'a str>,
    /// How long it takes, for whoever waits.
    pub(super) takes: &'a str,
}

/// The folder with the binaries of `programs` for `arch`, as their module pins them.
///
/// `link` makes linker flags (`-X …`) out of the text of `go.mod`, for programs that know their version by them only.
pub(super) fn build(
    cache: &Cache,
    root: &Path,
    programs: &Programs<'_>,
    arch: Arch,
    link: impl Fn(&str) -> Result<Vec<String>>,
) -> Result<PathBuf> {
    let dir = root.join("hack/tools").join(programs.module);
    let read = |file: &str| {
        let path = dir.join(file);
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    };
    let (go_mod, go_sum) = (read("go.mod")?, read("go.sum")?);
    let go = machine::go_version(&dir)?;
    let link = std::iter::once(LINK.to_owned()).chain(link(&go_mod)?).collect::<Vec<_>>().join(" ");
    let imports: Vec<String> =
        programs.imports.iter().map(|(import, binary)| format!("{import} as {binary}")).collect();
    let imports = imports.join(", ");
    let own: Vec<&str> = FLAGS.into_iter().chain(programs.flag).collect();
    let flags = format!("{} {link}", own.join(" "));
    let mut inputs = vec![
        ("go.mod", go_mod.as_bytes()),
        ("go.sum", go_sum.as_bytes()),
        ("go", go.as_bytes()),
        ("imports", imports.as_bytes()),
        ("flags", flags.as_bytes()),
    ];
    if arch != Arch::HERE {
        inputs.push(("arch", arch.as_str().as_bytes()));
    }
    let key = cache::key(&inputs);
    cache.entry(&format!("{}-{}", programs.module, programs.name), &key, |folder| {
        let first = programs.imports.first().map_or("", |(import, _)| import);
        let version = version_of(&go_mod, first).unwrap_or("of an unknown version");
        // Several at once share the compiled packages in memory, and are named by their folders.
        let (target, rename) = match programs.imports {
            [(_, binary)] => (folder.join(binary), false),
            _ => (folder.join(""), true),
        };
        Step::new("go")
            .arg("build")
            .args(&own)
            .args(["-ldflags", &link])
            .arg("-o")
            .arg(target)
            .args(programs.imports.iter().map(|(import, _)| import))
            .dir(&dir)
            .env("CGO_ENABLED", "0")
            .env("GOFLAGS", "-mod=readonly")
            .env("GOWORK", "off")
            .env("GOOS", "linux")
            .env("GOARCH", arch.as_str())
            // The oldest processors of each, as Go has it: the builder's own wishes must not change the file.
            .env("GOAMD64", "v1")
            .env("GOARM64", "v8.0")
            .watch(&format!("building {} {version} for {arch} ({})", programs.name, programs.takes))?;
        for (import, binary) in programs.imports.iter().filter(|_| rename) {
            let built = import.rsplit('/').next().unwrap_or(import);
            if built != *binary {
                std::fs::rename(folder.join(built), folder.join(binary))?;
            }
        }
        Ok(())
    })
}

/// The pinned version of the module that holds the package `import`.
pub(super) fn version_of<'a>(go_mod: &'a str, import: &str) -> Option<&'a str> {
    let mut module = Some(import);
    while let Some(path) = module {
        if let Some(version) = repo::go_mod_version(go_mod, path) {
            return Some(version);
        }
        module = path.rsplit_once('/').map(|(parent, _)| parent);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_the_version_of_the_module_around_it() {
        let go_mod = "module t\n\nrequire (\n\texample.org/a v1.2.3\n\texample.org/a/b v2.0.0\n)\n";
        assert_eq!(version_of(go_mod, "example.org/a/cmd/x"), Some("v1.2.3"));
        assert_eq!(version_of(go_mod, "example.org/a/b/c"), Some("v2.0.0"));
        assert_eq!(version_of(go_mod, "example.org/c"), None);
    }
}
