// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What surrounds the machine: disk, sidecar, data directory, etcd, callers. A small truth of its own, kept apart from
//! what the machine believes, so that the two can be compared. What it takes for granted:
//! a request that was given up on may come after later readings of `New`, but neither after a later `start` or another
//! word that was read, nor in the time of the next process;
//! between a disk effect and its answer a kill or a power loss may leave either state; an etcd that outlives the
//! wrapper for a moment holds `etcd.lock`; a round that nobody of us could have seen cannot be known of.
//!
//! Long: one small world; its parts share one state, and every step looks at most of it.
use std::sync::Arc;
use std::time::Duration;

use super::super::{
    Call, Done, Effect, EndingStage, Event, Found, HoldFile, Job, OperationPhase, Phase, Reply, Rules,
    Settings, Sig, State, Timer, Verdict, step,
};
use super::cast::{self, Line};
use crate::supervise::command::{Code, Command, Refusal};
use crate::supervise::view::{ConfigSource, ExitStatus, Mode, SidecarWord};

/// The data directory that the sidecar works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Dir {
    Sound,
    /// Sound, but only as long as the power stays on (`unsafe-no-fsync`).
    Unsynced,
    /// Etcd died in it, or a hand touched it: only a full validation may let it pass.
    Dirty,
    /// A restore is at work in it, or was cut.
    Half,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sidecar {
    Dead,
    New,
    Progress(Mode),
    Successful,
    Failed,
}

/// An etcd that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Etcd {
    /// On the sidecar's directory, not on another that an agent posted.
    pub(super) own: bool,
    pub(super) fsync: bool,
    /// READY was sent: its signal handler stands.
    pub(super) up: bool,
    /// The datagram has reached the machine.
    pub(super) told: bool,
    pub(super) sig: Option<Sig>,
    /// It lives on after the wrapper's death.
    pub(super) orphan: bool,
    /// Somebody said `force`: it may stand beside the sidecar.
    pub(super) forced: bool,
}

/// A hold that an agent was promised, and that nobody entitled has released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Held {
    /// By a file (`stop --hold`, by hand, or from a process before this one).
    Directory(Option<char>),
    /// By `ready=hold`.
    Unready(char),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) state: Option<State>,
    timers: u16,
    pub(super) command: Option<Line>,
    /// A clean marker lies on disk.
    pub(super) marker: bool,
    /// The hold file and its owner.
    pub(super) file: Option<Option<char>>,
    pub(super) dir: Dir,
    /// The last etcd, on whatever directory, ended uncleanly.
    pub(super) unclean: bool,
    pub(super) etcd: Option<Etcd>,
    pub(super) sidecar: Sidecar,
    /// Somebody else began a round before us, and nobody of us has looked yet.
    unseen: bool,
    /// The first round is somebody else's.
    pub(super) stranger: bool,
    /// A `start` that was given up on and may still arrive.
    pub(super) late: Option<Mode>,
    /// The same for a status reading, which resets a final word.
    late_reading: bool,
    pub(super) held: Option<Held>,
    /// A stop (not forced) was reported done and nothing was started since: the directory is the agent's.
    pub(super) given: bool,
    /// A start released a hold file and has not reached `running`: the file has to outlive it (safety.md 15, 16).
    pub(super) pledged: bool,
    /// An etcd was forced up beside the sidecar: whoever did that answers for the directory from then on.
    pub(super) forced: bool,
    /// The agent saw `held` or `stopped`, or its `stop --hold` was taken: from then on it may work, also over a death.
    pub(super) rested: bool,
    commands: u8,
    faults: u8,
}

/// One thing that may happen next. With the world it decides everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    Boot,
    Answer,
    /// The request was carried out, its answer was cut.
    AnswerLost,
    /// The request was given up on before it arrived; it may arrive later.
    RequestLost,
    /// 5xx: not carried out.
    AnswerFailed,
    SidecarDies,
    SidecarUp,
    RestoreBegins,
    RoundSucceeds,
    RoundFails,
    LateStart,
    LateReading,
    DiskDone,
    DiskFails,
    Timer(Timer),
    EtcdReady,
    Told,
    Confirmed,
    EtcdEnds,
    EtcdEndsBadly,
    OrphanEnds,
    Kill {
        applied: bool,
    },
    PowerLoss {
        applied: bool,
    },
    Say(Line),
    GuardSafe,
    GuardRefuses,
    Turn,
    NoTurn,
    Transferred,
    Touch,
}

