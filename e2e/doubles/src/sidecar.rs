// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A double of the sidecar (etcd-backup-restore): the part of its HTTP contract that etcd-wrapper meets, faithful
//! by default, and faulty where a script says so. Lives on a thread of its own, so plain tests can use it. Never
//! restores anything: that is the real one's alone.
mod backing;
mod control;
mod core;
mod exchange;
mod log;
mod render;
mod reply;
mod script;
mod server;
mod stop_call;
mod tls;

#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;

pub use self::backing::{Backing, Mode, Work};
pub use self::core::LockClash;
pub use self::log::{Call, Sent};
pub use self::render::ConfigMap;
pub use self::script::{End, Plan, Reply, Route, Script, Status};
pub use self::stop_call::StopCall;

use self::core::{ConfigSource, Core};
use self::log::Log;
use self::reply::Queues;
use self::server::{Server, Shared};
use self::tls::Tls;
use crate::ports::ReservedPort;
use crate::span::Span;
use crate::wait::{self, Poll};

/// What a double shall be, before it runs.
#[derive(Clone, Debug)]
pub struct Setup {
    script: Script,
    config: ConfigSource,
    member: String,
    data_dir: Option<PathBuf>,
    addr: SocketAddr,
    pems: Option<(String, String)>,
    files: Option<(PathBuf, PathBuf)>,
    control: bool,
    backing: Option<Arc<dyn Backing>>,
}

/// A double that owns its port until it is dropped, running or not.
#[derive(Debug)]
pub struct Sidecar {
    setup: Setup,
    /// Nobody else can get the port while the double is stopped.
    port: ReservedPort,
    log: Arc<Log>,
    tls: Option<Arc<Tls>>,
    shared: Arc<Shared>,
    server: Option<Server>,
    /// Clashes of the processes before the last restart.
    earlier_clashes: Vec<LockClash>,
}

impl Setup {
    /// Adds to the faithful behaviour what the script says; its settings replace earlier ones.
    #[must_use]
    pub fn script(mut self, script: Script) -> Self {
        self.script = script;
        self
    }

    /// Serves HTTPS with this pair.
    #[must_use]
    pub fn tls(mut self, cert_pem: &str, key_pem: &str) -> Self {
        self.pems = Some((cert_pem.into(), key_pem.into()));
        self
    }

    /// Serves HTTPS with the pair in these files, read again when they change.
    #[must_use]
    pub fn tls_files(mut self, cert: &Path, key: &Path) -> Self {
        self.files = Some((cert.into(), key.into()));
        self
    }

    /// Where to listen; 127.0.0.1 and a free port otherwise.
    #[must_use]
    pub fn listen(mut self, addr: SocketAddr) -> Self {
        self.addr = addr;
        self
    }

    /// How long the status stays `Progress` after a start.
    #[must_use]
    pub fn validation_time(mut self, span: Duration) -> Self {
        self.script.validation_time = Span(span);
        self
    }

    /// How long each `/config` call takes.
    #[must_use]
    pub fn config_delay(mut self, span: Duration) -> Self {
        self.script.config_delay = Span(span);
        self
    }

    /// Results of the first validations; every later one is successful.
    #[must_use]
    pub fn outcomes(mut self, outcomes: &[Status]) -> Self {
        self.script.outcomes = outcomes.iter().copied().collect();
        self
    }

    /// The status word it starts with.
    #[must_use]
    pub fn initial_status(mut self, status: Status) -> Self {
        self.script.initial_status = status;
        self
    }

    /// Adds a scripted reply at the end of a route's queue.
    #[must_use]
    pub fn reply(mut self, route: Route, reply: Reply) -> Self {
        self.script = self.script.reply(route, reply);
        self
    }

    /// Sets what a route answers once its queue is empty.
    #[must_use]
    pub fn always(mut self, route: Route, reply: Reply) -> Self {
        self.script = self.script.always(route, reply);
        self
    }

