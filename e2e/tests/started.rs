// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Where most scenarios begin: an Etcd that is up, with a client beside it, and a key that must outlive what follows.
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::case::Case;
use e2e::druid::{Builder, Etcd};
use e2e::load::Load;
use e2e::toolbox::Toolbox;
use e2e::wait::{self, Poll};

/// One member: a quarter of a minute is the probe's own delay.
pub(crate) const ONE: Duration = Duration::from_secs(180);
/// Three members: the real sidecar needs two minutes to add the others.
pub(crate) const THREE: Duration = Duration::from_secs(300);
/// From a fault to a pod that is ready again.
pub(crate) const AGAIN: Duration = Duration::from_secs(120);
/// The kubelet and the service need a while to notice an end.
const SERVED: Duration = Duration::from_secs(45);
const KEPT: &str = "kept";

/// An Etcd with a client and a key; of three members also with traffic on all of them.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) etcd: Etcd,
    pub(crate) toolbox: Toolbox,
    pub(crate) load: Option<Load>,
}

/// One member.
pub(crate) async fn one(case: &Case) -> Result<Started> {
    start(case.etcd("one"), ONE).await
}

/// Three members, all ready, and clients at work: [`Started::judge`] ends the scenario.
pub(crate) async fn three(case: &Case) -> Result<Started> {
    start(case.etcd("tri").replicas(3), THREE).await?.under_load().await
}

/// Whatever is asked for.
pub(crate) async fn start(builder: Builder, limit: Duration) -> Result<Started> {
    let etcd = builder.create().await?;
    etcd.ready(limit).await?;
    let toolbox = Toolbox::start(&etcd).await?;
    toolbox.put_and_get(KEPT, "since the start").await?;
    Ok(Started { etcd, toolbox, load: None })
}

impl Started {
    /// With clients at work from here on; of one member, too.
    pub(crate) async fn under_load(mut self) -> Result<Self> {
        self.load = Some(Load::start(&self.etcd).await?);
        Ok(self)
    }

    /// The key from the start is there, and new ones can be written: soon, since for a moment the service may send
    /// clients to a member that has just gone. A wrong answer is final.
    pub(crate) async fn serves(&self, key: &str) -> Result<()> {
        let reads = async |key: &str, wanted: &str| -> Result<Option<String>> {
            let read = self.toolbox.etcdctl(&["get", key, "--print-value-only"]).await?;
            Ok((read.trim() != wanted).then(|| format!("{key} reads as {read:?}, and not as {wanted:?}")))
        };
        wait::until(SERVED, "clients that are served through the service", async || {
            if let Some(wrong) = reads(KEPT, "since the start").await? {
                return Ok(Poll::Never(wrong));
            }
            self.toolbox.etcdctl(&["put", key, "written"]).await?;
            Ok(reads(key, "written").await?.map_or(Poll::Ready(()), Poll::Never))
        })
        .await
    }

    /// There are three members, and each has started and votes.
    pub(crate) async fn three_vote(&self) -> Result<()> {
        let members = self.toolbox.etcdctl(&["member", "list"]).await?;
        // The last column says whether it is a learner.
        let votes = |line: &str| line.contains("started") && line.ends_with("false");
        ensure!(members.lines().count() == 3 && members.lines().all(votes), "members: {members}");
        Ok(())
    }

    /// The clients are served once more, and nothing that they were told was untrue.
    pub(crate) async fn judge(self) -> Result<()> {
        let Some(load) = self.load else { return Ok(()) };
        load.served(AGAIN).await?;
        load.judge().await.map(drop)
    }
}
