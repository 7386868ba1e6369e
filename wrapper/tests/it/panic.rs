// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Panics of our own (F4). The product has no hook to cause one, so it runs here in the test's process, with a real
//! child, and the panic comes from what the test hands it: a log that panics, a disk thread without its path.
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use doubles::etcd::{Event, OnSignal, Script};
use doubles::programs;
use etcd_wrapper::cli::{self, Invocation};
use etcd_wrapper::config::EtcdConfig;
use etcd_wrapper::exit::ExitCode;
use etcd_wrapper::member::view::MemberView;
use etcd_wrapper::metrics::Metrics;
use etcd_wrapper::shutdown::Signals;
use etcd_wrapper::supervise::command::{
    self, Command, Guard, Request, RestartRequest, StartRequest, Validation,
};
use etcd_wrapper::supervise::disk::{self, Paths};
use etcd_wrapper::supervise::publish::Chronicle;
use etcd_wrapper::supervise::runtime::{Ended, Parts, Supervisor};
use etcd_wrapper::supervise::state::{Found, Rules, Settings, State};
use etcd_wrapper::supervise::view::{CoreView, Phase};
use etcd_wrapper::{app, telemetry};
use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};

use crate::scene::{LONG, SECOND, Scene, replacing, wait_gone};

/// What the supervisor's neighbours would hold.
struct Neighbours {
    member: watch::Sender<Arc<MemberView>>,
    core: watch::Receiver<CoreView>,
    commands: mpsc::Sender<Request>,
}

/// A supervisor in this scene, held, without a sidecar and without a file to read a configuration from.
fn supervisor(scene: &Scene) -> (Parts, Neighbours) {
    let settings = Settings {
        sidecar: false,
        hold: true,
        restart_on_exit: false,
        marker_on_stop: true,
        grace: SECOND * 5,
        ready_timeout: None,
        rules: Rules::default(),
    };
    let state = State::new(settings, Found { clean_marker: false, hold: None });
    let chronicle = Chronicle::new("e".into(), SystemTime::now());
    let paths = Paths { state_dir: scene.state_dir(), home: scene.home(), config_file: None };
    let (core, core_seen) = watch::channel(chronicle.view(&state, Instant::now()));
    let (member, member_seen) = watch::channel(Arc::default());
    let (commands, requests) = mpsc::channel(8);
    let (disk, completions) = disk::start(paths.clone(), || ()).unwrap();
    let parts = Parts {
        state,
        program: etcd(scene),
        paths,
        sidecar: None,
        signals: Signals::register().unwrap(),
        requests,
        disk,
        completions,
        member: member_seen,
        core,
        steps: broadcast::channel(1).0,
        living: watch::channel(None).0,
        hangup: Arc::new(Notify::new()),
        metrics: Metrics::new(),
        chronicle,
        panicked: Arc::new(Notify::new()),
    };
    (parts, Neighbours { member, core: core_seen, commands })
}

/// The double, told where its script is: the environment that etcd inherits is the test's own here.
fn etcd(scene: &Scene) -> std::path::PathBuf {
    let path = scene.path().join("etcd");
    let (name, script) = scene.stage().environment();
    let double = programs::etcd_double();
    let text = format!("#!/bin/sh\n{name}='{}' exec '{}' \"$@\"\n", script.display(), double.display());
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

impl Neighbours {
    async fn phase(&mut self, phase: Phase) {
        let reached = self.core.wait_for(|core| core.phase == phase);
        drop(tokio::time::timeout(LONG, reached).await.expect("the phase is reached").unwrap());
    }

    fn confirm(&self) {
        let view = MemberView { generation: Some(1), confirmed: true, ..MemberView::default() };
        self.member.send_replace(Arc::new(view));
    }

    async fn command(&self, command: Command) -> command::Answer {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Request { command, reply }).await.unwrap();
        answer.await.unwrap()
    }
}

async fn run(parts: Parts) -> Ended {
    tokio::time::timeout(LONG, Supervisor::run(parts)).await.expect("an end")
}

