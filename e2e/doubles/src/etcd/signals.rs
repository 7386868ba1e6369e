// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The double's end: by a signal, as etcd and Go's runtime do it, or as the script wants it. Every way out of the
//! process is here, and notes itself first.
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use signal_hook::iterator::backend::Handle;

use super::live::Live;
use super::record::Event;
use super::script::{How, OnSignal, Then};

/// Takes the signals whose default action is not etcd's before READY; SIGTERM and SIGINT come with
/// [`take_stop_signals`].
pub(super) fn take(live: Arc<Live>) -> io::Result<Handle> {
    let mut signals = Signals::new([SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2])?;
    let handle = signals.handle();
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut closing = false;
        for number in signals.forever() {
            live.note(Event::Signal { number });
            match number {
                // A second one is swallowed while etcd closes.
                SIGTERM | SIGINT if closing => {}
                SIGTERM | SIGINT => closing = obey(&live, number, live.script().on_term),
                SIGQUIT => {
                    let _ = obey(&live, number, live.script().on_quit);
                }
                // Kills etcd.
                SIGHUP => raise(&live, number),
                // Go's runtime ignores the others.
                _ => {}
            }
        }
    })?;
    Ok(handle)
}

/// From now on SIGTERM and SIGINT close the double instead of killing it.
pub(super) fn take_stop_signals(handle: &Handle) -> io::Result<()> {
    handle.add_signal(SIGTERM)?;
    handle.add_signal(SIGINT)
}

/// True when an end has begun.
fn obey(live: &Arc<Live>, number: i32, wish: OnSignal) -> bool {
    if wish.then == Then::Ignore {
        return false;
    }
    let live = Arc::clone(live);
    // Beside the loop that takes signals: more of them are noted while this one closes.
    thread::spawn(move || {
        pause(wish.takes.0);
        if number == SIGQUIT {
            let _ = writeln!(io::stderr(), "SIGQUIT: quit");
        }
        match wish.then {
            Then::Raise if std::process::id() == 1 => end(&live, How::Exit(0)),
            Then::Raise | Then::Ignore => raise(&live, number),
            Then::Exit(code) => end(&live, How::Exit(code)),
            Then::Signal(other) => end(&live, How::Signal(other)),
        }
    });
    true
}

/// Dies by the signal's default action, whatever handlers there are.
fn raise(live: &Live, number: i32) {
    live.note(Event::Raising { number });
    let _ = signal_hook::low_level::emulate_default_handler(number);
}

/// Ends the process.
pub(super) fn end(live: &Live, how: How) {
    live.note(Event::Ending { how });
    match how {
        How::Exit(code) => exit(code),
        How::Signal(number) => {
            let _ = signal_hook::low_level::emulate_default_handler(number);
            // SIGKILL and SIGSTOP have no handler to restore.
            if let Some(signal) = rustix::process::Signal::from_named_raw(number) {
                let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a stand-in for a program that exits from a signal handler")]
pub(super) fn exit(code: u8) -> ! {
    std::process::exit(code.into())
}

#[expect(clippy::disallowed_methods, reason = "a span of the script, in a thread of the program")]
pub(super) fn pause(span: Duration) {
    thread::sleep(span);
}
