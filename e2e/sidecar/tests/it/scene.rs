// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One member: a folder, a real etcd with ports of its own, and the program beside it, asked over HTTP as a wrapper
//! asks. Everything ends when the member is dropped, and the program's log is shown when a test fails.
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use doubles::ports::ReservedPort;
use doubles::wait::{self, Poll};
use serde_json::json;
use tempfile::TempDir;

use crate::api_server::ApiServer;

pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The second byte of the next address, the others are the process's.
static NEXT: AtomicU8 = AtomicU8::new(100);

pub(crate) struct Member {
    pub(crate) name: String,
    /// A loopback address that no other test has: the wrapper's port is hard-coded.
    pub(crate) host: String,
    folder: TempDir,
    client: ReservedPort,
    peer: ReservedPort,
    http: ReservedPort,
    etcd: Option<Child>,
    pub(crate) sidecar: Option<Child>,
}

impl Member {
    pub(crate) fn new(name: &str) -> Self {
        let [.., high, low] = std::process::id().to_be_bytes();
        let host = format!("127.{}.{high}.{}", NEXT.fetch_add(1, Ordering::Relaxed), low.clamp(1, 254));
        let port = || ReservedPort::at(format!("{host}:0").parse().unwrap()).unwrap();
        let (client, peer) = (port(), port());
        let http = ReservedPort::at("0.0.0.0:0".parse().unwrap()).unwrap();
        Self {
            name: name.into(),
            host,
            folder: tempfile::tempdir().unwrap(),
            client,
            peer,
            http,
            etcd: None,
            sidecar: None,
        }
    }

    pub(crate) fn client_url(&self) -> String {
        format!("http://{}", self.client.addr())
    }

    pub(crate) fn peer_url(&self) -> String {
        format!("http://{}", self.peer.addr())
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.folder.path().join("new.etcd")
    }

    pub(crate) fn lists(&self) -> (String, String) {
        (self.name.clone(), self.peer_url())
    }

    /// Writes the config map as druid does, for these members; this one advertises `peer_url`.
    pub(crate) fn config_map(&self, members: &[(String, String)], peer_url: &str) {
        let cluster: Vec<_> = members.iter().map(|(name, url)| format!("{name}={url}")).collect();
        let map = json!({
            "name": "etcd-config",
            "data-dir": self.data_dir(),
            "listen-client-urls": self.client_url(),
            "listen-peer-urls": self.peer_url(),
            "advertise-client-urls": {&self.name: [self.client_url()]},
            "initial-advertise-peer-urls": {&self.name: [peer_url]},
            "initial-cluster": cluster.join(","),
            "initial-cluster-state": "new",
            "initial-cluster-token": "etcd-cluster",
        });
        std::fs::write(self.folder.path().join("map.yaml"), map.to_string()).unwrap();
    }

    /// Starts the program; `ready` is who answers behind the client service.
    pub(crate) fn start_sidecar(&mut self, api: &ApiServer, ready: &str) {
        let folder = self.folder.path();
        let log = File::options().create(true).append(true).open(folder.join("sidecar.log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_cluster-sidecar"))
            .arg("server")
            .arg(format!("--server-port={}", self.http.port()))
            .arg(format!("--data-dir={}", self.data_dir().display()))
            .arg(format!("--endpoints={}", self.client_url()))
            .arg(format!("--service-endpoints={ready}"))
            .args(["--storage-provider=Local", "--enable-snapshot-lease-renewal=true"])
            .args(["--full-snapshot-lease-name=full", "--delta-snapshot-lease-name=delta"])
            .args(["--enable-member-lease-renewal=true", "--k8s-heartbeat-duration=500ms"])
            .args(["--reelection-period=500ms", "--use-etcd-wrapper=true", "--schedule=0 */24 * * *"])
            .env("POD_NAME", &self.name)
            .env("POD_NAMESPACE", "x")
            .env("ETCD_CONF", folder.join("map.yaml"))
            .env("KUBECONFIG", api.kubeconfig(folder))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.sidecar = Some(child);
        wait::until(LIMIT, "the sidecar's port", || {
            Poll::when(TcpStream::connect(self.http.addr()).is_ok(), || self.log())
        });
    }

    /// GET as a wrapper does it: status code and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http.port())).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Starts an initialization, and waits for its last word.
    pub(crate) fn initialize(&self) -> String {
        assert_eq!(self.get("/initialization/start?mode=full").0, 200);
        wait::until(LIMIT, "the end of the initialization", || {
            let word = self.get("/initialization/status").1;
            if word == "Progress" { Poll::NotYet(self.log()) } else { Poll::Ready(word) }
        })
    }

    /// What a wrapper does from its start to a running etcd; the config that was served.
    pub(crate) fn launch(&mut self) -> String {
        assert_eq!(self.initialize(), "Successful", "{}", self.log());
        let (code, config) = self.get("/config");
        assert_eq!(code, 200, "{}", self.log());
        let path = self.folder.path().join("etcd.conf.yaml");
        std::fs::write(&path, &config).unwrap();
        let log = File::create(self.folder.path().join("etcd.log")).unwrap();
        let child = Command::new(tool("E2E_ETCD_35"))
            .arg("--config-file")
            .arg(path)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.etcd = Some(child);
        config
    }

    pub(crate) fn kill_etcd(&mut self) {
        end(self.etcd.take());
    }

    pub(crate) fn kill_sidecar(&mut self) {
        end(self.sidecar.take());
    }

    /// The program's log so far.
    pub(crate) fn log(&self) -> String {
        read(&self.folder.path().join("sidecar.log"))
    }

    /// `etcdctl member list`, asked here.
    pub(crate) fn member_list(&self) -> String {
        let said = Command::new(tool("E2E_ETCDCTL_35"))
            .args(["--endpoints", &self.client_url(), "member", "list"])
            .output()
            .unwrap();
        String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr)
    }

    /// Waits for a line of the member list that has all these words; the id it begins with.
    pub(crate) fn wait_listed(&self, words: &[&str]) -> String {
        wait::until(LIMIT, &format!("a member with {words:?}"), || {
            let list = self.member_list();
            let line = list.lines().find(|line| words.iter().all(|word| line.contains(word)));
            let id = line.and_then(|line| line.split(',').next()).map(str::to_owned);
            Poll::from_option(id, || list.clone())
        })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill_sidecar();
        self.kill_etcd();
        if std::thread::panicking() {
            let etcd = read(&self.folder.path().join("etcd.log"));
            let end = etcd.lines().rev().take(15).collect::<Vec<_>>();
            eprintln!("--- sidecar of {}\n{}", self.name, self.log());
            eprintln!("--- etcd {}, newest first\n{}", self.name, end.join("\n"));
        }
    }
}

fn end(child: Option<Child>) {
    if let Some(mut child) = child {
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn tool(variable: &str) -> PathBuf {
    std::env::var_os(variable).map(PathBuf::from).unwrap_or_else(|| {
        panic!("{variable} is not set: run `cargo xtask test`, which brings the etcd binaries")
    })
}
