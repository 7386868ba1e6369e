// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Random walks over everything that may come in, checked against the invariants of api.md §8 as far as the machine
//! alone shows them. The search in `explore` is exhaustive but small; these are long.
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{diagram, *};
use crate::supervise::command::Guard;
use crate::supervise::state::{EndingStage, OperationPhase};
use crate::supervise::view::Intent;

const LINES: [Line; 20] = [
    Line::Start(Some('a')),
    Line::Start(None),
    Line::StartUnchecked,
    Line::StartPosted,
    Line::StartElsewhere,
    Line::StartForced,
    Line::StartHold('a'),
    Line::StartPostedHold('b'),
    Line::Stop,
    Line::Stop,
    Line::StopHold('a'),
    Line::StopForced,
    Line::StopGently,
    Line::StopSerialHold('b'),
    Line::Restart,
    Line::Restart,
    Line::RestartUnchecked,
    Line::Release('a'),
    Line::Unready('b'),
    Line::Term,
];

/// What an observer outside of the machine knows.
#[derive(Default)]
struct Watched {
    timers: BTreeSet<Timer>,
    call: bool,
    alive: bool,
    spawned: u64,
    leaving: bool,
    shutdown: bool,
    signals: u8,
    may_kill: bool,
    ready: bool,
    ready_at_end: bool,
    termed: bool,
    hard: bool,
    verb: bool,
    own: bool,
    clean: bool,
    open: BTreeSet<u64>,
    done: BTreeSet<u64>,
    log: Vec<Event>,
}

impl Watched {
    fn sees(&mut self, state: &State, event: &Event) {
        self.log.push(event.clone());
        match event {
            Event::Timer(timer) => {
                self.timers.remove(timer);
                self.may_kill |= matches!(timer, Timer::Grace | Timer::Kill);
            }
            Event::Sidecar(_) => self.call = false,
            Event::Shutdown(shutdown) => {
                self.shutdown = true;
                self.signals += u8::from(*shutdown != Shutdown::StopCall);
                self.may_kill |= self.signals >= 2;
            }
            Event::Command(_, Command::Stop(stop)) => self.may_kill |= stop.force,
            Event::Ready => self.ready = true,
            Event::ChildExited { status, .. } => {
                let gentle = matches!(status, ExitStatus::Exited(0) | ExitStatus::Signaled(15));
                self.clean =
                    gentle && self.ready_at_end && self.termed && !self.hard && self.own && !self.verb;
                self.alive = false;
            }
            _ => {}
        }
        // A stop that fails because its etcd hangs may be followed by another that kills at once.
        self.may_kill |= state.killing();
    }

    fn wants(&mut self, effect: &Effect) {
        match effect {
            Effect::Call(call) => {
                assert!(!self.call, "invariant 2: two calls in flight");
                assert!(
                    !self.alive || !matches!(call, Call::Start(_)),
                    "invariant 2: a start beside a child"
                );
                self.call = true;
            }
            Effect::CancelCall => self.call = false,
            Effect::Spawn(plan) => {
                assert!(!self.alive, "invariant 1: a second child");
                assert!(!self.leaving, "invariant 4: a spawn after the shutdown");
                self.alive = true;
                self.spawned += 1;
                (self.ready, self.ready_at_end, self.termed, self.hard, self.verb) =
                    (false, false, false, false, false);
                self.may_kill = false;
                self.own = plan.source != ConfigSource::Posted && plan.fsync;
            }
            Effect::Signal(sig) => {
                assert!(self.alive, "invariant 7: a signal to nobody");
                assert!(*sig != Sig::Kill || self.may_kill, "invariant 7: a kill too early");
                if !self.termed && *sig == Sig::Term {
                    self.ready_at_end = self.ready;
                }
                self.termed |= *sig == Sig::Term;
                self.hard |= *sig != Sig::Term;
            }
            Effect::Arm(timer, _) | Effect::ArmAtMost(timer, _) => {
                self.timers.insert(*timer);
            }
            Effect::Disarm(timer) => {
                self.timers.remove(timer);
            }
            Effect::Disk(Job::WriteMarker(_)) => {
                assert!(self.shutdown && self.clean, "invariant 6: a marker that nothing earned");
            }
            Effect::Finished { id, .. } => {
                assert!(self.open.remove(id), "invariant 8: operation {id} ended without having begun");
                assert!(self.done.insert(*id), "invariant 8: operation {id} ended twice");
            }
            _ => {}
        }
    }
}

struct Walk {
    bench: Bench,
    watched: Watched,
    settings: Settings,
    found: Found,
    /// How etcd ends when it is asked to.
    status: ExitStatus,
}

impl Walk {
    fn new(settings: Settings, found: Found) -> Self {
        let state = State::new(settings.clone(), found.clone());
        let bench = Bench { state, last: Vec::new(), all: Vec::new() };
        let mut walk = Self { bench, watched: Watched::default(), settings, found, status: BY_TERM };
        walk.tell(Event::Begin);
        walk
    }

