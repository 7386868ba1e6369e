// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One member under test: a folder, ports, a sidecar double, an etcd (scripted or real) and the wrapper's real binary.
//! Owns everything it starts, and prints the scene when a test fails.
//!
//! Long: one scene; folder, sidecar, etcd and wrapper are of no use apart.
mod tls;
pub(crate) mod user;

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use doubles::etcd::{Script, Stage};
use doubles::ports::ReservedPort;
use doubles::programs;
use doubles::sidecar::{ConfigMap, Setup, Sidecar};
use doubles::wait::{self, Poll};
use rustix::process::{Pid, Signal, kill_process};

pub(crate) use self::tls::Sides;
use crate::http::{Answer, Caller};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// Longer than anything a healthy member takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// The pod's name and the member's.
pub(crate) const MEMBER: &str = "etcd-main-0";

/// Which etcd the wrapper starts.
#[derive(Clone, Debug)]
pub(crate) enum Etcd {
    /// A real one, by line: `3.4`, `3.5`, `3.6`, `3.7`.
    Real(&'static str),
    /// Any program.
    At(PathBuf),
}

impl Etcd {
    /// # Panics
    /// When the binary is not at hand, with the command that brings it.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::At(path) => path.clone(),
            Self::Real(line) => {
                let name = format!("E2E_ETCD_{}", line.replace('.', ""));
                let path = std::env::var_os(&name).unwrap_or_else(|| {
                    panic!("{name} names no etcd {line}: run `cargo xtask test`, or set it to `cargo xtask tool etcd@{line}`")
                });
                PathBuf::from(path)
            }
        }
    }
}

/// The folder and ports of one member; wrappers come and go in it.
#[derive(Debug)]
pub(crate) struct Scene {
    dir: tempfile::TempDir,
    client: ReservedPort,
    peer: ReservedPort,
    api: ReservedPort,
    pub(crate) etcd: PathBuf,
    /// The scripted etcd's stage; None for a real one.
    pub(crate) stage: Option<Stage>,
    pub(crate) sidecar: Option<Sidecar>,
    /// None: nobody speaks TLS.
    tls: Option<tls::Tls>,
    /// None: who runs the test.
    user: Option<u32>,
    /// Flags of every wrapper of this scene.
    pub(crate) flags: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    /// The member's and its pod's name; [`MEMBER`] unless the scene is one of several.
    member: String,
    /// etcd serves its clients by TLS, and so does the wrapper its own; flags that `etcdctl` needs then.
    /// Set by [`Scene::with_pki`].
    etcdctl_tls: Option<Vec<String>>,
    logs: std::cell::Cell<u32>,
    /// A process outside of this scene holds the database on purpose: the sidecar may meet it.
    pub(crate) strangers: bool,
}

