// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Puts the stages together for `start-etcd`: opens the port, starts each stage's task, runs the supervisor to its end,
//! and leaves with its exit code. The only place that knows all stages; decides nothing about etcd.
mod beginning;
mod target;
mod volume;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::FutureExt;
use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use crate::api::events::webhook::Webhook;
use crate::api::listener::{ServerTls, TlsNow};
use crate::api::{self, Api, Views, auth::Policy};
use crate::bootstrap::sidecar::SidecarClient;
use crate::cli::notify_url::NotifyUrl;
use crate::cli::{Bootstrap, OnEtcdExit, StartFlags};
use crate::exit::record::{End, ExitRecord, TERMINATION_LOG, write_termination_log};
use crate::exit::{ExitCode, history};
use crate::metrics::Metrics;
use crate::shutdown::Signals;
use crate::supervise::disk::{self, Paths};
use crate::supervise::process::{self, binary, reaper::Reaper};
use crate::supervise::publish::Chronicle;
use crate::supervise::runtime::{Ended, Parts, Supervisor};
use crate::supervise::state::{Found, Rules, Settings, State};
use crate::supervise::view;
use crate::telemetry::Telemetry;
use crate::tls::{self, reload, server::SelfSigned};

/// Commands that may wait for the supervisor.
const COMMANDS: usize = 32;
/// Views of the supervisor that wait for the publisher, which is run after every few.
const STEPS: usize = 64;
/// How long the record may take to reach the disk.
const RECORD: Duration = Duration::from_millis(500);
/// How long the last lines may take to leave.
const FLUSH: Duration = Duration::from_millis(500);
/// How long whoever is notified may take to hear of the end.
const LAST_NOTIFICATIONS: Duration = Duration::from_millis(500);

/// Why the process cannot begin, with its exit code.
#[derive(Debug)]
pub struct Failure {
    /// What the process ends with.
    pub code: ExitCode,
    /// For people: what was tried, on what, what to do.
    pub detail: String,
}

fn failure(code: ExitCode, detail: impl ToString) -> Failure {
    Failure { code, detail: detail.to_string() }
}

/// Runs a member until it is told to end, or cannot go on. Call it on the main thread, in a current-thread runtime.
pub async fn run(flags: StartFlags, signals: Signals, telemetry: &Telemetry, began: Instant) -> ExitCode {
    let paths = paths(&flags);
    let ended = start(&flags, paths.clone(), signals).await;
    let (code, detail, phase, generation, etcd) = match ended {
        Ok(Ended { exit, phase, generation, etcd }) => (
            ExitCode::of(&exit),
            Some(exit.detail).filter(|detail| !detail.is_empty()),
            phase,
            generation,
            etcd,
        ),
        Err(failure) => (failure.code, Some(failure.detail), view::Phase::Initializing, 0, None),
    };
    let end = End { code, phase, generation, uptime: began.elapsed(), etcd, error: detail };
    let record = ExitRecord::new(end, SystemTime::now());
    leave_record(record.clone(), paths.state_dir);
    telemetry.write_line(&record.line());
    telemetry.flush(FLUSH);
    code
}

/// The record of flags that make no sense: there is no log yet, and no state directory, only the termination log.
pub fn leave_usage_record(error: String, began: Instant) {
    let (code, phase, uptime) = (ExitCode::Usage, view::Phase::Initializing, began.elapsed());
    let end = End { code, phase, generation: 0, uptime, etcd: None, error: Some(error) };
    // What is wrong stands on stderr already.
    let _ = write_termination_log(Path::new(TERMINATION_LOG), &ExitRecord::new(end, SystemTime::now()));
}

/// Writes the record where it outlives us, on a thread: a disk that hangs must not keep us from ending.
fn leave_record(record: ExitRecord, state_dir: PathBuf) {
    let (done, written) = std::sync::mpsc::sync_channel(1);
    let write = move || {
        if let Err(error) = write_termination_log(Path::new(TERMINATION_LOG), &record) {
            warn!(%error, "the termination log was not written");
        }
        if let Err(error) = history::append(&state_dir, &record) {
            warn!(%error, "the exit history was not written");
        }
        // Nobody may be waiting any more.
        let _ = done.send(());
    };
    let started = std::thread::Builder::new().name("record".into()).spawn(write);
    if started.is_err() || written.recv_timeout(RECORD).is_err() {
        warn!("the exit history was not written in time");
    }
}

fn paths(flags: &StartFlags) -> Paths {
    let config_file = match &flags.bootstrap {
        Bootstrap::File(path) => Some(path.clone()),
        Bootstrap::Sidecar(_) => None,
    };
    // Without a home (no HOME, as under a bare init) the state directory is the one place that is surely writable.
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let home = home.filter(|home| home.is_absolute()).unwrap_or_else(|| flags.state_dir.clone());
    Paths { state_dir: flags.state_dir.clone(), home, config_file }
}