    fn tell(&mut self, event: Event) {
        let before = self.bench.state.clone();
        self.watched.sees(&before, &event);
        let ids = before.next_op;
        self.bench.tell(event);
        let state = &self.bench.state;
        self.watched.open.extend(ids..state.next_op);
        for effect in self.bench.last.clone() {
            self.watched.wants(&effect);
        }
        if state.child.as_ref().is_some_and(|child| child.no_marker) {
            self.watched.verb = true;
        }
        self.watched.leaving |= state.intent == Intent::Exit;
        let alive = self.bench.state.op.as_ref().map(|op| op.id);
        assert!(self.watched.open.len() <= 1, "invariant 8: two operations");
        assert_eq!(
            self.watched.open.iter().next().copied(),
            alive,
            "invariant 8: an operation that nobody carries out"
        );
        assert_eq!(state.generation, self.watched.spawned, "invariant 5");
        assert!(
            diagram::draws(&before, state),
            "not in the diagram: {:?} to {:?}",
            before.phase,
            state.phase
        );
        assert_eq!(state.child.is_some(), self.watched.alive, "invariant 1");
        assert_eq!(
            before.intent == Intent::Exit,
            before.intent == Intent::Exit && state.intent == Intent::Exit
        );
        let limited = state.override_.as_ref().is_some_and(|standing| standing.ttl.is_some());
        assert_eq!(limited, self.watched.timers.contains(&Timer::Override), "invariant 13");
    }

    fn sensible(&self) -> Vec<Event> {
        let state = &self.bench.state;
        let mut events = Vec::new();
        if let Some(job) = &state.disk {
            events.extend([Event::Disk(success(job)), Event::Disk(success(job)), Event::Disk(failure(job))]);
        }
        if let Some(call) = state.call {
            let words =
                [SidecarWord::New, SidecarWord::Progress, SidecarWord::Successful, SidecarWord::Failed];
            let mut replies = vec![Reply::Lost, Reply::Failed, Reply::Refused, Reply::Unreachable];
            match call {
                Call::Start(_) => replies.extend([Reply::Started, Reply::Started]),
                Call::Config { .. } => replies.extend([
                    Reply::Config(served()),
                    Reply::Config(served()),
                    Reply::BadConfig(refusal(Code::ConfigInvalid)),
                ]),
                _ => replies.extend(words.map(Reply::Word)),
            }
            events.extend(replies.into_iter().map(Event::Sidecar));
        }
        events.extend(self.watched.timers.iter().map(|timer| Event::Timer(*timer)));
        if let Some(child) = &state.child {
            events.extend([Event::Ready, Event::Confirmed]);
            let statuses = [ExitStatus::Exited(0), BY_TERM, ExitStatus::Exited(2), ExitStatus::Signaled(9)];
            let ending = child.ending.is_some();
            let end = |status| Event::ChildExited { status, recent_crashes: 1 };
            events.extend(statuses.into_iter().take(if ending { 4 } else { 1 }).map(end));
        }
        for verdict in [Verdict::Safe, Verdict::Refused(refusal(Code::WouldBreakQuorum))] {
            if state.gate_waits_for_guard() {
                events.push(Event::Guard { gate: true, verdict });
            } else if stage(state) == Some(EndingStage::Guarding) {
                events.push(Event::Guard { gate: false, verdict });
            }
        }
        match state.op.as_ref().map(|op| op.phase) {
            Some(OperationPhase::WaitingTurn) => {
                events.extend([Event::Turn(Ok(())), Event::Turn(Err(refusal(Code::GuardUnknown)))]);
            }
            Some(OperationPhase::Transferring) => events.push(Event::Transferred(Ok(true))),
            _ => {}
        }
        events
    }

    /// Everybody behaves from now on: one event, or false when nothing is left to do.
    fn behaves(&mut self) -> bool {
        let state = &self.bench.state;
        if state.exited || matches!(state.phase, Phase::Held | Phase::Stopped) && state.gate.is_none() {
            return false;
        }
        let event = if state.gate_waits_for_guard() {
            Event::Guard { gate: true, verdict: Verdict::Safe }
        } else if stage(state) == Some(EndingStage::Guarding) {
            Event::Guard { gate: false, verdict: Verdict::Safe }
        } else if state.op.as_ref().is_some_and(|op| op.phase == OperationPhase::WaitingTurn) {
            Event::Turn(Ok(()))
        } else if stage(state) == Some(EndingStage::Transferring)
            || state.op.as_ref().is_some_and(|op| op.phase == OperationPhase::Transferring)
        {
            Event::Transferred(Ok(true))
        } else if state.child.as_ref().is_some_and(|child| child.ending.is_some()) {
            Event::ChildExited { status: self.status, recent_crashes: 1 }
        } else if let Some(job) = &state.disk {
            Event::Disk(success(job))
        } else if let Some(call) = state.call {
            Event::Sidecar(healthy(call, state))
        } else if state.pausing && state.phase != Phase::Running {
            Event::Timer(Timer::Pause)
        } else if state.phase == Phase::Backoff {
            Event::Timer(Timer::Backoff)
        } else if state.phase == Phase::Starting {
            let ready = state.child.as_ref().is_some_and(|child| child.ready_seen);
            if ready { Event::Confirmed } else { Event::Ready }
        } else {
            return false;
        };
        self.tell(event);
        true
    }