impl Scene {
    /// A scene with this etcd and no sidecar yet.
    pub(crate) fn of(etcd: &Etcd) -> Self {
        let dir = tempfile::Builder::new().prefix("etcd-wrapper-it-").tempdir().unwrap();
        for folder in ["state", "home"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let reserve = ReservedPort::loopback;
        Self {
            dir,
            client: reserve(),
            peer: reserve(),
            api: reserve(),
            etcd: etcd.path(),
            stage: None,
            sidecar: None,
            tls: None,
            user: None,
            flags: Vec::new(),
            environment: Vec::new(),
            member: MEMBER.to_owned(),
            etcdctl_tls: None,
            logs: std::cell::Cell::new(0),
            strangers: false,
        }
    }

    /// A real etcd of this line behind a faithful sidecar.
    pub(crate) fn real(line: &'static str) -> Self {
        Self::of(&Etcd::Real(line)).with_sidecar(|setup| setup)
    }

    /// A scripted etcd behind a faithful sidecar.
    pub(crate) fn scripted(script: Script) -> Self {
        let mut scene = Self::of(&Etcd::At(programs::etcd_double()));
        let stage = Stage::new(scene.path(), script).unwrap();
        let (name, value) = stage.environment();
        scene.environment.push((name.to_owned(), value.display().to_string()));
        scene.stage = Some(stage);
        scene.with_sidecar(|setup| setup)
    }

    /// Puts a sidecar in, replacing the one that is there; `arrange` starts from a faithful one.
    #[must_use]
    pub(crate) fn with_sidecar(mut self, arrange: impl FnOnce(Setup) -> Setup) -> Self {
        self.sidecar = None;
        self.sidecar = Some(arrange(self.sidecar_setup(self.config())).start().unwrap());
        self
    }

    /// Puts a sidecar in that serves this config map.
    #[must_use]
    pub(crate) fn with_config(mut self, config: ConfigMap) -> Self {
        self.sidecar = None;
        self.sidecar = Some(self.sidecar_setup(config).start().unwrap());
        self
    }

    /// Another etcd for the wrappers to come.
    #[must_use]
    pub(crate) fn with_etcd(mut self, line: &'static str) -> Self {
        self.etcd = Etcd::Real(line).path();
        self
    }

    fn sidecar_setup(&self, config: ConfigMap) -> Setup {
        let setup = Sidecar::faithful(config, &self.member).data_dir(&self.data_dir());
        self.tls.as_ref().map_or_else(|| setup.clone(), |tls| tls.arrange(setup.clone()))
    }

    #[must_use]
    pub(crate) fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    #[must_use]
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Another member than [`MEMBER`]; before the sidecar comes.
    #[must_use]
    pub(crate) fn named(mut self, member: &str) -> Self {
        member.clone_into(&mut self.member);
        self
    }

    pub(crate) fn member(&self) -> &str {
        &self.member
    }

    /// Client TLS as in a druid pod, certificates asked for; the config map is the caller's to make (see
    /// [`client_tls`]). Calls of this scene speak TLS from now on.
    #[must_use]
    pub(crate) fn with_pki(mut self, pki: &doubles::pki::PodPki) -> Self {
        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        self.flags.push(flag("etcd-client-cert-path", &pki.client.cert));
        self.flags.push(flag("etcd-client-key-path", &pki.client.key));
        self.etcdctl_tls = Some(vec![
            flag("cacert", &pki.client_ca_file),
            flag("cert", &pki.client.cert),
            flag("key", &pki.client.key),
        ]);
        self
    }

    /// The config map that druid would have made for this member.
    pub(crate) fn config(&self) -> ConfigMap {
        let (client, peer) = (self.client.port(), self.peer.port());
        let config = ConfigMap::single(&self.member, &self.data_dir(), client, peer);
        self.tls.as_ref().map_or_else(|| config.clone(), |tls| tls.complete(config.clone(), client, peer))
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.path().join("state")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.state_dir().join("new.etcd")
    }

    pub(crate) fn marker(&self) -> Option<String> {
        std::fs::read_to_string(self.state_dir().join("exit_code")).ok()
    }

    /// The records in `exit_history.jsonl`, oldest first.
    pub(crate) fn history(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.state_dir().join("exit_history.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What an earlier process, or an operator, left in the state directory.
    pub(crate) fn leave(&self, name: &str, content: &str) {
        std::fs::write(self.state_dir().join(name), content).unwrap();
    }

    fn speaks_tls(&self) -> bool {
        self.etcdctl_tls.is_some() || self.tls.as_ref().is_some_and(|tls| tls.sides.client)
    }

    pub(crate) fn client_url(&self) -> String {
        let scheme = if self.speaks_tls() { "https" } else { "http" };
        format!("{scheme}://{}", self.client.addr())
    }

    pub(crate) fn client_port(&self) -> u16 {
        self.client.port()
    }

    pub(crate) fn peer_port(&self) -> u16 {
        self.peer.port()
    }

    pub(crate) fn api_addr(&self) -> SocketAddr {
        self.api.addr()
    }

    pub(crate) fn sidecar(&self) -> &Sidecar {
        self.sidecar.as_ref().expect("this scene has a sidecar")
    }

    pub(crate) fn stage(&self) -> &Stage {
        self.stage.as_ref().expect("this scene has a scripted etcd")
    }

    /// The wrapper's binary, where this scene's user can execute it.
    fn program(&self) -> PathBuf {
        let copy = self.path().join("bin/etcd-wrapper");
        if copy.exists() { copy } else { env!("CARGO_BIN_EXE_etcd-wrapper").into() }
    }

    /// The command line of a wrapper in this scene, not started.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.program());
        command
            .arg("start-etcd")
            .arg(format!("--etcd-wrapper-port={}", self.api.port()))
            .arg("--listen-address=127.0.0.1")
            .arg(format!("--etcd-client-port={}", self.client.port()))
            .arg(format!("--etcd-server-name={}-local", self.member))
            .arg(format!("--etcd-path={}", self.etcd.display()))
            .arg(format!("--state-dir={}", self.state_dir().display()))
            .arg("--log-format=text")
            .arg("--log-level=debug,h2=info,hyper=info,tower=info");
        if let Some(sidecar) = &self.sidecar {
            command.arg(format!("--backup-restore-host-port={}", sidecar.addr()));
        }
        command.args(self.tls.as_ref().map(tls::Tls::flags).unwrap_or_default());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command.args(&self.flags).env("HOME", self.home()).envs(self.environment.iter().cloned());
        command
    }

    /// Starts a wrapper. It shares our process group no more: a test's own signals reach it alone.
    pub(crate) fn start(&self) -> Wrapper<'_> {
        self.start_command(self.command())
    }

    pub(crate) fn start_command(&self, mut command: Command) -> Wrapper<'_> {
        let (log, file) = self.next_log();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).process_group(0);
        self.spawn(command, log)
    }

    fn next_log(&self) -> (PathBuf, File) {
        let number = self.logs.replace(self.logs.get() + 1);
        let log = self.path().join(format!("wrapper-{number}.log"));
        let file = File::create(&log).unwrap();
        (log, file)
    }

    fn spawn(&self, mut command: Command, log: PathBuf) -> Wrapper<'_> {
        let began = Instant::now();
        let child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        Wrapper { scene: self, child, log, began, status: None }
    }

    /// Starts a wrapper whose stderr, and with it etcd's, is what the caller gives it; the log file gets stdout alone.
    pub(crate) fn start_with_stderr(&self, stderr: impl Into<Stdio>) -> Wrapper<'_> {
        let mut command = self.command();
        command.stderr(stderr);
        let (log, file) = self.next_log();
        command.stdin(Stdio::null()).stdout(file).process_group(0);
        self.spawn(command, log)
    }

    /// Starts a wrapper and waits until it is ready.
    #[track_caller]
    pub(crate) fn start_ready(&self) -> Wrapper<'_> {
        let wrapper = self.start();
        wrapper.wait_ready();
        wrapper
    }

    pub(crate) fn caller(&self) -> Caller {
        let caller = Caller::plain(self.api_addr());
        if self.etcdctl_tls.is_some() { caller.tls() } else { caller }
    }

    /// `etcdctl` against the member; it must succeed.
    #[track_caller]
    pub(crate) fn etcdctl(&self, arguments: &[&str]) -> String {
        let output = self.try_etcdctl(arguments);
        assert!(
            output.status.success(),
            "etcdctl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(crate) fn try_etcdctl(&self, arguments: &[&str]) -> std::process::Output {
        let program = std::env::var_os("E2E_ETCDCTL_35")
            .expect("E2E_ETCDCTL_35 names no etcdctl: run `cargo xtask test`, or set it to `cargo xtask tool etcdctl@3.5`");
        Command::new(program)
            .arg(format!("--endpoints={}", self.client_url()))
            .args(self.etcdctl_tls.iter().flatten())
            .args(self.tls.as_ref().map(tls::Tls::etcdctl_flags).unwrap_or_default())
            .args(arguments)
            .output()
            .unwrap()
    }

    fn tell(&self) {
        eprintln!("=== scene {}", self.path().display());
        if let Some(sidecar) = &self.sidecar {
            for call in sidecar.log() {
                eprintln!("sidecar {} {}?{} -> {:?}", call.method, call.path, call.query, call.reply);
            }
        }
        if let Some(stage) = &self.stage {
            for record in stage.records() {
                eprintln!("etcd double {} {:?}", record.pid, record.event);
            }
        }
        let listing = Command::new("ls").arg("-laR").arg(self.state_dir()).output();
        eprintln!(
            "{}",
            listing.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
        );
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell();
        } else if let Some(sidecar) = &self.sidecar {
            assert_sidecar_was_respected(sidecar, self.strangers);
        }
    }
}

