// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Where the clone lies and which versions its files pin. Reads files, and asks git for the
//! commit; builds nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::sh::Step;

/// The folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    // `cargo run` names the package's folder at run time; the compiled-in one is wrong once a clone was moved.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_path_buf)
}

/// The commit of the clone at `root`, with `-dirty` behind it when the tree has changes; `unknown` without git.
pub(crate) fn commit(root: &Path) -> String {
    let git = |args: &[&str]| Step::new("git").args(args).dir(root).read().ok();
    // A tree without git, such as an unpacked archive, can be tested too.
    let Some(head) = git(&["rev-parse", "HEAD"]) else { return "unknown".into() };
    let dirty = git(&["status", "--porcelain"]).is_some_and(|changes| !changes.trim().is_empty());
    format!("{}{}", head.trim(), if dirty { "-dirty" } else { "" })
}

/// `pipelines/tools.yaml`: versions of what no `go.mod` pins.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pins {
    /// Crate name → version for `cargo install`.
    pub(crate) cargo: BTreeMap<String, String>,
    /// Debian package → upstream line that its version must start with.
    pub(crate) debian: BTreeMap<String, String>,
    /// Where a container engine comes from on a machine without one.
    pub(crate) engine: EnginePin,
    /// What a node image is made of.
    pub(crate) node: NodePin,
}

/// The engine's package.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnginePin {
    /// The lowest upstream version of `docker.io` that will do.
    pub(crate) at_least: String,
    /// The release of Debian that has it, for machines whose own has not.
    pub(crate) suite: String,
}

/// The root file system of a node.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodePin {
    /// The release of Debian.
    pub(crate) suite: String,
    /// Its packages, beside the essential ones.
    pub(crate) packages: Vec<String>,
}

impl Pins {
    /// Reads the pins of the clone at `root`.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let path = root.join("pipelines/tools.yaml");
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))
    }
}

/// The version that a `go.mod` requires of `module`, if it names it.
pub(crate) fn go_mod_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let line = line.trim().trim_start_matches("require ").trim_start();
        line.strip_prefix(module)?.strip_prefix(' ')?.split_whitespace().next()
    })
}

/// The language version of a `go.mod`'s `go` line, such as `1.26.0`.
pub(crate) fn go_mod_language(go_mod: &str) -> Option<&str> {
    go_mod.lines().find_map(|line| line.strip_prefix("go ")).map(str::trim)
}

/// The `channel` of a `rust-toolchain.toml`.
pub(crate) fn toolchain_channel(text: &str) -> Option<&str> {
    let value = text.lines().find_map(|line| line.strip_prefix("channel"))?;
    Some(value.trim_start_matches([' ', '=']).trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clones_own_pins_can_be_read() {
        let pins = Pins::read(&root()).unwrap();
        assert!(pins.cargo.contains_key("cargo-nextest"), "{pins:?}");
        assert_eq!(pins.debian.get("etcd-server").map(String::as_str), Some("3.4"));
    }

    #[test]
    fn a_version_is_found_in_a_block_and_on_a_line_of_its_own() {
        let go_mod = "module t\n\ngo 1.26.0\n\nrequire (\n\texample.org/a v1.2.3 // indirect\n)\nrequire example.org/b v2.0.0\n";
        assert_eq!(go_mod_version(go_mod, "example.org/a"), Some("v1.2.3"));
        assert_eq!(go_mod_version(go_mod, "example.org/b"), Some("v2.0.0"));
        assert_eq!(go_mod_version(go_mod, "example.org/"), None);
        assert_eq!(go_mod_language(go_mod), Some("1.26.0"));
    }

    #[test]
    fn the_pinned_rust_is_read_from_the_toolchain_file() {
        assert_eq!(toolchain_channel("[toolchain]\nchannel = \"1.95.0\"\n"), Some("1.95.0"));
        let ours = std::fs::read_to_string(root().join("rust-toolchain.toml")).unwrap();
        assert!(toolchain_channel(&ours).is_some());
    }
}
