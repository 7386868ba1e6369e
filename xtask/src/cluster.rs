// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A KinD cluster of one node: made, found, loaded with images, taken down. It touches clusters that it made, by name,
//! and writes a kubeconfig of its own, never the user's.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cache::Cache;
use crate::engine::{Engine, docker};
use crate::images::{Foreign, From};
use crate::node;
use crate::repo;
use crate::sh::Step;
use crate::tools::Tool;

/// What a cluster is called when nobody says otherwise.
pub(crate) const DEFAULT: &str = "etcd-wrapper";

/// A cluster by its name; it may be there or not.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) name: String,
    pub(crate) kubeconfig: PathBuf,
    kind: PathBuf,
    kubectl: PathBuf,
}

/// What there is of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    /// Its node's container is in this state of the engine's, such as `exited` or `paused`.
    Stopped(String),
    /// The node runs, and its API server does not answer.
    Deaf(String),
    /// It answers, with this version of Kubernetes.
    Up(String),
}

impl Cluster {
    /// The cluster called `name`.
    pub(crate) fn named(name: &str) -> Result<Self> {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        {
            bail!("a cluster cannot be called {name:?}: lower-case letters, digits and hyphens only");
        }
        let folder = Cache::locate()?.scratch("clusters");
        std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        Ok(Self {
            name: name.to_owned(),
            kubeconfig: folder.join(format!("{name}.kubeconfig")),
            kind: Tool::Kind.ensure()?,
            kubectl: Tool::Kubernetes("kubectl").ensure()?,
        })
    }

    /// The container of its one node.
    pub(crate) fn node(&self) -> String {
        format!("{}-control-plane", self.name)
    }

    /// How it stands.
    pub(crate) fn state(&self, engine: &Engine) -> Result<State> {
        let Some(state) = engine.container(&self.node())? else { return Ok(State::Absent) };
        if state != "running" {
            return Ok(State::Stopped(state));
        }
        if !self.kubeconfig.is_file() {
            // Made by another user of this machine, or before the cache was moved.
            self.kind()
                .args(["export", "kubeconfig", "--name", &self.name])
                .arg("--kubeconfig")
                .arg(&self.kubeconfig)
                .read()?;
        }
        let said = self.kubectl().args(["version", "--output=json", "--request-timeout=5s"]).read();
        Ok(match said {
            Err(error) => State::Deaf(format!("{error:#}")),
            Ok(text) => {
                let version: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
                match version["serverVersion"]["gitVersion"].as_str() {
                    Some(version) => State::Up(version.to_owned()),
                    None => State::Deaf(text),
                }
            }
        })
    }

    /// Makes it, out of a node image as this machine can have one. Of the Kubernetes of this minor (`1.36`), if one is
    /// asked for.
    pub(crate) fn create(&self, engine: &Engine, kubernetes: Option<&str>) -> Result<()> {
        let root = repo::root();
        let node = Foreign::read(&root)?.node_of(kubernetes)?;
        let (image, shape) = match node.find(engine)? {
            Ok((digest, from)) => {
                eprintln!("node image: {} ({digest}, {from})", node.reference);
                (node.reference, "cluster-public.yaml")
            }
            Err(why) => {
                // What is built here is of one version.
                let built =
                    Tool::Kubernetes("kubelet").pinned()?.context("hack/tools/k8s pins no Kubernetes")?;
                if !is_minor(&built, kubernetes) {
                    let image = &node.reference;
                    bail!(
                        "the node image {image} cannot be pulled ({why}), and what is built here is {built}"
                    );
                }
                eprintln!("node image: {} cannot be pulled ({why}); {}", node.reference, From::Built);
                (node::ensure(engine)?, "cluster.yaml")
            }
        };
        let made = self
            .kind()
            .args([
                "create", "cluster", "--name", &self.name, "--image", &image, "--wait", "180s", "--config",
            ])
            .arg(root.join("hack/kind").join(shape))
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .watch(&format!("making cluster {}", self.name));
        if let Err(error) = made {
            let log = self.keep_logs();
            self.delete()?;
            return Err(error.context(format!("make cluster {}; its logs: {}", self.name, log.display())));
        }
        self.wait_for_service_account()
    }