async fn start(flags: &StartFlags, paths: Paths, mut signals: Signals) -> Result<Ended, Failure> {
    // The port comes first: a probe that finds it closed learns nothing.
    let listener = api::listener::bind(flags.listen_address, flags.wrapper_port)
        .map_err(|error| failure(ExitCode::BindFailed, error))?;
    let address = listener.local_addr().map_err(|error| failure(ExitCode::BindFailed, error))?;
    info!(%address, version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "etcd-wrapper listens");
    if address.port() != 9095 {
        warn!(
            port = address.port(),
            "the sidecar's own stop call goes to port 9095 and will not reach this port"
        );
    }

    let program = binary::resolve_etcd(flags.etcd_path.as_deref())
        .map_err(|error| failure(ExitCode::BootstrapFailed, error))?;
    let tls_flags = tls_flags(flags);
    tls::check::flags(&tls_flags).map_err(|error| failure(ExitCode::BootstrapFailed, error))?;
    let sidecar = match &flags.bootstrap {
        Bootstrap::File(_) => None,
        Bootstrap::Sidecar(sidecar) => Some(
            SidecarClient::new(sidecar.address.clone(), sidecar.ca.as_deref())
                .map_err(|error| failure(ExitCode::BootstrapFailed, error))?,
        ),
    };
    let reaper = Reaper::if_needed()
        .map_err(|error| failure(ExitCode::Failed, format!("watch for orphans as PID 1: {error}")))?;

    // What is seen until the state directory has been read.
    let blank = State::new(settings(flags), Found { clean_marker: false, hold: None });
    let chronicle = Chronicle::new(epoch(), SystemTime::now());
    let metrics = Metrics::new();
    let webhooks = webhooks(flags, &metrics)?;
    let (core, core_seen) = watch::channel(chronicle.view(&blank, Instant::now()));
    let (steps, steps_seen) = broadcast::channel(STEPS);
    let (living, living_seen) = watch::channel(None);
    let (member, member_seen) = watch::channel(Arc::default());
    let (commands, mut requests) = mpsc::channel(COMMANDS);
    let (closing, closing_seen) = watch::channel(false);
    let hangup = Arc::new(Notify::new());

    let (reloader, tls_seen) = reload::Reloader::new(tls_flags, reload::EVERY, living_seen.clone());
    let views = Views { core: core_seen.clone(), member: member_seen.clone(), tls: tls_seen.view.clone() };
    let volume = volume::watch(core_seen.clone(), paths.state_dir.clone())
        .map_err(|error| failure(ExitCode::Failed, format!("start a thread: {error}")))?;
    let (publisher, published) = api::publisher::Publisher::new(views.clone(), metrics.clone(), volume);
    let publisher = publisher.with_steps(steps_seen);
    let notified = published.clone();
    let api = Arc::new(Api::new(
        api_settings(flags),
        views,
        published,
        commands,
        metrics.clone(),
        closing_seen.clone(),
    ));
    let (loaded, own) = (tls_seen.server.clone(), Arc::new(SelfSigned::new(host_names(flags))));
    let server_tls: Arc<TlsNow> = Arc::new(move || ServerTls::of(loaded.borrow().clone(), &own));
    let (following, targets) = target::follow(living_seen, tls_seen.client.clone(), core_seen.clone(), flags);

    let panicked = Arc::new(Notify::new());
    if let Some(reaper) = reaper {
        watched("reaper", &panicked, async move { match reaper.run().await {} });
    }
    watched("target", &panicked, following);
    let prober = crate::member::Settings {
        status_interval: flags.status_interval,
        readiness_interval: flags.readiness_interval,
    };
    watched("tls", &panicked, reloader.run(hangup.clone()));
    watched("publisher", &panicked, publisher.run());
    watched("member", &panicked, crate::member::run(targets, prober, member));
    let limits = api::listener::Limits::of_this_process();
    let serving =
        watched("listener", &panicked, api::listener::serve(listener, api, server_tls, closing_seen, limits));

    let notifying: Vec<_> = webhooks
        .into_iter()
        .map(|webhook| watched("webhook", &panicked, webhook.run(notified.clone(), closing.subscribe())))
        .collect();

    let closed = async |ended| {
        // Answers under way (the 200 of a `/stop` above all) leave before the process does.
        closing.send_replace(true);
        // A panic of one was told by who watches it.
        let told = tokio::time::timeout(LAST_NOTIFICATIONS, futures_util::future::join_all(notifying));
        let _ = tokio::join!(serving, told);
        ended
    };

    let (tell, looked) = oneshot::channel();
    let state_dir = paths.state_dir.clone();
    // Nobody may be waiting any more.
    let look = move || drop(tell.send(beginning::look(&state_dir)));
    let (disk, completions) = disk::start(paths.clone(), look)
        .map_err(|error| failure(ExitCode::Failed, format!("start a thread: {error}")))?;
    let began = beginning::wait(looked, &mut signals, &mut requests, &core, &panicked).await;
    let found = match began {
        Ok(Ok(found)) => found,
        Ok(Err(ended)) => return closed(Ok(ended)).await,
        Err(failure) => return closed(Err(failure)).await,
    };
    let state = State::new(settings(flags), found);
    let grace = flags.grace_period;
    let lives = living.subscribe();
    let supervisor = Supervisor::run(Parts {
        state,
        program,
        paths,
        sidecar,
        signals,
        requests,
        disk,
        completions,
        member: member_seen,
        core,
        steps,
        living,
        hangup,
        metrics,
        chronicle,
        panicked,
    });
    let ended = match AssertUnwindSafe(supervisor).catch_unwind().await {
        Ok(ended) => ended,
        Err(_) => return Err(stop_after_panic(&lives, grace)),
    };
    closed(Ok(ended)).await
}