impl Act {
    /// What must not happen too often for anything to be promised.
    fn is_fault(self) -> bool {
        match self {
            Self::AnswerLost
            | Self::RequestLost
            | Self::AnswerFailed
            | Self::SidecarDies
            | Self::RestoreBegins
            | Self::RoundFails
            | Self::DiskFails
            | Self::EtcdEndsBadly
            | Self::Kill { .. }
            | Self::PowerLoss { .. }
            | Self::GuardRefuses
            | Self::NoTurn => true,
            Self::Boot
            | Self::Answer
            | Self::SidecarUp
            | Self::RoundSucceeds
            | Self::LateStart
            | Self::LateReading
            | Self::DiskDone
            | Self::Timer(_)
            | Self::EtcdReady
            | Self::Told
            | Self::Confirmed
            | Self::EtcdEnds
            | Self::OrphanEnds
            | Self::Say(_)
            | Self::GuardSafe
            | Self::Turn
            | Self::Transferred
            | Self::Touch => false,
        }
    }

    /// What a healthy world does by itself.
    pub(super) fn benign(self) -> bool {
        !self.is_fault() && !matches!(self, Self::Say(_) | Self::Touch)
    }
}

/// Where a search begins, and what may happen in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub(super) commands: u8,
    pub(super) faults: u8,
    pub(super) lines: &'static [Line],
    pub(super) marker: bool,
    pub(super) file: Option<Option<char>>,
    pub(super) dir: Dir,
    pub(super) sidecar: Sidecar,
    /// `--hold`.
    pub(super) hold: bool,
    pub(super) restart_on_exit: bool,
    pub(super) fsync: bool,
}

impl Stage {
    pub(super) const PLAIN: Self = Self {
        commands: 2,
        faults: 2,
        lines: &[],
        marker: true,
        file: None,
        dir: Dir::Sound,
        sidecar: Sidecar::New,
        hold: false,
        restart_on_exit: false,
        fsync: true,
    };

    pub(super) fn world(&self, rules: Rules) -> World {
        let stranger = matches!(self.sidecar, Sidecar::Progress(_));
        World {
            settings: Settings {
                sidecar: true,
                hold: self.hold,
                restart_on_exit: self.restart_on_exit,
                marker_on_stop: true,
                grace: Duration::from_secs(25),
                ready_timeout: None,
                rules,
            },
            state: None,
            timers: 0,
            command: None,
            marker: self.marker,
            file: self.file,
            dir: self.dir,
            unclean: false,
            etcd: None,
            sidecar: self.sidecar,
            unseen: stranger,
            stranger,
            late: None,
            late_reading: false,
            held: self.file.map(Held::Directory),
            given: false,
            pledged: false,
            forced: false,
            rested: false,
            commands: self.commands,
            faults: self.faults,
        }
    }
}

fn bit(timer: Timer) -> u16 {
    1 << timer as u16
}

const TIMERS: [Timer; 8] = [
    Timer::Pause,
    Timer::Ready,
    Timer::Grace,
    Timer::Kill,
    Timer::Transfer,
    Timer::Backoff,
    Timer::Override,
    Timer::SidecarWait,
];

/// Lines for people; None while searching, where they would cost more than the search.
type Log = Option<Vec<String>>;