/// etcd was asked to end, took its time, and ended by itself; nothing vouches for this end.
#[track_caller]
fn closed_in_order(scene: &Scene, etcd: u32) {
    wait_gone(etcd, SECOND);
    assert_eq!(scene.stage().signals(etcd), [15]);
    assert!(scene.stage().records().iter().any(|record| matches!(record.event, Event::Raising { .. })));
    assert_eq!(scene.marker(), None);
}

fn scene() -> Scene {
    Scene::scripted(Script { on_term: OnSignal::takes(SECOND / 2), ..Script::default() })
}

/// A log that panics at one line, on the thread that writes it.
struct Trap(&'static str);

impl tracing::Subscriber for Trap {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let trap = self.0;
        event.record(&mut |_: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            assert!(format!("{value:?}") != trap, "on purpose");
        });
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// The whole wrapper, but for its `main`; a panic at this line of the log.
async fn wrapper_panics_at(scene: &Scene, line: &'static str) {
    let arguments = replacing(&scene.command(), &[&format!("--etcd-path={}", etcd(scene).display())]);
    let arguments: Vec<_> = arguments.get_args().map(ToOwned::to_owned).collect();
    let Ok(Invocation::Start(flags)) = cli::parse(arguments) else { panic!("the scene's flags") };
    // Only for its writer; the trap is what the log goes to.
    let telemetry = telemetry::init(flags.log_filter.clone(), telemetry::Format::Json).unwrap();
    let _trap = tracing::subscriber::set_default(Trap(line));
    let ended = app::run(*flags, Signals::register().unwrap(), &telemetry, Instant::now());
    let code = tokio::time::timeout(LONG, ended).await.expect("an end");
    assert_eq!(code, ExitCode::Failed);
    let (pid, _) = scene.stage().starts()[0];
    closed_in_order(scene, pid);
    let history = scene.history();
    let record = history.last().unwrap();
    assert_eq!((record["code"].as_u64(), record["cause"].as_str()), (Some(1), Some("failed")));
    assert!(record["hint"].as_str().unwrap().contains("panicked"), "{record}");
}

#[tokio::test]
async fn f4_a_panic_of_the_supervisor_itself_stops_etcd_in_order() {
    wrapper_panics_at(&scene(), "etcd says READY").await;
}

#[tokio::test]
async fn f4_a_panic_of_the_member_task_stops_etcd_in_order() {
    wrapper_panics_at(&scene(), "leadership").await;
}

#[tokio::test]
async fn f4_a_panic_of_the_disk_thread_stops_etcd_in_order() {
    let scene = scene();
    let (parts, mut neighbours) = supervisor(&scene);
    let config = scene.config().render(crate::scene::MEMBER, None, false).unwrap();
    let posted = Some(Arc::new(EtcdConfig::parse(config.into_bytes().into()).unwrap()));
    let start = StartRequest {
        posted,
        validation: Validation::None,
        hold: None,
        owner: None,
        force: false,
        if_generation: None,
        reason: String::new(),
    };
    let restart = RestartRequest {
        validation: Validation::Auto,
        // Read from the `--etcd-config-file`, which there is none of: the thread takes that for impossible.
        config_from_sidecar: Some(true),
        grace: None,
        transfer: false,
        guard: Guard::None,
        force: false,
        if_generation: None,
        reason: String::new(),
    };
    let panics = async {
        neighbours.phase(Phase::Held).await;
        neighbours.command(Command::Start(start)).await.unwrap();
        neighbours.phase(Phase::Starting).await;
        neighbours.confirm();
        neighbours.phase(Phase::Running).await;
        // Accepted or not: the thread is gone by its hand.
        drop(neighbours.command(Command::Restart(restart)).await);
    };
    let (ended, ()) = tokio::join!(run(parts), panics);
    assert_eq!((ended.exit.code, ended.exit.cause), (1, "internal"), "{ended:?}");
    let end = ended.etcd.as_ref().expect("etcd's end was waited for");
    assert_eq!((end.signal.as_deref(), end.requested), (Some("SIGTERM"), true));
    closed_in_order(&scene, scene.stage().starts()[0].0);
}
