// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Brings a container engine up where none runs: installs Debian's packages as root, starts the daemon, and can stop
//! what it started. It never touches an engine that somebody else runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Engine;
use crate::cache::Cache;
use crate::machine;
use crate::repo::Pins;
use crate::sh::Step;

/// How long a daemon may take until it answers.
const UP_WITHIN: Duration = Duration::from_secs(60);

/// What was done so that an engine runs.
#[derive(Debug)]
pub(crate) enum Brought {
    /// It ran already.
    There,
    /// Its daemon was started, with this process id.
    Started { pid: u32, log: PathBuf },
}

/// Sees to it that an engine runs.
pub(crate) fn up(pins: &Pins) -> Result<(Engine, Brought)> {
    if let Ok(engine) = Engine::running() {
        return Ok((engine, Brought::There));
    }
    if let Ok(host) = std::env::var("DOCKER_HOST") {
        bail!("DOCKER_HOST is {host}, and no engine answers there; start that one, or unset the variable");
    }
    if !rustix::process::geteuid().is_root() {
        bail!(
            "no container engine answers, and only root may install and start one; start yours, or run as root: {}",
            super::MEND
        );
    }
    if machine::on_path("dockerd").is_none() {
        install(pins)?;
    }
    start()
}

/// Stops the daemon that an earlier [`up`] started, if it is still that process.
pub(crate) fn down() -> Result<Option<u32>> {
    let file = pid_file()?;
    let Ok(text) = fs::read_to_string(&file) else { return Ok(None) };
    let pid: u32 = text.trim().parse().with_context(|| format!("{}: {text:?} is no pid", file.display()))?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    if name.trim() != "dockerd" {
        // It ended by itself, and the number may be another's by now.
        let _ = fs::remove_file(&file);
        return Ok(None);
    }
    let target = rustix::process::Pid::from_raw(i32::try_from(pid)?).context("a pid of zero")?;
    rustix::process::kill_process(target, rustix::process::Signal::TERM)
        .with_context(|| format!("send SIGTERM to dockerd, pid {pid}"))?;
    let gone = || !Path::new(&format!("/proc/{pid}")).exists();
    wait(UP_WITHIN, gone).with_context(|| format!("dockerd, pid {pid}, still runs after SIGTERM"))?;
    fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?;
    Ok(Some(pid))
}

/// Installs an engine out of Debian's packages.
///
/// Debian 12's own (20.10) cannot start privileged containers where the capability CAP_SYS_RESOURCE is missing, so
/// the package comes from the release that the pins name; a pin of apt's keeps everything else from coming with it.
fn install(pins: &Pins) -> Result<()> {
    if machine::on_path("apt-get").is_none() {
        bail!("no container engine, and no apt-get to install one with; install docker, and start it");
    }
    let engine = &pins.engine;
    let newer = machine::apt_candidate("docker.io")
        .is_some_and(|version| machine::at_least(&version, &engine.at_least));
    if !newer {
        let sources = sources_of(&engine.suite)?;
        write("/etc/apt/sources.list.d/etcd-wrapper-engine.sources", &sources)?;
        let pin = format!(
            "Package: *\nPin: release n={suite}\nPin-Priority: -1\n\nPackage: docker.io\nPin: release n={suite}\nPin-Priority: 990\n",
            suite = engine.suite
        );
        write("/etc/apt/preferences.d/etcd-wrapper-engine", &pin)?;
    }
    Step::new("apt-get").args(["-q", "update"]).watch("fetching Debian's package lists")?;
    Step::new("apt-get")
        .args(["-q", "install", "-y", "--no-install-recommends", "docker.io"])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .watch("installing docker.io")
}

/// An apt source like the machine's first, but of `suite`: mirrors and keys are the machine's to know.
fn sources_of(suite: &str) -> Result<String> {
    let path = Path::new("/etc/apt/sources.list.d/debian.sources");
    let text = fs::read_to_string(path).with_context(|| {
        format!(
            "read {}, to learn where this machine has its packages from; install docker by hand",
            path.display()
        )
    })?;
    resuite(&text, suite).with_context(|| format!("{}: no entry with a line `Suites:`", path.display()))
}

/// The first entry of a deb822 file, with other suites.
pub(crate) fn resuite(sources: &str, suite: &str) -> Option<String> {
    let entry = sources.split("\n\n").find(|entry| entry.lines().any(|line| line.starts_with("Suites:")))?;
    let lines = entry.lines().filter(|line| !line.starts_with('#')).map(|line| {
        if line.starts_with("Suites:") { format!("Suites: {suite}\n") } else { format!("{line}\n") }
    });
    Some(lines.collect())
}

fn start() -> Result<(Engine, Brought)> {
    let file = pid_file()?;
    let log = file.with_extension("log");
    let out = fs::File::create(&log).with_context(|| format!("create {}", log.display()))?;
    let both = out.try_clone()?;
    // It outlives us, as an engine does; `setup --engine-stop` ends it.
    let mut child = Step::new("dockerd").start(Stdio::from(out), Stdio::from(both))?;
    let pid = child.id();
    fs::write(&file, format!("{pid}\n")).with_context(|| format!("write {}", file.display()))?;
    let until = Instant::now() + UP_WITHIN;
    loop {
        let error = match Engine::running() {
            Ok(engine) => return Ok((engine, Brought::Started { pid, log })),
            Err(error) => error,
        };
        if let Some(status) = child.try_wait()? {
            bail!("dockerd ended with {status}; the end of {}:\n{}", log.display(), tail(&log));
        }
        if Instant::now() > until {
            bail!("dockerd does not answer within {UP_WITHIN:?} ({error:#}); see {}", log.display());
        }
        std::thread::park_timeout(Duration::from_millis(200));
    }
}

fn wait(within: Duration, done: impl Fn() -> bool) -> Result<()> {
    let until = Instant::now() + within;
    while !done() {
        if Instant::now() > until {
            bail!("not within {within:?}");
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
    Ok(())
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

fn pid_file() -> Result<PathBuf> {
    let folder = Cache::locate()?.scratch("engine");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    Ok(folder.join("dockerd.pid"))
}

fn write(path: &str, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_suite_keeps_mirror_and_key() {
        let sources = "Types: deb\n# a comment\nURIs: http://mirror.example/debian\nSuites: old old-updates\nSigned-By: /k.gpg\n\nTypes: deb\nSuites: old-security\n";
        assert_eq!(
            resuite(sources, "new").as_deref(),
            Some("Types: deb\nURIs: http://mirror.example/debian\nSuites: new\nSigned-By: /k.gpg\n")
        );
        assert_eq!(resuite("# nothing here\n", "new"), None);
    }
}
