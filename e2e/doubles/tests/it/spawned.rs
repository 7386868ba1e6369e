// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A scripted etcd with a folder, a port and a socket of its own, killed at the end. Holds no test.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test are tests, too; clippy sees only marked functions"
)]
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use doubles::etcd::{Event, Script, Stage, StartFacts};
use doubles::ports::ReservedPort;
use doubles::wait::{self, Poll};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tonic::transport::Channel;

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A spawned double with all it needs; killed at the end.
pub(crate) struct Spawned {
    pub(crate) folder: TempDir,
    pub(crate) stage: Stage,
    socket: UnixDatagram,
    pub(crate) port: ReservedPort,
    pub(crate) child: Child,
}

impl Spawned {
    pub(crate) fn new(script: Script) -> Self {
        Self::with(script, |_, port| config(port, "http", ""))
    }

    pub(crate) fn with(script: Script, config: impl FnOnce(&Path, u16) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stage = Stage::new(folder.path(), script).unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let port = ReservedPort::loopback();
        std::fs::write(folder.path().join("etcd.yaml"), config(folder.path(), port.port())).unwrap();
        let child = spawn(folder.path(), &stage);
        Self { folder, stage, socket, port, child }
    }

    pub(crate) fn wait_ready(&self) {
        let mut text = [0; 64];
        let length = self.socket.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"READY=1");
    }

    pub(crate) fn wait_for(&self, what: &str, wanted: impl Fn(&Event) -> bool) {
        self.stage.wait_for_record(LIMIT, what, |record| wanted(&record.event));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn wait_end(&mut self) -> ExitStatus {
        wait_end(&mut self.child)
    }

    pub(crate) fn facts(&self) -> StartFacts {
        self.stage.wait_for_start(1, LIMIT).1
    }

    pub(crate) async fn channel(&self) -> Channel {
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

pub(crate) fn spawn(folder: &Path, stage: &Stage) -> Child {
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

pub(crate) fn wait_end(child: &mut Child) -> ExitStatus {
    wait::until(LIMIT, "the end of the child", || {
        Poll::from_option(child.try_wait().unwrap(), || "it lives".into())
    })
}

pub(crate) fn config(port: u16, scheme: &str, more: &str) -> String {
    format!(
        "name: red-0\ndata-dir: data\nlisten-client-urls: {scheme}://127.0.0.1:{port}\n\
         initial-cluster: red-0=http://127.0.0.1:1,red-1=http://127.0.0.1:2,red-2=http://127.0.0.1:3\n{more}"
    )
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// GET over HTTP/1.1 on any stream; everything that comes back.
pub(crate) fn get(mut stream: impl Read + Write, path: &str) -> std::io::Result<String> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
