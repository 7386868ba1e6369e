// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The processes of a pod, as its pause container tells them line by line.
use std::sync::{Arc, Mutex};

use doubles::pod::Sample;

use super::{AGAIN, lock};
use crate::check::Seen;
use crate::container::pod::Pod;

/// Goes on when a pod is made anew: then there is another pause container of the same name.
pub(super) async fn follow(pod: Pod, seen: Arc<Mutex<Seen>>) {
    loop {
        if let Ok(mut lines) = pod.samples() {
            while let Some(line) = lines.line().await {
                let Ok(sample) = serde_json::from_str::<Sample>(&line) else { continue };
                let mut seen = lock(&seen);
                // A stream that begins anew tells from the container's beginning.
                if seen.samples.last().is_none_or(|last| sample.at > last.at) {
                    seen.samples.push(sample);
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}
