// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Programs out of Debian packages, unpacked into the cache. Nothing is installed: a package's service, user or
//! files would change the machine for everybody. apt's own lists are left alone too.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::cache::{self, Cache};
use crate::machine;
use crate::repo::Pins;
use crate::sh::Step;

/// The path of a file out of `package` for `arch`, in a version of the pinned line: the first of `places` that there is, since
/// releases differ in where programs lie.
pub(super) fn unpack(
    cache: &Cache,
    pins: &Pins,
    arch: Arch,
    package: &str,
    places: &[&str],
) -> Result<PathBuf> {
    let line =
        pins.debian.get(package).with_context(|| format!("pipelines/tools.yaml: no line of {package}"))?;
    for program in ["apt-get", "apt-cache", "dpkg"] {
        if machine::on_path(program).is_none() {
            bail!("{package} {line} comes as a Debian package, and this machine has no {program}");
        }
    }
    // The revision is Debian's to move: a newer one of the same line needs no other test.
    let key = cache::key(&[("line", line.as_bytes()), ("arch", arch.as_str().as_bytes())]);
    let folder = cache.entry(package, &key, |folder| {
        let lists = folder.join("apt");
        let (apt, version) = find(package, line, arch, &lists)?;
        apt.get("download")
            .arg(format!("{package}={version}"))
            .dir(folder)
            .watch(&format!("fetching {package} {version} from Debian"))?;
        let name = std::fs::read_dir(folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|ext| ext == "deb"))
            .with_context(|| format!("apt-get download {package}: no .deb in {}", folder.display()))?;
        Step::new("dpkg").arg("-x").arg(&name).arg(folder).read()?;
        std::fs::remove_file(&name)?;
        if lists.exists() {
            std::fs::remove_dir_all(&lists)?;
        }
        if place(folder, places).is_none() {
            bail!("{package} {version} has no {}", places.join(" and no "));
        }
        Ok(())
    })?;
    place(&folder, places).with_context(|| format!("{}: no {}", folder.display(), places.join(" and no ")))
}

fn place(folder: &Path, places: &[&str]) -> Option<PathBuf> {
    places.iter().map(|place| folder.join(place)).find(|path| path.is_file())
}

/// Where apt keeps its lists for a call: the machine's own, or a private folder.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn get(&self, verb: &str) -> Step {
        Step::new("apt-get").arg("-q").args(&self.options).arg(verb)
    }

    /// The newest version of the line that this apt knows of.
    fn version(&self, package: &str, line: &str) -> Result<Option<String>> {
        let said = Step::new("apt-cache").args(&self.options).args(["madison", package]).read()?;
        Ok(pick(&said, line).map(str::to_owned))
    }
}

/// Looks in the machine's lists, then in fresh lists of our own: a new machine has none, and refreshing its lists is
/// not ours to do.
fn find(package: &str, line: &str, arch: Arch, lists: &Path) -> Result<(Apt, String)> {
    let mut apt = Apt { options: vec!["-o".into(), "APT::Sandbox::User=root".into()] };
    if arch == Arch::HERE {
        if let Some(version) = apt.version(package, line)? {
            return Ok((apt, version));
        }
    } else {
        // The machine's lists are those of its own architecture.
        for option in ["APT::Architecture", "APT::Architectures"] {
            apt.options.extend(["-o".into(), format!("{option}={arch}")]);
        }
    }
    for part in ["state/lists/partial", "cache/archives/partial"] {
        std::fs::create_dir_all(lists.join(part))?;
    }
    for (option, part) in [("Dir::State", "state"), ("Dir::Cache", "cache")] {
        apt.options.extend(["-o".into(), format!("{option}={}", lists.join(part).display())]);
    }
    apt.options.extend(["-o".into(), "Dir::State::status=/var/lib/dpkg/status".into()]);
    apt.get("update").watch("fetching Debian's package lists")?;
    match apt.version(package, line)? {
        Some(version) => Ok((apt, version)),
        None => bail!("this machine's apt sources have no {package} {line} for {arch} (Debian 12 has)"),
    }
}

/// Picks from `apt-cache madison`, whose lines are `package | version | source`, newest first.
fn pick<'a>(madison: &'a str, line: &str) -> Option<&'a str> {
    madison.lines().filter_map(|row| row.split('|').nth(1)).map(str::trim).find(|version| {
        let upstream = version.split_once(':').map_or(*version, |(_, rest)| rest);
        upstream.strip_prefix(line).is_some_and(|rest| rest.starts_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_version_of_the_line_is_taken() {
        let madison = "etcd-server | 3.5.16-4 | there trixie\netcd-server | 3.4.23-4+b4 | there bookworm\n";
        assert_eq!(pick(madison, "3.4"), Some("3.4.23-4+b4"));
        assert_eq!(pick(madison, "3.5"), Some("3.5.16-4"));
        assert_eq!(pick("etcd-server | 1:3.40.1-1 | x\n", "3.4"), None);
        assert_eq!(pick("", "3.4"), None);
    }
}
