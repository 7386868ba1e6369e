// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The events of a namespace, a line each, in `events.txt`: they outlive the namespace there.
use std::collections::BTreeMap;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event as Seen};

use super::append;
use crate::case::Case;

/// The file in the case's folder.
pub(crate) const FILE: &str = "events.txt";

/// Watches until it is dropped.
pub(super) async fn watch(case: Case) {
    let path = case.folder().join(FILE);
    let mut told: BTreeMap<String, i32> = BTreeMap::new();
    let config = watcher::Config::default();
    let mut events = std::pin::pin!(watcher::watcher(case.api::<Event>(), config).default_backoff());
    while let Some(seen) = events.next().await {
        if let Ok(Seen::Apply(event) | Seen::InitApply(event)) = seen {
            let count = event.count.unwrap_or(1);
            if told.insert(event.name_any(), count) != Some(count) {
                let _ = append(&path, line(&event).as_bytes());
            }
        }
    }
}

/// Time, type, object, reason, message.
fn line(event: &Event) -> String {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let at = last.or_else(|| event.event_time.as_ref().map(|time| time.0));
    let at = at.map_or_else(|| "-".into(), |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let object = &event.involved_object;
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    format!(
        "{at} {} {}/{} {} x{}: {}\n",
        text(&event.type_),
        text(&object.kind).to_lowercase(),
        text(&object.name),
        text(&event.reason),
        event.count.unwrap_or(1),
        text(&event.message).replace('\n', " "),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_a_line() {
        let event = serde_json::from_value(json!({
            "metadata": {"name": "a"}, "type": "Warning", "reason": "BackOff", "count": 3,
            "message": "back-off\nrestarting", "lastTimestamp": "2026-12-01T10:00:00Z",
            "involvedObject": {"kind": "Pod", "name": "tri-0"},
        }));
        assert_eq!(
            line(&event.unwrap()),
            "2026-12-01T10:00:00Z Warning pod/tri-0 BackOff x3: back-off restarting\n"
        );
    }
}
