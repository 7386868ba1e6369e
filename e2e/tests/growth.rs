// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A cluster that becomes another one while it serves: more members, the next line of etcd.
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::case::Case;
use e2e::scenario;
use e2e::scenario::{Need, Scenario};
use e2e::stage::Role;
use serde_json::json;

use crate::started::{self, AGAIN, ONE, THREE};

pub(crate) const SCENARIOS: &[Scenario] = &[scenario!(
    i2_one_member_grows_to_three_and_then_to_etcd_3_6,
    "one member, then three, then the next etcd, under traffic: nothing written is lost"
)
.needs(&[Need::Etcd36])
.within(Duration::from_secs(1200))];

/// Three pods, one after the other, each with its probe's delay.
const ROLL: Duration = Duration::from_secs(480);

async fn i2_one_member_grows_to_three_and_then_to_etcd_3_6(case: &Case) -> Result<()> {
    let mut started = started::start(case.etcd("grow"), ONE).await?.under_load().await?;
    // etcd-druid makes the first pod anew for its new peers; no container is restarted.
    started.etcd.scale(3).await?;
    started.etcd.all_members_ready(THREE + AGAIN).await?;
    started.three_vote().await?;
    let image = case.cluster().stage.image(Role::Wrapper36).context("no image with etcd 3.6")?;
    started.etcd.patch(json!({"spec": {"etcd": {"image": image.reference}}})).await?;
    started.etcd.all_members_ready(ROLL).await?;
    for member in started.etcd.members() {
        let version = member.status().await?["etcd"]["version"].clone();
        let is_next = version.as_str().is_some_and(|version| version.starts_with("3.6."));
        ensure!(is_next, "{} runs etcd {version}", member.pod());
    }
    started.three_vote().await?;
    started.serves("after").await?;
    started.judge().await
}
