// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The members' volumes: a file system of its own for each, in a file on the engine's disk. So one can be full while the
//! others are not, and can lose power: its journal is aborted, nothing more reaches the disk, and what was not synced is
//! gone when it is mounted again. That is the kernel's own ext4, for the wrapper's files and etcd's alike.
use anyhow::{Context, Result};

use super::hand::Hand;

/// Sparse; etcd's log alone takes some 350 MB in the end.
const SIZE: &str = "1G";

const MAKE: &str = r#"
mkdir -p "$1" && chmod 0755 "$1"
for tool in mkfs.ext4 losetup mount truncate; do
  command -v $tool >/dev/null || { echo "no $tool on the engine's machine" >&2; exit 9; }
done
folder="$1"; size="$2"; shift 2
for name in "$@"; do
  truncate -s "$size" "$folder/$name.img"
  mkfs.ext4 -q -F -m 0 "$folder/$name.img"
  mkdir -p "$folder/$name"
  mount -o loop,noatime "$folder/$name.img" "$folder/$name"
  rmdir "$folder/$name/lost+found"
  chown 65532:65532 "$folder/$name"
done
"#;

/// Cuts the power of all at once: one process, no pause between them.
const CUT: &str = r#"
folder="$1"; shift
for name in "$@"; do mount -o remount,abort "$folder/$name" & done
wait
"#;

/// Needs that no container holds the volume.
const RESTORE: &str = r#"
folder="$1"; shift
for name in "$@"; do
  umount "$folder/$name"
  e2fsck -p "$folder/$name.img" >/dev/null || [ $? -lt 4 ]
  mount -o loop,noatime "$folder/$name.img" "$folder/$name"
done
"#;

/// Unmounts and removes all volumes of a run; `$1` is their folder.
pub(super) const REMOVE: &str = r#"
[ -d "$1" ] || exit 0
for folder in "$1"/*/; do
  if mountpoint -q "$folder"; then umount "$folder" || umount -l "$folder"; fi
done
rm -rf --one-file-system "$1"
"#;

/// The runs that have volumes, a line each.
pub(super) const LIST: &str = r#"
for folder in /var/tmp/etcd-wrapper-tier-*/; do
  [ -d "$folder" ] || continue
  folder="${folder%/}"
  echo "${folder#/var/tmp/etcd-wrapper-tier-}"
done
"#;

/// Where the volumes of a run lie on the engine's machine.
pub(super) fn folder(run: &str) -> String {
    format!("/var/tmp/etcd-wrapper-tier-{run}")
}

/// The volumes of one run.
#[derive(Clone, Debug)]
pub struct Volumes {
    hand: Hand,
    names: Vec<String>,
}

impl Volumes {
    /// Makes and mounts one for each name.
    ///
    /// # Errors
    /// The engine's machine has no ext4, no loop device, or not the programs for them; says which.
    pub async fn make(hand: &Hand, names: &[String]) -> Result<Self> {
        let (folder, volumes) = (folder(hand.run_name()), Self { hand: hand.clone(), names: names.to_vec() });
        let words: Vec<&str> = [folder.as_str(), SIZE].into_iter().chain(volumes.names()).collect();
        hand.outside(MAKE, &words).await.context("make a file system for each member")?;
        Ok(volumes)
    }

    /// Where a member's volume is mounted on the engine's machine.
    pub fn place(&self, name: &str) -> String {
        format!("{}/{name}", folder(self.hand.run_name()))
    }

    /// From now on nothing reaches any disk.
    ///
    /// # Errors
    /// The engine's machine refuses.
    pub async fn cut(&self) -> Result<()> {
        self.all(CUT).await.context("cut the power of all volumes")
    }

    /// Mounts all anew as they are on the disk. No container may hold one.
    ///
    /// # Errors
    /// A volume is in use, or cannot be mounted any more.
    pub async fn restore(&self) -> Result<()> {
        self.all(RESTORE).await.context("mount all volumes anew")
    }

    async fn all(&self, script: &str) -> Result<()> {
        let folder = folder(self.hand.run_name());
        let words: Vec<&str> = std::iter::once(folder.as_str()).chain(self.names()).collect();
        self.hand.outside(script, &words).await.map(drop)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}
