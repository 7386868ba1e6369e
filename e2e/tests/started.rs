// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Where most scenarios begin: an Etcd that is up, with a client beside it, and a key that must outlive what follows.
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::case::Case;
use e2e::druid::{Builder, Etcd};
use e2e::load::Load;
use e2e::toolbox::Toolbox;

/// One member: a quarter of a minute is the probe's own delay.
pub(crate) const ONE: Duration = Duration::from_secs(180);
/// Three members: the real sidecar needs two minutes to add the others.
pub(crate) const THREE: Duration = Duration::from_secs(300);
/// From a fault to a pod that is ready again.
pub(crate) const AGAIN: Duration = Duration::from_secs(120);
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

    /// The key from the start is there, and new ones can be written.
    pub(crate) async fn serves(&self, key: &str) -> Result<()> {
        let kept = self.toolbox.etcdctl(&["get", KEPT, "--print-value-only"]).await?;
        ensure!(kept.trim() == "since the start", "what was written at the start reads as {kept:?}");
        self.toolbox.put_and_get(key, "written").await
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
