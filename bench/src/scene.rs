// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The place of one run: a folder, ports of its own, a sidecar's double, and the command lines of what is compared.
//! Every run has a new one, so that nobody finds what another left.
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use doubles::ports::ReservedPort;
use doubles::sidecar::{ConfigMap, Sidecar};
use tempfile::TempDir;

use crate::http;
use crate::process::Program;
use crate::stage::{Peer, Stage};

/// The member's and its pod's name.
pub(crate) const MEMBER: &str = "etcd-main-0";
/// No start takes longer, whatever the machine does beside it.
pub(crate) const LONG: Duration = Duration::from_secs(90);
/// Between two looks at something that comes by itself: finer than any bar.
const LOOK: Duration = Duration::from_micros(500);

#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) stage: &'a Stage,
    folder: TempDir,
    pub(crate) client: ReservedPort,
    peer: ReservedPort,
    api: ReservedPort,
    pub(crate) sidecar: Option<Sidecar>,
    pub(crate) member: String,
}

impl<'a> Scene<'a> {
    /// Without a sidecar.
    pub(crate) fn bare(stage: &'a Stage) -> Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("etcd-wrapper-bench-").tempdir().context("make a folder")?;
        for name in ["state", "home"] {
            std::fs::create_dir(folder.path().join(name)).context("make a folder")?;
        }
        let port = || ReservedPort::at(([127, 0, 0, 1], 0).into()).context("reserve a port");
        let (client, peer, api) = (port()?, port()?, port()?);
        Ok(Self { stage, folder, client, peer, api, sidecar: None, member: MEMBER.into() })
    }

    /// With a sidecar that answers at once.
    pub(crate) fn new(stage: &'a Stage) -> Result<Self> {
        Self::bare(stage)?.served(|map| map)
    }

    /// Puts a sidecar in that serves this config map, made from the plain one.
    pub(crate) fn served(mut self, change: impl FnOnce(ConfigMap) -> ConfigMap) -> Result<Self> {
        let map = change(self.config_map());
        let sidecar = Sidecar::faithful(map, &self.member).data_dir(&self.data_dir()).start()?;
        self.sidecar = Some(sidecar);
        Ok(self)
    }

    pub(crate) fn config_map(&self) -> ConfigMap {
        ConfigMap::single(&self.member, &self.data_dir(), self.client.port(), self.peer.port())
            // etcd's own moments are read from its log.
            .with("log-level", "info")
            .with("logger", "zap")
            .with("log-outputs", serde_json::json!(["stderr"]))
    }

    /// What a sidecar serves.
    pub(crate) fn config(&self) -> Result<String> {
        self.config_map().render(&self.member, None, false)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.path().join("state")
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.state_dir().join("new.etcd")
    }

    pub(crate) fn api(&self) -> SocketAddr {
        self.api.addr()
    }

    pub(crate) fn peer_port(&self) -> u16 {
        self.peer.port()
    }

    /// Go's nine flags, as a pod has them without TLS.
    fn common(&self, program: &Path, sidecar: Option<SocketAddr>) -> Command {
        let mut command = self.plain(program);
        command
            .arg("start-etcd")
            .arg(format!("--etcd-wrapper-port={}", self.api.port()))
            .arg(format!("--etcd-client-port={}", self.client.port()))
            // Go's dials its etcd by this name.
            .arg("--etcd-server-name=localhost");
        if let Some(sidecar) = sidecar {
            command
                .arg("--backup-restore-tls-enabled=false")
                .arg(format!("--backup-restore-host-port={sidecar}"));
        }
        command
    }

    fn plain(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // Both programs' logs in one clock's time.
        command
            .env_clear()
            .env("TZ", "UTC")
            .env("PATH", "/bin:/usr/bin")
            .env("HOME", self.path().join("home"));
        command.current_dir(self.path());
        command
    }

