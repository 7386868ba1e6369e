// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! One member's pod: a pause container that owns network and processes, the sidecar and the wrapper in it, as druid's
//! pods share them. What ended is started again, as the kubelet does it; every end of a wrapper is noted with its exit
//! code and with what lay in the marker's file before anybody else could touch it.
mod create;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};

use super::files::{Files, name};
use super::hand::{Hand, SHORT};
use crate::check::Exit;
use crate::engine::Following;
use crate::schedule::MEMBERS;
use crate::timeline::{Timeline, What, now};

/// What lies between the end of a container and its next start. The kubelet waits longer each time; here nobody profits
/// from that.
const BACKOFF: Duration = Duration::from_millis(800);
/// A wrapper ends within 25 s, or is killed after 30 s, as in a pod.
const STOP: Duration = Duration::from_secs(45);
/// The marker of a clean end.
const MARKER: &str = "/var/etcd/data/exit_code";

/// In the place of an exit code: everything was gone at once.
const POWER_LOST: i32 = -1;

/// A container of a pod, besides the pause container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The container `etcd`.
    Wrapper,
    /// The container `backup-restore`.
    Sidecar,
}

/// Where a pod lives, and with whom.
#[derive(Clone, Debug)]
pub struct Place {
    /// From 0.
    pub member: usize,
    /// Name of the engine's network.
    pub network: String,
    /// Where the network's host answers.
    pub gateway: IpAddr,
    /// Of all members, in their order.
    pub addresses: [IpAddr; MEMBERS],
    /// The volume on the engine's machine.
    pub volume: String,
    /// Where the logs of containers go.
    pub logs: PathBuf,
}

/// What the sidecar is.
#[derive(Clone, Debug)]
pub enum Sidecar {
    /// The double, in the pause container's image.
    Double,
    /// etcd-backup-restore, with what it needs to find its cluster's API server.
    Real {
        /// Name of the image.
        image: String,
        /// After the entrypoint.
        arguments: Vec<String>,
        /// `NAME=VALUE`.
        environment: Vec<String>,
        /// `FROM:TO:MODE`, as the engine takes them.
        mounts: Vec<String>,
    },
}

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pod {
    hand: Hand,
    files: Arc<Files>,
    place: Place,
    sidecar: Sidecar,
    timeline: Timeline,
    state: Arc<AsyncMutex<State>>,
    exits: Arc<Mutex<Vec<Exit>>>,
}

/// What is meant to be there. Held while something is done to the pod.
#[derive(Debug)]
pub struct State {
    image: String,
    is_up: bool,
    restarts: u32,
}

impl Part {
    /// Name of the container, as in druid's pods.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wrapper => "etcd",
            Self::Sidecar => "backup-restore",
        }
    }
}

impl Pod {
    /// A pod whose wrapper is of `image`; nothing is started.
    pub fn new(
        hand: Hand,
        files: Arc<Files>,
        place: Place,
        sidecar: Sidecar,
        image: &str,
        timeline: Timeline,
    ) -> Self {
        let state = State { image: image.to_owned(), is_up: false, restarts: 0 };
        Self {
            hand,
            files,
            place,
            sidecar,
            timeline,
            state: Arc::new(AsyncMutex::new(state)),
            exits: Arc::default(),
        }
    }

    /// From 0.
    pub fn member(&self) -> usize {
        self.place.member
    }

    /// Name of the member, `etcd-main-0`.
    pub fn name(&self) -> String {
        name(self.place.member)
    }

    /// Where it is reached.
    pub fn address(&self) -> IpAddr {
        self.place.addresses[self.place.member]
    }

    /// Every end of a wrapper so far.
    pub fn exits(&self) -> Vec<Exit> {
        self.exits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The name of a container.
    pub fn container(&self, part: Part) -> String {
        self.hand.name(&format!("{}-{}", self.name(), part.as_str()))
    }

    /// The name of the pause container.
    pub fn pause(&self) -> String {
        self.hand.name(&format!("{}-pause", self.name()))
    }

    /// For whoever does more than one thing to the pod: nobody starts anything in it meanwhile.
    pub async fn hold(&self) -> MutexGuard<'_, State> {
        self.state.lock().await
    }

