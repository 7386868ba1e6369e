// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Scenarios that are made to go wrong: each has to end as failed or hung, with a scene that tells why. They run by
//! `--planted` alone, before a change to the program itself is trusted.
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::case::Case;
use e2e::fault::Process;
use e2e::scenario;
use e2e::scenario::Scenario;

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario!(planted_error, "a member that is asked for a generation it does not have").planted(),
    scenario!(planted_panic, "a panic in the middle").planted(),
    scenario!(planted_hang, "an etcd that stays frozen, and a wait without end")
        .planted()
        .within(Duration::from_secs(90)),
    scenario!(planted_restart, "a container that is restarted without a word").planted(),
    scenario!(planted_image, "an image that does not exist").planted(),
];

const BOOTSTRAP: Duration = Duration::from_secs(240);

async fn planted_error(case: &Case) -> Result<()> {
    let etcd = case.etcd("one").create().await?;
    etcd.ready(BOOTSTRAP).await?;
    let wants_more = |status: &serde_json::Value| status["etcd"]["generation"] == 7;
    etcd.member(0).status_until(Duration::from_secs(3), "generation 7", wants_more).await?;
    Ok(())
}

async fn planted_panic(case: &Case) -> Result<()> {
    let etcd = case.etcd("one").create().await?;
    assert_eq!(etcd.members().len(), 2, "on purpose");
    Ok(())
}

async fn planted_hang(case: &Case) -> Result<()> {
    let etcd = case.etcd("one").create().await?;
    etcd.ready(BOOTSTRAP).await?;
    let _frozen = case.faults().freeze(&etcd.member(0), Process::Etcd).await?;
    case.step("waits for what never comes");
    std::future::pending().await
}

async fn planted_restart(case: &Case) -> Result<()> {
    let etcd = case.etcd("one").create().await?;
    etcd.ready(BOOTSTRAP).await?;
    case.faults().kill(&etcd.member(0), Process::Wrapper).await?;
    etcd.member(0).restarted(1, BOOTSTRAP).await
}

async fn planted_image(case: &Case) -> Result<()> {
    let etcd = case.etcd("one").etcd_image("localhost/no-such-image:none").create().await?;
    let told = etcd.ready(BOOTSTRAP).await;
    ensure!(told.is_err(), "an image that does not exist was started");
    told
}
