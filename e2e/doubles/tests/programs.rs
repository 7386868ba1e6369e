// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The programs as a wrapper meets them: spawned, signalled, called. Knows nothing of the wrapper itself.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test are tests, too; clippy sees only marked functions"
)]
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use doubles::etcd::program::id_of;
use doubles::etcd::proto::cluster_client::ClusterClient;
use doubles::etcd::proto::kv_client::KvClient;
use doubles::etcd::proto::maintenance_client::MaintenanceClient;
use doubles::etcd::proto::{
    AlarmRequest, MemberListRequest, MoveLeaderRequest, RangeRequest, StatusRequest, StatusResponse,
};
use doubles::etcd::script::{Ready, Sender, Then};
use doubles::etcd::{
    Answer, Ending, Event, Failure, How, Leader, OnSignal, Script, Stage, Standing, StartFacts, record,
};
use doubles::pki::PodPki;
use doubles::ports::ReservedPort;
use doubles::span::Span;
use doubles::wait::{self, Poll};
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tempfile::TempDir;
use tonic::transport::Channel;

const LIMIT: Duration = Duration::from_secs(20);

/// A spawned double with all it needs; killed at the end.
struct Spawned {
    folder: TempDir,
    stage: Stage,
    socket: UnixDatagram,
    port: ReservedPort,
    child: Child,
}

impl Spawned {
    fn new(script: Script) -> Self {
        Self::with(script, |_, port| config(port, "http", ""))
    }

    fn with(script: Script, config: impl FnOnce(&Path, u16) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stage = Stage::new(folder.path(), script).unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let port = ReservedPort::loopback();
        std::fs::write(folder.path().join("etcd.yaml"), config(folder.path(), port.port())).unwrap();
        let child = spawn(folder.path(), &stage);
        Self { folder, stage, socket, port, child }
    }

    fn wait_ready(&self) {
        let mut text = [0; 64];
        let length = self.socket.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"READY=1");
    }

    fn wait_for(&self, what: &str, wanted: impl Fn(&Event) -> bool) {
        self.stage.wait_for_record(LIMIT, what, |record| wanted(&record.event));
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn wait_end(&mut self) -> ExitStatus {
        wait_end(&mut self.child)
    }

    fn facts(&self) -> StartFacts {
        self.stage.wait_for_start(1, LIMIT).1
    }

    async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://127.0.0.1:{}", self.port.port()))
            .unwrap()
            .connect()
            .await
            .unwrap()
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &Path, stage: &Stage) -> Child {
    let (variable, script) = stage.environment();
    Command::new(env!("CARGO_BIN_EXE_etcd-double"))
        .arg("--config-file")
        .arg(folder.join("etcd.yaml"))
        .env(variable, script)
        .env("NOTIFY_SOCKET", folder.join("notify"))
        .current_dir(folder)
        .stderr(File::create(folder.join("stderr")).unwrap())
        .spawn()
        .unwrap()
}

fn wait_end(child: &mut Child) -> ExitStatus {
    wait::until(LIMIT, "the end of the child", || {
        Poll::from_option(child.try_wait().unwrap(), || "it lives".into())
    })
}

fn config(port: u16, scheme: &str, more: &str) -> String {
    format!(
        "name: red-0\ndata-dir: data\nlisten-client-urls: {scheme}://127.0.0.1:{port}\n\
         initial-cluster: red-0=http://127.0.0.1:1,red-1=http://127.0.0.1:2,red-2=http://127.0.0.1:3\n{more}"
    )
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn ready_after(span: Duration) -> Ready {
    Ready { after: Span(span), ..Ready::default() }
}

#[test]
fn version_prints_etcds_lines() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(folder.path(), Script::default()).unwrap();
    let (variable, script) = stage.environment();
    let output = Command::new(env!("CARGO_BIN_EXE_etcd-double"))
        .arg("--version")
        .env(variable, script)
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().next(), Some("etcd Version: 3.5.35"));
    assert_eq!(text.lines().count(), 4);
    assert!(matches!(stage.records()[0].event, Event::VersionAsked { .. }));
}

