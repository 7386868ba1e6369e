// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What the state directory says before the machine begins. It is read on the disk thread, while the port answers
//! already: a volume that hangs at this moment must keep neither a probe nor a stop waiting. Decides nothing about what
//! was found.
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tracing::{info, warn};

use super::{Failure, failure};
use crate::bootstrap::{hold, marker};
use crate::exit::ExitCode;
use crate::shutdown::{Event, Signals};
use crate::supervise::command::{Code, Command, Refusal, Request};
use crate::supervise::modes;
use crate::supervise::runtime::Ended;
use crate::supervise::state::{Exit, Found, HoldFile};
use crate::supervise::view::{CoreView, Phase};

/// How often the loop turns while it waits: what `/livez` looks at.
const TICK: Duration = Duration::from_secs(1);
/// Then people are told what is waited for.
const LONG: Duration = Duration::from_secs(5);

/// Reads what the last process, or an operator, left behind; touches nothing but the older image's leftover. Blocks.
///
/// # Errors
/// The directory cannot be used (exit 12).
pub(super) fn look(state_dir: &Path) -> Result<Found, String> {
    modes::check_writable("state directory", state_dir)?;
    let marker = marker::Marker::new(state_dir);
    if let Err(error) = marker.remove_legacy() {
        warn!(%error, "a leftover of an older image stays");
    }
    let clean_marker = match marker.read() {
        marker::Found::Clean => true,
        marker::Found::NotClean(reason) => {
            info!(reason, "no clean end is on record: the sidecar will be asked for a full validation");
            false
        }
    };
    let hold = hold::Hold::new(state_dir)
        .read()
        .map(|file| HoldFile { owner: file.owner.map(Into::into), reason: file.reason.into() });
    Ok(Found { clean_marker, hold })
}

/// Waits for what [`look`] finds, and keeps the process answering meanwhile. `Err` inside: somebody asked for the end
/// first, and nothing has been touched.
///
/// # Errors
/// What `look` says, or a defect of ours.
pub(super) async fn wait(
    looked: oneshot::Receiver<Result<Found, String>>,
    signals: &mut Signals,
    requests: &mut mpsc::Receiver<Request>,
    core: &watch::Sender<CoreView>,
    panicked: &Notify,
) -> Result<Result<Found, Ended>, Failure> {
    let internal = |what: &str| failure(ExitCode::Failed, format!("{what}: a defect of the wrapper"));
    let began = Instant::now();
    let mut told = false;
    let mut tick = tokio::time::interval(TICK);
    tokio::pin!(looked);
    loop {
        tokio::select! {
            biased;
            event = signals.next() => match event {
                Event::Shutdown(_) | Event::Force => return Ok(Err(over())),
                // Nothing is loaded yet that could be loaded again.
                Event::Reload => {}
            },
            Some(Request { command, reply }) = requests.recv() => {
                if let Command::Shutdown(_) = command {
                    return Ok(Err(over()));
                }
                let detail = "the state directory has not been read yet; try again".to_owned();
                // The caller may have gone.
                let _ = reply.send(Err(Refusal { code: Code::OperationInProgress, detail }));
            }
            () = panicked.notified() => return Err(internal("a task of the wrapper panicked")),
            found = &mut looked => return match found {
                Ok(Ok(found)) => Ok(Ok(found)),
                Ok(Err(detail)) => Err(failure(ExitCode::BootstrapFailed, detail)),
                Err(_) => Err(internal("the disk thread panicked")),
            },
            _ = tick.tick() => {
                core.send_modify(|core| core.ticked = Instant::now());
                if !told && began.elapsed() >= LONG {
                    warn!("the state directory does not answer; waiting for its volume");
                    told = true;
                }
            }
        }
    }
}

fn over() -> Ended {
    let exit = Exit { code: 0, cause: "requested", detail: String::new() };
    Ended { exit, phase: Phase::Initializing, generation: 0, etcd: None }
}
