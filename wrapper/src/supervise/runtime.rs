// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The task that owns the machine: turns what happens into events, steps, publishes, and carries out the effects. The
//! only place where time, child, disk and sidecar meet; every decision is the machine's.
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use tokio::sync::{Mutex, broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use super::command::{Answer, Code, Command, Refusal, Request};
use super::disk::{Completion, Disk, Order, Paths};
use super::lock::StateLock;
use super::notify::NotifySocket;
use super::process::{self, Child};
use super::publish::{Chronicle, Living};
use super::state::{self, Effect, Event, Exit, Plan, RequestId, Sig, State, Timer};
use super::view::{CoreView, ExitStatus, Phase};
use crate::bootstrap::calls::{self, Answered};
use crate::bootstrap::sidecar::SidecarClient;
use crate::config::{self, EtcdConfig};
use crate::exit::record::EtcdEnd;
use crate::member::view::MemberView;
use crate::metrics::Metrics;
use crate::shutdown;

mod arrivals;
mod effects;
mod parts;
mod reminder;

use arrivals::{child_end, joined, said_ready};
use effects::{Kind, Question};
pub use parts::{Ended, Parts};
use reminder::Reminder;

/// Crashes within this time count against the budget.
const CRASH_WINDOW: Duration = Duration::from_secs(600);
/// Commands that wait while one is being admitted.
const QUEUE: usize = 64;
/// How long a disk job may take once the process is to end.
const DISK_LIMIT: Duration = Duration::from_secs(3);
/// How often the loop turns when nothing happens: what `/livez` looks at.
const TICK: Duration = Duration::from_secs(1);

/// The supervisor. Run it on the main thread: the child's parent-death signal belongs to the thread that forks.
#[derive(Debug)]
pub struct Supervisor {
    state: Option<State>,
    program: std::path::PathBuf,
    paths: Paths,
    sidecar: Option<Arc<Mutex<SidecarClient>>>,
    call: Option<JoinHandle<Answered>>,
    requests: mpsc::Receiver<Request>,
    queue: VecDeque<Request>,
    replies: HashMap<RequestId, oneshot::Sender<Answer>>,
    next_request: RequestId,
    disk: Disk,
    completions: mpsc::UnboundedReceiver<Completion>,
    /// A configuration is prepared, but etcd's version, on which its start hangs, is not known yet.
    prepared: Option<state::Done>,
    /// False: the disk thread has panicked; its closed channel is always ready, and is not listened to again.
    disk_lives: bool,
    disk_limit: Option<Instant>,
    version: Option<Option<String>>,
    /// The configuration whose unknown keys were named last: a restart with the same one says nothing new.
    told_of: Option<Arc<str>>,
    /// One that went to etcd before the version was known: its unknown keys are named once it is.
    untold: Option<Arc<EtcdConfig>>,
    member: watch::Receiver<Arc<MemberView>>,
    core: watch::Sender<CoreView>,
    steps: broadcast::Sender<Arc<CoreView>>,
    living: watch::Sender<Option<super::view::Alive>>,
    metrics: Metrics,
    chronicle: Chronicle,
    reminder: Reminder,
    timers: BTreeMap<Timer, Instant>,
    configs: HashMap<Arc<str>, Arc<EtcdConfig>>,
    arguments: Vec<OsString>,
    lock: Option<Arc<StateLock>>,
    child: Option<Running>,
    crashes: VecDeque<Instant>,
    /// Answers of guard, turn and transfer.
    inbox: mpsc::UnboundedReceiver<(Question, Event)>,
    outbox: mpsc::UnboundedSender<(Question, Event)>,
    /// The newest question of each kind; an answer to an older one is dropped.
    questions: BTreeMap<Kind, u64>,
    turn: Option<JoinHandle<()>>,
    phase_before_exit: Phase,
    etcd_end: Option<EtcdEnd>,
    ended: Option<Exit>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    socket: NotifySocket,
    /// The notify socket is listened to: until READY has come, or the socket broke.
    listening: bool,
    ready_seen: bool,
    confirmed: bool,
}

/// What woke the loop.
enum Woken {
    Signal(shutdown::Event),
    ChildEnded(ExitStatus),
    Disk(Option<Completion>),
    Sidecar(Result<Answered, tokio::task::JoinError>),
    Ready(std::io::Result<()>),
    Member,
    Timer(Timer),
    Request(Request),
    DiskTooSlow,
    Inbox(Question, Event),
    Version(Option<String>),
    Panicked,
    Tick,
}

impl Supervisor {
    /// Runs until the process is to end.
    pub async fn run(parts: Parts) -> Ended {
        let Parts { mut signals, hangup, panicked, .. } = parts;
        let (outbox, inbox) = mpsc::unbounded_channel();
        let mut this = Self {
            state: Some(parts.state),
            program: parts.program,
            paths: parts.paths,
            sidecar: parts.sidecar.map(|client| Arc::new(Mutex::new(client))),
            call: None,
            requests: parts.requests,
            queue: VecDeque::new(),
            replies: HashMap::new(),
            next_request: 1,
            disk: parts.disk,
            completions: parts.completions,
            prepared: None,
            disk_lives: true,
            disk_limit: None,
            version: None,
            told_of: None,
            untold: None,
            member: parts.member,
            core: parts.core,
            steps: parts.steps,
            living: parts.living,
            metrics: parts.metrics,
            chronicle: parts.chronicle,
            reminder: Reminder::new(Instant::now()),
            timers: BTreeMap::new(),
            configs: HashMap::new(),
            arguments: Vec::new(),
            lock: None,
            child: None,
            crashes: VecDeque::new(),
            inbox,
            outbox,
            questions: BTreeMap::new(),
            turn: None,
            phase_before_exit: Phase::Initializing,
            etcd_end: None,
            ended: None,
        };
        let program = this.program.clone();
        let version = process::binary::etcd_version(&program);
        tokio::pin!(version);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        this.feed(Event::Begin);
        loop {
            if let Some(exit) = this.ended.take() {
                return this.end(exit);
            }
            let woken = tokio::select! {
                biased;
                event = signals.next() => Woken::Signal(event),
                () = panicked.notified() => Woken::Panicked,
                woken = this.next() => woken,
                version = &mut version, if this.version.is_none() => Woken::Version(version),
                _ = tick.tick() => Woken::Tick,
            };
            if let Woken::Signal(shutdown::Event::Reload) = woken {
                hangup.notify_one();
            }
            this.on_woken(woken);
            this.core.send_if_modified(|view| {
                view.ticked = std::time::Instant::now();
                false
            });
        }
    }

    /// Waits for whatever comes next; nothing is lost when it is dropped while waiting.
    async fn next(&mut self) -> Woken {
        let (timer, at) = match self.timers.iter().min_by_key(|(_, at)| **at) {
            Some((timer, at)) => (Some(*timer), *at),
            None => (None, Instant::now()),
        };
        let takes = self.queue.len() < QUEUE;
        let disk_limit = self.disk_limit;
        let (child, socket) = match &mut self.child {
            Some(running) => {
                let pid = running.child.pid();
                let socket = running.listening.then_some((&mut running.socket, pid));
                (Some(&mut running.child), socket)
            }
            None => (None, None),
        };
        tokio::select! {
            biased;
            status = child_end(child) => Woken::ChildEnded(status),
            result = said_ready(socket) => Woken::Ready(result),
            completion = self.completions.recv(), if self.disk_lives => Woken::Disk(completion),
            answer = joined(self.call.as_mut()) => Woken::Sidecar(answer),
            Ok(()) = self.member.changed() => Woken::Member,
            Some((question, event)) = self.inbox.recv() => Woken::Inbox(question, event),
            () = tokio::time::sleep_until(at), if timer.is_some() => Woken::Timer(timer.expect("guarded")),
            () = tokio::time::sleep_until(disk_limit.unwrap_or(at)), if disk_limit.is_some() => Woken::DiskTooSlow,
            Some(request) = self.requests.recv(), if takes => Woken::Request(request),
        }
    }

    fn on_woken(&mut self, woken: Woken) {
        match woken {
            Woken::Signal(shutdown::Event::Shutdown(shutdown)) => self.feed(Event::Shutdown(shutdown)),
            Woken::Signal(shutdown::Event::Force) => {
                // The stream counts by itself; the machine forces on the second it hears of.
                self.feed(Event::Shutdown(super::command::Shutdown::Terminate));
            }
            Woken::Signal(shutdown::Event::Reload) | Woken::Tick => {
                let phase = self.chronicle_phase();
                self.reminder.remind(phase, &self.chronicle, Instant::now());
            }
            Woken::ChildEnded(status) => self.on_child_ended(status),
            Woken::Disk(Some(completion)) => self.on_disk(completion),
            Woken::Disk(None) => {
                error!("the disk thread panicked");
                self.disk_lives = false;
                self.give_up_on_disk();
                self.feed(Event::Panicked);
            }
            Woken::Panicked => self.feed(Event::Panicked),
            Woken::Sidecar(answer) => self.on_answer(answer),
            Woken::Ready(result) => self.on_ready(result),
            Woken::Member => self.on_member(),
            Woken::Timer(timer) => {
                self.timers.remove(&timer);
                self.feed(Event::Timer(timer));
            }
            Woken::Request(request) => self.on_request(request),
            Woken::DiskTooSlow => self.give_up_on_disk(),
            Woken::Inbox(question, event) => {
                let newest = self.questions.get(&question.kind) == Some(&question.number);
                if newest && question.generation == self.state().generation {
                    self.feed(event);
                }
            }
            Woken::Version(version) => self.on_version(version),
        }
        while self.state().takes_commands() {
            let Some(request) = self.queue.pop_front() else { break };
            self.command(request);
        }
    }

    fn state(&self) -> &State {
        self.state.as_ref().expect("taken only within feed")
    }

    fn chronicle_phase(&self) -> Phase {
        self.state().phase.name()
    }

    /// One event, and those that its effects give rise to at once.
    fn feed(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            debug!(?event, "event");
            let state = self.state.take().expect("taken only within feed");
            let (state, effects) = state::step(state, event);
            self.state = Some(state);
            // What readers see comes first: a leader is announced as leaving before its SIGTERM.
            self.note_finished(&effects);
            self.publish();
            for effect in effects {
                if let Some(next) = self.perform(effect) {
                    events.push_front(next);
                }
            }
        }
    }

    fn note_finished(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Finished { id, kind, outcome } = effect {
                info!(operation = id, ?kind, ?outcome, "operation finished");
                let generation = self.state().generation;
                self.chronicle.finished(*id, *kind, outcome, generation, SystemTime::now());
            }
        }
    }

    fn publish(&mut self) {
        let state = self.state.as_ref().expect("taken only within feed");
        let left = self.chronicle.follow(state, SystemTime::now());
        let view = self.chronicle.view(state, std::time::Instant::now());
        if let Some(left) = left {
            let phase = state.phase.name();
            if phase == Phase::Exiting {
                self.phase_before_exit = left;
            }
            let took = self.reminder.changed(Instant::now());
            info!(phase = phase.as_str(), from = left.as_str(), took = ?took, "phase");
            if let Some(reason) = &view.hold_reason {
                warn!(reason, "held: nothing is started until somebody asks for it");
            }
        }
        // A dying disk must not keep the process: from the shutdown on a job has this long.
        self.disk_limit = match (&state.exit, &state.disk) {
            (Some(_), Some(_)) => self.disk_limit.or(Some(Instant::now() + DISK_LIMIT)),
            _ => None,
        };
        // Without a publisher nobody hears of it, and nobody has to.
        let _ = self.steps.send(Arc::new(view.clone()));
        self.core.send_replace(view);
    }

    fn on_request(&mut self, request: Request) {
        if matches!(request.command, Command::Shutdown(_))
            || (self.state().takes_commands() && self.queue.is_empty())
        {
            self.command(request);
        } else {
            self.queue.push_back(request);
        }
    }

    fn command(&mut self, request: Request) {
        let id = self.next_request;
        self.next_request += 1;
        if let Command::Start(start) = &request.command
            && let Some(posted) = &start.posted
        {
            self.remember(posted.clone());
        }
        self.replies.insert(id, request.reply);
        self.feed(Event::Command(id, request.command));
    }

    fn end(mut self, exit: Exit) -> Ended {
        for (_, reply) in self.replies.drain() {
            let detail = "the wrapper is shutting down".to_owned();
            let _ = reply.send(Err(Refusal { code: Code::ShuttingDown, detail }));
        }
        let generation = self.state().generation;
        Ended { exit, phase: self.phase_before_exit, generation, etcd: self.etcd_end }
    }

    fn plan_config(&self, plan: &Plan) -> Option<Arc<EtcdConfig>> {
        self.configs.get(&plan.digest).cloned()
    }
}