    /// Makes and starts all containers.
    ///
    /// # Errors
    /// The engine's.
    pub async fn create(&self, state: &mut State) -> Result<()> {
        let (pause, label, address) = (self.pause(), self.hand.label(), self.address().to_string());
        let mut words = vec!["run", "--detach", "--name", &pause, "--hostname"];
        let own = self.name();
        words.extend([own.as_str(), "--label", &label, "--network", &self.place.network, "--ip", &address]);
        // Of the other processes' descriptors nobody else may know; their signals are root's matter.
        words.extend(["--cap-add=SYS_PTRACE", "--volume"]);
        let volume = format!("{}:/var/etcd/data", self.place.volume);
        words.push(&volume);
        let hosts = self.hosts();
        words.extend(hosts.iter().flat_map(|host| ["--add-host", host]));
        words.extend([self.hand.image(), "hold"]);
        self.hand.docker(&words).await.with_context(|| format!("start {pause}"))?;
        state.is_up = true;
        self.create_sidecar().await?;
        self.create_wrapper(&state.image).await
    }

    /// Removes all containers, in no order and without asking: their logs stay on this machine.
    ///
    /// # Errors
    /// The engine's.
    pub async fn remove(&self, state: &mut State) -> Result<()> {
        state.is_up = false;
        self.keep_logs(Part::Wrapper).await?;
        self.keep_logs(Part::Sidecar).await?;
        let names = [self.container(Part::Wrapper), self.container(Part::Sidecar), self.pause()];
        let words: Vec<&str> =
            ["rm", "--force"].into_iter().chain(names.iter().map(String::as_str)).collect();
        self.hand.docker(&words).await.map(drop)
    }

    /// Names that only a pod knows: itself, and its peers by way of the network that can be parted.
    /// Starts a container that ended, if it is meant to be up. For whoever holds the pod.
    ///
    /// # Errors
    /// The engine's.
    pub async fn start(&self, state: &mut State, part: Part) -> Result<()> {
        state.is_up = true;
        self.hand.docker(&["start", &self.container(part)]).await.map(drop)
    }

    /// Stops the wrapper's container as the kubelet does, and notes its end.
    ///
    /// # Errors
    /// The engine's.
    pub async fn stop_wrapper(&self, _held: &State) -> Result<()> {
        let container = self.container(Part::Wrapper);
        self.hand.cli().run(STOP, &["stop", &container]).await?;
        self.note_exit().await
    }

    /// Kills both containers at once, and notes the wrapper's end.
    ///
    /// # Errors
    /// The engine's.
    pub async fn kill_containers(&self, _held: &State) -> Result<()> {
        self.hand.docker(&["kill", &self.container(Part::Wrapper), &self.container(Part::Sidecar)]).await?;
        self.note_exit().await
    }

    /// Makes the wrapper's container anew from another image, on the same volume. It was stopped before.
    ///
    /// # Errors
    /// The engine's.
    pub async fn replace_wrapper(&self, state: &mut State, image: &str) -> Result<()> {
        self.keep_logs(Part::Wrapper).await?;
        self.hand.docker(&["rm", &self.container(Part::Wrapper)]).await?;
        image.clone_into(&mut state.image);
        self.create_wrapper(image).await
    }

