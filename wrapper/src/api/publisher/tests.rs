// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What becomes an event, in what order, and under which position.
use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::*;
use crate::api::events::Topics;
use crate::api::tests::rig::{answering_member, core_view, running_core};
use crate::supervise::view::{Intent, OperationKind, OperationPhase, OperationStatus, OperationView, Phase};

/// A publisher that the test turns by hand, and what it looks at.
struct Bench {
    publisher: Publisher,
    published: watch::Receiver<Published>,
    core: watch::Sender<CoreView>,
    member: watch::Sender<Arc<MemberView>>,
    steps: broadcast::Sender<Arc<CoreView>>,
    _tls: watch::Sender<TlsView>,
}

impl Bench {
    fn new() -> Self {
        let (core, core_seen) = watch::channel(core_view());
        let (member, member_seen) = watch::channel(Arc::default());
        let (tls, tls_seen) = watch::channel(TlsView::default());
        let (steps, steps_seen) = broadcast::channel(64);
        let views = Views { core: core_seen, member: member_seen, tls: tls_seen };
        let (publisher, published) = Publisher::new(views, Metrics::new(), watch::channel(None).1);
        Self { publisher: publisher.with_steps(steps_seen), published, core, member, steps, _tls: tls }
    }

    /// As the supervisor publishes.
    fn step(&self, change: impl FnOnce(&mut CoreView)) {
        let mut view = self.core.borrow().clone();
        change(&mut view);
        // Nobody listens once the publisher is gone.
        let _ = self.steps.send(Arc::new(view.clone()));
        self.core.send_replace(view);
    }

    /// One look; the events since.
    fn look(&mut self) -> Vec<wire::Event> {
        let before = self.published.borrow().ring.last();
        self.publisher.catch_up(true, Now::read());
        let published = self.published.borrow();
        assert_eq!(published.ring.last(), published.marks.index);
        let mut events = Vec::new();
        let mut at = before;
        while let Some(entry) = published.ring.after(at, Topics::ALL) {
            let event: wire::Event = serde_json::from_slice(&entry.frame.data()).unwrap();
            assert_eq!((event.index, event.topic.as_ref()), (entry.index, entry.topic.as_str()));
            at = entry.index;
            events.push(event);
        }
        events
    }
}

fn topics(events: &[wire::Event]) -> Vec<&str> {
    events.iter().map(|event| event.topic.as_ref()).collect()
}

fn operation(id: u64, status: OperationStatus) -> OperationView {
    let now = SystemTime::UNIX_EPOCH;
    OperationView {
        id,
        kind: OperationKind::Restart,
        generation: None,
        status,
        phase: OperationPhase::Fetching,
        changed: true,
        started_at: now,
        finished_at: (status != OperationStatus::Running).then_some(now),
        problem: None,
        last_error: None,
    }
}