#[test]
fn a_ready_double_ends_killed_by_the_signal_it_was_sent() {
    let mut etcd = Spawned::new(Script::default());
    etcd.wait_ready();
    let pid = etcd.child.id();
    etcd.wait_for("READY from the child itself", |event| *event == Event::ReadySent { sender: pid });
    etcd.signal(Signal::TERM);
    let status = etcd.wait_end();
    assert_eq!((status.code(), status.signal()), (None, Some(15)));
    assert_eq!(etcd.stage.signals(pid), [15]);
    assert_eq!(etcd.stage.records().last().map(|record| &record.event), Some(&Event::Raising { number: 15 }));
}

#[test]
fn a_start_records_what_the_process_was_given() {
    let etcd = Spawned::new(Script::default());
    let facts = etcd.facts();
    assert_eq!(facts.ppid, std::process::id());
    assert_eq!(facts.argv[1], "--config-file");
    assert_eq!(facts.cwd, etcd.folder.path().canonicalize().unwrap());
    let own = StartFacts::look(None).unwrap().descriptors;
    for (number, target) in facts.descriptors.range(3..) {
        assert_eq!(own.get(number), Some(target), "not inherited, so opened by the double before it looked");
    }
    assert_eq!(facts.descriptors[&2], etcd.folder.path().join("stderr").to_string_lossy());
    let config = facts.config.unwrap();
    let bytes = std::fs::read(&config.path).unwrap();
    assert_eq!(config.sha256, record::sha256(&bytes));
}

#[test]
fn a_stop_before_ready_kills_at_once() {
    let mut etcd = Spawned::new(Script { ready: ready_after(Duration::from_secs(600)), ..Script::default() });
    etcd.wait_for("the lock", |event| *event == Event::LockTaken);
    etcd.signal(Signal::TERM);
    assert_eq!(etcd.wait_end().signal(), Some(15));
    let noted = etcd.stage.signals(etcd.child.id());
    assert!(noted.is_empty(), "there was no handler to note it: {noted:?}");
}

#[test]
fn a_second_stop_is_swallowed_and_sigquit_dumps() {
    let script = Script { on_term: OnSignal::takes(Duration::from_secs(600)), ..Script::default() };
    let mut etcd = Spawned::new(script);
    etcd.wait_ready();
    for n in 1..=2 {
        etcd.signal(Signal::TERM);
        let pid = etcd.child.id();
        wait::until(LIMIT, "SIGTERM noted", || {
            let noted = etcd.stage.signals(pid);
            Poll::when(noted.len() == n, || format!("{noted:?}"))
        });
    }
    etcd.signal(Signal::QUIT);
    assert_eq!(etcd.wait_end().code(), Some(2));
    let stderr = std::fs::read_to_string(etcd.folder.path().join("stderr")).unwrap();
    assert!(stderr.contains("SIGQUIT: quit\n"), "{stderr}");
}

#[test]
fn an_ignored_stop_needs_sigkill_and_sighup_kills() {
    let ignoring = OnSignal::ignored();
    let mut etcd = Spawned::new(Script { on_term: ignoring, on_quit: ignoring, ..Script::default() });
    etcd.wait_ready();
    let pid = etcd.child.id();
    for (n, signal) in [Signal::TERM, Signal::TERM, Signal::QUIT].into_iter().enumerate() {
        etcd.signal(signal);
        wait::until(LIMIT, "the signal noted", || {
            let noted = etcd.stage.signals(pid);
            Poll::when(noted.len() == n + 1, || format!("{noted:?}"))
        });
    }
    assert_eq!(etcd.child.try_wait().unwrap(), None);
    etcd.signal(Signal::HUP);
    assert_eq!(etcd.wait_end().signal(), Some(1));
}

#[test]
fn a_stop_can_end_with_any_status() {
    for (then, code, signal) in [(Then::Exit(0), Some(0), None), (Then::Signal(9), None, Some(9))] {
        let mut etcd = Spawned::new(Script { on_term: OnSignal::then(then), ..Script::default() });
        etcd.wait_ready();
        etcd.signal(Signal::TERM);
        let status = etcd.wait_end();
        assert_eq!((status.code(), status.signal()), (code, signal));
    }
}

