// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What this machine has of what a build needs, and the command that brings what it lacks. Looks only: installing
//! is the business of the verb `setup`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::repo;
use crate::sh::Step;

/// The first executable file called `program` on PATH.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let executable =
        |path: &PathBuf| path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(program)).find(executable)
}

/// Whether packages can be installed with apt-get, as the user that we are.
pub(crate) fn apt_as_root() -> bool {
    rustix::process::geteuid().is_root() && on_path("apt-get").is_some()
}

/// The command that brings a Go that builds a module with this `go` line.
///
/// From 1.21 on a Go fetches the newer toolchain that a module asks for by itself, so that is what a package
/// manager's Go has to reach.
pub(crate) fn go_mend(wanted: &str) -> String {
    if apt_candidate("golang-go").is_some_and(|version| at_least(&version, "1.21")) {
        return "apt-get install -y golang-go".into();
    }
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    format!(
        "curl -fsSL https://go.dev/dl/go{wanted}.linux-{arch}.tar.gz | tar -C /usr/local -xz && export PATH=$PATH:/usr/local/go/bin"
    )
}

/// Go's version as seen by the module in `dir`, such as `go1.26.8 linux/amd64`.
pub(crate) fn go_version(dir: &Path) -> Result<String> {
    let wanted = wanted_go(dir)?;
    if on_path("go").is_none() {
        // Asked for only now: apt takes seconds to say what it has.
        bail!("go: not found; it comes with: {}", go_mend(&wanted));
    }
    let said = Step::new("go").arg("version").dir(dir).read()?;
    Ok(said.trim().trim_start_matches("go version ").to_owned())
}

/// The `go` line of the module in `dir`.
pub(crate) fn wanted_go(dir: &Path) -> Result<String> {
    let go_mod = std::fs::read_to_string(dir.join("go.mod"))?;
    match repo::go_mod_language(&go_mod) {
        Some(wanted) => Ok(wanted.to_owned()),
        None => bail!("{}/go.mod: no line `go VERSION`", dir.display()),
    }
}

/// The command that brings a C linker.
pub(crate) const LINKER_MEND: &str = "apt-get install -y gcc libc6-dev";

/// Refuses to begin a build in Rust that would end at its first link.
pub(crate) fn require_linker() -> Result<()> {
    match on_path("cc") {
        Some(_) => Ok(()),
        None => bail!("no C linker (`cc`) on PATH; it comes with: {LINKER_MEND}"),
    }
}

/// The version that apt would install, if it knows the package.
pub(crate) fn apt_candidate(package: &str) -> Option<String> {
    on_path("apt-cache")?;
    let said = Step::new("apt-cache").args(["policy", package]).env("LC_ALL", "C").read().ok()?;
    let candidate = said.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (candidate != "(none)").then(|| candidate.rsplit(':').next().unwrap_or(candidate).to_owned())
}

/// Compares dotted numbers; what follows the first other character is left out.
pub(crate) fn at_least(version: &str, wanted: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        text[..end].split('.').map_while(|part| part.parse().ok()).collect()
    };
    let (mut have, want) = (numbers(version), numbers(wanted));
    have.resize(have.len().max(want.len()), 0);
    have >= want
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(at_least("1.26.8", "1.26.0"));
        assert!(at_least("1.26", "1.26.0"));
        assert!(at_least("1.100", "1.26"));
        assert!(!at_least("1.19~1", "1.21"));
        assert!(!at_least("1.25.9", "1.26.0"));
    }

    #[test]
    fn a_program_is_found_on_the_path_only_when_it_can_be_run() {
        assert!(on_path("sh").is_some());
        assert_eq!(on_path("no-such-program-here"), None);
    }
}