    /// etcd's data directory: validations lock `member/snap/db` in it, where that file exists.
    #[must_use]
    pub fn data_dir(mut self, folder: &Path) -> Self {
        self.data_dir = Some(folder.into());
        self
    }

    /// Serves the control routes under `/double/` too.
    #[must_use]
    pub fn with_control(mut self) -> Self {
        self.control = true;
        self
    }

    /// Asks `backing` for whatever no script answers: initializations and configs. Its futures run on the
    /// double's own runtime.
    #[must_use]
    pub fn backed_by(mut self, backing: Arc<dyn Backing>) -> Self {
        self.backing = Some(backing);
        self
    }

    /// Listens from the moment it returns.
    ///
    /// # Errors
    /// When the address cannot be had, or certificate and key cannot be used.
    pub fn start(self) -> anyhow::Result<Sidecar> {
        let mut sidecar = self.reserve()?;
        sidecar.restart()?;
        Ok(sidecar)
    }

    /// Owns its address and refuses connections until [`Sidecar::restart`]: a sidecar that is not up yet.
    ///
    /// # Errors
    /// As [`Setup::start`].
    pub fn reserve(self) -> anyhow::Result<Sidecar> {
        let port = ReservedPort::at(self.addr).with_context(|| format!("bind {}", self.addr))?;
        let tls = match (&self.pems, &self.files) {
            (Some((cert, key)), _) => Some(Arc::new(Tls::new(cert.as_bytes(), key.as_bytes())?)),
            (None, Some((cert, key))) => Some(Arc::new(Tls::of_files(cert, key)?)),
            (None, None) => None,
        };
        let log = Arc::new(Log::default());
        let shared = Arc::new(shared(&self, &log, tls.as_ref()));
        Ok(Sidecar { setup: self, port, log, tls, shared, server: None, earlier_clashes: Vec::new() })
    }
}

impl Sidecar {
    /// A sidecar that behaves, and renders `config` for `member` (its pod's name).
    pub fn faithful(config: ConfigMap, member: &str) -> Setup {
        Setup {
            config: ConfigSource::Map(config),
            member: member.into(),
            ..Self::scripted(Script::default())
        }
    }

    /// The same with a config map in a file, read anew for every call.
    pub fn faithful_file(config: &Path, member: &str) -> Setup {
        let config = ConfigSource::File(config.into());
        Setup { config, member: member.into(), ..Self::scripted(Script::default()) }
    }

    /// A sidecar without a config map: what the script does not say is faithful, `/config` is a 500 unless the
    /// script holds a config.
    pub fn scripted(script: Script) -> Setup {
        Setup {
            script,
            config: ConfigSource::Absent,
            member: String::new(),
            data_dir: None,
            addr: (Ipv4Addr::LOCALHOST, 0).into(),
            pems: None,
            files: None,
            control: false,
            backing: None,
        }
    }