#[test]
fn ends_that_nobody_asked_for_come_as_scripted() {
    let at_once = Ending::after_start(Duration::ZERO, How::Exit(3));
    let mut etcd = Spawned::new(Script { end: Some(at_once), ..Script::default() });
    assert_eq!(etcd.wait_end().code(), Some(3));
    let later = Ending::after_ready(Duration::from_millis(20), How::Signal(9));
    let mut etcd = Spawned::new(Script { end: Some(later), ..Script::default() });
    etcd.wait_ready();
    assert_eq!(etcd.wait_end().signal(), Some(9));
}

#[test]
fn ready_can_come_from_another_process_and_more_than_once() {
    let ready = Ready { sender: Sender::OtherProcess, times: 2, ..Ready::default() };
    let etcd = Spawned::new(Script { ready, ..Script::default() });
    etcd.wait_ready();
    etcd.wait_ready();
    let pid = etcd.child.id();
    etcd.wait_for("a foreign sender", |event| matches!(event, Event::ReadySent { sender } if *sender != pid));
}

#[test]
fn what_etcd_refuses_ends_with_1() {
    let mut etcd = Spawned::with(Script::default(), |_, _| "name: [".into());
    assert_eq!(etcd.wait_end().code(), Some(1));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut etcd = Spawned::with(Script::default(), |_, _| config(port, "http", ""));
    assert_eq!(etcd.wait_end().code(), Some(1));
}

#[test]
fn a_second_double_on_a_directory_waits_for_the_first() {
    let mut first = Spawned::new(Script::default());
    first.wait_ready();
    let data = first.folder.path().join("data");
    let second = Spawned::with(Script::default(), |_, port| {
        config(port, "http", "").replace("data-dir: data", &format!("data-dir: {}", data.display()))
    });
    second.wait_for("it waits for the lock", |event| *event == Event::LockWaiting);
    first.signal(Signal::KILL);
    first.wait_end();
    second.wait_ready();
}

async fn range(kv: &mut KvClient<Channel>, serializable: bool) -> Result<(), tonic::Status> {
    let request = RangeRequest { key: b"x".to_vec(), serializable, ..RangeRequest::default() };
    let call = kv.range(request);
    let answer = tokio::time::timeout(Duration::from_millis(500), call).await;
    answer.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("hangs"))).map(|_| ())
}

#[test]
fn calls_follow_the_script_and_its_changes() {
    let etcd = Spawned::new(Script { range: Answer::fails(Failure::Learner35), ..Script::default() });
    etcd.wait_ready();
    runtime().block_on(async {
        let mut kv = KvClient::new(etcd.channel().await);
        let refused = range(&mut kv, false).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unavailable);
        assert_eq!(refused.message(), "etcdserver: rpc not supported for learner");
        range(&mut kv, true).await.unwrap();
        etcd.stage.change(Script { range: Answer::hangs(), ..Script::default() }, LIMIT);
        assert_eq!(range(&mut kv, false).await.unwrap_err().message(), "hangs");
        etcd.stage.change(Script::default(), LIMIT);
        range(&mut kv, false).await.unwrap();
    });
}

async fn status(maintenance: &mut MaintenanceClient<Channel>) -> StatusResponse {
    maintenance.status(StatusRequest {}).await.unwrap().into_inner()
}

#[test]
fn leadership_follows_the_steps_and_a_transfer() {
    let steps = vec![
        Standing { leader: Leader::Nobody, ..Standing::default() },
        Standing { at: Span(Duration::from_millis(300)), term: 3, nospace: true, ..Standing::default() },
    ];
    let etcd = Spawned::new(Script { standing: steps, ..Script::default() });
    etcd.wait_ready();
    let own = id_of("red-0");
    runtime().block_on(async {
        let channel = etcd.channel().await;
        let mut maintenance = MaintenanceClient::new(channel.clone());
        let mut seen = vec![status(&mut maintenance).await];
        while seen.last().unwrap().leader != own {
            seen.push(status(&mut maintenance).await);
        }
        assert_eq!((seen[0].leader, seen[0].raft_term), (0, 2));
        assert_eq!(seen.last().unwrap().raft_term, 3);
        let alarms = maintenance.alarm(AlarmRequest::default()).await.unwrap().into_inner().alarms;
        assert_eq!(alarms.iter().map(|alarm| (alarm.member_id, alarm.alarm)).collect::<Vec<_>>(), [(own, 1)]);
        let members = ClusterClient::new(channel).member_list(MemberListRequest::default()).await.unwrap();
        let others: Vec<u64> =
            members.into_inner().members.iter().map(|member| member.id).filter(|id| *id != own).collect();
        assert_eq!(others, [id_of("red-1"), id_of("red-2")]);
        maintenance.move_leader(MoveLeaderRequest { target_id: others[1] }).await.unwrap();
        let after = status(&mut maintenance).await;
        assert_eq!((after.leader, after.raft_term), (others[1], 4));
        let again = maintenance.move_leader(MoveLeaderRequest { target_id: others[0] }).await.unwrap_err();
        assert_eq!(again.message(), "etcdserver: not leader");
    });
}

