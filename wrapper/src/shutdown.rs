// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Signals to the wrapper, as events. Acts on none of them: what a stop means is the state machine's business. No signal
//! is passed on to etcd, which has a process group of its own (E15).
//!
//! Everything that would end a process by default is caught, but for faults of our own (SIGSEGV, SIGABRT, ...): if we
//! die, the parent-death signal kills etcd without a clean end. Caught, not ignored: handlers do not outlive an exec.
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::supervise::command::Shutdown;
use crate::supervise::process::unblock_signals;

/// Signals that mean nothing to us, yet would end us.
const IGNORED: [(libc::c_int, &str); 11] = [
    (libc::SIGUSR1, "SIGUSR1"),
    (libc::SIGUSR2, "SIGUSR2"),
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGALRM, "SIGALRM"),
    (libc::SIGVTALRM, "SIGVTALRM"),
    (libc::SIGPROF, "SIGPROF"),
    (libc::SIGIO, "SIGIO"),
    (libc::SIGPWR, "SIGPWR"),
    (libc::SIGXCPU, "SIGXCPU"),
    (libc::SIGXFSZ, "SIGXFSZ"),
    (libc::SIGSTKFLT, "SIGSTKFLT"),
];

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first SIGTERM or SIGINT: stop etcd gracefully and exit. `/stop` does not count as the first.
    Shutdown(Shutdown),
    /// Every further one: kill etcd, exit 1 within a second.
    Force,
    /// SIGHUP: read certificates again.
    Reload,
}

#[derive(Clone, Copy, Debug)]
enum Meaning {
    Stop(Shutdown),
    Reload,
    Nothing(&'static str),
}

/// The wrapper's signal streams. What arrives after [`Signals::register`] is kept until [`Signals::next`] is asked;
/// several of one kind in between count as one.
#[derive(Debug)]
pub struct Signals {
    streams: Vec<(Meaning, Signal)>,
    asked: bool,
}

impl Signals {
    /// Catches all signals from here on. Call it before anything else, inside the runtime. Handlers make signals arrive
    /// even as PID 1, for whom the kernel drops those without.
    ///
    /// # Errors
    /// A handler cannot be installed.
    pub fn register() -> io::Result<Self> {
        unblock_signals();
        let meant = [
            (libc::SIGTERM, Meaning::Stop(Shutdown::Terminate)),
            (libc::SIGINT, Meaning::Stop(Shutdown::Interrupt)),
            (libc::SIGHUP, Meaning::Reload),
        ];
        let ignored = IGNORED.map(|(number, name)| (number, Meaning::Nothing(name)));
        let real_time = (libc::SIGRTMIN()..=libc::SIGRTMAX()).map(|number| (number, Meaning::Nothing("a real-time signal")));
        let streams = meant
            .into_iter()
            .chain(ignored)
            .chain(real_time)
            .map(|(number, meaning)| Ok((meaning, signal(SignalKind::from_raw(number))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self { streams, asked: false })
    }

    /// The next event; may be dropped and called again.
    pub async fn next(&mut self) -> Event {
        let Self { streams, asked } = self;
        poll_fn(|context| {
            for (meaning, stream) in &mut *streams {
                while let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    match *meaning {
                        Meaning::Stop(_) if *asked => return Poll::Ready(Event::Force),
                        Meaning::Stop(shutdown) => {
                            *asked = true;
                            return Poll::Ready(Event::Shutdown(shutdown));
                        }
                        Meaning::Reload => return Poll::Ready(Event::Reload),
                        Meaning::Nothing(name) => tracing::info!(signal = name, "ignored a signal"),
                    }
                }
            }
            Poll::Pending
        })
        .await
    }
}