    /// The wrapper of this tree, with the sidecar at this address; None: from the file of [`Scene::write_config`].
    pub(crate) fn wrapper(&self, sidecar: Option<SocketAddr>) -> Command {
        let mut command = self.common(&self.stage.wrapper, sidecar);
        command
            .arg("--listen-address=127.0.0.1")
            .arg(format!("--etcd-path={}", self.stage.etcd.display()))
            .arg(format!("--state-dir={}", self.state_dir().display()));
        if sidecar.is_none() {
            command.arg(format!("--etcd-config-file={}", self.config_path().display()));
        }
        command
    }

    /// Another wrapper, with what Go's has and no more.
    pub(crate) fn peer(&self, peer: &Peer, sidecar: SocketAddr) -> Command {
        self.common(&peer.path, Some(sidecar))
    }

    /// etcd alone, on the same config.
    pub(crate) fn etcd(&self) -> Command {
        let mut command = self.plain(&self.stage.etcd);
        command.arg("--config-file").arg(self.config_path());
        command
    }

    pub(crate) fn config_path(&self) -> PathBuf {
        self.path().join("etcd.yaml")
    }

    pub(crate) fn write_config(&self) -> Result<()> {
        std::fs::write(self.config_path(), self.config()?).context("write a config")
    }

    /// Where the sidecar in it listens.
    pub(crate) fn sidecar_at(&self) -> Option<SocketAddr> {
        self.sidecar.as_ref().map(Sidecar::addr)
    }

    /// Starts our wrapper beside the sidecar in it, or from the config file without one.
    pub(crate) fn start(&self) -> Result<Program> {
        if self.sidecar.is_none() {
            self.write_config()?;
        }
        self.run(self.wrapper(self.sidecar_at()), "wrapper")
    }

    /// Starts our wrapper and waits until it is ready.
    pub(crate) fn start_ready(&self) -> Result<Program> {
        let mut program = self.start()?;
        self.wait_ready(&mut program)?;
        Ok(program)
    }

    pub(crate) fn run(&self, command: Command, name: &str) -> Result<Program> {
        Program::start(command, &self.path().join(format!("{name}.log")))
    }

    /// Waits until the port accepts; when it did.
    pub(crate) fn wait_port(&self, program: &mut Program) -> Result<Instant> {
        wait(program, "the port", || {
            Ok(std::net::TcpStream::connect(self.api()).map_err(|error| error.to_string()))
        })
    }

    /// Waits until `/readyz` says 200; when it did.
    pub(crate) fn wait_ready(&self, program: &mut Program) -> Result<Instant> {
        let mut connection = None;
        wait(program, "/readyz 200", || {
            let open = match connection.take() {
                Some(open) => Ok(open),
                None => http::Connection::open(self.api()),
            };
            let mut open = match open {
                Ok(open) => open,
                Err(error) => return Ok(Err(format!("{error:#}"))),
            };
            match open.get("/readyz") {
                Ok(answer) if answer.status == 200 => Ok(Ok(())),
                Ok(answer) => {
                    connection = Some(open);
                    Ok(Err(format!("it says {}", answer.status)))
                }
                Err(error) => Ok(Err(format!("{error:#}"))),
            }
        })
    }

    /// etcd's pid, by the wrapper's word.
    pub(crate) fn etcd_pid(&self) -> Result<u32> {
        let status = http::get(self.api(), "/v1/status")?.json()?;
        let pid = status["etcd"]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        pid.with_context(|| format!("no etcd in {status}"))
    }
}

/// Looks until it is there, the program has ended, somebody wants us to end, or time is up; when it was there.
pub(crate) fn wait<T>(
    program: &mut Program,
    what: &str,
    mut look: impl FnMut() -> Result<std::result::Result<T, String>>,
) -> Result<Instant> {
    let deadline = Instant::now() + LONG;
    loop {
        let seen = look()?;
        let now = Instant::now();
        match seen {
            Ok(_) => return Ok(now),
            Err(last) if now >= deadline => {
                bail!("{what} did not come within {LONG:?}; last seen: {last}; {}", program.tail())
            }
            Err(_) => {}
        }
        crate::interrupted()?;
        program.check_alive().with_context(|| format!("waiting for {what}"))?;
        crate::machine::pass(LOOK);
    }
}
