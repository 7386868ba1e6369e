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
        let real_time = (libc::SIGRTMIN()..=libc::SIGRTMAX())
            .map(|number| (number, Meaning::Nothing("a real-time signal")));
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use crate::supervise::process::rerun::{self, run};

    use super::*;

    /// A signal that has been sent to the own process is delivered before the call returns, unless it is blocked.
    fn send(number: libc::c_int) {
        let signal = rustix::process::Signal::from_named_raw(number).unwrap();
        rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
    }

    #[test]
    fn e14_e15_stop_signals_become_events_and_the_others_end_nothing() {
        const NAME: &str = "e14_e15_stop_signals_become_events_and_the_others_end_nothing";
        if rerun::role().is_none() {
            let test = rerun::test(module_path!(), NAME, "wrapper");
            // Somebody's blocked SIGTERM and ignored SIGINT must not make us deaf.
            let mut env = Command::new("env");
            env.args(["--block-signal=TERM", "--ignore-signal=INT"])
                .arg(test.get_program())
                .args(test.get_args());
            env.envs(test.get_envs().filter_map(|(name, value)| Some((name, value?))));
            return rerun::passes(env);
        }
        run(async {
            let mut signals = Signals::register().unwrap();
            for (number, _) in IGNORED {
                send(number);
            }
            send(libc::SIGPIPE);
            send(libc::SIGHUP);
            assert_eq!(signals.next().await, Event::Reload);
            // Sent before anybody asks, and kept.
            send(libc::SIGTERM);
            assert_eq!(signals.next().await, Event::Shutdown(Shutdown::Terminate));
            send(libc::SIGUSR1);
            send(libc::SIGTERM);
            assert_eq!(signals.next().await, Event::Force);
            send(libc::SIGINT);
            assert_eq!(signals.next().await, Event::Force);
            send(libc::SIGHUP);
            assert_eq!(signals.next().await, Event::Reload);
        });
    }

    #[test]
    fn e15_sigint_first_is_an_interrupt() {
        const NAME: &str = "e15_sigint_first_is_an_interrupt";
        if rerun::role().is_none() {
            return rerun::passes(rerun::test(module_path!(), NAME, "wrapper"));
        }
        run(async {
            let mut signals = Signals::register().unwrap();
            send(libc::SIGINT);
            assert_eq!(signals.next().await, Event::Shutdown(Shutdown::Interrupt));
        });
    }
}
