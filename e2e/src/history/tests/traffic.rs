// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Traffic and verdict together: a store that is sound passes whatever it does to replies, and one that lies does not.
use std::time::Duration;

use super::super::{Judgement, Verdict, judge};
use crate::etcd::Client;
use crate::etcd::fake::{Fake, Mood};
use crate::traffic::{Plan, Target, Traffic};

const LIMIT: Duration = Duration::from_secs(30);

/// Sound traffic, then this mood at every n-th call, then sound traffic again.
async fn judged(mood: Mood, every: u64) -> Judgement {
    let fake = Fake::new();
    let target = |member: &str| Target { member: member.into(), client: Client::new(fake.connector(member)) };
    let limit = Duration::from_millis(50);
    let plan = Plan { pace: Duration::from_millis(1), limit, last_reads: LIMIT, ..Plan::new("t/", 11) };
    let traffic = Traffic::start(plan, vec![target("m-0"), target("m-1"), target("m-2")]).await.unwrap();
    traffic.acknowledged(50, LIMIT).await.unwrap();
    fake.set(mood, every);
    let mut progress = traffic.progress();
    let calls = |now: &crate::traffic::Progress| now.reads + now.writes + now.failed + now.unknown;
    let before = calls(&progress.borrow());
    let more = if mood == Mood::Hangs { 12 } else { 200 };
    tokio::time::timeout(LIMIT, progress.wait_for(|now| calls(now) >= before + more)).await.unwrap().unwrap();
    fake.set(Mood::Sound, 1);
    traffic.acknowledged(50, LIMIT).await.unwrap();
    judge(&traffic.stop().await.unwrap())
}

#[tokio::test]
async fn a_sound_store_passes_with_lost_replies_refusals_hangs_and_broken_connections() {
    for (mood, every) in [
        (Mood::Sound, 1),
        (Mood::LosesReplies, 4),
        (Mood::Refuses, 3),
        (Mood::Hangs, 2),
        (Mood::Unreachable, 1),
    ] {
        let judgement = judged(mood, every).await;
        assert_eq!(judgement.verdict, Verdict::Linearizable, "{mood:?}: {judgement}");
        assert!(mood != Mood::LosesReplies || judgement.unknown > 10, "{judgement}");
        assert!(mood != Mood::Refuses || judgement.failed > 30, "{judgement}");
        assert!(mood != Mood::Unreachable || judgement.failed > 100, "{judgement}");
        assert!(mood != Mood::Hangs || judgement.unknown > 2, "{judgement}");
    }
}

#[tokio::test]
async fn a_store_that_forgets_writes_or_reads_stale_values_is_found_out() {
    for (mood, words) in [(Mood::ForgetsWrites, "revision"), (Mood::ReadsStale, "saw")] {
        let judgement = judged(mood, 5).await;
        let Verdict::Violated(violations) = &judgement.verdict else { panic!("{mood:?}: {judgement}") };
        assert!(violations.iter().any(|violation| violation.what.contains(words)), "{judgement}");
        judgement.require().unwrap_err();
    }
}
