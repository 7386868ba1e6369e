// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Traffic and the check of its history against real etcd: sound through crashes and a freeze, and not where data is
//! taken away.
use std::time::Duration;

use e2e::history::{Verdict, judge};
use e2e::traffic::{Plan, Target, Traffic};
use rustix::process::Signal;

use crate::etcds::Etcds;

const LIMIT: Duration = Duration::from_secs(40);

fn targets(etcds: &Etcds) -> Vec<Target> {
    etcds
        .members
        .iter()
        .map(|member| Target { member: member.name.clone(), client: member.client.clone() })
        .collect()
}

fn plan() -> Plan {
    Plan { pace: Duration::from_millis(10), limit: Duration::from_secs(2), ..Plan::new("history/", 1) }
}

async fn stays_linearizable(variable: &str) {
    let mut etcds = Etcds::start(variable, 3).await;
    let traffic = Traffic::start(plan(), targets(&etcds)).await.unwrap();
    traffic.acknowledged(50, LIMIT).await.unwrap();

    let leader = etcds.leader().await;
    etcds.members[leader].kill();
    traffic.acknowledged(50, LIMIT).await.unwrap();
    etcds.members[leader].start();
    etcds.members[leader].serves().await;
    let name = etcds.members[leader].name.clone();
    traffic.answered_by(&name, 20, LIMIT).await.unwrap();

    let leader = etcds.leader().await;
    etcds.members[leader].signal(Signal::STOP);
    traffic.acknowledged(50, LIMIT).await.unwrap();
    etcds.members[leader].signal(Signal::CONT);
    etcds.members[leader].serves().await;
    traffic.acknowledged(50, LIMIT).await.unwrap();

    let judgement = judge(&traffic.stop().await.unwrap());
    assert_eq!(judgement.verdict, Verdict::Linearizable, "{judgement}");
    assert!(judgement.failed + judgement.unknown > 0, "the faults were felt: {judgement}");
}

#[tokio::test]
async fn three_members_of_3_5_stay_linearizable_through_a_kill_and_a_freeze_of_the_leader() {
    stays_linearizable("E2E_ETCD_35").await;
}

#[tokio::test]
async fn three_members_of_3_6_stay_linearizable_through_a_kill_and_a_freeze_of_the_leader() {
    stays_linearizable("E2E_ETCD_36").await;
}

#[tokio::test]
async fn data_that_is_taken_away_is_found_missing() {
    let mut etcds = Etcds::start("E2E_ETCD_35", 1).await;
    let traffic = Traffic::start(plan(), targets(&etcds)).await.unwrap();
    traffic.acknowledged(60, LIMIT).await.unwrap();
    etcds.members[0].kill();
    std::fs::remove_dir_all(etcds.members[0].data()).unwrap();
    etcds.members[0].start();
    etcds.members[0].serves().await;
    traffic.acknowledged(20, LIMIT).await.unwrap();
    let judgement = judge(&traffic.stop().await.unwrap());
    let Verdict::Violated(violations) = &judgement.verdict else { panic!("{judgement}") };
    let told = |words: &str| violations.iter().any(|violation| violation.what.contains(words));
    assert!(told("known before"), "{judgement}");
}
