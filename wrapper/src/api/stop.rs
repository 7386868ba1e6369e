// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `POST /stop`: first the answer, then the shutdown. Waits for nothing before it answers, and never stops twice.
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use tokio::sync::oneshot;

use crate::supervise::command::{Command, Request, Shutdown};

use super::{Answer, Api, Connection, control, empty};

/// A caller that neither reads its answer nor hangs up delays the shutdown by no more than this.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

impl Api {
    /// Takes the call. The command goes out once the answer's bytes were handed to the kernel, or the caller hung up.
    pub(super) fn stop(self: &Arc<Self>, connection: &Arc<Connection>) -> Answer {
        let first = !self.stop_taken.swap(true, Ordering::Relaxed);
        control::audit(connection, "/stop", if first { "accepted" } else { "joined" }, "");
        if first {
            let flushed = connection.flushed.after_next_write();
            let commands = self.commands.clone();
            tokio::spawn(async move {
                // Whatever ends the wait means go: flushed, connection gone (the sender was dropped), or time over.
                let _ = tokio::time::timeout(FLUSH_WITHIN, flushed).await;
                let command = Command::Shutdown(Shutdown::StopCall);
                // A supervisor that is gone has stopped already.
                let _ = commands.send(Request { command, reply: oneshot::channel().0 }).await;
            });
        }
        let mut answer = empty(StatusCode::OK);
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        answer
    }
}