    /// The image that the wrapper is of.
    pub fn image<'a>(&self, state: &'a State) -> &'a str {
        &state.image
    }

    /// Restarts the sidecar's container.
    ///
    /// # Errors
    /// The engine's.
    pub async fn restart_sidecar(&self, _held: &State) -> Result<()> {
        self.hand.docker(&["restart", "--time", "1", &self.container(Part::Sidecar)]).await.map(drop)
    }

    /// Runs the hand in the pod.
    ///
    /// # Errors
    /// The engine's, or the hand's.
    pub async fn hand(&self, words: &[&str]) -> Result<String> {
        let pause = self.pause();
        self.hand.docker(&[&["exec", &pause, "/pod-hand"], words].concat()).await
    }

    /// What the pause container tells of the pod's processes, from its beginning on; ends with it.
    ///
    /// # Errors
    /// The engine's command line cannot be started.
    pub fn samples(&self) -> Result<Following> {
        self.hand.cli().follow(&["logs", "--follow", &self.pause()])
    }

    /// A container ended: notes it, waits as long as the kubelet would, and starts it if it is still meant to be up.
    /// Takes the pod for itself, so whoever did it on purpose is done by then.
    ///
    /// # Errors
    /// The engine's.
    pub async fn revive(&self, part: Part) -> Result<()> {
        let mut state = self.state.lock().await;
        if !state.is_up || self.is_running(part).await? {
            return Ok(());
        }
        if part == Part::Wrapper {
            self.note_exit().await?;
        }
        tokio::time::sleep(BACKOFF).await;
        state.restarts += 1;
        let (pod, container) = (self.name(), part.as_str().to_owned());
        self.hand.docker(&["start", &self.container(part)]).await?;
        let restarts = state.restarts;
        self.timeline.add(What::Container { pod, container, state: "running".into(), restarts });
        Ok(())
    }

    async fn is_running(&self, part: Part) -> Result<bool> {
        let said =
            self.hand.docker(&["inspect", "--format", "{{.State.Running}}", &self.container(part)]).await?;
        Ok(said.trim() == "true")
    }

    /// Notes what a loss of power left of the marker; nobody has touched the volume since. There is no container.
    ///
    /// # Errors
    /// The engine's machine cannot be asked.
    pub async fn note_power_loss(&self) -> Result<()> {
        let script = r#"if [ -e "$1" ]; then printf 'there:'; cat "$1"; fi"#;
        let marker = format!("{}/exit_code", self.place.volume);
        let said = self.hand.outside(script, &[&marker]).await?;
        let marker = said.strip_prefix("there:").map(str::to_owned);
        self.note(Exit { member: self.name(), at: now(), code: POWER_LOST, marker });
        Ok(())
    }

    async fn note_exit(&self) -> Result<()> {
        let container = self.container(Part::Wrapper);
        let said = self.hand.docker(&["inspect", "--format", "{{.State.ExitCode}}", &container]).await?;
        let code: i32 = said.trim().parse().with_context(|| format!("read the exit code {said:?}"))?;
        let marker = self.marker().await?;
        self.note(Exit { member: self.name(), at: now(), code, marker });
        Ok(())
    }

    fn note(&self, exit: Exit) {
        let (pod, state) = (self.name(), format!("exit {}", exit.code));
        let restarts = u32::try_from(self.exits().len()).unwrap_or(u32::MAX);
        self.timeline.add(What::Container { pod, container: Part::Wrapper.as_str().into(), state, restarts });
        self.exits.lock().unwrap_or_else(PoisonError::into_inner).push(exit);
    }

    /// What the marker's file holds; None: it is not there.
    async fn marker(&self) -> Result<Option<String>> {
        match self.hand(&["read", MARKER]).await {
            Ok(text) => Ok(Some(text)),
            Err(error) if format!("{error:#}").contains("exit status: 3") => Ok(None),
            Err(error) => Err(error.context("read the marker")),
        }
    }

    /// Appends a container's log so far to a file of ours.
    ///
    /// # Errors
    /// The engine's, or the file system's.
    pub async fn keep_logs(&self, part: Part) -> Result<()> {
        let file: &Path = &self.place.logs;
        std::fs::create_dir_all(file).with_context(|| format!("create {}", file.display()))?;
        let file = file.join(format!("{}-{}-log.txt", self.name(), part.as_str()));
        self.hand.cli().run_into(SHORT, &["logs", "--timestamps", &self.container(part)], &file).await
    }
}

impl State {
    /// From now on the kubelet leaves the pod alone, until something is started.
    pub fn go_down(&mut self) {
        self.is_up = false;
    }
}

/// The part of a container's name that says whose it is.
///
/// # Errors
/// It is none of a pod's.
pub fn part_of(container: &str) -> Result<(usize, Part)> {
    for member in 0..MEMBERS {
        for part in [Part::Wrapper, Part::Sidecar] {
            if container.ends_with(&format!("-{}-{}", name(member), part.as_str())) {
                return Ok((member, part));
            }
        }
    }
    ensure!(false, "{container} is no container of a pod");
    unreachable!("the line above returns")
}
