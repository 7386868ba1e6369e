// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Real etcds as children of a test, each with a folder and ports of its own; killed when the test ends.
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use doubles::ports::ReservedPort;
use e2e::etcd::{Client, Connector};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Elections of three members on a busy machine, and a little more.
const READY: Duration = Duration::from_secs(40);

pub(crate) struct Etcds {
    pub(crate) members: Vec<Member>,
    _folder: TempDir,
}

pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) client: Client,
    binary: PathBuf,
    folder: PathBuf,
    ports: [ReservedPort; 2],
    initial_cluster: String,
    child: Option<Child>,
}

impl Etcds {
    /// Starts `count` members of one cluster with the binary that `variable` names, and waits until all serve.
    pub(crate) async fn start(variable: &str, count: usize) -> Self {
        let binary = std::env::var_os(variable)
            .unwrap_or_else(|| panic!("{variable} names no etcd: run `cargo xtask test integration`"));
        let folder = tempfile::tempdir().unwrap();
        let ports: Vec<[ReservedPort; 2]> =
            (0..count).map(|_| [ReservedPort::loopback(), ReservedPort::loopback()]).collect();
        let peer =
            |(number, [_, peer]): (usize, &[ReservedPort; 2])| format!("m-{number}=http://{}", peer.addr());
        let initial_cluster = ports.iter().enumerate().map(peer).collect::<Vec<_>>().join(",");
        let members = ports.into_iter().enumerate().map(|(number, ports)| {
            let name = format!("m-{number}");
            Member {
                client: Client::new(Connector::tcp(ports[0].addr().to_string())),
                folder: folder.path().join(&name),
                binary: PathBuf::from(&binary),
                initial_cluster: initial_cluster.clone(),
                child: None,
                name,
                ports,
            }
        });
        let mut etcds = Self { members: members.collect(), _folder: folder };
        etcds.members.iter_mut().for_each(Member::start);
        for member in &etcds.members {
            member.serves().await;
        }
        etcds
    }

    /// The member that leads, by its own account.
    pub(crate) async fn leader(&self) -> usize {
        for (index, member) in self.members.iter().enumerate() {
            let standing = member.client.status().await.unwrap();
            if standing.leader_id == Some(standing.member_id) {
                return index;
            }
        }
        panic!("nobody leads");
    }
}

impl Member {
    pub(crate) fn start(&mut self) {
        let [client, peer] = self.ports.each_ref().map(|port| format!("http://{}", port.addr()));
        let log = self.folder.with_extension("log");
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(&self.binary);
        command.args(["--name", &self.name, "--data-dir"]).arg(&self.folder);
        for (flag, value) in [
            ("--listen-client-urls", &client),
            ("--advertise-client-urls", &client),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--initial-cluster", &self.initial_cluster),
        ] {
            command.args([flag, value]);
        }
        self.child = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    /// Waits until it answers a linearizable read.
    pub(crate) async fn serves(&self) {
        let begun = Instant::now();
        loop {
            match self.client.within(Duration::from_secs(1)).get("health").await {
                Ok(_) => return,
                Err(error) if begun.elapsed() > READY => {
                    let log = std::fs::read_to_string(self.folder.with_extension("log")).unwrap_or_default();
                    panic!("{} does not serve within {READY:?}; last seen: {error}\n{log}", self.name);
                }
                // Between two looks at a value.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().map(Pid::from_child).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// `kill -9`, and waits for its end.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn data(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Also a stopped process ends by SIGKILL.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