    /// Pods are refused before the account they run as by default is there.
    fn wait_for_service_account(&self) -> Result<()> {
        self.kubectl()
            .args(["wait", "--for=create", "serviceaccount/default", "--namespace=default", "--timeout=60s"])
            .read()
            .map(drop)
    }

    /// Puts an archive of an image into the node.
    pub(crate) fn load_archive(&self, engine: &Engine, archive: &Path) -> Result<()> {
        let import = ["ctr", "--namespace=k8s.io", "images", "import", "--digests", "-"];
        engine.feed(&self.node(), &import, archive)
    }

    /// Puts an image that the engine has into the node.
    pub(crate) fn load_image(&self, reference: &str) -> Result<()> {
        self.kind().args(["load", "docker-image", "--name", &self.name, reference]).read().map(drop)
    }

    /// Whether the node has an image of this name.
    pub(crate) fn has_image(&self, engine: &Engine, reference: &str) -> Result<bool> {
        let listed = engine.exec(&self.node(), &["ctr", "--namespace=k8s.io", "images", "ls", "--quiet"])?;
        Ok(listed.lines().any(|line| line.trim() == reference))
    }

    /// Removes it with all it holds. One that is not there is no error.
    pub(crate) fn delete(&self) -> Result<()> {
        self.kind()
            .args(["delete", "cluster", "--name", &self.name])
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .read()?;
        self.set_temporary(false)?;
        match std::fs::remove_file(&self.kubeconfig) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("remove {}", self.kubeconfig.display()))
            }
            _ => Ok(()),
        }
    }

    /// Writes what the node's units and pods said into a folder, as far as it can be had.
    pub(crate) fn keep_logs(&self) -> PathBuf {
        let folder = self.kubeconfig.with_extension("logs");
        if let Err(error) = self.kind().args(["export", "logs", "--name", &self.name]).arg(&folder).read() {
            eprintln!("kind export logs: {error:#}");
        }
        folder
    }

    /// Notes that it goes with the run that made it, or that it stays after all.
    pub(crate) fn set_temporary(&self, temporary: bool) -> Result<()> {
        let note = self.temporary_note();
        let done = if temporary { File::create(&note).map(drop) } else { std::fs::remove_file(&note) };
        match done {
            Err(error) if temporary || error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("write or remove {}", note.display()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a run made it for itself. When nobody claims such a one, its run was cut off.
    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary_note().exists()
    }

    fn temporary_note(&self) -> PathBuf {
        self.kubeconfig.with_extension("temporary")
    }

    /// Claims it for this process; none if another run works on it.
    pub(crate) fn claim(&self) -> Result<Option<Claim>> {
        let path = self.kubeconfig.with_extension("lock");
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Claim(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock {}", path.display())),
        }
    }

    /// `kubectl`, speaking to this cluster.
    pub(crate) fn kubectl(&self) -> Step {
        Step::new(&self.kubectl).arg("--kubeconfig").arg(&self.kubeconfig)
    }

    fn kind(&self) -> Step {
        Step::new(&self.kind).env("KIND_EXPERIMENTAL_PROVIDER", "docker")
    }
}

/// The claim of one run on a cluster; others keep off until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim(#[expect(dead_code, reason = "the lock lives as long as the file is open")] File);

/// Whether a version such as `v1.37.0` is of the minor that is asked for, if one is.
pub(crate) fn is_minor(version: &str, wanted: Option<&str>) -> bool {
    wanted.is_none_or(|minor| version.trim_start_matches('v').starts_with(&format!("{minor}.")))
}

/// The names of all clusters that kind made on this engine.
pub(crate) fn all(_: &Engine) -> Result<Vec<String>> {
    let said = docker([
        "ps",
        "--all",
        "--filter",
        "label=io.x-k8s.kind.cluster",
        "--format",
        "{{.Label \"io.x-k8s.kind.cluster\"}}",
    ])
    .read()?;
    let mut names: Vec<String> = said.lines().map(str::to_owned).collect();
    names.sort();
    names.dedup();
    Ok(names)
}