    /// Where it listens, or will.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// `http://` or `https://` with the address.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.addr())
    }

    /// Every call so far, in order of arrival, over all restarts.
    pub fn log(&self) -> Vec<Call> {
        self.log.calls()
    }

    /// The calls of one route.
    pub fn calls(&self, route: Route) -> Vec<Call> {
        self.log().into_iter().filter(|call| call.route == route).collect()
    }

    /// The `mode` of each `start` call, in order; an empty string where there was none.
    pub fn modes(&self) -> Vec<String> {
        let starts = self.calls(Route::Start);
        starts.iter().map(|call| call.parameter("mode").unwrap_or_default().to_owned()).collect()
    }

    /// The most calls that were ever open at the same moment, over all routes and connections.
    pub fn max_in_flight(&self) -> usize {
        self.log.most_open()
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.log.connections()
    }

    /// Waits until the `n`th call (from 1) of a route has arrived; panics at the deadline.
    #[track_caller]
    pub fn wait_for_call(&self, route: Route, n: usize, limit: Duration) -> Call {
        self.wait_for(route, n, limit, "arrived", |_| true)
    }

    /// Waits until the `n`th call (from 1) of a route is over: answered, cut, or given up.
    #[track_caller]
    pub fn wait_for_end(&self, route: Route, n: usize, limit: Duration) -> Call {
        self.wait_for(route, n, limit, "ended", |call| call.ended.is_some())
    }

    #[track_caller]
    fn wait_for(&self, route: Route, n: usize, limit: Duration, what: &str, good: fn(&Call) -> bool) -> Call {
        wait::until(limit, &format!("call {n} of {route:?} that has {what}"), || {
            let calls = self.calls(route);
            let found = calls.get(n.saturating_sub(1)).filter(|call| good(call)).cloned();
            Poll::from_option(found, || match self.log().last() {
                Some(last) => format!("{} such calls; the last of all: {last:?}", calls.len()),
                None => "no call at all".into(),
            })
        })
    }

    /// The status word now; reading it here resets nothing.
    pub fn status(&self) -> Status {
        self.shared.core.status()
    }

    /// From now on, as if it had come to that by itself.
    pub fn set_status(&self, status: Status) {
        self.shared.core.set_status(status);
    }

    /// Results of the validations to come.
    pub fn set_outcomes(&self, outcomes: &[Status]) {
        self.shared.core.set_outcomes(outcomes);
    }

    /// What `/config` says of the cluster from now on (see [`ConfigMap::render`]).
    pub fn set_cluster(&self, known: Option<&[&str]>, learner: bool) {
        let known = known.map(|names| names.iter().map(|name| (*name).into()).collect());
        self.shared.core.set_cluster(known, learner);
    }

    /// Another config map for the running process (a member's peer URLs have changed).
    pub fn set_config(&self, config: ConfigMap) {
        self.shared.core.set_config(config);
    }

    /// Appends a reply to the queue of a route of the running process.
    pub fn push_reply(&self, route: Route, reply: Reply) {
        self.shared.queues().push(route, reply);
    }

    /// What a route of the running process answers after its queue; None: faithful.
    pub fn set_default(&self, route: Route, reply: Option<Reply>) {
        self.shared.queues().set_default(route, reply);
    }

    /// All routes of the running process are faithful again.
    pub fn clear_replies(&self) {
        self.shared.queues().clear();
    }

    /// Times at which a validation found the database locked by somebody else.
    pub fn lock_clashes(&self) -> Vec<LockClash> {
        [self.earlier_clashes.clone(), self.shared.core.clashes()].concat()
    }

    /// The pair that new connections get; open ones keep theirs.
    ///
    /// # Errors
    /// When the pair cannot be used, or the double serves plain HTTP.
    pub fn swap_certificates(&self, cert_pem: &str, key_pem: &str) -> anyhow::Result<()> {
        let tls = self.tls.as_ref().context("this sidecar double serves plain HTTP")?;
        tls.swap(cert_pem.as_bytes(), key_pem.as_bytes())
    }

    /// Dies as by SIGKILL: connections break, the port refuses; the address stays reserved.
    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.stop();
            self.log.end_all();
        }
    }

    /// A new process on the same port: state, queues and outcomes as they were set up, the book goes on.
    ///
    /// # Errors
    /// When the port cannot be listened on.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.stop();
        self.earlier_clashes = self.lock_clashes();
        self.shared = Arc::new(shared(&self.setup, &self.log, self.tls.as_ref()));
        let server = Server::start(self.addr(), Arc::clone(&self.shared));
        self.server = Some(server.with_context(|| format!("listen on {}", self.addr()))?);
        Ok(())
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.stop();
    }
}

fn shared(setup: &Setup, log: &Arc<Log>, tls: Option<&Arc<Tls>>) -> Shared {
    Shared {
        core: Arc::new(Core::new(
            setup.script.clone(),
            setup.config.clone(),
            setup.member.clone(),
            setup.data_dir.clone(),
            setup.backing.clone(),
        )),
        queues: Mutex::new(Queues::new(setup.script.replies.clone())),
        log: Arc::clone(log),
        tls: tls.cloned(),
        control: setup.control,
    }
}
