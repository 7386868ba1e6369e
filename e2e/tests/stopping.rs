// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Ends and restarts that somebody asks for, and another number of members.
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::case::Case;
use e2e::scenario;
use e2e::scenario::Scenario;

use crate::started::{self, AGAIN, THREE};

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario!(
        a_stop_ends_the_container_and_it_comes_back,
        "POST /stop: exit 0, a marker, a short validation, ready"
    ),
    scenario!(one_member_is_scaled_to_three, "from one member to three: all ready, nothing written is lost")
        .within(Duration::from_secs(600)),
];

async fn a_stop_ends_the_container_and_it_comes_back(case: &Case) -> Result<()> {
    let started = started::one(case).await?;
    let member = started.etcd.member(0);
    case.expect_restarts(member.pod(), 1);
    let begun = Instant::now();
    let answer = member.wrapper().post(Duration::from_secs(10), "/stop", None).await?;
    ensure!(answer.status == 200 && answer.body.is_empty(), "{answer:?}");
    member.restarted(1, AGAIN).await?;
    case.measure("ready again after /stop", format!("{:.1} s", begun.elapsed().as_secs_f64()));
    let container = member.container(e2e::member::ETCD).await?;
    let code = container.last.map(|last| last.code);
    ensure!(code == Some(0), "the container ended with {code:?}");
    let status = member.status().await?;
    let validation = &status["bootstrap"]["validation"];
    ensure!(validation == "sanity", "validation {validation} after a clean end");
    started.serves("after").await?;
    started.etcd.all_members_ready(AGAIN).await
}

async fn one_member_is_scaled_to_three(case: &Case) -> Result<()> {
    let mut started = started::start(case.etcd("grow"), started::ONE).await?.under_load().await?;
    started.etcd.scale(3).await?;
    started.etcd.all_members_ready(THREE + AGAIN).await?;
    let members = started.toolbox.etcdctl(&["member", "list"]).await?;
    ensure!(members.lines().count() == 3, "members: {members}");
    ensure!(members.lines().all(|line| line.contains("started") && line.ends_with("false")), "{members}");
    started.serves("after").await?;
    started.judge().await
}
