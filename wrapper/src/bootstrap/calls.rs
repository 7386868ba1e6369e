// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Carries out the machine's calls to the sidecar: picks the time limit, and turns outcomes into what the machine has to
//! know (`Reply`) and what people want to read (`said`).
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::sidecar::{Failure, SidecarClient};
use crate::config::EtcdConfig;
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
    /// For the machine.
    pub reply: Reply,
    /// The error in words, where it was none of the answers asked for.
    pub said: Option<String>,
    /// Bounded label for metrics.
    pub outcome: &'static str,
    /// The whole of what the plan stands for, when one came.
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

/// Makes the call. Dropped while waiting, it closes its connection: the call counts as given up on.
pub async fn perform(client: Arc<Mutex<SidecarClient>>, call: Call) -> Answered {
    let mut client = client.lock().await;
    match call {
        Call::Status | Call::Watch => answered(client.status(ASK).await.map(Reply::Word)),
        Call::Check => answered(client.status(CHECK).await.map(Reply::Word)),
        Call::Start(mode) => answered(client.start(mode, ASK).await.map(|()| Reply::Started)),
        Call::Config { quick } => {
            let limit = if quick { CONFIG_QUICK } else { CONFIG };
            match client.config(limit).await {
                Ok(body) => understood(body),
                Err(failure) => answered(Err(failure)),
            }
        }
    }
}

fn understood(body: bytes::Bytes) -> Answered {
    match EtcdConfig::parse(body) {
        Ok(config) => {
            let config = Arc::new(config);
            let plan = Plan::of(&config, ConfigSource::Sidecar);
            Answered { reply: Reply::Config(plan), said: None, outcome: "ok", config: Some(config) }
        }
        Err(error) => {
            let detail = format!("the served {error}");
            let refusal = Refusal { code: Code::ConfigInvalid, detail: detail.clone() };
            Answered {
                reply: Reply::BadConfig(refusal),
                said: Some(detail),
                outcome: "garbled",
                config: None,
            }
        }
    }
}

fn answered(result: Result<Reply, Failure>) -> Answered {
    match result {
        Ok(reply) => Answered { reply, said: None, outcome: "ok", config: None },
        Err(failure) => {
            let reply = match failure {
                Failure::Refused(_) => Reply::Refused,
                Failure::Unreachable(_) => Reply::Unreachable,
                Failure::Lost(_) => Reply::Lost,
                Failure::Status(..) | Failure::Garbled(_) => Reply::Failed,
            };
            Answered { reply, outcome: failure.outcome(), said: Some(failure.to_string()), config: None }
        }
    }
}
