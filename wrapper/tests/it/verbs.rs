// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What tests of the `/v1` verbs share: calls with their bodies, and waits for the operations that follow. Judges nothing.
use std::time::Duration;

use doubles::etcd::{Event, Script};
use doubles::sidecar::ConfigMap;
use doubles::wait::{self, Poll};
use serde_json::Value;

use crate::http::{Answer, Caller};
use crate::scene::{MEMBER, SECOND, Scene, Wrapper};

/// Far longer than any test.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(86_400);

/// An etcd that never says READY.
pub(crate) fn never_ready() -> Script {
    Script { ready: doubles::etcd::Ready::never(), ..Script::default() }
}

/// The bytes that an agent posts: this config map as it would be served.
pub(crate) fn rendered(config: &ConfigMap) -> String {
    config.render(MEMBER, None, false).unwrap()
}

/// The member's config with another data directory.
pub(crate) fn elsewhere(scene: &Scene) -> ConfigMap {
    let directory = scene.state_dir().join("restored.etcd");
    scene.config().with("data-dir", directory.display().to_string())
}

impl Caller {
    /// `POST` with a JSON body.
    #[track_caller]
    pub(crate) fn post_json(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path, &[("content-type", "application/json")], &body.to_string())
    }

    /// `POST` of a configuration.
    #[track_caller]
    pub(crate) fn post_yaml(&self, path: &str, body: &str) -> Answer {
        self.call("POST", path, &[("content-type", "application/yaml")], body)
    }

    /// `PUT /v1/readiness`.
    #[track_caller]
    pub(crate) fn put_readiness(&self, body: &Value) -> Answer {
        self.call("PUT", "/v1/readiness", &[("content-type", "application/json")], &body.to_string())
    }
}

impl Answer {
    /// Status and code of a problem, or status and state of an operation: `409 not_running`, `200 succeeded`.
    #[track_caller]
    pub(crate) fn told(&self) -> String {
        let document = self.json();
        let word = document["code"].as_str().or(document["status"].as_str());
        format!(
            "{} {}",
            self.status,
            word.unwrap_or_else(|| panic!("neither a problem nor an operation: {self:?}"))
        )
    }

    /// The operation that was taken.
    #[track_caller]
    pub(crate) fn operation(&self) -> String {
        assert!(matches!(self.status, 200 | 202), "{self:?}");
        self.json()["id"].as_str().unwrap().to_owned()
    }
}

impl Wrapper<'_> {
    /// The id of the first operation of this process, by its status: whoever began it has gone.
    #[track_caller]
    pub(crate) fn first_operation(&self) -> String {
        format!("op-{}-1", self.status()["epoch"].as_str().unwrap())
    }

    /// `/v1/operations/{id}`.
    #[track_caller]
    pub(crate) fn operation(&self, id: &str) -> Value {
        self.caller().get(&format!("/v1/operations/{id}")).json()
    }

    /// Waits until the operation has ended.
    #[track_caller]
    pub(crate) fn wait_operation(&self, id: &str, limit: Duration) -> Value {
        wait::until(limit, &format!("the end of {id}"), || {
            let operation = self.operation(id);
            match operation["finishedAt"].is_string() {
                true => Poll::Ready(operation),
                false => Poll::NotYet(operation.to_string()),
            }
        })
    }

    /// Waits until the operation has come to this phase of its own.
    #[track_caller]
    pub(crate) fn wait_operation_phase(&self, id: &str, phase: &str) {
        wait::until(10 * SECOND, &format!("{phase} of {id}"), || {
            let operation = self.operation(id);
            match (operation["phase"] == phase, operation["finishedAt"].is_string()) {
                (true, _) => Poll::Ready(()),
                (false, true) => Poll::Never(operation.to_string()),
                (false, false) => Poll::NotYet(operation.to_string()),
            }
        });
    }

    /// Codes of the warnings that stand.
    #[track_caller]
    pub(crate) fn warnings(&self) -> Vec<String> {
        codes(&self.status())
    }
}

/// Codes of the warnings in a `Status`, without the one that tells of this machine's own disk.
pub(crate) fn codes(status: &Value) -> Vec<String> {
    let warnings = status["warnings"].as_array().unwrap();
    let codes = warnings.iter().map(|warning| warning["code"].as_str().unwrap().to_owned());
    codes.filter(|code| code != "volume_nearly_full").collect()
}

/// When the scripted etcd noted SIGTERM, in microseconds since 1970.
#[track_caller]
pub(crate) fn terminated_at(scene: &Scene) -> u64 {
    let record = scene.stage().wait_for_record(10 * SECOND, "SIGTERM", |record| {
        matches!(record.event, Event::Signal { number: 15 })
    });
    record.at_us
}

/// When a file was written, in microseconds since 1970.
#[track_caller]
pub(crate) fn written_at(path: &std::path::Path) -> u64 {
    let modified = std::fs::metadata(path).unwrap().modified().unwrap();
    let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_micros()).unwrap()
}
