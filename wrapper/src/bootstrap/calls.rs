// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Carries out the machine's calls to the sidecar: picks the time limit, and turns outcomes into what the machine has to
//! know (`Reply`) and what people want to read (`said`).
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::sidecar::{Outcome, SidecarClient};
use crate::config::{self, EtcdConfig};
use crate::supervise::command::{Code, Refusal};
use crate::supervise::state::{Call, Plan, Reply};
use crate::supervise::view::ConfigSource;

/// A status or `start` answers out of memory.
const ASK: Duration = Duration::from_secs(10);
const CHECK: Duration = Duration::from_secs(1);
/// `/config` needs up to 37 s while members are not ready.
const CONFIG: Duration = Duration::from_secs(60);
/// While etcd runs it answers at once; a restart does not wait longer.
const CONFIG_QUICK: Duration = Duration::from_secs(45);

/// One answered call.
#[derive(Debug)]
pub struct Answered {
    pub reply: Reply,
    /// The error in words, where it was none of the answers asked for.
    pub said: Option<String>,
    /// Bounded label for metrics.
    pub outcome: &'static str,
    pub config: Option<Arc<EtcdConfig>>,
}

/// The label of a call in metrics and logs.
pub fn name(call: Call) -> &'static str {
    match call {
        Call::Status | Call::Check | Call::Watch => "status",
        Call::Start(_) => "start",
        Call::Config { .. } => "config",
    }
}
