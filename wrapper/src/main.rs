// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Reads the command line and hands over: to the supervisor for `start-etcd`, to the client for every other verb.
use std::io::Write;
use std::process::ExitCode as ProcessExit;
use std::time::Instant;

use etcd_wrapper::cli::{self, ClientVerb, Invocation, LogFormat, StartFlags};
use etcd_wrapper::exit::ExitCode;
use etcd_wrapper::exit::client::ClientCode;
use etcd_wrapper::shutdown::Signals;
use etcd_wrapper::{app, client, telemetry, tls};

fn main() -> ProcessExit {
    let began = Instant::now();
    let server = std::env::args_os().nth(1).is_some_and(|verb| verb == cli::SERVER);
    if !server {
        client::take_own_name();
    }
    match cli::parse(std::env::args_os().skip(1)) {
        Ok(Invocation::Start(flags)) => start(*flags, began),
        Ok(Invocation::Client(verb)) => ask(*verb),
        Ok(Invocation::Print(text)) => {
            // A reader that has gone away needs no help text.
            let _ = write!(std::io::stdout(), "{text}");
            ExitCode::Stopped.into()
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            // The end of a container, or only of a client in one: that has no say in what the kubelet shows.
            if server {
                app::leave_usage_record(error.to_string(), began);
            }
            ExitCode::Usage.into()
        }
    }
}

fn ask(verb: ClientVerb) -> ProcessExit {
    tls::install_default();
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(client::run(verb)).into(),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "etcd-wrapper: {error}");
            ClientCode::Failed.into()
        }
    }
}

fn start(flags: StartFlags, began: Instant) -> ProcessExit {
    let format = match flags.log_format {
        LogFormat::Json => telemetry::Format::Json,
        LogFormat::Text => telemetry::Format::Text,
    };
    let failed = |error: &dyn std::fmt::Display| {
        let _ = writeln!(std::io::stderr(), "etcd-wrapper: {error}");
        ProcessExit::from(ExitCode::Failed)
    };
    let telemetry = match telemetry::init(flags.log_filter.clone(), format) {
        Ok(telemetry) => telemetry,
        Err(error) => return failed(&error),
    };
    tls::install_default();
    // One thread: a child's parent-death signal fires when the thread that forked it ends.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let code = runtime.block_on(async {
        match Signals::register() {
            Ok(signals) => app::run(flags, signals, &telemetry, began).await,
            Err(error) => {
                tracing::error!(%error, "signals cannot be caught");
                ExitCode::Failed
            }
        }
    });
    code.into()
}
