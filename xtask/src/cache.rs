// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Finished tools, kept outside the clone and keyed by what they were made from. It knows nothing of how a tool is
//! made: it hands out an empty folder, and publishes it whole or not at all.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The cache of this user.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `$ETCD_WRAPPER_CACHE`, else `$XDG_CACHE_HOME/etcd-wrapper`, else `$HOME/.cache/etcd-wrapper`.
    pub(crate) fn locate() -> Result<Self> {
        let root = locate(|name| std::env::var_os(name).map(PathBuf::from))
            .context("no place for built tools: set HOME, XDG_CACHE_HOME or ETCD_WRAPPER_CACHE")?;
        // A relative path would name another folder for every child with a working directory of its own.
        Ok(Self { root: std::path::absolute(root)? })
    }

    /// A folder that builds share and that may be deleted at any time.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The folder of `name` with this key, made by `make` when it is not there yet.
    ///
    /// `make` gets an empty folder beside the final one, which is renamed when it returns; so a folder that exists
    /// is whole, whatever was interrupted before. A lock of the entry lets a second run wait for the first.
    pub(crate) fn entry(
        &self,
        name: &str,
        key: &str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let tools = self.root.join("tools");
        let done = tools.join(format!("{name}-{key}"));
        if done.is_dir() {
            return Ok(done);
        }
        let locks = self.root.join("locks");
        create(&tools)?;
        create(&locks)?;
        let _held = lock(&locks.join(format!("{name}-{key}")), name)?;
        if done.is_dir() {
            return Ok(done);
        }
        // Whoever held the lock before us and was interrupted left this.
        let work = tools.join(format!(".{name}-{key}"));
        if work.exists() {
            remove(&work)?;
        }
        create(&work)?;
        if let Err(error) = make(&work) {
            remove(&work)?;
            return Err(error);
        }
        fs::rename(&work, &done)
            .with_context(|| format!("rename {} to {}", work.display(), done.display()))?;
        Ok(done)
    }
}

/// A key for an entry: 16 hexadecimal digits of SHA-256 over `(label, value)` pairs, each with its length, so that
/// moving bytes from one input to the next gives another key.
pub(crate) fn key(inputs: &[(&str, &[u8])]) -> String {
    let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
    for (label, value) in inputs {
        hash.update(format!("{label}:{}:", value.len()).as_bytes());
        hash.update(value);
    }
    hash.finish().as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn locate(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    // An empty variable counts as unset, as the XDG specification says.
    let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    set("ETCD_WRAPPER_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("etcd-wrapper")))
        .or_else(|| Some(set("HOME")?.join(".cache/etcd-wrapper")))
}

fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))
}

fn remove(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))
}

/// Waits for the lock of `name`, which others may hold. The file stays: removing it would let two holders in.
pub(crate) fn lock(path: &Path, name: &str) -> Result<File> {
    let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {
            eprintln!("{name}: another run makes it; waiting for {}", path.display());
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("lock {}", path.display()));
        }
    }
    file.lock().with_context(|| format!("lock {}", path.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_path_buf();
        (folder, Cache { root })
    }

    #[test]
    fn the_first_variable_that_is_set_and_not_empty_names_the_cache() {
        let with = |pairs: &'static [(&str, &str)]| {
            locate(move |name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value))
            })
        };
        assert_eq!(with(&[("HOME", "/h")]), Some("/h/.cache/etcd-wrapper".into()));
        assert_eq!(with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), Some("/x/etcd-wrapper".into()));
        assert_eq!(with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "")]), Some("/h/.cache/etcd-wrapper".into()));
        assert_eq!(with(&[("XDG_CACHE_HOME", "/x"), ("ETCD_WRAPPER_CACHE", "/c")]), Some("/c".into()));
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn a_key_changes_with_every_input_and_with_the_border_between_two() {
        let base = key(&[("mod", b"ab"), ("sum", b"c")]);
        assert_eq!(base.len(), 16);
        assert_eq!(base, key(&[("mod", b"ab"), ("sum", b"c")]));
        assert_ne!(base, key(&[("mod", b"a"), ("sum", b"bc")]));
        assert_ne!(base, key(&[("mod", b"ab"), ("flags", b"c")]));
    }

    #[test]
    fn an_entry_is_made_once_and_a_failed_attempt_leaves_nothing() {
        let (_folder, cache) = cache();
        let failed = cache.entry("etcd", "k", |_| anyhow::bail!("no compiler"));
        assert_eq!(failed.unwrap_err().to_string(), "no compiler");
        assert_eq!(fs::read_dir(cache.root.join("tools")).unwrap().count(), 0);

        let made = cache.entry("etcd", "k", |folder| Ok(fs::write(folder.join("etcd"), "x")?)).unwrap();
        assert!(made.join("etcd").is_file());
        let again = cache.entry("etcd", "k", |_| anyhow::bail!("made twice")).unwrap();
        assert_eq!(made, again);
    }

    #[test]
    fn what_an_interrupted_run_left_is_not_taken_for_a_tool() {
        let (_folder, cache) = cache();
        let left = cache.root.join("tools/.etcd-k");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("half"), "x").unwrap();
        let made = cache.entry("etcd", "k", |folder| Ok(fs::write(folder.join("etcd"), "x")?)).unwrap();
        assert!(!made.join("half").exists());
    }

    #[test]
    fn two_runs_at_once_make_an_entry_once() {
        let (_folder, cache) = cache();
        let made = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    cache
                        .entry("etcd", "k", |folder| {
                            made.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                            Ok(fs::write(folder.join("etcd"), "x")?)
                        })
                        .unwrap()
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }
}