impl World {
    /// Everything that may happen now, within what is left of faults and commands.
    pub(super) fn acts(&self, stage: &Stage) -> Vec<Act> {
        let mut acts = Vec::with_capacity(24);
        match self.sidecar {
            Sidecar::Dead => acts.push(Act::SidecarUp),
            Sidecar::Progress(_) => {
                acts.extend([Act::RoundSucceeds, Act::RoundFails]);
                if self.dir != Dir::Half || self.sidecar != Sidecar::Progress(Mode::Full) {
                    acts.push(Act::RestoreBegins);
                }
            }
            Sidecar::New | Sidecar::Successful | Sidecar::Failed => {}
        }
        if self.sidecar != Sidecar::Dead && !self.unseen {
            acts.push(Act::SidecarDies);
        }
        if self.late.is_some() {
            acts.push(Act::LateStart);
        }
        if self.late_reading && matches!(self.sidecar, Sidecar::Successful | Sidecar::Failed) {
            acts.push(Act::LateReading);
        }
        self.etcd_acts(&mut acts);
        match &self.state {
            Some(state) => self.process_acts(state, stage, &mut acts),
            None => acts.push(Act::Boot),
        }
        if self.etcd.is_none() && self.dir == Dir::Sound && self.agent_works() {
            acts.push(Act::Touch);
        }
        if self.faults == 0 {
            acts.retain(|act| !act.is_fault());
        }
        acts
    }

    /// The directory is an agent's: a stop was reported as done, or its hold keeps everybody out.
    fn agent_works(&self) -> bool {
        match &self.state {
            Some(state) => at_rest(state) && (self.given || matches!(self.held, Some(Held::Directory(_)))),
            None => self.rested && matches!(self.held, Some(Held::Directory(_))),
        }
    }

    fn etcd_acts(&self, acts: &mut Vec<Act>) {
        let Some(etcd) = &self.etcd else { return };
        if etcd.orphan {
            acts.push(Act::OrphanEnds);
            return;
        }
        if !etcd.up && etcd.sig.is_none() {
            acts.push(Act::EtcdReady);
        }
        if etcd.up && !etcd.told {
            acts.push(Act::Told);
        }
        let child = self.state.as_ref().and_then(|state| state.child.as_ref());
        if etcd.up && etcd.sig.is_none() && child.is_some_and(|child| !child.confirmed) {
            acts.push(Act::Confirmed);
        }
        if etcd.sig.is_some() {
            acts.push(Act::EtcdEnds);
        }
        if !matches!(etcd.sig, Some(Sig::Quit | Sig::Kill)) {
            acts.push(Act::EtcdEndsBadly);
        }
    }

    fn process_acts(&self, state: &State, stage: &Stage, acts: &mut Vec<Act>) {
        if let Some(call) = state.call {
            acts.push(Act::Answer);
            if self.sidecar != Sidecar::Dead {
                acts.extend([Act::AnswerLost, Act::AnswerFailed]);
                if matches!(call, Call::Start(_)) {
                    acts.push(Act::RequestLost);
                }
            }
        }
        if let Some(job) = &state.disk {
            acts.push(Act::DiskDone);
            let gap = self.stranger && matches!(job, Job::ConsumeMarker);
            if !gap && !matches!(job, Job::ProbeLocks | Job::WriteMarker(_)) {
                acts.push(Act::DiskFails);
            }
        }
        acts.extend(TIMERS.into_iter().filter(|timer| self.timers & bit(*timer) != 0).map(Act::Timer));
        if state.gate_waits_for_guard() || guarding(state) {
            acts.extend([Act::GuardSafe, Act::GuardRefuses]);
        }
        match state.op.as_ref().map(|op| op.phase) {
            Some(OperationPhase::WaitingTurn) => acts.extend([Act::Turn, Act::NoTurn]),
            Some(OperationPhase::Transferring) => acts.push(Act::Transferred),
            _ => {}
        }
        let durable = matches!(
            state.disk,
            Some(Job::ConsumeMarker | Job::WriteMarker(_) | Job::WriteHold(_) | Job::RemoveHold)
        );
        let either = durable || matches!(state.call, Some(Call::Start(_)));
        // Between somebody else's round and the moment that its marker is gone there is a gap that nobody can close.
        let blind = self.stranger && self.marker && (self.unseen || state.disk.is_some());
        let deaths: &[bool] = if blind {
            &[]
        } else if either {
            &[false, true]
        } else {
            &[false]
        };
        for applied in deaths {
            acts.push(Act::Kill { applied: *applied });
            acts.push(Act::PowerLoss { applied: *applied });
        }
        if self.commands > 0 {
            let open = state.takes_commands() && state.exit.is_none();
            acts.extend(
                stage.lines.iter().filter(|line| line.is_shutdown() || open).map(|line| Act::Say(*line)),
            );
        }
    }