    fn settle(&mut self) {
        for _ in 0..300 {
            if !self.behaves() {
                return;
            }
        }
        panic!("invariant 16: never settles: {:?}", self.bench.state);
    }

    fn at_its_end(&self) {
        let state = &self.bench.state;
        match state.intent {
            Intent::Exit => assert!(state.exited, "invariant 16: {state:?}"),
            Intent::Up => assert_eq!(state.phase, Phase::Running, "invariant 16: {state:?}"),
            Intent::Down => {
                assert!(matches!(state.phase, Phase::Held | Phase::Stopped), "invariant 16: {state:?}");
            }
        }
        assert!(state.op.is_none() && self.watched.open.is_empty(), "invariant 16: {state:?}");
    }

    /// The same events again give the same state and the same wishes.
    fn again(&self) {
        let mut bench = Bench {
            state: State::new(self.settings.clone(), self.found.clone()),
            last: Vec::new(),
            all: Vec::new(),
        };
        for event in &self.watched.log {
            bench.tell(event.clone());
        }
        assert_eq!(bench.state, self.bench.state, "invariant 15");
        assert_eq!(bench.all, self.bench.all, "invariant 15");
    }
}

fn stage(state: &State) -> Option<EndingStage> {
    Some(state.child.as_ref()?.ending.as_ref()?.stage)
}

fn failure(job: &Job) -> Done {
    let no = || refusal(Code::Failed);
    let word = || Err("no".to_owned());
    match job {
        Job::ConsumeMarker => Done::MarkerConsumed(word()),
        Job::WriteMarker(_) => Done::MarkerWritten,
        Job::WriteHold(_) => Done::HoldWritten(word()),
        Job::RemoveHold => Done::HoldRemoved(word()),
        Job::ReadFile => Done::FileRead(Err(no())),
        Job::Inspect(_) => Done::Inspected(Err(no())),
        Job::Prepare(_) => Done::Prepared(Err(no())),
        Job::Lock(_) => Done::Locked(Ok(false)),
        Job::ProbeLocks => Done::Probed(true),
    }
}

fn scene() -> impl Strategy<Value = (Settings, Found)> {
    (any::<bool>(), any::<bool>(), any::<bool>(), 0_u8..4).prop_map(|(sidecar, restart, clean, hold)| {
        let settings = Settings { sidecar, restart_on_exit: restart, hold: hold == 1, ..settings() };
        let found = if hold == 2 { held_by("a") } else { found(clean) };
        (settings, found)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    // Shows: Invariant 1, Invariant 2, Invariant 4, Invariant 5, Invariant 6, Invariant 7, Invariant 8, Invariant 13, Invariant 15, Invariant 16
    #[test]
    fn invariants_hold_on_every_walk_and_the_last_intent_decides(
        (settings, found) in scene(),
        choices in prop::collection::vec(any::<u16>(), 0..120),
        last in 0_u8..4,
        status in prop::sample::select(vec![BY_TERM, ExitStatus::Exited(0), ExitStatus::Exited(2)]),
    ) {
        let mut walk = Walk::new(settings, found);
        for choice in choices {
            let events = walk.sensible();
            let choice = usize::from(choice);
            // Without some good luck no walk would come far.
            if choice % 3 == 0 && walk.behaves() {
                continue;
            }
            let speaks = choice % 7 == 0 && walk.bench.state.takes_commands() || events.is_empty();
            let event = if speaks {
                match LINES[choice / 7 % LINES.len()].command(choice % 2 == 0) {
                    Command::Shutdown(shutdown) if choice % 2 == 0 => Event::Shutdown(shutdown),
                    Command::Shutdown(_) => continue,
                    _ if !walk.bench.state.takes_commands() => continue,
                    command => Event::Command(7, command),
                }
            } else {
                events[choice / 7 % events.len()].clone()
            };
            if walk.bench.state.exited {
                break;
            }
            walk.tell(event);
        }
        walk.status = status;
        // A shutdown outranks everything; start and stop are for a machine that has come to rest.
        if last > 1 {
            walk.settle();
            walk.at_its_end();
        }
        if !walk.bench.state.exited {
            let stop = crate::supervise::command::StopRequest { guard: Guard::None, ..explore::stop() };
            let start = crate::supervise::command::StartRequest { force: true, ..explore::start() };
            let (event, wanted) = match last {
                0 => (TERM, Intent::Exit),
                1 => (STOP_CALL, Intent::Exit),
                2 => (Event::Command(7, Command::Stop(stop)), Intent::Down),
                _ => (Event::Command(7, Command::Start(start)), Intent::Up),
            };
            walk.tell(event);
            walk.settle();
            prop_assert_eq!(walk.bench.state.intent, wanted, "invariant 15");
            walk.at_its_end();
        }
        walk.again();
    }
}
