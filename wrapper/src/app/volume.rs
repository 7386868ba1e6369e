// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Reads the room on the data volume every few seconds, on a thread of its own: asking a dead network volume may block
//! for ever, and then only this number is missing.
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;

use crate::member::volume::Volume;
use crate::supervise::view::CoreView;

const EVERY: Duration = Duration::from_secs(10);

/// Starts the thread; it ends with the process. `state_dir` is looked at while no data directory is known.
///
/// # Errors
/// No thread can be started.
pub(super) fn watch(
    core: watch::Receiver<CoreView>,
    state_dir: PathBuf,
) -> std::io::Result<watch::Receiver<Option<Volume>>> {
    let (sender, receiver) = watch::channel(None);
    let (_never, ticks) = std::sync::mpsc::channel::<()>();
    std::thread::Builder::new().name("volume".into()).stack_size(64 * 1024).spawn(move || {
        let _never = _never;
        while !sender.is_closed() {
            let data_dir = core.borrow().data_dir.clone();
            let read = data_dir.as_deref().and_then(|path| Volume::read(path).ok());
            sender.send_replace(read.or_else(|| Volume::read(&state_dir).ok()));
            // Nothing is ever sent: this is a pause.
            let _ = ticks.recv_timeout(EVERY);
        }
    })?;
    Ok(receiver)
}