    /// Carries out one act; what the machine was told and what it wanted goes to `log`.
    pub(super) fn act(&mut self, act: Act, stage: &Stage, log: &mut Log) -> Result<(), String> {
        self.faults -= u8::from(act.is_fault());
        let event = match act {
            Act::Boot => {
                let hold =
                    self.file.map(|owner| HoldFile { owner: owner.map(cast::name), reason: Arc::from("r") });
                let found = Found { clean_marker: self.marker, hold };
                self.state = Some(State::new(self.settings.clone(), found));
                Some(Event::Begin)
            }
            Act::Told => {
                self.with_etcd(|etcd| etcd.told = true);
                Some(Event::Ready)
            }
            Act::Confirmed => Some(Event::Confirmed),
            Act::EtcdEnds | Act::EtcdEndsBadly => Some(self.etcd_ends(act)),
            Act::Timer(timer) => {
                self.timers &= !bit(timer);
                Some(Event::Timer(timer))
            }
            Act::Answer | Act::AnswerLost | Act::RequestLost | Act::AnswerFailed => {
                Some(Event::Sidecar(self.answer(act, stage)))
            }
            Act::DiskDone | Act::DiskFails => Some(Event::Disk(self.disk(act == Act::DiskDone, stage))),
            Act::GuardSafe | Act::GuardRefuses => Some(Event::Guard {
                gate: self.state.as_ref().is_some_and(State::gate_waits_for_guard),
                verdict: if act == Act::GuardSafe { Verdict::Safe } else { Verdict::Refused(refusal()) },
            }),
            Act::Turn => Some(Event::Turn(Ok(()))),
            Act::NoTurn => Some(Event::Turn(Err(refusal()))),
            Act::Transferred => Some(Event::Transferred(Ok(true))),
            Act::Say(line) => {
                self.commands -= 1;
                Some(match line.command(stage.fsync) {
                    Command::Shutdown(shutdown) => Event::Shutdown(shutdown),
                    command => {
                        self.command = Some(line);
                        Event::Command(0, command)
                    }
                })
            }
            act => {
                self.happens(act);
                None
            }
        };
        match event {
            Some(event) => self.tell(event, log),
            None => Ok(()),
        }
    }

    /// What the machine is not told of.
    fn happens(&mut self, act: Act) {
        match act {
            Act::Kill { applied } => self.die(applied, false),
            Act::PowerLoss { applied } => self.die(applied, true),
            // A request that waits at its door is refused with everybody's.
            Act::SidecarDies => (self.sidecar, self.late) = (Sidecar::Dead, None),
            Act::SidecarUp => self.sidecar = Sidecar::New,
            // From here on the round is a full one: it removes what is there.
            Act::RestoreBegins => (self.dir, self.sidecar) = (Dir::Half, Sidecar::Progress(Mode::Full)),
            Act::RoundSucceeds => {
                if self.sidecar == Sidecar::Progress(Mode::Full) {
                    self.dir = Dir::Sound;
                }
                self.sidecar = Sidecar::Successful;
            }
            Act::RoundFails => self.sidecar = Sidecar::Failed,
            Act::LateStart => self.late_start(),
            Act::LateReading => {
                self.read_status();
                self.late_reading = false;
            }
            Act::Touch => self.dir = Dir::Dirty,
            Act::EtcdReady => self.with_etcd(|etcd| etcd.up = true),
            Act::OrphanEnds => self.end_etcd(false),
            _ => {}
        }
    }

    fn etcd_ends(&mut self, act: Act) -> Event {
        let etcd = self.etcd.expect("only a living etcd ends");
        let status = match etcd.sig {
            _ if act == Act::EtcdEndsBadly => ExitStatus::Exited(2),
            Some(Sig::Kill) => ExitStatus::Signaled(9),
            Some(Sig::Quit) => ExitStatus::Signaled(3),
            Some(Sig::Term) | None => ExitStatus::Signaled(15),
        };
        // Before READY its handler does not stand: the same status, another end.
        self.end_etcd(status == ExitStatus::Signaled(15) && etcd.up);
        Event::ChildExited { status, recent_crashes: 1 }
    }

