// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What can be seen of this pod without asking anybody: etcd's configuration, and the wrapper's process with its flags.
//! Works beside a dead etcd, before its first start, and from an ephemeral container, whose own root has none of the
//! files. Looks only, and takes nothing for granted.
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::cli::client::Reach as Flags;
use crate::cli::{self, Invocation, StartFlags};
use crate::config::EtcdConfig;
use crate::file_error::FileError;

/// The name that a server's process has; clients take another one.
const SERVER: &str = "etcd-wrapper";
/// More than any configuration or command line that is looked at.
const LONGEST: u64 = 4 * 1024 * 1024;

/// The pod as it is seen from here.
#[derive(Debug)]
pub(super) struct Pod {
    /// The wrapper with the port that is asked for.
    pub(super) server: Option<Server>,
    /// Where its files begin for us: `/`, or `/proc/<pid>/root` from another container.
    root: PathBuf,
    /// In the wrapper's container.
    pub(super) state_dir: PathBuf,
    /// In the wrapper's container.
    pub(super) config_path: PathBuf,
    /// Why there is none, for people.
    pub(super) config: Result<EtcdConfig, String>,
}

/// A wrapper's process.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) pid: u32,
    pub(super) flags: StartFlags,
    home: Option<PathBuf>,
    /// It has another root than we.
    apart: bool,
}

impl Pod {
    /// The configuration where it lies for us, else where the wrapper's process has it.
    pub(super) fn look(flags: &Flags) -> Self {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let path = config_path(home.as_deref(), &flags.state_dir);
        if path.exists() {
            let config = load(&path);
            let state_dir = flags.state_dir.clone();
            return Self { server: None, root: "/".into(), state_dir, config_path: path, config };
        }
        Self::look_around(flags)
    }

    /// As [`Pod::look`], and the wrapper's process in any case.
    pub(super) fn look_around(flags: &Flags) -> Self {
        let server = if flags.server.is_none() { Server::find(flags.etcd_wrapper_port) } else { None };
        let own_home = std::env::var_os("HOME").map(PathBuf::from);
        let (root, state_dir, home) = match &server {
            Some(server) => {
                let root = if server.apart { format!("/proc/{}/root", server.pid) } else { "/".to_owned() };
                (root.into(), server.flags.state_dir.clone(), server.home.clone().or(own_home))
            }
            None => (PathBuf::from("/"), flags.state_dir.clone(), own_home),
        };
        let config_path = config_path(home.as_deref(), &state_dir);
        let config = load(&below(&root, &config_path));
        Self { server, root, state_dir, config_path, config }
    }

    #[cfg(test)]
    pub(super) fn of_file(path: &Path, state_dir: &Path) -> Self {
        let (config_path, state_dir) = (path.to_owned(), state_dir.to_owned());
        Self { server: None, root: "/".into(), state_dir, config: load(path), config_path }
    }

    /// Where a file of the wrapper's container is for us.
    pub(super) fn seen(&self, path: &Path) -> PathBuf {
        below(&self.root, path)
    }

    /// Is the wrapper in another container than we?
    pub(super) fn is_apart(&self) -> bool {
        self.root != Path::new("/")
    }

    /// The configuration with its certificates where we can read them.
    pub(super) fn readable_config(&self) -> Option<EtcdConfig> {
        let mut config = self.config.as_ref().ok()?.clone();
        let tls = &mut config.client_tls;
        for path in [&mut tls.cert_file, &mut tls.key_file, &mut tls.trusted_ca_file].into_iter().flatten() {
            *path = self.seen(path);
        }
        config.data_dir = self.seen(&config.data_dir);
        Some(config)
    }
}

/// `path` with another root. A relative one cannot be followed from here and stays.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    match path.strip_prefix("/") {
        Ok(inner) => root.join(inner),
        Err(_) => path.to_owned(),
    }
}

/// The server's rule: HOME, and the state directory where that is none.
fn config_path(home: Option<&Path>, state_dir: &Path) -> PathBuf {
    home.filter(|home| home.is_absolute()).unwrap_or(state_dir).join("etcd.conf.yaml")
}

fn load(path: &Path) -> Result<EtcdConfig, String> {
    let bytes = read(path).map_err(|error| FileError::new("read", path, error).to_string())?;
    EtcdConfig::parse(Bytes::from(bytes)).map_err(|error| format!("{}: {error}", path.display()))
}

/// A regular file, as far as it is of a bearable size.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Server {
    /// The wrapper that was started with this port.
    fn find(port: u16) -> Option<Self> {
        let entries = std::fs::read_dir("/proc").ok()?;
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).find_map(|pid| {
            let server = Self::look(pid)?;
            (server.flags.wrapper_port == port).then_some(server)
        })
    }

    fn look(pid: u32) -> Option<Self> {
        // The name first: reading a command line can hang on a process whose memory is stuck.
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        if name.trim_end() != SERVER {
            return None;
        }
        let words = words(&format!("/proc/{pid}/cmdline"))?;
        let Ok(Invocation::Start(flags)) = cli::parse(words.into_iter().skip(1)) else { return None };
        let home = self::words(&format!("/proc/{pid}/environ")).and_then(|variables| {
            let home = variables
                .into_iter()
                .find_map(|variable| variable.into_string().ok()?.strip_prefix("HOME=").map(PathBuf::from));
            home.filter(|home| home.is_absolute())
        });
        // Where a namespace cannot be read, it is none of ours.
        let root = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/mnt")).ok();
        let apart = root(&pid.to_string()).is_none_or(|theirs| Some(theirs) != root("self"));
        Some(Self { pid, flags: *flags, home, apart })
    }
}

/// A list that ends each word with a zero byte, as /proc has them.
fn words(path: &str) -> Option<Vec<OsString>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    Some(bytes.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h5_without_a_home_the_configuration_lies_in_the_state_directory() {
        let state = Path::new("/state");
        for (home, path) in [
            (Some("/home/nonroot"), "/home/nonroot/etcd.conf.yaml"),
            (None, "/state/etcd.conf.yaml"),
            (Some(""), "/state/etcd.conf.yaml"),
            (Some("not/absolute"), "/state/etcd.conf.yaml"),
        ] {
            assert_eq!(config_path(home.map(Path::new), state), Path::new(path));
        }
    }

    #[test]
    fn another_containers_files_lie_below_its_root() {
        let root = Path::new("/proc/7/root");
        assert_eq!(below(root, Path::new("/var/etcd")), Path::new("/proc/7/root/var/etcd"));
        assert_eq!(below(root, Path::new("data")), Path::new("data"));
        assert_eq!(below(Path::new("/"), Path::new("/var/etcd")), Path::new("/var/etcd"));
    }

    #[test]
    fn only_a_server_is_taken_for_one() {
        // Ours is a test's process, and pid 1 is an init.
        assert!(Server::look(std::process::id()).is_none());
        assert!(Server::look(u32::MAX).is_none());
    }
}
