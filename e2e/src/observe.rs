// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Watching a case from its first second to its last: pods and containers, all their logs, events, and what each wrapper
//! says of itself. It writes to the case's folder, its timeline and its book of restarts; it judges nothing, and changes
//! nothing in the cluster.
mod events;
mod logs;
mod pods;
pub(crate) mod wrappers;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use crate::case::Case;

pub(crate) use events::FILE as EVENTS;

/// The tasks that watch; they end when this is dropped.
#[derive(Debug)]
pub struct Observer {
    _tasks: JoinSet<()>,
}

impl Observer {
    /// Begins to watch the case's namespace, which has to be there.
    pub fn start(case: &Case) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(pods::watch(case.clone()));
        tasks.spawn(events::watch(case.clone()));
        Self { _tasks: tasks }
    }
}

/// Appends to a file of the case's folder; made if it is missing.
fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let mut file = file.with_context(|| format!("open {}", path.display()))?;
    file.write_all(bytes).with_context(|| format!("write to {}", path.display()))
}