/// What holds in every test, whatever it is about: one call at a time, by the book, and never an etcd on a directory
/// that the sidecar works on (P1). `strangers`: somebody else held the database on purpose.
#[track_caller]
pub(crate) fn assert_sidecar_was_respected(sidecar: &Sidecar, strangers: bool) {
    assert!(sidecar.max_in_flight() <= 1, "{} calls at a time", sidecar.max_in_flight());
    let clashes = sidecar.lock_clashes();
    assert!(strangers || clashes.is_empty(), "etcd and validation on one directory: {clashes:?}");
    for call in sidecar.log() {
        let asked = (call.method.as_str(), call.path.as_str(), call.query.as_str());
        let known = [
            ("GET", "/initialization/status", ""),
            ("GET", "/initialization/start", "mode=full"),
            ("GET", "/initialization/start", "mode=sanity"),
            ("GET", "/config", ""),
        ];
        assert!(known.contains(&asked), "the sidecar knows no such call: {asked:?}");
    }
}

/// A running wrapper. Killed, with its etcd by the parent-death signal, when dropped.
#[derive(Debug)]
pub(crate) struct Wrapper<'s> {
    scene: &'s Scene,
    child: Child,
    pub(crate) log: PathBuf,
    pub(crate) began: Instant,
    status: Option<std::process::ExitStatus>,
}

