// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The engine's command line. The only place of this crate that starts processes: a command with a limit, and a command
//! whose lines are followed.
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// A program that drives containers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cli {
    program: String,
}

/// A command that goes on; it is ended with this value.
#[derive(Debug)]
pub struct Following {
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Cli {
    /// `program` is looked up on PATH, unless it is a path.
    pub fn new(program: &str) -> Self {
        Self { program: program.to_owned() }
    }

    /// Runs a command and returns what it wrote to stdout.
    ///
    /// # Errors
    /// It cannot be started, does not end within `limit`, or ends with another status than 0: then with its stderr.
    pub async fn run(&self, limit: Duration, args: &[&str]) -> Result<String> {
        let shown = || format!("{} {}", self.program, args[..args.len().min(3)].join(" "));
        let mut command = Command::new(&self.program);
        command.args(args).stdin(Stdio::null()).kill_on_drop(true);
        let output = match tokio::time::timeout(limit, command.output()).await {
            Ok(output) => output.with_context(|| format!("run {}", shown()))?,
            Err(_) => bail!("{}: no end within {limit:?}", shown()),
        };
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{}: {}: {}", shown(), output.status, said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// As [`Cli::run`], with both outputs going to a file.
    ///
    /// # Errors
    /// As [`Cli::run`]; or the file cannot be written.
    pub async fn run_into(&self, limit: Duration, args: &[&str], file: &std::path::Path) -> Result<()> {
        let opened = std::fs::File::options().create(true).append(true).open(file);
        let opened = opened.with_context(|| format!("open {}", file.display()))?;
        let mut command = Command::new(&self.program);
        command.args(args).stdin(Stdio::null()).kill_on_drop(true);
        command.stdout(opened.try_clone()?).stderr(opened);
        let status = tokio::time::timeout(limit, command.status()).await;
        let status = status.with_context(|| format!("{args:?}: no end within {limit:?}"))?;
        let status = status.with_context(|| format!("run {} {args:?}", self.program))?;
        if status.success() { Ok(()) } else { bail!("{} {args:?}: {status}", self.program) }
    }

    /// Starts a command whose lines are read one by one.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn follow(&self, args: &[&str]) -> Result<Following> {
        let mut command = Command::new(&self.program);
        command.args(args).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
        let mut child = command
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("run {} {}", self.program, args.join(" ")))?;
        let stdout = child.stdout.take().context("a child with a pipe has one")?;
        Ok(Following { lines: BufReader::new(stdout).lines(), _child: child })
    }
}

impl Following {
    /// The next line; None: the command ended.
    pub async fn line(&mut self) -> Option<String> {
        self.lines.next_line().await.ok().flatten()
    }
}
