// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Sequences of answers, and what may be known after them.
use super::*;

const MILLI: Duration = Duration::from_millis(1);

struct Scene {
    fold: Fold,
    start: Instant,
    ticks: u32,
}

impl Scene {
    fn new() -> Self {
        Self { fold: Fold::new(1, 0), start: Instant::now(), ticks: 0 }
    }

    fn hears(&mut self, answer: Answer) -> &MemberView {
        self.ticks += 1;
        let after = MILLI * self.ticks;
        let moment =
            Moment { now: self.start + after, wall: SystemTime::UNIX_EPOCH + after, took: MILLI * 3 };
        self.fold.apply(answer, moment);
        &self.fold.view
    }

    fn leads(&mut self, answer: Answer) -> bool {
        self.hears(answer).leadership.as_ref().unwrap().is_leader
    }
}

fn status() -> StatusAnswer {
    StatusAnswer {
        member_id: 7,
        leader_id: Some(7),
        term: 4,
        is_learner: false,
        version: "3.5.35".into(),
        db_size: 100,
        db_in_use: 40,
        db_quota: None,
        alarms: Alarms::default(),
    }
}

fn page() -> Gauges {
    Gauges {
        member_id: Some(7),
        is_leader: true,
        has_leader: true,
        is_learner: Some(false),
        ..Gauges::default()
    }
}

fn refused() -> CallError {
    CallError::Auth("etcdserver: user name is empty".into())
}

fn timed_out() -> CallError {
    CallError::TimedOut(Duration::from_secs(1))
}

#[test]
fn a_served_read_confirms_and_rules_the_learner_out() {
    let mut scene = Scene::new();
    let view = scene.hears(Answer::Linearizable(Ok(())));
    assert!(view.confirmed);
    assert_eq!(view.learner, Some(false));
    assert_eq!(view.linearizable_read.as_ref().unwrap().detail, "3 ms");
}

#[test]
fn d5_a_read_refused_by_auth_counts_as_success() {
    let mut scene = Scene::new();
    let view = scene.hears(Answer::Linearizable(Err(refused())));
    assert!(view.confirmed);
    let probe = view.linearizable_read.as_ref().unwrap();
    assert!(probe.ok && probe.last_success == Some(probe.at), "{probe:?}");
}

#[test]
fn d6_the_learner_error_confirms_but_is_no_success() {
    let mut scene = Scene::new();
    let view = scene.hears(Answer::Linearizable(Err(CallError::Learner("not supported".into()))));
    assert!(view.confirmed);
    assert_eq!(view.learner, Some(true));
    assert!(!view.linearizable_read.as_ref().unwrap().ok);
}

#[test]
fn a_failed_read_keeps_the_time_of_the_last_success() {
    let mut scene = Scene::new();
    let success = scene.hears(Answer::Linearizable(Ok(()))).linearizable_read.as_ref().unwrap().at;
    let probe = scene.hears(Answer::Linearizable(Err(timed_out()))).linearizable_read.clone().unwrap();
    assert!(!probe.ok);
    assert_eq!(probe.last_success, Some(success));
    assert_eq!(probe.detail, "no answer within 1s");
}

#[test]
fn neither_leadership_nor_term_is_claimed_before_consensus_was_seen() {
    let mut scene = Scene::new();
    let early =
        scene.hears(Answer::Status(Ok(StatusAnswer { term: 2, ..status() }))).leadership.clone().unwrap();
    assert_eq!((early.leader_id, early.is_leader, early.term), (Some(7), false, None));
    scene.hears(Answer::Status(Ok(status())));
    let late = scene.hears(Answer::Linearizable(Ok(()))).leadership.clone().unwrap();
    assert_eq!((late.leader_id, late.is_leader, late.term), (Some(7), true, Some(4)));
}

#[test]
fn two_failed_polls_give_leadership_up_and_one_does_not() {
    let mut scene = Scene::new();
    scene.hears(Answer::Linearizable(Ok(())));
    assert!(scene.leads(Answer::Status(Ok(status()))));
    assert!(scene.leads(Answer::Status(Err(timed_out()))));
    assert!(!scene.leads(Answer::Status(Err(timed_out()))));
    let lost = scene.fold.view.leadership.clone().unwrap();
    assert_eq!((lost.leader_id, lost.member_id, lost.term), (None, Some(7), Some(4)));
    assert!(scene.leads(Answer::Status(Ok(status()))));
}

#[test]
fn an_answer_of_an_older_term_changes_nothing_of_leadership() {
    let mut scene = Scene::new();
    scene.hears(Answer::Linearizable(Ok(())));
    let lost = StatusAnswer { term: 5, leader_id: Some(8), ..status() };
    assert!(!scene.leads(Answer::Status(Ok(lost))));
    assert!(!scene.leads(Answer::Status(Ok(status()))));
    assert_eq!(scene.fold.view.leadership.as_ref().unwrap().term, Some(5));
}

