// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Tests of the machine by hand: a bench that feeds it events and looks at what it wants. The exhaustive search is in
//! `explore`.
mod admission;
mod diagram;
mod dialogue;
mod ending;
mod holding;
mod walks;

use std::sync::Arc;
use std::time::Duration;

use super::explore::{self, Line};
use super::{
    Call, Done, Effect, Event, Exit, Found, HoldFile, Job, Outcome, Phase, Plan, Reply, Rules, Settings, Sig,
    State, Timer, Verdict, step,
};
use crate::supervise::command::{Answer, Code, Command, Refusal, Shutdown};
use crate::supervise::view::{ConfigSource, ExitStatus, Mode, SidecarWord};

fn settings() -> Settings {
    Settings {
        sidecar: true,
        hold: false,
        restart_on_exit: false,
        marker_on_stop: true,
        grace: Duration::from_secs(25),
        ready_timeout: None,
        rules: Rules::default(),
    }
}

fn found(clean_marker: bool) -> Found {
    Found { clean_marker, hold: None }
}

fn held_by(owner: &str) -> Found {
    let hold = HoldFile { owner: Some(Arc::from(owner)), reason: Arc::from("load") };
    Found { clean_marker: false, hold: Some(hold) }
}

fn served() -> Plan {
    explore::plan(ConfigSource::Sidecar, true)
}

/// A machine, what it wanted in the last step, and all it ever wanted.
struct Bench {
    state: State,
    last: Vec<Effect>,
    all: Vec<Effect>,
}

impl Bench {
    fn new(settings: Settings, found: Found) -> Self {
        let mut bench = Self { state: State::new(settings, found), last: Vec::new(), all: Vec::new() };
        bench.tell(Event::Begin);
        bench
    }

    /// One event; a spawn succeeds at once.
    fn tell(&mut self, event: Event) -> &mut Self {
        let (state, mut effects) = step(self.state.clone(), event);
        self.state = state;
        if effects.iter().any(|effect| matches!(effect, Effect::Spawn(_))) {
            let (state, more) = step(self.state.clone(), Event::Spawned);
            self.state = state;
            effects.extend(more);
        }
        self.all.extend(effects.clone());
        self.last = effects;
        self
    }

    fn word(&mut self, word: SidecarWord) -> &mut Self {
        self.reply(Reply::Word(word))
    }

    fn reply(&mut self, reply: Reply) -> &mut Self {
        assert!(self.state.call.is_some(), "nobody was asked: {:?}", self.state);
        self.tell(Event::Sidecar(reply))
    }

    fn pause_over(&mut self) -> &mut Self {
        assert!(self.state.pausing, "there is no pause: {:?}", self.state);
        self.tell(Event::Timer(Timer::Pause))
    }

    /// What the disk has to do succeeds, until it has nothing to do.
    fn disk(&mut self) -> &mut Self {
        for _ in 0..10 {
            match self.state.disk.clone() {
                Some(job) if !self.state.exited => self.tell(Event::Disk(success(&job))),
                _ => return self,
            };
        }
        panic!("the disk is never done: {:?}", self.state);
    }

    /// Reads `New`, and is about to hear what came of its `start`.
    fn next_mode(&mut self) -> Mode {
        self.disk();
        if self.state.pausing {
            self.pause_over().disk();
        }
        if self.state.call == Some(Call::Status) {
            self.word(SidecarWord::New);
            if self.state.pausing {
                self.pause_over();
            }
            self.disk();
        }
        match self.state.call {
            Some(Call::Start(mode)) => mode,
            call => panic!("expected a start, not {call:?} in {:?}", self.state.phase),
        }
    }

    /// What the disk has to do succeeds, pauses end, the sidecar does what it should, etcd gets ready.
    fn calm(&mut self) -> bool {
        let event = match (&self.state.disk, self.state.call) {
            (Some(job), _) => Event::Disk(success(job)),
            (None, Some(call)) => Event::Sidecar(healthy(call, &self.state)),
            (None, None) if self.state.pausing => Event::Timer(Timer::Pause),
            (None, None) if self.state.phase == Phase::Starting => {
                let ready = self.state.child.as_ref().is_some_and(|child| child.ready_seen);
                if ready { Event::Confirmed } else { Event::Ready }
            }
            _ => return false,
        };
        self.tell(event);
        true
    }