    fn with_etcd(&mut self, change: impl FnOnce(&mut Etcd)) {
        if let Some(etcd) = &mut self.etcd {
            change(etcd);
        }
    }

    fn end_etcd(&mut self, clean: bool) {
        let Some(etcd) = self.etcd.take() else { return };
        self.unclean = !clean;
        if etcd.own {
            self.dir = match (clean, etcd.fsync) {
                (true, true) => Dir::Sound,
                (true, false) => Dir::Unsynced,
                (false, _) => Dir::Dirty,
            };
        }
    }

    fn late_start(&mut self) {
        if let (Some(mode), Sidecar::New) = (self.late.take(), self.sidecar) {
            self.sidecar = Sidecar::Progress(mode);
        }
    }

    /// The process is gone without a word: what was under way may have been carried out or not.
    fn die(&mut self, applied: bool, power: bool) {
        let Some(state) = self.state.take() else { return };
        if applied {
            if let Some(Call::Start(mode)) = state.call {
                self.late = Some(mode);
            }
            if let Some(job) = &state.disk {
                self.write(job);
            }
        }
        self.forget();
        if power {
            self.end_etcd(false);
            self.sidecar = Sidecar::Dead;
            if self.dir == Dir::Unsynced {
                self.dir = Dir::Dirty;
            }
        }
    }

    /// What ends with a process, whatever ended it.
    fn forget(&mut self) {
        self.late_start();
        self.late_reading = false;
        self.timers = 0;
        self.command = None;
        self.given = false;
        self.with_etcd(|etcd| etcd.orphan = true);
        if let Some(Held::Unready(owner)) = self.held {
            self.held = Some(Held::Directory(Some(owner)));
        }
    }

    fn write(&mut self, job: &Job) {
        match job {
            Job::ConsumeMarker => self.marker = false,
            Job::WriteMarker(_) => self.marker = true,
            Job::WriteHold(hold) => self.file = Some(hold.owner.chars().next()),
            Job::RemoveHold => self.file = None,
            _ => {}
        }
    }

    fn answer(&mut self, act: Act, stage: &Stage) -> Reply {
        let call = self.state.as_ref().and_then(|state| state.call).expect("a call is in flight");
        if self.sidecar == Sidecar::Dead {
            return Reply::Refused;
        }
        match (call, act) {
            (_, Act::AnswerFailed) => Reply::Failed,
            (Call::Config { .. }, Act::AnswerLost) => Reply::Lost,
            (Call::Config { .. }, _) => Reply::Config(cast::plan(ConfigSource::Sidecar, stage.fsync)),
            (Call::Start(mode), Act::RequestLost) => {
                self.late = Some(mode);
                Reply::Lost
            }
            (Call::Start(mode), act) => {
                self.late_start();
                self.late_reading = false;
                if self.sidecar == Sidecar::New {
                    self.sidecar = Sidecar::Progress(mode);
                }
                if act == Act::Answer { Reply::Started } else { Reply::Lost }
            }
            (_, act) => {
                self.unseen = false;
                let word = self.read_status();
                // Only `New` may overtake a `start` (safety.md 4).
                if word != SidecarWord::New {
                    self.late = None;
                }
                if act == Act::Answer { Reply::Word(word) } else { Reply::Lost }
            }
        }
    }

    fn read_status(&mut self) -> SidecarWord {
        match self.sidecar {
            Sidecar::Dead | Sidecar::New => SidecarWord::New,
            Sidecar::Progress(_) => SidecarWord::Progress,
            Sidecar::Successful => {
                self.sidecar = Sidecar::New;
                SidecarWord::Successful
            }
            Sidecar::Failed => {
                self.sidecar = Sidecar::New;
                SidecarWord::Failed
            }
        }
    }

