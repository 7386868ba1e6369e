// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The container engine under the cluster, as far as faults and evidence need it: commands in the node's container, and
//! its pause. It brings no engine up and makes no cluster.
mod cli;

use std::time::Duration;

use anyhow::Result;

pub use self::cli::{Cli, Following};
use crate::stage::Stage;

/// For a command that should be over at once, on a machine that is busy.
const SHORT: Duration = Duration::from_secs(30);

/// The engine and the node that it carries. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    cli: Cli,
    node: String,
}

impl Engine {
    /// Of this stage.
    pub fn new(stage: &Stage) -> Self {
        Self { cli: Cli::new(&stage.engine), node: stage.node.clone() }
    }

    /// The node's container, by name.
    pub fn node_name(&self) -> &str {
        &self.node
    }

    /// Runs a shell script as root in the node, with `$1` and so on, within 30 s. Returns what it wrote to stdout.
    ///
    /// # Errors
    /// The engine cannot be started, time ran out, or the script ended with another status than 0: then with its stderr.
    pub async fn node(&self, script: &str, args: &[&str]) -> Result<String> {
        self.node_within(SHORT, script, args).await
    }

    /// As [`Engine::node`], within `limit`.
    ///
    /// # Errors
    /// As [`Engine::node`].
    pub async fn node_within(&self, limit: Duration, script: &str, args: &[&str]) -> Result<String> {
        let command = ["exec", &self.node, "sh", "-ec", script, "sh"];
        self.run(limit, &[&command[..], args].concat()).await
    }

    /// The state of the node's container: `running`, `paused`, `exited`, …
    ///
    /// # Errors
    /// The engine does not answer, or has no such container.
    pub async fn node_state(&self) -> Result<String> {
        let state = self.run(SHORT, &["inspect", "--format", "{{.State.Status}}", &self.node]).await?;
        Ok(state.trim().to_owned())
    }

    /// Freezes every process of the node.
    ///
    /// # Errors
    /// The engine's refusal.
    pub async fn pause(&self) -> Result<()> {
        self.run(SHORT, &["pause", &self.node]).await.map(drop)
    }

    /// Lets them go on.
    ///
    /// # Errors
    /// The engine's refusal; also when the node is not paused.
    pub async fn unpause(&self) -> Result<()> {
        self.run(SHORT, &["unpause", &self.node]).await.map(drop)
    }

    async fn run(&self, limit: Duration, args: &[&str]) -> Result<String> {
        self.cli.run(limit, args).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::tests::stage;

    /// `env` in the engine's place: it has an option or two, and the rest is a command.
    fn engine(program: &str) -> Engine {
        Engine::new(&Stage { engine: program.into(), ..stage(&[]) })
    }

    #[tokio::test]
    async fn a_program_that_is_missing_or_fails_is_named_with_what_it_said() {
        let told = engine("no-such-engine").node("true", &[]).await.unwrap_err();
        assert!(format!("{told:#}").starts_with("run no-such-engine exec e2e-control-plane"), "{told:#}");
        let told = engine("cat").pause().await.unwrap_err();
        assert!(
            format!("{told:#}").contains("cat pause e2e-control-plane: exit status: 1: cat:"),
            "{told:#}"
        );
    }

    #[tokio::test]
    async fn a_command_without_end_is_given_up() {
        let told = engine("sleep").run(Duration::from_millis(50), &["60"]).await.unwrap_err();
        assert_eq!(format!("{told:#}"), "sleep 60: no end within 50ms");
    }
}