#[test]
fn a_new_leader_is_told_at_once_and_its_term_when_it_is_known() {
    let mut scene = Scene::new();
    scene.hears(Answer::Linearizable(Ok(())));
    let mut told = |leader, term| {
        let answer = StatusAnswer { leader_id: leader, term, ..status() };
        let leadership = scene.hears(Answer::Status(Ok(answer))).leadership.clone().unwrap();
        (leadership.is_leader, leadership.term)
    };
    assert_eq!(told(Some(8), 4), (false, Some(4)));
    assert_eq!(told(None, 4), (false, Some(4)));
    // Elected, and nothing of the new term is applied yet.
    assert_eq!(told(Some(7), 4), (true, None));
    assert_eq!(told(Some(7), 5), (true, Some(5)));
    assert_eq!(told(Some(7), 5), (true, Some(5)));
    assert_eq!(told(Some(8), 5), (false, None));
    assert_eq!(told(Some(8), 6), (false, Some(6)));
}

#[test]
fn since_moves_only_when_leadership_does() {
    let mut scene = Scene::new();
    scene.hears(Answer::Linearizable(Ok(())));
    let since = scene.hears(Answer::Status(Ok(status()))).leadership.as_ref().unwrap().since;
    assert_eq!(scene.hears(Answer::Status(Ok(status()))).leadership.as_ref().unwrap().since, since);
    let lost = StatusAnswer { leader_id: None, ..status() };
    let view = scene.hears(Answer::Status(Ok(lost)));
    assert!(view.leadership.as_ref().unwrap().since > since);
}

#[test]
fn with_auth_on_the_metrics_page_is_the_source() {
    let mut scene = Scene::new();
    scene.hears(Answer::Linearizable(Err(refused())));
    let view = scene.hears(Answer::Status(Err(refused())));
    assert!(view.auth_hides_status && view.status.is_none());
    let nospace = Alarms { nospace: true, corrupt: false };
    let view = scene.hears(Answer::Gauges(Ok(page()), Some(nospace)));
    let leadership = view.leadership.as_ref().unwrap();
    assert!(leadership.is_leader && leadership.has_leader);
    assert_eq!((leadership.source, leadership.term, leadership.leader_id), (Source::Metrics, None, None));
    assert_eq!(view.status.as_ref().unwrap().detail, "3 ms, from /metrics");
    // Not asked for in this round: what was known stands.
    assert_eq!(scene.hears(Answer::Gauges(Ok(page()), None)).alarms, Some(nospace));
    let view = scene.hears(Answer::Status(Ok(status())));
    assert!(!view.auth_hides_status);
    assert_eq!(view.leadership.as_ref().unwrap().source, Source::Status);
    // A page asked for before that is old.
    let view = scene.hears(Answer::Gauges(Ok(page()), None));
    assert_eq!(view.leadership.as_ref().unwrap().source, Source::Status);
}

#[test]
fn the_quota_is_the_members_own_word_before_the_config_before_the_default() {
    let quota = |config, told| {
        let mut fold = Fold::new(1, config);
        let moment = Moment { now: Instant::now(), wall: SystemTime::UNIX_EPOCH, took: MILLI };
        fold.apply(Answer::Status(Ok(StatusAnswer { db_quota: told, ..status() })), moment);
        fold.view.db.unwrap().quota
    };
    assert_eq!(quota(0, None), 2 << 30);
    assert_eq!(quota(8 << 30, None), 8 << 30);
    assert_eq!(quota(8 << 30, Some(4 << 30)), 4 << 30);
}

#[test]
fn members_are_forgotten_when_auth_hides_them_and_kept_over_a_time_out() {
    let mut scene = Scene::new();
    let members = Members { self_id: 7, peers: vec![] };
    scene.hears(Answer::Members(Ok(members)));
    assert_eq!(scene.hears(Answer::Members(Err(timed_out()))).members, Some(vec![]));
    assert_eq!(scene.hears(Answer::Members(Err(refused()))).members, None);
}

#[test]
fn watchers_sleep_through_times_and_wake_for_facts() {
    let mut scene = Scene::new();
    scene.hears(Answer::Linearizable(Ok(())));
    let old = scene.hears(Answer::Status(Ok(status()))).clone();
    let grown = StatusAnswer { db_size: 200, ..status() };
    assert!(is_same_news(&old, scene.hears(Answer::Status(Ok(grown)))));
    assert!(is_same_news(&old, scene.hears(Answer::Linearizable(Ok(())))));
    assert!(!is_same_news(&old, scene.hears(Answer::Linearizable(Err(timed_out())))));
}
