// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The data of one member is lost or damaged, and the member is replaced: taken out of the cluster and in again as a
//! learner that becomes a voter. The real sidecar does that itself; beside the double we are the operator who does.
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::container::cluster::Cluster;
use crate::container::files::{name, peer_host, peer_port};
use crate::container::pod::Part;
use crate::schedule::MEMBERS;
use crate::timeline::What;
use crate::wait::{self, Poll};

const DATA: &str = "/var/etcd/data/new.etcd";
/// The head of the database: etcd cannot open it any more.
const PAGES: &str = "16384";
const DATABASE: &str = "/var/etcd/data/new.etcd/member/snap/db";
const REPAIR: Duration = Duration::from_secs(120);

pub(super) async fn lose(cluster: &Cluster, member: usize, repairs: bool) -> Result<()> {
    spoil(cluster, member, &["remove", DATA], repairs).await
}

pub(super) async fn damage(cluster: &Cluster, member: usize, repairs: bool) -> Result<()> {
    spoil(cluster, member, &["zero", DATABASE, PAGES], repairs).await
}

async fn spoil(cluster: &Cluster, member: usize, how: &[&str], repairs: bool) -> Result<()> {
    let pod = &cluster.pods[member];
    let mut held = pod.hold().await;
    held.go_down();
    pod.stop_wrapper(&held).await?;
    pod.hand(how).await?;
    // The marker of the clean end is not true any more: whoever works on a directory takes it away.
    pod.hand(&["remove", "/var/etcd/data/exit_code"]).await?;
    if repairs {
        return pod.start(&mut held, Part::Wrapper).await;
    }
    let other = &cluster.clients[(member + 1) % MEMBERS];
    let url = format!("https://{}:{}", peer_host(member), peer_port(member));
    let old = other.members().await.map_err(anyhow::Error::from).context("list the members")?;
    let old = old.iter().find(|one| one.name == name(member)).context("the member is not in the list")?;
    other.member_remove(old.id).await.context("remove the member")?;
    pod.hand(&["remove", DATA]).await?;
    // A member that has just gone may leave the others without a leader for a moment.
    let added = wait::until(REPAIR, "the cluster to take the new member", async || {
        match other.member_add(std::slice::from_ref(&url), true).await {
            Ok((added, _)) => Ok(Poll::Ready(added.id)),
            Err(error) if error.to_string().contains("exist") => Ok(Poll::Never(error.to_string())),
            Err(error) => Ok(Poll::NotYet(error.to_string())),
        }
    });
    let id = added.await?;
    cluster.files.let_join(member, true)?;
    pod.restart_sidecar(&held).await?;
    pod.start(&mut held, Part::Wrapper).await?;
    drop(held);
    wait::until(REPAIR, "the new member to become a voter", async || match other.member_promote(id).await {
        Ok(_) => Ok(Poll::Ready(())),
        Err(error) if error.to_string().contains("not a learner") => Ok(Poll::Ready(())),
        Err(error) => Ok(Poll::NotYet(error.to_string())),
    })
    .await?;
    cluster.files.let_join(member, false)?;
    let held = pod.hold().await;
    pod.restart_sidecar(&held).await?;
    cluster.timeline.add(What::Step { text: format!("{} is a voter again, {id:x}", name(member)) });
    if id == old.id { bail!("the member came back under its old id") } else { Ok(()) }
}
