// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Carries out the machine's effects, one by one, in order.
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    Effect, Event, Living, NotifySocket, Order, Plan, Running, Sig, Signal, Supervisor, Timer, calls, config,
    process,
};
use crate::config::EtcdConfig;
use crate::member::client::Client;
use crate::member::{guard, serial, transfer};
use crate::supervise::command::{Code, Refusal};
use crate::supervise::disk;
use crate::supervise::state::{Job, Verdict};
use crate::supervise::view::Alive;

/// All of a transfer, so that it stays well inside the grace period.
const TRANSFER: Duration = Duration::from_secs(3);
/// Up to so much is added to a backoff, so that members that crashed together do not start together.
const JITTER_PERCENT: u32 = 20;

/// What is asked on the side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    GateGuard,
    EndingGuard,
    Turn,
    Transfer,
}

/// One question: of this kind, the how manyth, about which generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) kind: Kind,
    pub(super) number: u64,
    pub(super) generation: u64,
}

impl Supervisor {
    /// Does one effect; `Spawn` gives rise to an event at once.
    pub(super) fn perform(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Call(call) => {
                self.chronicle.calls(call);
                if let Some(client) = &self.sidecar {
                    self.call = Some(tokio::spawn(calls::perform(client.clone(), call)));
                }
            }
            Effect::CancelCall => {
                if let Some(call) = self.call.take() {
                    call.abort();
                }
            }
            Effect::Disk(job) => return self.order(job),
            Effect::Spawn(plan) => return Some(self.spawn(&plan)),
            Effect::Signal(signal) => self.signal(signal),
            Effect::Arm(timer, after) => {
                self.timers.insert(timer, Instant::now() + jittered(timer, after));
            }
            Effect::ArmAtMost(timer, after) => {
                let at = Instant::now() + after;
                let armed = self.timers.entry(timer).or_insert(at);
                *armed = at.min(*armed);
            }
            Effect::Disarm(timer) => {
                self.timers.remove(&timer);
            }
            Effect::Guard { gate } => self.guard(gate),
            Effect::AwaitTurn => self.await_turn(),
            Effect::CancelTurn => {
                self.forget(Kind::Turn);
                if let Some(turn) = self.turn.take() {
                    turn.abort();
                }
            }
            Effect::Transfer => self.transfer(),
            Effect::Reply(request, answer) => {
                if let Some(reply) = self.replies.remove(&request) {
                    // A caller that hung up has no use for the answer; the command stands.
                    let _ = reply.send(answer);
                }
            }
            Effect::Finished { .. } => {}
            Effect::Exit(exit) => self.ended = Some(exit),
        }
        None
    }

    fn order(&mut self, job: Job) -> Option<Event> {
        let config = match &job {
            Job::Inspect(plan) | Job::Prepare(plan) => self.plan_config(plan),
            _ => None,
        };
        let done = disk::failed(&job);
        (!self.disk.order(Order { job, config })).then_some(Event::Disk(done))
    }

    fn spawn(&mut self, plan: &Plan) -> Event {
        match self.try_spawn(plan) {
            Ok(event) => event,
            Err(detail) => Event::SpawnFailed(detail),
        }
    }

    fn try_spawn(&mut self, plan: &Plan) -> Result<Event, String> {
        let config =
            self.plan_config(plan).ok_or("the configuration to start is gone: a defect of the wrapper")?;
        let lock = self.lock.clone().ok_or("etcd.lock is not ours: a defect of the wrapper")?;
        let socket = NotifySocket::open().map_err(|error| format!("open the notify socket: {error}"))?;
        let began = Instant::now();
        let child = process::spawn(&process::Launch {
            program: &self.program,
            args: &self.arguments,
            notify_socket: socket.address(),
            lock: std::os::fd::AsFd::as_fd(&*lock),
        })
        .map_err(|error| error.to_string())?;
        let generation = self.state.as_ref().map_or(0, |state| state.generation) + 1;
        let pid = child.pid();
        let took = began.elapsed();
        info!(pid, generation, digest = %plan.digest, data_dir = %plan.data_dir.display(), ?took, "etcd spawned");
        self.child = Some(Running { child, socket, listening: true, ready_seen: false, confirmed: false });
        self.chronicle.spawned(Living {
            generation,
            pid,
            started_at: SystemTime::now(),
            ready_since: None,
            config: config.clone(),
            source: plan.source,
        });
        self.living.send_replace(Some(Alive {
            generation,
            pid,
            config,
            posted: plan.is_posted(),
            ready_seen: false,
        }));
        Ok(Event::Spawned)
    }

    fn signal(&mut self, signal: Sig) {
        let Some(running) = &self.child else { return };
        let (number, name) = match signal {
            Sig::Term => (Signal::TERM, "SIGTERM"),
            Sig::Quit => (Signal::QUIT, "SIGQUIT"),
            Sig::Kill => (Signal::KILL, "SIGKILL"),
        };
        info!(pid = running.child.pid(), signal = name, "to etcd");
        if let Err(error) = running.child.signal(number) {
            // It has ended a moment ago; its end is on the way to us.
            warn!(%error, signal = name, "etcd does not take the signal");
        }
    }

    /// Runs `ask` on the side; its event comes by the inbox, unless it has been asked anew or another generation lives
    /// by then.
    fn ask(
        &mut self,
        kind: Kind,
        ask: impl Future<Output = Event> + Send + 'static,
    ) -> tokio::task::JoinHandle<()> {
        let number = self.forget(kind);
        let question = Question { kind, number, generation: self.state().generation };
        let outbox = self.outbox.clone();
        tokio::spawn(async move {
            let _ = outbox.send((question, ask.await));
        })
    }

    /// Whatever was asked of this kind counts no more; returns the next number.
    fn forget(&mut self, kind: Kind) -> u64 {
        let number = self.questions.entry(kind).or_default();
        *number += 1;
        *number
    }

    fn guard(&mut self, gate: bool) {
        let client = self.member.borrow().client.clone();
        let kind = if gate { Kind::GateGuard } else { Kind::EndingGuard };
        self.ask(kind, async move {
            let sight = match &client {
                Some(client) => guard::look(client, &mut client.scraper()).await,
                None => Err("etcd has not answered yet".to_owned()),
            };
            let verdict = match guard::quorum(&sight) {
                guard::Verdict::Ok => Verdict::Safe,
                guard::Verdict::WouldBreak(detail) => {
                    Verdict::Refused(Refusal { code: Code::WouldBreakQuorum, detail })
                }
                guard::Verdict::Unknown(detail) => {
                    Verdict::Refused(Refusal { code: Code::GuardUnknown, detail })
                }
            };
            Event::Guard { gate, verdict }
        });
    }

    fn await_turn(&mut self) {
        let client = self.member.borrow().client.clone();
        let election_timeout =
            self.living.borrow().as_ref().map_or(Duration::ZERO, |alive| alive.config.election_timeout);
        self.turn = Some(self.ask(Kind::Turn, async move {
            let Some(client) = client else {
                let detail = "etcd has not answered yet".to_owned();
                return Event::Turn(Err(Refusal { code: Code::GuardUnknown, detail }));
            };
            Event::Turn(wait_for_turn(&client, election_timeout).await)
        }));
    }

    fn transfer(&mut self) {
        let (client, leads) = {
            let view = self.member.borrow();
            (view.client.clone(), view.leadership.as_ref().is_some_and(|leadership| leadership.is_leader))
        };
        self.ask(Kind::Transfer, async move {
            let Some(client) = client.filter(|_| leads) else { return Event::Transferred(Ok(false)) };
            Event::Transferred(match transfer::transfer(&client, TRANSFER).await {
                Ok(to) => {
                    info!(to = format!("{to:x}"), "leadership handed over");
                    Ok(true)
                }
                Err(error) => {
                    let code = match error {
                        transfer::TransferError::NoCandidate => Code::NoCandidate,
                        _ => Code::Failed,
                    };
                    Err(Refusal { code, detail: error.to_string() })
                }
            })
        });
    }
}