/// GET over HTTP/1.1 on any stream; everything that comes back.
fn get(mut stream: impl Read + Write, path: &str) -> std::io::Result<String> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn metrics_show_leadership_and_active_peers() {
    let script = Script { active_peers: Some(vec![id_of("red-2")]), ..Script::default() };
    let etcd = Spawned::new(script);
    etcd.wait_ready();
    let answer = get(TcpStream::connect(etcd.port.addr()).unwrap(), "/metrics").unwrap();
    let peer = |name, active| {
        format!(
            "etcd_network_active_peers{{Local=\"{:x}\",Remote=\"{:x}\"}} {active}\n",
            id_of("red-0"),
            id_of(name)
        )
    };
    for line in ["etcd_server_is_leader 1\n", &peer("red-1", 0), &peer("red-2", 1)] {
        assert!(answer.contains(line), "{line} in {answer}");
    }
}

#[test]
fn tls_demands_a_client_certificate_once_there_is_a_ca() {
    let mut pki = None;
    let etcd = Spawned::with(Script::default(), |folder, port| {
        let made = pki.insert(PodPki::write(folder, &[]).unwrap());
        let section = format!(
            "client-transport-security:\n  cert-file: {}\n  key-file: {}\n  trusted-ca-file: {}\n",
            made.server.cert.display(),
            made.server.key.display(),
            made.client_ca_file.display()
        );
        config(port, "https", &section)
    });
    etcd.wait_ready();
    let pki = pki.unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pki.client_ca.cert_pem().as_bytes()).unwrap()).unwrap();
    let builder = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider);
        builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots.clone())
    };
    let health = |config: rustls::ClientConfig| {
        let name = ServerName::try_from("localhost").unwrap();
        let tls = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let tcp = TcpStream::connect(etcd.port.addr()).unwrap();
        get(rustls::StreamOwned::new(tls, tcp), "/health")
    };
    health(builder().with_no_client_auth()).unwrap_err();
    etcd.wait_for("a rejected connection", |event| matches!(event, Event::Rejected { .. }));
    let chain = vec![CertificateDer::from_pem_file(&pki.client.cert).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&pki.client.key).unwrap();
    let answer = health(builder().with_client_auth_cert(chain, key).unwrap()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    etcd.wait_for("a client certificate", |event| {
        matches!(event, Event::Connected { certificate: true, .. })
    });
}

#[test]
fn a_double_without_its_script_does_not_stay() {
    let mut etcd = Spawned::new(Script::default());
    etcd.wait_ready();
    std::fs::remove_file(etcd.stage.environment().1).unwrap();
    assert_eq!(etcd.wait_end().code(), Some(1));
}

#[test]
fn the_sidecar_program_serves_a_member_and_ends_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("etcd.conf.yaml");
    let urls = "{red-0: [\"http://red-0:2379\"]}";
    let text = format!("name: x\nadvertise-client-urls: {urls}\ninitial-advertise-peer-urls: {urls}\n");
    std::fs::write(&map, text).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sidecar-double"))
        .args(["--listen", "127.0.0.1:0", "--member", "red-0", "--config"])
        .arg(&map)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let addr = line.trim().rsplit_once("http://").unwrap().1;
    let answer = get(TcpStream::connect(addr).unwrap(), "/config").unwrap();
    assert!(answer.contains("\nadvertise-client-urls: http://red-0:2379\n"), "{answer}");
    assert!(answer.contains("\nname: red-0\n"), "{answer}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(wait_end(&mut child).code(), Some(0));
}
