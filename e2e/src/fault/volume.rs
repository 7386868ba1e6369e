// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Faults of a member's volume: its data damaged under etcd's feet, its volume lost, or full. Worked on the node, in the
//! folder that the volume is.
use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::DeleteParams;

use super::{Fault, Faults, Heal, Process};
use crate::engine::Engine;
use crate::member::Member;

/// etcd's data directory below the volume, as etcd-druid configures it.
const DATA: &str = "new.etcd";

/// Where small file systems are mounted on the node.
const SMALL: &str = "/var/e2e-small";

/// What happens to the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The data directory is gone.
    Deleted,
    /// The database has its length, and only zeros.
    DatabaseZeroed,
    /// The database was cut in the middle of what is in it.
    DatabaseHalved,
    /// The newest file of the log has its length, and only zeros.
    LogZeroed,
    /// The newest file of the log was cut in the middle of what is written.
    LogHalved,
}

/// `$1`: the data directory, `$2`: the damage, `$3`: etcd, which is stopped meanwhile and killed afterwards: so it neither
/// writes again what was damaged nor ends by itself in between.
const DAMAGE: &str = r#"
dir=$1 damage=$2 pid=$3
kill -STOP "$pid"
trap 'kill -9 "$pid"' EXIT
log=$(ls "$dir"/member/wal/*.wal | sort | tail -1)
db=$dir/member/snap/db
# Both files are longer than what is in them, and zeros fill the rest: half of what is no zero lies within what is written.
halve() { truncate -s $(( $(tr -d '\0' < "$1" | wc -c) / 2 )) "$1"; }
zero() { size=$(stat -c %s "$1"); truncate -s 0 "$1"; truncate -s "$size" "$1"; }
case $damage in
  deleted) rm -rf "$dir" ;;
  database-zeroed) zero "$db" ;;
  database-halved) halve "$db" ;;
  log-zeroed) zero "$log" ;;
  log-halved) halve "$log" ;;
  *) echo "no such damage: $damage" >&2; exit 1 ;;
esac
"#;

/// Puts a file system of options `$3`, mounted on `$2`, in the place of the folder `$1`. By a link: mounts are shared with
/// the pod that still runs, and what is mounted over the folder itself goes when the kubelet unmounts that pod's.
const SHRINK: &str = r#"
mkdir -p "$2"
echo "$1" > "$2.path"
mount -t tmpfs -o "$3" e2e "$2"
mv "$1" "$2.aside"
ln -s "$2" "$1"
"#;

/// Undoes that for `$1`, whoever still uses it and however much of it was done.
const UNSHRINK: &str = r#"
path=$(cat "$1.path" 2>/dev/null || true)
if [ -L "$path" ]; then rm "$path"; fi
while mountpoint -q "$1"; do umount -l "$1"; done
rm -rf "$1" "$1.aside" "$1.path"
"#;

/// Prints the small file systems of namespace `$2` below `$1`.
const LIST: &str = r#"for path in "$1/$2".*.path; do [ -e "$path" ] && echo "${path%.path}"; done; true"#;

pub(super) async fn unshrink(engine: &Engine, small: &str) -> Result<()> {
    engine.node(UNSHRINK, &[small]).await.map(drop)
}

/// Takes all small file systems of a namespace away.
pub(crate) async fn clean_volumes(engine: &Engine, namespace: &str) -> Result<()> {
    for small in engine.node(LIST, &[SMALL, namespace]).await?.lines() {
        unshrink(engine, small).await?;
    }
    Ok(())
}

impl Damage {
    fn word(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::DatabaseZeroed => "database-zeroed",
            Self::DatabaseHalved => "database-halved",
            Self::LogZeroed => "log-zeroed",
            Self::LogHalved => "log-halved",
        }
    }
}

impl Faults<'_> {
    /// Damages a member's data and kills its etcd in the same moment, as a crash with a bad disk does. Announce the restarts
    /// that you expect.
    ///
    /// # Errors
    /// etcd does not run, or the volume lies in no folder of the node.
    pub async fn damage(self, member: &Member, damage: Damage) -> Result<()> {
        let data = format!("{}/{DATA}", member.volume().await?);
        let pid = self.pid(member, Process::Etcd).await?.to_string();
        self.did(&format!("data {}", damage.word()), &[member.pod()]);
        let what = || format!("damage {data}");
        self.engine().node(DAMAGE, &[&data, damage.word(), &pid]).await.with_context(what).map(drop)
    }

    /// Deletes the data directory of a member whose etcd does not run, as an operator does who gives its copy up.
    ///
    /// # Errors
    /// The volume lies in no folder of the node, or etcd runs.
    pub async fn give_data_up(self, member: &Member) -> Result<()> {
        if let Ok(pid) = self.pid(member, Process::Etcd).await {
            bail!("etcd of pod {} runs, as process {pid}", member.pod());
        }
        let data = format!("{}/{DATA}", member.volume().await?);
        self.did("data given up", &[member.pod()]);
        self.engine()
            .node(r#"rm -rf "$1""#, &[&data])
            .await
            .with_context(|| format!("delete {data}"))
            .map(drop)
    }

    /// Deletes a member's claim and pod: the next pod gets a new, empty volume.
    ///
    /// # Errors
    /// The API server's.
    pub async fn lose_volume(self, member: &Member) -> Result<()> {
        let claim = member.claim();
        self.did("volume lost", &[member.pod()]);
        // It goes when no pod uses it any more, and so has to be told first: the next pod would take it over.
        let claims = self.case.api::<PersistentVolumeClaim>();
        claims.delete(&claim, &DeleteParams::default()).await.with_context(|| format!("delete {claim}"))?;
        self.delete_pod(member).await.map(drop)
    }

    /// Puts a small file system of `mib` mebibytes, in memory and empty, in the place of a member's volume, from the next
    /// pod on, and deletes this one. What was on the volume is gone.
    ///
    /// # Errors
    /// The node refuses.
    pub async fn shrink_volume(self, member: &Member, mib: u32) -> Result<Fault> {
        let path = member.volume().await?;
        let small = format!("{SMALL}/{}.{:08x}", self.case.namespace(), rand::random::<u32>());
        let heal = Heal::Unmount { small: small.clone() };
        let fault = self.began(&format!("volume of {mib} MiB"), &[member.pod()], Some(heal));
        let options = format!("size={mib}m,mode=0777");
        let what = || format!("mount {small} for {path}");
        self.engine().node(SHRINK, &[&path, &small, &options]).await.with_context(what)?;
        self.delete_pod(member).await?;
        Ok(fault)
    }

    /// Fills what is left of a member's volume with a file. For a volume that was made small: the node's own disk is
    /// behind all others.
    ///
    /// # Errors
    /// The volume is none of its own, or the node refuses.
    pub async fn fill_volume(self, member: &Member) -> Result<Fault> {
        let path = member.volume().await?;
        let file = format!("{path}/filled-by-e2e");
        let fault = self.began("volume full", &[member.pod()], Some(Heal::Remove { path: file.clone() }));
        let fill = r#"
            mountpoint -q "$1" || { echo "$1 is no file system of its own" >&2; exit 1; }
            dd if=/dev/zero of="$2" bs=64k 2>/dev/null || true
            left=$(df --output=avail -k "$1" | tail -1)
            [ "$left" -lt 64 ] || { echo "$left KiB are left" >&2; exit 1; }
        "#;
        self.engine().node(fill, &[&path, &file]).await.with_context(|| format!("fill {path}"))?;
        Ok(fault)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Does the damage to a data directory made here, with a process that sleeps in etcd's place.
    fn damaged(damage: Damage) -> (tempfile::TempDir, Option<i32>) {
        use std::os::unix::process::ExitStatusExt;
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join(DATA);
        for below in ["member/snap", "member/wal"] {
            std::fs::create_dir_all(data.join(below)).unwrap();
        }
        let mut db = vec![7; 100];
        db.resize(400, 0);
        std::fs::write(data.join("member/snap/db"), db).unwrap();
        std::fs::write(data.join("member/wal/0.wal"), [7; 10]).unwrap();
        let mut log = vec![7; 40];
        log.resize(1000, 0);
        std::fs::write(data.join("member/wal/1.wal"), log).unwrap();
        let mut etcd = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = etcd.id().to_string();
        let args = ["-ec", DAMAGE, "sh", data.to_str().unwrap(), damage.word(), &pid];
        assert!(Command::new("sh").args(args).status().unwrap().success());
        (folder, etcd.wait().unwrap().signal())
    }

    #[test]
    fn damage_is_what_its_name_says_and_etcd_is_dead() {
        for damage in [
            Damage::Deleted,
            Damage::DatabaseZeroed,
            Damage::DatabaseHalved,
            Damage::LogZeroed,
            Damage::LogHalved,
        ] {
            let (folder, signal) = damaged(damage);
            assert_eq!(signal, Some(9), "{damage:?}");
            let read = |file: &str| std::fs::read(folder.path().join(DATA).join("member").join(file)).ok();
            let (db, log) = (read("snap/db"), read("wal/1.wal"));
            match damage {
                Damage::Deleted => assert_eq!((db, log), (None, None)),
                Damage::DatabaseZeroed => assert_eq!(db, Some(vec![0; 400])),
                Damage::DatabaseHalved => assert_eq!(db, Some(vec![7; 50])),
                Damage::LogZeroed => assert_eq!(log, Some(vec![0; 1000])),
                Damage::LogHalved => {
                    let log = log.unwrap();
                    assert!((15..=25).contains(&log.len()) && log.iter().all(|byte| *byte == 7), "{log:?}");
                }
            }
            assert!(damage == Damage::Deleted || read("wal/0.wal") == Some(vec![7; 10]));
        }
    }
}