    fn disk(&mut self, works: bool, stage: &Stage) -> Done {
        let job = self.state.as_ref().and_then(|state| state.disk.clone()).expect("a job is outstanding");
        if works {
            self.write(&job);
        }
        let word = || if works { Ok(()) } else { Err("no".to_owned()) };
        let checked = || if works { Ok(()) } else { Err(refusal()) };
        let taken = self.etcd.is_some_and(|etcd| etcd.orphan);
        match job {
            Job::ConsumeMarker => Done::MarkerConsumed(word()),
            Job::WriteMarker(_) => Done::MarkerWritten,
            Job::WriteHold(_) => Done::HoldWritten(word()),
            Job::RemoveHold => Done::HoldRemoved(word()),
            Job::ReadFile => {
                let plan = cast::plan(ConfigSource::File, stage.fsync);
                Done::FileRead(if works { Ok(plan) } else { Err(refusal()) })
            }
            Job::Inspect(_) => Done::Inspected(checked()),
            Job::Prepare(_) => Done::Prepared(checked()),
            Job::Lock(_) => Done::Locked(if works { Ok(!taken) } else { Err("no".to_owned()) }),
            Job::ProbeLocks => Done::Probed(taken),
        }
    }

    /// Feeds the machine and carries out what it wants.
    fn tell(&mut self, event: Event, log: &mut Log) -> Result<(), String> {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let Some(before) = self.state.take() else { return Ok(()) };
            if let Some(log) = log {
                log.push(format!("    event  {event:?}"));
            }
            let call = before.call;
            let forced = forced(&before, &event);
            let (after, effects) = step(before, event);
            self.state = Some(after);
            for effect in effects {
                if let Some(log) = log {
                    log.push(format!("    effect {effect:?}"));
                }
                self.judge(&effect)?;
                match effect {
                    Effect::CancelCall => self.cancelled(call),
                    Effect::Spawn(plan) => {
                        self.spawn(&plan)?;
                        next = Some(Event::Spawned);
                    }
                    Effect::Signal(sig) => self.with_etcd(|etcd| {
                        if etcd.sig != Some(Sig::Kill) {
                            etcd.sig = Some(sig);
                        }
                    }),
                    Effect::Arm(timer, _) | Effect::ArmAtMost(timer, _) => self.timers |= bit(timer),
                    Effect::Disarm(timer) => self.timers &= !bit(timer),
                    Effect::Reply(_, answer) => self.replied(answer.is_ok())?,
                    Effect::Finished { kind, outcome, .. } => self.finished(kind, &outcome, forced),
                    Effect::Call(_)
                    | Effect::Disk(_)
                    | Effect::Guard { .. }
                    | Effect::AwaitTurn
                    | Effect::CancelTurn
                    | Effect::Transfer
                    | Effect::Exit(_) => {}
                }
            }
        }
        if self.state.as_ref().is_some_and(|state| state.exited) {
            self.state = None;
            self.forget();
        }
        if let Some(state) = &mut self.state {
            state.forget_counts();
            self.rested |= at_rest(state);
            self.pledged &= state.phase != Phase::Running;
        }
        Ok(())
    }

    /// A call was given up on; it may be carried out all the same.
    fn cancelled(&mut self, call: Option<Call>) {
        match call {
            Some(Call::Start(mode)) if self.sidecar != Sidecar::Dead => self.late = Some(mode),
            Some(Call::Start(_)) => {}
            Some(Call::Status | Call::Check | Call::Watch) => self.late_reading = true,
            Some(Call::Config { .. }) | None => {}
        }
    }
}

/// The stop that ends in this step was told not to wait.
fn forced(state: &State, event: &Event) -> bool {
    if let Event::Command(_, Command::Stop(stop)) = event {
        return stop.force;
    }
    let gate =
        state.gate.as_ref().is_some_and(|gate| matches!(&gate.command, Command::Stop(stop) if stop.force));
    gate || matches!(state.op.as_ref().map(|op| &op.work), Some(super::super::Work::Stop { terms, .. }) if terms.force)
}

fn at_rest(state: &State) -> bool {
    matches!(state.phase, Phase::Held | Phase::Stopped)
}

fn guarding(state: &State) -> bool {
    let ending = state.child.as_ref().and_then(|child| child.ending.as_ref());
    ending.is_some_and(|ending| ending.stage == EndingStage::Guarding)
}

fn refusal() -> Refusal {
    Refusal { code: Code::Failed, detail: "no".into() }
}