/// The supervisor itself panicked, so nobody owns etcd any more: without this the parent-death signal would kill it hard.
fn stop_after_panic(lives: &watch::Receiver<Option<view::Alive>>, grace: Duration) -> Failure {
    let pid = lives.borrow().as_ref().map(|alive| alive.pid);
    let how = match pid.map(|pid| process::end_abandoned(pid, grace)) {
        None => "there was no etcd",
        Some(true) => "etcd ended within the grace period",
        Some(false) => "etcd had to be killed",
    };
    failure(ExitCode::Failed, format!("the supervisor panicked: a defect of the wrapper; {how}"))
}

/// A stage's task: when it panics the supervisor hears of it and stops etcd in order (F4). The handle waits for its end.
fn watched(
    name: &'static str,
    panicked: &Arc<Notify>,
    task: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let panicked = panicked.clone();
    let task = tokio::spawn(task);
    tokio::spawn(async move {
        if let Err(error) = task.await {
            error!(task = name, %error, "a task of the wrapper ended");
            panicked.notify_one();
        }
    })
}

fn settings(flags: &StartFlags) -> Settings {
    Settings {
        sidecar: matches!(flags.bootstrap, Bootstrap::Sidecar(_)),
        hold: flags.hold,
        restart_on_exit: flags.on_etcd_exit == OnEtcdExit::Restart,
        marker_on_stop: flags.clean_marker_on_stop,
        grace: flags.grace_period,
        ready_timeout: flags.etcd_ready_timeout,
        rules: Rules::default(),
    }
}

fn webhooks(flags: &StartFlags, metrics: &Metrics) -> Result<Vec<Webhook>, Failure> {
    let webhook = |url: &NotifyUrl| {
        Webhook::new(url.clone(), flags.notify_ca.as_deref(), metrics.clone())
            .map_err(|error| failure(ExitCode::BootstrapFailed, error))
    };
    flags.notify.iter().map(webhook).collect()
}

fn tls_flags(flags: &StartFlags) -> reload::TlsFlags {
    let sidecar_ca = match &flags.bootstrap {
        Bootstrap::Sidecar(sidecar) => sidecar.ca.clone(),
        Bootstrap::File(_) => None,
    };
    let client = flags.etcd_client_pair.as_ref().map(|pair| (pair.cert.clone(), pair.key.clone()));
    reload::TlsFlags { client, sidecar_ca }
}

fn api_settings(flags: &StartFlags) -> api::Settings {
    api::Settings {
        policy: Policy {
            control_loopback: flags.control_loopback,
            control_identities: flags.control_identities.clone(),
            allow_remote_stop: flags.allow_remote_stop,
        },
        host_names: host_names(flags),
        revision: option_env!("ETCD_WRAPPER_REVISION"),
    }
}

/// Names we go by: `--etcd-server-name` and the pod's host name.
fn host_names(flags: &StartFlags) -> Vec<String> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    flags.etcd_server_name.iter().cloned().chain(Some(host).filter(|host| !host.is_empty())).collect()
}

/// Six hex digits, new for every process: positions of another one are told apart by it.
fn epoch() -> String {
    let mut bytes = [0_u8; 3];
    if ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes).is_err() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        bytes.copy_from_slice(&now.subsec_nanos().to_be_bytes()[1..]);
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn f4_a_task_that_panics_is_told_and_one_that_ends_is_not() {
        let panicked = Arc::new(Notify::new());
        watched("quiet", &panicked, async {}).await.unwrap();
        watched("loud", &panicked, async { panic!("on purpose") }).await.unwrap();
        // One permit is there by now, and only one.
        tokio::time::timeout(Duration::ZERO, panicked.notified()).await.unwrap();
        tokio::time::timeout(Duration::ZERO, panicked.notified()).await.unwrap_err();
    }
}