    fn until(&mut self, done: impl Fn(&State) -> bool) -> &mut Self {
        for _ in 0..60 {
            if done(&self.state) {
                return self;
            }
            assert!(self.calm(), "stuck in {:?}", self.state);
        }
        panic!("not there in time: {:?}", self.state);
    }

    fn running(&mut self) -> &mut Self {
        self.until(|state| state.phase == Phase::Running)
    }

    /// A command, with all that its admission asks for, up to its answer.
    fn ask(&mut self, command: Command) -> Answer {
        self.tell(Event::Command(7, command));
        for _ in 0..20 {
            if let Some(answer) = self.answer() {
                return answer;
            }
            if self.state.gate_waits_for_guard() {
                self.tell(Event::Guard { gate: true, verdict: Verdict::Safe });
            } else {
                assert!(self.calm(), "no answer: {:?}", self.state);
            }
        }
        panic!("no answer: {:?}", self.state);
    }

    fn say(&mut self, line: Line) -> Answer {
        self.ask(line.command(true))
    }

    fn answer(&self) -> Option<Answer> {
        self.last.iter().find_map(|effect| match effect {
            Effect::Reply(7, answer) => Some(answer.clone()),
            _ => None,
        })
    }

    fn ended(&mut self, status: ExitStatus) -> &mut Self {
        self.tell(Event::ChildExited { status, recent_crashes: 1 })
    }

    fn wants(&self, wanted: &Effect) -> bool {
        self.last.contains(wanted)
    }

    fn ever(&self, test: impl Fn(&Effect) -> bool) -> bool {
        self.all.iter().any(test)
    }

    fn wrote_marker(&self) -> bool {
        self.ever(|effect| matches!(effect, Effect::Disk(Job::WriteMarker(_))))
    }

    fn exit(&self) -> Option<&Exit> {
        self.all.iter().find_map(|effect| match effect {
            Effect::Exit(exit) => Some(exit),
            _ => None,
        })
    }

    fn exit_code(&mut self) -> Option<u8> {
        self.disk();
        self.exit().map(|exit| exit.code)
    }

    fn outcome(&self) -> Option<&Outcome> {
        self.all.iter().rev().find_map(|effect| match effect {
            Effect::Finished { outcome, .. } => Some(outcome),
            _ => None,
        })
    }

    fn paused_for(&self) -> Option<Duration> {
        self.last.iter().find_map(|effect| match effect {
            Effect::Arm(Timer::Pause, pause) => Some(*pause),
            _ => None,
        })
    }
}

fn success(job: &Job) -> Done {
    match job {
        Job::ConsumeMarker => Done::MarkerConsumed(Ok(())),
        Job::WriteMarker(_) => Done::MarkerWritten,
        Job::WriteHold(_) => Done::HoldWritten(Ok(())),
        Job::RemoveHold => Done::HoldRemoved(Ok(())),
        Job::ReadFile => Done::FileRead(Ok(explore::plan(ConfigSource::File, true))),
        Job::Inspect(_) => Done::Inspected(Ok(())),
        Job::Prepare(_) => Done::Prepared(Ok(())),
        Job::Lock(_) => Done::Locked(Ok(true)),
        Job::ProbeLocks => Done::Probed(false),
    }
}

/// What a sidecar without troubles says.
fn healthy(call: Call, state: &State) -> Reply {
    match call {
        Call::Config { .. } => Reply::Config(served()),
        Call::Start(_) => Reply::Started,
        Call::Check | Call::Watch => Reply::Word(SidecarWord::New),
        Call::Status if state.round.is_open() => Reply::Word(SidecarWord::Successful),
        Call::Status => Reply::Word(SidecarWord::New),
    }
}

fn refusal(code: Code) -> Refusal {
    Refusal { code, detail: "no".into() }
}

const TERM: Event = Event::Shutdown(Shutdown::Terminate);
const STOP_CALL: Event = Event::Shutdown(Shutdown::StopCall);
/// How etcd ends on SIGTERM, whether it closed first or not.
const BY_TERM: ExitStatus = ExitStatus::Signaled(15);