impl Wrapper<'_> {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn caller(&self) -> Caller {
        self.scene.caller()
    }

    /// `/readyz`; None while the port refuses.
    pub(crate) fn readyz(&self) -> Option<Answer> {
        self.caller().try_call("GET", "/readyz", &[], "").ok()
    }

    #[track_caller]
    pub(crate) fn status(&self) -> serde_json::Value {
        self.try_status().unwrap_or_else(|error| panic!("GET /v1/status: {error}"))
    }

    #[track_caller]
    pub(crate) fn wait_ready(&self) {
        self.wait_ready_within(LONG);
    }

    #[track_caller]
    pub(crate) fn wait_ready_within(&self, limit: Duration) {
        self.wait_readyz(limit, 200);
    }

    /// Waits until `/readyz` answers with this code.
    #[track_caller]
    pub(crate) fn wait_readyz(&self, limit: Duration, code: u16) -> Answer {
        wait::until(limit, &format!("/readyz {code}"), || match self.readyz() {
            Some(answer) if answer.status == code => Poll::Ready(answer),
            Some(answer) => Poll::NotYet(format!(
                "{} {:?} {:?}",
                answer.status,
                answer.header("etcd-wrapper-reason"),
                answer.header("etcd-wrapper-phase")
            )),
            None => match self.gone() {
                true => Poll::Never("the wrapper has ended".into()),
                false => Poll::NotYet("no answer".into()),
            },
        })
    }

    /// Waits until `/v1/status` says this phase.
    #[track_caller]
    pub(crate) fn wait_phase(&self, limit: Duration, phase: &str) -> serde_json::Value {
        self.wait_status(limit, &format!("phase {phase}"), |status| status["wrapper"]["phase"] == phase)
    }

    #[track_caller]
    pub(crate) fn wait_status(
        &self,
        limit: Duration,
        what: &str,
        mut wanted: impl FnMut(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        wait::until(limit, what, || match self.try_status() {
            Ok(status) => {
                if wanted(&status) {
                    Poll::Ready(status)
                } else {
                    Poll::NotYet(status.to_string())
                }
            }
            Err(error) if self.gone() => Poll::Never(format!("the wrapper has ended ({error})")),
            Err(error) => Poll::NotYet(error.to_string()),
        })
    }

    /// By the scheme in force: TLS once etcd's certificate is loaded.
    fn try_status(&self) -> std::io::Result<serde_json::Value> {
        let ask = |caller: Caller| caller.try_call("GET", "/v1/status", &[], "");
        match ask(self.caller())? {
            answer if answer.status == 403 => Ok(ask(self.caller().tls())?.json()),
            answer => Ok(answer.json()),
        }
    }

    fn gone(&self) -> bool {
        // Ours to wait for, so a zombie until then: /proc tells.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap_or_else(|error| panic!("signal {signal:?} to {pid:?}: {error}"));
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// etcd's pid, as `/v1/status` tells it.
    #[track_caller]
    pub(crate) fn etcd_pid(&self) -> u32 {
        let status = self.status();
        let pid = status["etcd"]["pid"].as_u64().unwrap_or_else(|| panic!("no etcd: {status}"));
        u32::try_from(pid).unwrap()
    }

    /// Waits for the end: the exit code, or 128 + the signal that killed it.
    #[track_caller]
    pub(crate) fn wait_exit(&mut self, limit: Duration) -> i32 {
        let status = wait::until(limit, "the wrapper's end", || match self.child.try_wait().unwrap() {
            Some(status) => Poll::Ready(status),
            None => Poll::NotYet(
                std::fs::read_to_string(&self.log).unwrap_or_default().lines().last().unwrap_or("").into(),
            ),
        });
        self.status = Some(status);
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn wait_log(&self, limit: Duration, text: &str) {
        wait::until(limit, &format!("{text:?} in the log"), || {
            let log = self.log();
            Poll::when(log.contains(text), || log.lines().last().unwrap_or("").to_owned())
        });
    }

    /// The exit record: the last line that is JSON.
    #[track_caller]
    pub(crate) fn record(&self) -> serde_json::Value {
        let log = self.log();
        let record = log.lines().rev().find_map(|line| {
            serde_json::from_str::<serde_json::Value>(line).ok().filter(|value| value["cause"].is_string())
        });
        record.unwrap_or_else(|| panic!("no exit record in the log"))
    }
}

impl Drop for Wrapper<'_> {
    fn drop(&mut self) {
        if self.status.is_none() {
            // Also frozen ones die of this.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("=== {}\n{}", self.log.display(), self.log());
        }
    }
}

/// Is there a process with this pid that is not a zombie?
pub(crate) fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Waits until there is none.
#[track_caller]
pub(crate) fn wait_gone(pid: u32, limit: Duration) {
    wait::until(limit, &format!("the end of process {pid}"), || {
        Poll::when(!lives(pid), || "it lives".into())
    });
}

/// Sends a signal to a process that the test knows to be one of its own.
pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal)
        .unwrap_or_else(|error| panic!("signal {signal:?} to {pid}: {error}"));
}

/// The children of a process and their states, as /proc has them (`Z`: a zombie).
pub(crate) fn children(pid: u32) -> Vec<(u32, char)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let child = |entry: std::io::Result<std::fs::DirEntry>| {
        let number: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        (fields.next()?.parse() == Ok(pid)).then_some((number, state))
    };
    entries.filter_map(child).collect()
}

/// The same command with these flags in the place of its own of the same names: clap takes none twice.
pub(crate) fn replacing(command: &Command, flags: &[&str]) -> Command {
    let name = |flag: &str| flag.split('=').next().unwrap_or_default().to_owned();
    let own = command.get_args().map(|argument| argument.to_str().unwrap());
    let mut changed = Command::new(command.get_program());
    changed.args(own.filter(|own| !flags.iter().any(|flag| name(flag) == name(own)))).args(flags);
    changed.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    changed
}

/// `client-transport-security` of a druid pod.
pub(crate) fn client_tls(pki: &doubles::pki::PodPki) -> serde_json::Value {
    serde_json::json!({
        "cert-file": pki.server.cert, "key-file": pki.server.key, "trusted-ca-file": pki.client_ca_file,
        "client-cert-auth": true, "auto-tls": false,
    })
}
