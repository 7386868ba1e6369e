// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A real etcd with a directory, ports and a log of its own, ended when it is dropped.
use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::net::UnixDatagram;
use tokio::time::{Instant, timeout};

use etcd_wrapper::member::dial::{Address, Dial, Tls};

const READY_LIMIT: Duration = Duration::from_secs(20);

pub(super) struct Etcd {
    binary: PathBuf,
    directory: TempDir,
    arguments: Vec<String>,
    name: String,
    client_port: u16,
    peer_port: u16,
    unix: bool,
    tls: Option<Pki>,
    notified: UnixDatagram,
    child: Option<Child>,
}

struct Pki {
    ca: CertificateDer<'static>,
    client_cert: CertificateDer<'static>,
    client_key: Vec<u8>,
}

pub(super) struct Cluster {
    pub(super) members: Vec<Etcd>,
}

fn binary(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).map(PathBuf::from).unwrap_or_else(|| {
        panic!("{variable} is not set: run `cargo xtask test`, which brings the etcd binaries")
    });
    assert!(path.is_file(), "{variable}={} is no file", path.display());
    path
}

/// Bound for a moment and given free.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Etcd {
    /// A cluster of one, not started yet.
    pub(super) fn single(variable: &str) -> Self {
        let mut etcd = Self::named("etcd", binary(variable));
        etcd.joins(&[format!("etcd={}", etcd.peer_url())], "new");
        etcd
    }

    fn named(name: &str, binary: PathBuf) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let notified = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        let (client_port, peer_port) = (free_port(), free_port());
        Self {
            binary,
            directory,
            arguments: vec![],
            name: name.into(),
            client_port,
            peer_port,
            unix: false,
            tls: None,
            notified,
            child: None,
        }
    }

    fn joins(&mut self, initial: &[String], state: &str) {
        self.arguments.push(format!("--initial-cluster={}", initial.join(",")));
        self.arguments.push(format!("--initial-cluster-state={state}"));
    }

    pub(super) fn with(mut self, argument: &str) -> Self {
        self.arguments.push(argument.into());
        self
    }

    pub(super) fn on_unix_socket(mut self) -> Self {
        self.unix = true;
        self
    }

    /// Serves TLS; asks for no client certificate.
    pub(super) fn with_tls(mut self) -> Self {
        let path = |name: &str| self.directory.path().join(name);
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let mut ca = rcgen::CertificateParams::new(vec![]).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_cert = ca.self_signed(&ca_key).unwrap();
        let issuer = rcgen::Issuer::from_params(&ca, &ca_key);
        let issue = |usage, name: &str| {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut params =
                rcgen::CertificateParams::new(vec!["etcd-local".into(), "127.0.0.1".into()]).unwrap();
            params.distinguished_name = rcgen::DistinguishedName::new();
            if !name.is_empty() {
                params.distinguished_name.push(rcgen::DnType::CommonName, name);
            }
            params.extended_key_usages = vec![usage];
            (params.signed_by(&key, &issuer).unwrap(), key)
        };
        let (server, server_key) = issue(rcgen::ExtendedKeyUsagePurpose::ServerAuth, "server");
        let (client, client_key) = issue(rcgen::ExtendedKeyUsagePurpose::ClientAuth, "");
        for (name, pem) in [
            ("ca.pem", ca_cert.pem()),
            ("server.pem", server.pem()),
            ("server.key", server_key.serialize_pem()),
            ("client.pem", client.pem()),
            ("client.key", client_key.serialize_pem()),
        ] {
            std::fs::write(path(name), pem).unwrap();
        }
        for (flag, name) in [("cert-file", "server.pem"), ("key-file", "server.key")] {
            self.arguments.push(format!("--{flag}={}", path(name).display()));
        }
        self.tls = Some(Pki {
            ca: ca_cert.der().clone(),
            client_cert: client.der().clone(),
            client_key: client_key.serialize_der(),
        });
        self
    }

    /// Demands a client certificate too; ours names no user.
    pub(super) fn with_client_certificates(mut self) -> Self {
        let ca = self.directory.path().join("ca.pem");
        self.arguments.push(format!("--trusted-ca-file={}", ca.display()));
        self.arguments.push("--client-cert-auth".into());
        self
    }

    fn spawn(&mut self) {
        let log = File::options().create(true).append(true).open(self.directory.path().join("log")).unwrap();
        let child = Command::new(&self.binary)
            .args([
                format!("--name={}", self.name),
                format!("--data-dir={}", self.directory.path().join("data").display()),
                format!("--listen-client-urls={}", self.client_url()),
                format!("--advertise-client-urls={}", self.client_url()),
                format!("--listen-peer-urls={}", self.peer_url()),
                format!("--initial-advertise-peer-urls={}", self.peer_url()),
            ])
            .args(&self.arguments)
            .env("NOTIFY_SOCKET", self.directory.path().join("notify"))
            .current_dir(self.directory.path())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.child = Some(child.unwrap());
    }

    pub(super) async fn notified(&self) {
        let mut text = [0; 64];
        let ready = timeout(READY_LIMIT, self.notified.recv(&mut text)).await;
        let length = ready.unwrap_or_else(|_| panic!("no READY: {}", self.log())).unwrap();
        assert!(text[..length].starts_with(b"READY=1"));
    }

    /// Starts it and waits for its READY.
    pub(super) async fn ready(mut self) -> Self {
        self.spawn();
        self.notified().await;
        self
    }

    fn scheme(&self) -> &'static str {
        match (&self.tls, self.unix) {
            (None, false) => "http",
            (Some(_), false) => "https",
            (None, true) => "unix",
            (Some(_), true) => "unixs",
        }
    }

    fn client_url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme(), self.client_port)
    }

    pub(super) fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer_port)
    }

    pub(super) fn dial(&self) -> Dial {
        let address = if self.unix {
            Address::Unix(self.directory.path().join(format!("127.0.0.1:{}", self.client_port)))
        } else {
            Address::Tcp(([127, 0, 0, 1], self.client_port).into())
        };
        let tls = self.tls.as_ref().map(|pki| {
            let mut roots = RootCertStore::empty();
            roots.add(pki.ca.clone()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_client_auth_cert(
                    vec![pki.client_cert.clone()],
                    PrivateKeyDer::Pkcs8(pki.client_key.clone().into()),
                );
            let server_name = ServerName::try_from("etcd-local").unwrap();
            Tls { config: Arc::new(config.unwrap()), server_name }
        });
        Dial { address, tls }
    }

    /// First line of `etcd --version`, without its words.
    pub(super) fn version(&self) -> String {
        let output = Command::new(&self.binary).arg("--version").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().next().unwrap().trim_start_matches("etcd Version: ").to_owned()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    pub(super) fn log_lines(&self, with: &str) -> usize {
        self.log().lines().filter(|line| line.contains(with)).count()
    }

    /// Connections from this process to the client port, as the kernel counts them. (etcd's gateway has one to itself.)
    pub(super) fn connections(&self) -> usize {
        let remote = format!("0100007F:{:04X}", self.client_port);
        let ours: Vec<String> = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
            .map(|link| link.to_string_lossy().into_owned())
            .collect();
        let is_ours = |inode: &str| ours.contains(&format!("socket:[{inode}]"));
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row.get(2) == Some(&remote.as_str()) && is_ours(row[9])).count()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.as_ref().unwrap().id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    pub(super) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(super) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Runs etcdctl; panics with its words when it fails.
    fn ctl(&self, arguments: &[&str]) -> String {
        let output = self.try_ctl(arguments);
        output.unwrap_or_else(|error| panic!("etcdctl {arguments:?}: {error}"))
    }

    fn try_ctl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(binary("E2E_ETCDCTL_35"));
        command.arg(format!("--endpoints={}", self.client_url())).args(arguments).env("ETCDCTL_API", "3");
        if self.tls.is_some() {
            for (flag, name) in [("cacert", "ca.pem"), ("cert", "client.pem"), ("key", "client.key")] {
                command.arg(format!("--{flag}={}", self.directory.path().join(name).display()));
            }
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Writes until etcd refuses for lack of space.
    pub(super) fn fill_up(&self) {
        let value = "x".repeat(100_000);
        let refused = (0..100).find_map(|key| self.try_ctl(&["put", &key.to_string(), &value]).err());
        assert!(refused.unwrap().contains("database space exceeded"));
    }

    pub(super) fn enable_auth(&self) {
        self.ctl(&["user", "add", "root:root"]);
        self.ctl(&["user", "grant-role", "root", "root"]);
        self.ctl(&["auth", "enable"]);
    }

    /// Another etcd, added here as a learner, not started yet.
    pub(super) fn joined_by_learner(&self) -> Self {
        let mut learner = Self::named("learner", self.binary.clone());
        self.ctl(&["member", "add", "learner", "--learner", &format!("--peer-urls={}", learner.peer_url())]);
        let initial = [format!("etcd={}", self.peer_url()), format!("learner={}", learner.peer_url())];
        learner.joins(&initial, "existing");
        learner
    }

    /// Promotes a learner, as soon as it has caught up.
    pub(super) async fn promote(&self, id: &u64) {
        let deadline = Instant::now() + READY_LIMIT;
        while let Err(error) = self.try_ctl(&["member", "promote", &format!("{id:x}")]) {
            assert!(error.contains("in sync") && Instant::now() < deadline, "{error}");
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Cluster {
    /// Three members, ready.
    pub(super) async fn of_three(variable: &str) -> Self {
        let binary = binary(variable);
        let mut members: Vec<_> = ["a", "b", "c"].map(|name| Etcd::named(name, binary.clone())).into();
        let initial: Vec<_> =
            members.iter().map(|etcd| format!("{}={}", etcd.name, etcd.peer_url())).collect();
        for etcd in &mut members {
            etcd.joins(&initial, "new");
            etcd.spawn();
        }
        for etcd in &members {
            etcd.notified().await;
        }
        Self { members }
    }

    /// Starts a killed member again.
    pub(super) fn restart(&mut self, index: usize) {
        self.members[index].spawn();
    }
}