/// How etcd is called with this configuration.
pub(super) fn arguments(
    config: &EtcdConfig,
    version: Option<&str>,
    written: &Path,
) -> Result<Vec<OsString>, String> {
    match config::launch(config, version).map_err(|error| error.to_string())? {
        config::Launch::ConfigFile => Ok(vec!["--config-file".into(), written.as_os_str().to_owned()]),
        config::Launch::Flags(flags) => Ok(flags.into_iter().map(OsString::from).collect()),
    }
}

fn jittered(timer: Timer, after: Duration) -> Duration {
    if timer != Timer::Backoff {
        return after;
    }
    let mut byte = [0_u8; 1];
    // Without randomness there is no jitter, which is no reason to fail.
    let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut byte);
    after + after * u32::from(byte[0]) / 255 * JITTER_PERCENT / 100
}

/// Looks until it is this member's turn, or will not be.
async fn wait_for_turn(client: &Client, election_timeout: Duration) -> Result<(), Refusal> {
    let refusal = |code, detail| Refusal { code, detail };
    let began = Instant::now();
    let mut scraper = client.scraper();
    let mut sight = guard::look(client, &mut scraper).await;
    let mut serial = match &sight {
        Ok(sight) => serial::Serial::new(sight, election_timeout),
        Err(detail) => return Err(refusal(Code::GuardUnknown, detail.clone())),
    };
    loop {
        match serial.observe(&sight, began.elapsed()) {
            serial::Turn::Go => return Ok(()),
            serial::Turn::Failed(detail) => return Err(refusal(Code::WouldBreakQuorum, detail)),
            serial::Turn::Wait { .. } => tokio::time::sleep(serial::LOOK_INTERVAL).await,
        }
        sight = guard::look(client, &mut scraper).await;
    }
}
