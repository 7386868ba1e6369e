// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Ctrl-C and SIGTERM for verbs that have something to take down: the first is noted, and the verb ends at its next
//! step by its own way out; the second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether somebody wants us to end.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

/// The exit code of a run that was interrupted, as shells have it for SIGINT.
pub(crate) const CODE: u8 = 130;

impl Interrupt {
    /// Takes the signals from now on.
    pub(crate) fn watch() -> Result<Self> {
        let noted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag unset, and sets it.
            flag::register_conditional_shutdown(signal, CODE.into(), Arc::clone(&noted))
                .and_then(|_| flag::register(signal, Arc::clone(&noted)))
                .context("take SIGINT and SIGTERM")?;
        }
        Ok(Self(noted))
    }

    /// Whether one came.
    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// An error if one came.
    pub(crate) fn check(&self) -> Result<()> {
        if self.came() { bail!("interrupted") } else { Ok(()) }
    }
}