#[test]
fn every_phase_is_an_event_however_fast_they_change() {
    let mut bench = Bench::new();
    for phase in [Phase::Configuring, Phase::Starting, Phase::Running, Phase::Stopping, Phase::Stopped] {
        bench.step(|core| core.phase = phase);
    }
    let events = bench.look();
    let phases: Vec<_> = events
        .iter()
        .filter(|event| event.topic == "phase")
        .map(|event| (event.previous.as_deref().unwrap(), event.phase.as_deref().unwrap()))
        .collect();
    let words = ["initializing", "configuring", "starting", "running", "stopping", "stopped"];
    assert_eq!(phases, words.windows(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>());
    let indexes: Vec<_> = events.iter().map(|event| event.index).collect();
    assert!(indexes.windows(2).all(|pair| pair[0] < pair[1]), "{indexes:?}");
}

#[test]
fn both_ends_of_a_supersession_are_events() {
    let mut bench = Bench::new();
    let operations = |list: &[OperationView]| Arc::new(list.iter().cloned().collect::<VecDeque<_>>());
    bench.step(|core| core.operations = operations(&[operation(1, OperationStatus::Running)]));
    let newer = [operation(1, OperationStatus::Superseded), operation(2, OperationStatus::Running)];
    bench.step(|core| core.operations = operations(&newer));
    bench.step(|core| {
        core.operations = operations(&[newer[0].clone(), operation(2, OperationStatus::Succeeded)]);
    });
    let told: Vec<_> = bench
        .look()
        .into_iter()
        .filter_map(|event| event.operation.map(|operation| (operation.id, operation.status.into_owned())))
        .collect();
    let [one, two] = ["op-3f9a1c-1", "op-3f9a1c-2"];
    let wanted = [(one, "running"), (one, "superseded"), (two, "running"), (two, "succeeded")];
    assert_eq!(told, wanted.map(|(id, status)| (id.to_owned(), status.to_owned())));
    assert!(bench.look().is_empty());
}

#[test]
fn invariant_9_leaving_is_told_even_if_the_child_is_gone_at_once() {
    let mut bench = Bench::new();
    bench.step(|core| *core = running_core());
    bench.member.send_replace(Arc::new(answering_member()));
    let leads = |events: &[wire::Event]| -> Vec<_> {
        events
            .iter()
            .filter_map(|event| event.leader.as_ref())
            .map(|leader| (leader.is_leader, leader.leaving))
            .collect()
    };
    assert_eq!(leads(&bench.look()).last(), Some(&(true, false)));
    bench.step(|core| core.draining = true);
    bench.step(|core| (core.child, core.draining, core.phase) = (None, false, Phase::Stopped));
    assert_eq!(leads(&bench.look()), [(false, true), (false, false)]);
}

#[test]
fn invariant_9_news_of_the_member_is_not_mixed_with_what_the_supervisor_said_before() {
    let mut bench = Bench::new();
    bench.step(|core| *core = running_core());
    bench.look();
    // Became leader only after the stop had begun.
    bench.step(|core| core.generation = 1);
    bench.step(|core| core.draining = true);
    bench.member.send_replace(Arc::new(answering_member()));
    let events = bench.look();
    assert!(
        events.iter().filter_map(|event| event.leader.as_ref()).all(|leader| !leader.is_leader),
        "{events:?}"
    );
}

#[test]
fn a_burst_that_is_too_long_is_a_gap_and_no_silence() {
    let mut bench = Bench::new();
    let before = bench.published.borrow().ring.last();
    for round in 0..200 {
        bench.step(|core| core.phase = if round % 2 == 0 { Phase::Held } else { Phase::Initializing });
    }
    bench.look();
    let published = bench.published.borrow();
    assert!(!published.ring.knows(before, Topics::ALL));
    assert!(published.ring.knows(published.marks.index, Topics::ALL));
}

#[test]
fn a_change_without_a_topic_has_a_position_of_its_own() {
    let mut bench = Bench::new();
    let before = bench.published.borrow().marks.index;
    bench.step(|core| core.hold_reason = Some("x".into()));
    assert!(bench.look().is_empty());
    assert_eq!(bench.published.borrow().marks.index, before + 1);
    bench.step(|core| core.intent = Intent::Exit);
    assert_eq!(topics(&bench.look()), ["phase"]);
}

#[test]
fn the_snapshot_is_of_its_position_and_not_ahead_of_the_events_after_it() {
    let mut bench = Bench::new();
    bench.look();
    bench.step(|core| core.phase = Phase::Held);
    let published = bench.published.borrow();
    let status = published.status(&TlsView::default(), Now::read());
    assert_eq!((status.wrapper.phase.as_ref(), status.index), ("initializing", published.marks.index));
    drop(published);
    assert_eq!(topics(&bench.look()), ["phase"]);
}

#[test]
fn readiness_that_goes_stale_by_time_is_an_event() {
    let mut bench = Bench::new();
    bench.step(|core| *core = running_core());
    bench.member.send_replace(Arc::new(answering_member()));
    assert!(
        bench.look().iter().any(|event| event.readiness.as_ref().is_some_and(|readiness| readiness.ready))
    );
    let now = Now::read();
    let later = Now { instant: now.instant + Duration::from_secs(11), ..now };
    bench.publisher.catch_up(false, later);
    let published = bench.published.borrow();
    let newest = published.ring.latest(Topic::Readiness).unwrap();
    let event: wire::Event = serde_json::from_slice(&newest.frame.data()).unwrap();
    assert!(!event.readiness.unwrap().ready);
}

#[derive(Clone, Debug)]
enum Change {
    Phase(usize),
    Draining(bool),
    Child(bool),
    Leads(bool, u64),
    Look,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..Phase::ALL.len()).prop_map(Change::Phase),
        any::<bool>().prop_map(Change::Draining),
        any::<bool>().prop_map(Change::Child),
        (any::<bool>(), 0..2_u64).prop_map(|(leads, terms)| Change::Leads(leads, terms)),
        Just(Change::Look),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariant_9_and_10_who_leads_runs_terms_never_fall_and_positions_grow(
        changes in proptest::collection::vec(change(), 1..80),
    ) {
        let mut bench = Bench::new();
        bench.step(|core| *core = running_core());
        let (mut index, mut term, mut phase) = (1, 0, String::new());
        for change in changes.into_iter().chain([Change::Look]) {
            match change {
                Change::Phase(at) => bench.step(|core| core.phase = Phase::ALL[at]),
                Change::Draining(draining) => bench.step(|core| core.draining = draining),
                Change::Child(lives) => {
                    bench.step(|core| core.child = if lives { running_core().child } else { None });
                }
                Change::Leads(leads, terms) => {
                    let mut member = answering_member();
                    let before = bench.member.borrow().leadership.as_ref().and_then(|leadership| leadership.term);
                    let leadership = member.leadership.as_mut().unwrap();
                    leadership.is_leader = leads;
                    leadership.term = Some(before.unwrap_or_default() + terms);
                    bench.member.send_replace(Arc::new(member));
                }
                Change::Look => {
                    for event in bench.look() {
                        prop_assert!(event.index > index);
                        index = event.index;
                        if let Some(now) = event.phase {
                            prop_assert!(phase.is_empty() || event.previous.as_deref() == Some(phase.as_str()));
                            phase = now.into_owned();
                        }
                        if let Some(leader) = event.leader {
                            prop_assert!(!leader.is_leader || (!leader.leaving && leader.member_id.is_some()));
                            prop_assert!(leader.term.is_none_or(|now| now >= term));
                            term = leader.term.unwrap_or(term);
                        }
                    }
                }
            }
        }
    }
}
