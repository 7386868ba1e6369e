// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The engine as the tier uses it, and the one privileged container of a run: through it scripts run on the machine of
//! the engine, where volumes are made. All that a run makes carries its label, and goes by it.
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::engine::Cli;

/// What a run's containers and networks are labelled with; the value is the run.
pub const LABEL: &str = "etcd-wrapper.tier";
/// A command of the engine, on a busy machine.
pub const SHORT: Duration = Duration::from_secs(60);

/// The engine during one run. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Hand {
    cli: Cli,
    run: String,
    image: String,
}

/// Held as long as a run lives, so that another one knows what is left over. The file stays.
#[derive(Debug)]
pub struct Claim {
    _file: File,
}

impl Hand {
    /// `image` holds the program `pod-hand`.
    pub fn new(engine: &str, run: &str, image: &str) -> Self {
        Self { cli: Cli::new(engine), run: run.to_owned(), image: image.to_owned() }
    }

    /// The engine's command line.
    pub fn cli(&self) -> &Cli {
        &self.cli
    }

    /// The run's name.
    pub fn run_name(&self) -> &str {
        &self.run
    }

    /// The image of the pause containers.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// `LABEL=RUN`.
    pub fn label(&self) -> String {
        format!("{LABEL}={}", self.run)
    }

    /// The name of something of this run.
    pub fn name(&self, what: &str) -> String {
        format!("tier-{}-{what}", self.run)
    }

    /// A command of the engine.
    ///
    /// # Errors
    /// The engine's.
    pub async fn docker(&self, args: &[&str]) -> Result<String> {
        self.cli.run(SHORT, args).await
    }

    /// Starts the privileged container.
    ///
    /// # Errors
    /// The engine's.
    pub async fn reach_out(&self) -> Result<()> {
        let (name, label) = (self.name("outside"), self.label());
        let run = ["run", "--detach", "--privileged", "--pid=host", "--network=none", "--name", &name];
        self.docker(&[&run[..], &["--label", &label, &self.image, "hold"]].concat()).await.map(drop)
    }

    /// Runs a shell script as root on the engine's machine, with `$1` and so on.
    ///
    /// # Errors
    /// It ended with another status than 0: then with its stderr.
    pub async fn outside(&self, script: &str, args: &[&str]) -> Result<String> {
        let name = self.name("outside");
        let exec = ["exec", "--privileged", &name, "/pod-hand", "outside", script];
        self.docker(&[&exec[..], args].concat()).await
    }

    /// Claims this run's name.
    ///
    /// # Errors
    /// The file cannot be made or locked.
    pub fn claim(&self) -> Result<Claim> {
        let path = claim_path(&self.run);
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        file.try_lock().with_context(|| format!("lock {}", path.display()))?;
        Ok(Claim { _file: file })
    }

    /// Removes what runs that are over have left; their names. Needs the privileged container.
    ///
    /// # Errors
    /// The engine's.
    pub async fn sweep(&self) -> Result<Vec<String>> {
        let filter = format!("label={LABEL}");
        let format = format!("{{{{.Label {LABEL:?}}}}}");
        let said = self.docker(&["ps", "--all", "--filter", &filter, "--format", &format]).await?;
        let networks = self.docker(&["network", "ls", "--filter", &filter, "--format", &format]).await?;
        // Containers may have been taken away by hand, and their volumes be mounted still.
        let volumes = self.outside(super::volume::LIST, &[]).await?;
        let mut runs: Vec<&str> = said.lines().chain(networks.lines()).chain(volumes.lines()).collect();
        runs.sort_unstable();
        runs.dedup();
        let mut swept = Vec::new();
        for run in runs.into_iter().filter(|run| *run != self.run && is_over(run)) {
            self.remove_run(run).await.with_context(|| format!("remove what run {run} left"))?;
            swept.push(run.to_owned());
        }
        Ok(swept)
    }

    /// Removes all containers, volumes and networks of this run. What is not there is no error.
    ///
    /// # Errors
    /// The engine's.
    pub async fn remove_all(&self) -> Result<()> {
        self.remove_run(&self.run).await?;
        self.docker(&["rm", "--force", "--volumes", &self.name("outside")]).await.map(drop)
    }

    /// All of a run but the privileged container of this one, through which its volumes go.
    async fn remove_run(&self, run: &str) -> Result<()> {
        let filter = format!("label={LABEL}={run}");
        let own = self.name("outside");
        let format = "{{.ID}} {{.Names}}";
        let listed =
            self.docker(&["ps", "--all", "--no-trunc", "--filter", &filter, "--format", format]).await?;
        let ids: Vec<&str> = listed
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(_, name)| *name != own)
            .map(|(id, _)| id)
            .collect();
        if !ids.is_empty() {
            self.docker(&[&["rm", "--force", "--volumes"], &ids[..]].concat()).await?;
        }
        self.outside(super::volume::REMOVE, &[&super::volume::folder(run)]).await?;
        let networks = self.docker(&["network", "ls", "--quiet", "--filter", &filter]).await?;
        let networks: Vec<&str> = networks.lines().collect();
        if !networks.is_empty() {
            self.docker(&[&["network", "rm"], &networks[..]].concat()).await?;
        }
        let _ = std::fs::remove_file(claim_path(run));
        Ok(())
    }
}

fn claim_path(run: &str) -> PathBuf {
    std::env::temp_dir().join(format!("etcd-wrapper-tier-{run}.lock"))
}

/// Nobody holds the claim. A run on another machine with the same engine would look so too.
fn is_over(run: &str) -> bool {
    match File::open(claim_path(run)) {
        Ok(file) => file.try_lock().is_ok(),
        Err(_) => true,
    }
}
